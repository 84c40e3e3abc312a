"""Payments: payment intents, confirmed or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import stripe
from typing_extensions import TypeVar

from effects.contrib.stripe.effect import Standing, StripeEffect, as_dict, money_difference
from effects.vocabulary.types import Context

__all__ = ["CreatePaymentIntent", "PaymentIntentPayload"]


@dataclass(frozen=True, kw_only=True)
class PaymentIntentPayload:
    """A payment to ask for.

    Args:
        amount: minor units.
        currency: three small letters.
        payment_method: what to charge; needed to confirm.
        customer: whose it is; a look-up then has less to look through.
        confirm: charge now. Without it the intent is only created, for the customer to confirm.
        off_session: the customer is not there to authenticate; a card that wants it is declined.
        description: shown to the customer.
        metadata: the project's own.
    """

    amount: int
    currency: str
    payment_method: str | None = None
    customer: str | None = None
    confirm: bool = False
    off_session: bool = False
    description: str = ""
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise ValueError("amount= counts minor units and is more than zero")
        if self.currency != self.currency.lower() or len(self.currency) != 3:
            raise ValueError("currency= is three small letters, as Stripe writes it")
        if self.confirm and not self.payment_method:
            raise ValueError("confirm=True charges now: say what to charge, payment_method=")
        if self.off_session and not self.confirm:
            raise ValueError("off_session=True goes with confirm=True")


P = TypeVar("P", bound=PaymentIntentPayload, default=PaymentIntentPayload)

_CONFIRMED = {
    "succeeded": Standing.DONE,
    "requires_capture": Standing.DONE,
    "processing": Standing.UNDER_WAY,
    "requires_action": Standing.UNDER_WAY,
    "requires_payment_method": Standing.REFUSED,
    "canceled": Standing.REFUSED,
}


class CreatePaymentIntent(StripeEffect[P]):
    """Create a payment intent, and charge it where the payload says `confirm`. Register a subclass with an `operation`.

    An intent that waits for the customer's authentication, or that a bank still processes, is `Accepted`.

    Attributes:
        lookback: how much earlier than the execution's record its object may seem to be: two clocks are compared.
    """

    payload_type = PaymentIntentPayload
    dashboard: ClassVar[str] = "payments"
    creates: ClassVar[str] = "payment_intent"
    lookback: ClassVar[timedelta] = timedelta(hours=1)

    def parameters(self, context: Context[P]) -> dict[str, Any]:
        """Return the payment in Stripe's words."""
        payload = context.payload
        said = {
            "payment_method": payload.payment_method,
            "customer": payload.customer,
            "confirm": payload.confirm,
            "off_session": payload.off_session,
            "description": payload.description,
        }
        return {
            "amount": payload.amount,
            "currency": payload.currency,
            **{name: value for name, value in said.items() if value},
            "metadata": dict(payload.metadata),
        }

    def create(self, client: stripe.StripeClient, params: Any, options: Any) -> object:
        """Make the request."""
        return client.v1.payment_intents.create(params, options)

    def candidates(self, client: stripe.StripeClient, context: Context[P]) -> Iterator[dict[str, Any]]:
        """Iterate over the customer's intents since the execution was recorded; or fetch the one that is known."""
        if context.reference:
            return iter([as_dict(client.v1.payment_intents.retrieve(context.reference))])
        return self.pages(client.v1.payment_intents.list, self.filters(context))

    def filters(self, context: Context[P]) -> dict[str, Any]:
        """Return how the list is narrowed, in Stripe's words, without losing what could be ours."""
        # the ref is a UUIDv7: its first 48 bits are the milliseconds at which it was made
        recorded = (UUID(context.ref).int >> 80) / 1000
        window = {"created": {"gte": int(recorded - self.lookback.total_seconds())}}
        return {**window, "customer": context.payload.customer} if context.payload.customer else window

    def standing(self, payload: P, found: dict[str, Any]) -> Standing:
        """Return what the intent's status says: that it is there, or that it was charged."""
        status = str(found.get("status"))
        if payload.confirm:
            return _CONFIRMED.get(status, Standing.UNKNOWN)
        return Standing.REFUSED if status == "canceled" else Standing.DONE

    def difference(self, payload: P, found: dict[str, Any]) -> str:
        """Return amount and currency where they are not the ones asked for."""
        return money_difference(payload.amount, payload.currency, found)

    def undone(self, payload: P, found: dict[str, Any]) -> bool:  # noqa: ARG002 - the hook's signature
        """Return whether it was canceled; after a declined card the customer may pay with another one."""
        return found.get("status") == "canceled"

    def refusal(self, found: dict[str, Any]) -> tuple[str, str]:
        """Return why the payment was refused."""
        error = found.get("last_payment_error") or {}
        code = error.get("decline_code") or error.get("code") or found.get("status")
        return str(code), str(error.get("message") or f"payment {found.get('status')}")
