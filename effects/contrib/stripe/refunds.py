"""Refunds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import stripe
from typing_extensions import TypeVar

from effects.contrib.stripe.effect import Standing, StripeEffect, money_difference
from effects.vocabulary.types import Context

__all__ = ["CreateRefund", "RefundPayload"]


@dataclass(frozen=True, kw_only=True)
class RefundPayload:
    """A refund to ask for.

    Args:
        amount: minor units; always said, so that "the rest" never means something else a minute later.
        currency: of the payment, three letters. Stripe takes it from there; a look-up compares it.
        payment_intent: what to refund; or
        charge: the charge to refund.
        reason: one of Stripe's words, or "".
        metadata: the project's own.
    """

    amount: int = field(metadata={"schema": {"minimum": 1}})
    currency: str = field(metadata={"schema": {"pattern": "^[a-z]{3}$"}})
    payment_intent: str | None = None
    charge: str | None = None
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.payment_intent) == bool(self.charge):
            raise ValueError("say what to refund: payment_intent= or charge=, one of them")
        if self.amount <= 0:
            raise ValueError("amount= counts minor units and is more than zero")
        if self.currency != self.currency.lower() or len(self.currency) != 3:
            raise ValueError("currency= is three small letters, as Stripe writes it")


P = TypeVar("P", bound=RefundPayload, default=RefundPayload)

_STANDING = {
    "succeeded": Standing.DONE,
    "pending": Standing.UNDER_WAY,
    "requires_action": Standing.UNDER_WAY,
    "failed": Standing.REFUSED,
    "canceled": Standing.REFUSED,
}


class CreateRefund(StripeEffect[P]):
    """Refund a payment, in part or whole. Register a subclass with an `operation`.

    A pending refund (a bank transfer, or an account without funds) is `Accepted` until a look-up finds it succeeded or
    failed.
    """

    payload_type = RefundPayload
    dashboard: ClassVar[str] = "refunds"
    creates: ClassVar[str] = "refund"

    def parameters(self, context: Context[P]) -> dict[str, Any]:
        """Return the refund in Stripe's words."""
        payload = context.payload
        said = {"payment_intent": payload.payment_intent, "charge": payload.charge, "reason": payload.reason}
        return {
            "amount": payload.amount,
            **{name: value for name, value in said.items() if value},
            "metadata": dict(payload.metadata),
        }

    def create(self, client: stripe.StripeClient, params: Any, options: Any) -> object:
        """Make the request."""
        return client.v1.refunds.create(params, options)

    def candidates(self, client: stripe.StripeClient, context: Context[P]) -> Iterator[dict[str, Any]]:
        """Iterate over all refunds of the payment."""
        payload = context.payload
        of = {"payment_intent": payload.payment_intent} if payload.payment_intent else {"charge": payload.charge}
        return self.pages(client.v1.refunds.list, of)

    def standing(self, payload: P, found: dict[str, Any]) -> Standing:  # noqa: ARG002 - the hook's signature
        """Return what the refund's status says."""
        return _STANDING.get(str(found.get("status")), Standing.UNKNOWN)

    def difference(self, payload: P, found: dict[str, Any]) -> str:
        """Return amount and currency where they are not the ones asked for."""
        return money_difference(payload.amount, payload.currency, found)

    def refusal(self, found: dict[str, Any]) -> tuple[str, str]:
        """Return why the refund failed."""
        return str(found.get("failure_reason") or found.get("status")), f"refund {found.get('status')}"
