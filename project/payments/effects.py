"""What the shop does to the outside world."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings

import effects
from effects.contrib.stripe import CreateRefund, RefundPayload, as_dict, get_client, proven, until

from .models import NUMBER, Order, Payout, Refund

# Declarations are frozen on each execution, so the numbers in them are read once, at start-up.
_TIMEOUT = timedelta(seconds=settings.PAYMENTS_TIMEOUT_SECONDS)
_QUIET = timedelta(seconds=settings.PAYMENTS_QUIET_SECONDS)


@dataclass(frozen=True, kw_only=True)
class ShopRefund(RefundPayload):
    """A refund of one of the shop's orders, by its number."""

    order: str = field(metadata={"schema": {"pattern": f"^{NUMBER}$"}})
    payment_intent: str = field(metadata={"schema": {"minLength": 1}})
    charge: None = None

    def __post_init__(self) -> None:
        """Refuse what is no order's number: what a proposal says is looked up."""
        super().__post_init__()
        if not re.fullmatch(NUMBER, self.order):
            raise ValueError("order= is the number of an order")


@effects.register
class RefundPayment(CreateRefund[ShopRefund]):
    """Refund an order's payment; above an amount another person has to agree."""

    operation = "payments.refund"
    provider = "stripe/shop"
    request_timeout = _TIMEOUT
    lookup = effects.Eventual(quiet=_QUIET)
    # the demo's Stripe carries out a repeated key again: nothing may rest on its keys
    deduplicates = None
    # an assistant with this permission proposes refunds under /effects/proposals/; people approve them
    proposable_by = "payments.add_refund"

    def refuse_proposal(self, payload: ShopRefund, *, user: Any, tenant: str) -> str:  # noqa: ARG002
        """Refuse what is no refund of one of the shop's orders."""
        order = Order.objects.filter(number=payload.order).first()
        if order is None or (order.payment_intent, order.currency) != (payload.payment_intent, payload.currency):
            return f"There is no order {payload.order} with this payment and currency."
        if not 0 < payload.amount <= order.refundable:
            return f"Only {order.refundable} of order {payload.order} can still be refunded."
        return ""

    def approval(self, context: effects.Context[ShopRefund]) -> effects.ApprovalRule | None:
        """Ask somebody else from an amount on."""
        if context.payload.amount < settings.PAYMENTS_APPROVAL_FROM:
            return None
        return effects.ApprovalRule(approvers="payments.approve_refund", four_eyes=True)

    def describe(self, context: effects.Context[ShopRefund]) -> effects.Summary:
        """Say what an approver decides about."""
        payload = context.payload
        return effects.Summary(
            title=f"Refund for order {payload.order}",
            facts={"Order": payload.order, "Payment": payload.payment_intent},
            amount=payload.amount,
            currency=payload.currency,
            target=payload.payment_intent,
        )

    def precondition(self, context: effects.Context[ShopRefund]) -> effects.Proceed | effects.Refuse:
        """Refuse what is no longer there to refund: between request and approval days may pass."""
        left = Order.objects.get(number=context.payload.order).refundable
        if context.payload.amount > left:
            return effects.Refuse(f"only {left} of order {context.payload.order} can still be refunded")
        return effects.Proceed()

    def settled(self, context: effects.Context[ShopRefund], outcome: effects.Outcome) -> None:
        """Keep the shop's row as true as the outcome."""
        if not isinstance(outcome, effects.Completed):
            Refund.objects.filter(execution=context.ref).delete()
            return
        payload = context.payload
        Refund.objects.update_or_create(
            execution=context.ref,
            defaults={
                "order": Order.objects.get(number=payload.order),
                "amount": payload.amount,
                "currency": payload.currency,
                "stripe_id": outcome.reference,
            },
        )


@dataclass(frozen=True, kw_only=True)
class PayoutPayload:
    """Money to send to the shop's bank."""

    amount: int
    currency: str


@effects.register
class PayOut(effects.Effect[PayoutPayload]):
    """Send money to the shop's bank, at a provider that cannot be asked afterwards.

    Stripe could be; this stands for the banks that cannot. What becomes of it without an answer, a person finds out.
    """

    operation = "payments.payout"
    provider = "stripe/shop"
    request_timeout = _TIMEOUT

    def send(self, context: effects.Context[PayoutPayload], permit: effects.Permit) -> effects.Applied:
        """Order the payout; the answer is all that will ever be known of it."""
        params: Any = {
            "amount": context.payload.amount,
            "currency": context.payload.currency,
            "metadata": {"effects_key": permit.provider_key},
        }
        with until(permit.deadline, once=True), proven():
            answer = get_client().v1.payouts.create(params, {"idempotency_key": permit.provider_key})
        return effects.Applied(reference=str(as_dict(answer)["id"]))

    def describe(self, context: effects.Context[PayoutPayload]) -> effects.Summary:
        """Say what a person has to find out about."""
        payload = context.payload
        return effects.Summary(title="Payout to the bank", amount=payload.amount, currency=payload.currency)

    def settled(self, context: effects.Context[PayoutPayload], outcome: effects.Outcome) -> None:
        """Keep the shop's row as true as the outcome."""
        if not isinstance(outcome, effects.Completed):
            Payout.objects.filter(execution=context.ref).delete()
            return
        payload = context.payload
        defaults = {"amount": payload.amount, "currency": payload.currency, "stripe_id": outcome.reference}
        Payout.objects.update_or_create(execution=context.ref, defaults=defaults)
