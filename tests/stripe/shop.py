"""A shop whose refunds and payments Stripe tells of: its effects, its address, and what Stripe shows of them."""

from datetime import timedelta
from typing import Any

from django.urls import path
from django.utils import timezone

import effects
from effects.contrib.stripe import CreatePaymentIntent, PaymentIntentPayload, stripe_events
from effects.models import Execution
from effects.runtime import background
from effects.testing import provider_says
from project.payments.effects import RefundPayment, ShopRefund
from project.payments.models import Order
from tests.stripe.signing import ADDRESS, deliver, event_of

urlpatterns = [path(ADDRESS.strip("/") + "/", stripe_events)]


@effects.register
class Pay(CreatePaymentIntent):
    """A payment; localstripe knows no filter for the time of creation."""

    operation = "webhooks.pay"
    request_timeout = timedelta(seconds=5)

    def filters(self, context: Any) -> dict[str, Any]:
        return {}


def again(row: Execution) -> Execution:
    return Execution.objects.get(pk=row.pk)


def receipts(row: Execution) -> list[str]:
    return list(row.receipts.order_by("sequence").values_list("event", flat=True))


def refunded(order: Order, *answers: Any) -> Execution:
    """Refund the order, with such an answer of the provider."""
    payload = ShopRefund(order=order.number, payment_intent="pi_1", amount=400, currency="eur")
    with provider_says(RefundPayment, *answers):
        outcome = effects.perform(RefundPayment, payload=payload, key="refund-17", requested_by="ann")
    return Execution.objects.get(pk=outcome.ref)


def paid(*answers: Any, confirm: bool = True) -> Execution:
    """Charge a card, with such an answer of the provider."""
    payload = PaymentIntentPayload(amount=700, currency="eur", payment_method="pm_1", confirm=confirm)
    with provider_says(Pay, *answers):
        return Execution.objects.get(pk=effects.perform(Pay, payload=payload, key="pay-17", requested_by="ann").ref)


def applied(reference: str = "re_1") -> effects.Applied:
    return effects.Applied({"id": reference}, reference)


def postponed(row: Execution) -> Execution:
    """Look it up in vain: it is not due for some minutes."""
    with provider_says(row.operation, look_up=effects.Absent()):
        background.look_up(row.pk)
    row = again(row)
    assert row.state == "uncertain"
    assert row.due_at - timezone.now() > timedelta(minutes=4)
    return row


def refund_of(row: Any, status: str = "succeeded", **more: Any) -> dict[str, Any]:
    """Return the refund at Stripe that an execution created."""
    marks = {"effects_ref": str(row.pk), "effects_key": row.provider_key, "order": "order-17"}
    return {
        "id": "re_1", "object": "refund", "amount": 400, "currency": "eur", "status": status, "metadata": marks,
        "destination_details": {"card": {"reference": "4242424242424242"}}, **more,
    }  # fmt: skip


def intent_of(row: Any, status: str = "succeeded", **more: Any) -> dict[str, Any]:
    """Return the payment intent at Stripe that an execution created."""
    intent = {"id": "pi_9", "object": "payment_intent", "amount": 700, "amount_received": 700}
    return {**refund_of(row, status), **intent, **more}


def heard(found: Any, kind: str = "refund.updated", **more: Any) -> None:
    """Deliver an event about an object, and expect 200."""
    response = deliver(event_of(found, kind, **more))
    assert response.status_code == 200, response.content
