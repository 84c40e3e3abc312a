"""An effect of each kind, its context and permit, and the providers that they are sent to."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.urls import clear_url_caches

from effects.contrib.stripe import (
    CreatePaymentIntent,
    CreateRefund,
    PaymentIntentPayload,
    RefundPayload,
    get_client,
)
from effects.models.base import new_id
from effects.vocabulary.types import Context, Permit, monotonic
from project.payments.models import Order
from tests.stripe.scripted import Scripted, serve
from tests.stripe.signing import SECRET


class Refunds(CreateRefund):
    """A refund as a project would register it."""

    operation = "test.refund"
    request_timeout = timedelta(seconds=5)


class Intents(CreatePaymentIntent):
    """A payment; localstripe knows no filter for the time of creation."""

    operation = "test.pay"
    request_timeout = timedelta(seconds=5)

    def filters(self, context: Any) -> dict[str, Any]:
        return {}


@pytest.fixture
def refunds() -> Refunds:
    """The refund effect."""
    return Refunds()


@pytest.fixture
def intents() -> Intents:
    """The payment effect."""
    return Intents()


@pytest.fixture
def scripted(settings: Any) -> Iterator[Scripted]:
    """A Stripe that answers what the test says."""
    with serve() as script:
        settings.STRIPE_API_BASE, settings.STRIPE_API_KEY = script.url, "sk_test_scripted"
        yield script


@pytest.fixture
def permit() -> Callable[..., Permit]:
    """Make a permit that lasts some seconds, under a key of its own."""

    def make(seconds: float = 5.0, key: str | None = None) -> Permit:
        return Permit(new_id(), 1, 1, key or f"fx_{uuid4().hex}", monotonic() + seconds)

    return make


def context_for(payload: Any, permit: Permit, **changes: Any) -> Context[Any]:
    """Return what an effect is told of an execution with this payload and permit."""
    context = Context(
        ref=str(new_id()), operation="test", payload=payload, tenant="", key="k", provider_key=permit.provider_key,
        requested_by=None, on_behalf_of=None, attempt=1, reference="", about=None,
    )  # fmt: skip
    return replace(context, **changes)


def paid(amount: int = 1000, card: str = "pm_card_visa") -> str:
    """Pay at Stripe and return the payment intent's id."""
    params: Any = {"amount": amount, "currency": "eur", "payment_method": card, "confirm": True}
    return get_client().v1.payment_intents.create(params).id


def refund_of(intent: str = "pi_1", amount: int = 400, **fields: Any) -> RefundPayload:
    """Return the payload of a refund in euros."""
    return RefundPayload(payment_intent=intent, amount=amount, currency="eur", **fields)


def payment(amount: int = 700, **fields: Any) -> PaymentIntentPayload:
    """Return the payload of a payment in euros."""
    return PaymentIntentPayload(amount=amount, currency="eur", **fields)


@pytest.fixture
def endpoint(settings: Any, db: None) -> Iterator[None]:
    """The view of Stripe's events at its address, with a secret."""
    settings.ROOT_URLCONF, settings.STRIPE_WEBHOOK_SECRET = "tests.stripe.shop", SECRET
    clear_url_caches()
    yield
    clear_url_caches()


@pytest.fixture(params=[False, True], ids=["", "atomic"])
def atomic_requests(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ATOMIC_REQUESTS off and on."""
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", request.param)


@pytest.fixture
def order(db: None) -> Order:
    """An order that was paid."""
    customer = User.objects.create_user("customer")
    return Order.objects.create(
        number="order-17", amount=1000, currency="eur", payment_intent="pi_1", customer=customer
    )
