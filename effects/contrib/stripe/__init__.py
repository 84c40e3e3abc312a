"""Refunds and payments at Stripe: `pip install django-effects[stripe]`, then subclass and register.

    @effects.register
    class RefundPayment(CreateRefund):
        operation = "payments.refund"
        provider = "stripe/acct_main"

`STRIPE_API_KEY` in the project's settings opens the account; `STRIPE_API_BASE` leads elsewhere. `stripe_events` is the
view that takes Stripe's webhooks, under `STRIPE_WEBHOOK_SECRET`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effects.contrib.stripe.client import get_client
from effects.contrib.stripe.effect import Standing, StripeEffect, as_dict
from effects.contrib.stripe.payment_intents import CreatePaymentIntent, PaymentIntentPayload
from effects.contrib.stripe.proofs import proven
from effects.contrib.stripe.refunds import CreateRefund, RefundPayload
from effects.contrib.stripe.transport import DeadlineTransport, until

if TYPE_CHECKING:
    from effects.contrib.stripe.webhooks import stripe_events

__all__ = [
    "CreatePaymentIntent",
    "CreateRefund",
    "DeadlineTransport",
    "PaymentIntentPayload",
    "RefundPayload",
    "Standing",
    "StripeEffect",
    "as_dict",
    "get_client",
    "proven",
    "stripe_events",
    "until",
]


def __getattr__(name: str) -> Any:
    # the view needs the models, which are not loaded yet where an effect is declared at the top of any module
    if name == "stripe_events":
        from effects.contrib.stripe.webhooks import stripe_events  # noqa: PLC0415 - as above

        return stripe_events
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
