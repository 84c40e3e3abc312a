"""Refunds and payments at Stripe: `pip install django-effects[stripe]`, then subclass and register.

    @effects.register
    class RefundPayment(CreateRefund):
        operation = "payments.refund"
        provider = "stripe/acct_main"

`STRIPE_API_KEY` in the project's settings opens the account; `STRIPE_API_BASE` leads elsewhere.
"""

from __future__ import annotations

from effects.contrib.stripe.client import get_client
from effects.contrib.stripe.effect import Standing, StripeEffect, as_dict
from effects.contrib.stripe.payment_intents import CreatePaymentIntent, PaymentIntentPayload
from effects.contrib.stripe.proofs import proven
from effects.contrib.stripe.refunds import CreateRefund, RefundPayload
from effects.contrib.stripe.transport import until

__all__ = [
    "CreatePaymentIntent",
    "CreateRefund",
    "PaymentIntentPayload",
    "RefundPayload",
    "Standing",
    "StripeEffect",
    "as_dict",
    "get_client",
    "proven",
    "until",
]
