"""Paying for orders, without django-effects: the call that an opaque view makes itself."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from effects.contrib.stripe import get_client

from .models import Order

#: Stripe's test card that is charged, and the one that is declined.
GOOD_CARD, DECLINED_CARD = "pm_card_visa", "pm_card_chargeCustomerFail"


def charge(order: Order, card: str = GOOD_CARD) -> Order:
    """Charge a card for an order at Stripe, and keep the payment's id.

    Raises:
        stripe.StripeError, effects.vocabulary.failures.SendError: The card may have been charged all the same.
    """
    params: Any = {
        "amount": order.amount,
        "currency": order.currency,
        "payment_method": card,
        "payment_method_types": ["card"],
        "confirm": True,
        "metadata": {"order": order.number},
    }
    intent = get_client().v1.payment_intents.create(params, {"idempotency_key": f"order-{order.pk}"})
    order.payment_intent = intent.id
    order.save(update_fields=["payment_intent"])
    return order


def paid_order(customer: User, number: str, amount: int, currency: str = "eur") -> Order:
    """Return a new order that is paid; for the demo and the tests."""
    return charge(Order.objects.create(number=number, amount=amount, currency=currency, customer=customer))
