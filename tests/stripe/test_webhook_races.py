"""Stripe's webhooks beside the sender, beside each other, and from a Stripe of our own."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import requests
from django.core.signals import request_finished, request_started
from django.utils import timezone

import effects
from effects.contrib.stripe import PaymentIntentPayload
from effects.models import Execution
from effects.testing import provider_says, run_due
from project.payments.effects import RefundPayment
from project.payments.models import Order, Refund
from project.services import stripe as localstripe
from project.services.faults import Faults
from tests.core.racing import PATIENCE, in_thread, together
from tests.stripe.shop import Pay, again, applied, postponed, receipts, refund_of, refunded
from tests.stripe.signing import ADDRESS, SECRET, deliver, event_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("endpoint")]
LOGGER = "effects.contrib.stripe"
HOUR = timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("atomic_requests")
def test_while_the_send_is_open(order: Order) -> None:
    """Stripe is faster than our commit: it is completed once, by the sender, and so is the shop's row."""
    answers: list[Any] = []

    def send(context: Any, permit: Any) -> Any:
        row = Execution.objects.get(pk=context.ref)
        thread, said = in_thread(lambda: deliver(event_of(refund_of(row), "refund.created")).status_code)
        thread.join()
        answers.extend([*said, again(row).state, again(row).applied_evidence["reference"]])
        return applied()

    row = refunded(order, send)
    assert answers == [200, "executing", "re_1"]
    assert (row.state, row.reason, Refund.objects.get().execution) == ("completed", "sent", str(row.pk))
    assert (receipts(row).count("observe"), receipts(row).count("complete")) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_while_the_send_is_open_and_then_gets_no_answer(order: Order) -> None:
    """The proof is on file when the doubt begins; the look-up completes it."""

    def send(context: Any, permit: Any) -> Any:
        row = Execution.objects.get(pk=context.ref)
        thread, said = in_thread(lambda: deliver(event_of(refund_of(row), "refund.created")).status_code)
        thread.join()
        assert said == [200]
        raise TimeoutError("no answer")

    row = refunded(order, send)
    assert (row.state, row.applied_evidence["reference"]) == ("uncertain", "re_1")
    with provider_says(RefundPayment, look_up=effects.Found("re_1")):
        run_due()
    assert (again(row).state, Refund.objects.count()) == ("completed", 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("atomic_requests")
def test_twice_at_one_instant(order: Order) -> None:
    """Stripe delivers twice, to two processes: one receipt."""
    row = postponed(refunded(order, TimeoutError()))
    event = event_of(refund_of(row))
    assert together(*[lambda: deliver(event).status_code] * 3) == [200, 200, 200]
    assert receipts(again(row)).count("observe") == 1


# -- with localstripe ------------------------------------------------------------------------------------------------


@dataclass
class Deliveries:
    """localstripe's events to this process: they wait at the door until it opens."""

    door: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)

    def begin(self, **_kwargs: Any) -> None:
        assert self.door.wait(PATIENCE)

    def finish(self, **_kwargs: Any) -> None:
        self.answered.set()


@pytest.fixture
def deliveries(stripe_server: Any, live_server: Any) -> Iterator[Deliveries]:
    """localstripe delivers its events to this process."""
    found = Deliveries()

    def send(events: list[str]) -> None:
        order = {"url": live_server.url + ADDRESS, "secret": SECRET, "events": events}
        url = f"{stripe_server.url}/_config/webhooks/ours"
        requests.post(url, json=order, auth=(localstripe.API_KEY, ""), timeout=10).raise_for_status()

    send(["payment_intent.succeeded"])
    request_started.connect(found.begin)
    request_finished.connect(found.finish)
    yield found
    found.door.set()
    request_started.disconnect(found.begin)
    request_finished.disconnect(found.finish)
    send([])


@pytest.mark.django_db(transaction=True)
def test_a_story_with_localstripe(faults: Faults, deliveries: Deliveries) -> None:
    """The reply is lost, the look-up does not get through, the webhook does: completed minutes before its time."""
    faults.add("lose_reply", method="POST", path="/v1/payment_intents")
    faults.add("lose_request", method="GET", path="/v1/payment_intents")
    payload = PaymentIntentPayload(amount=700, currency="eur", payment_method="pm_card_visa", confirm=True)
    outcome = effects.perform(Pay, payload=payload, key="pay-17")
    assert isinstance(outcome, effects.Uncertain)
    row = Execution.objects.get(pk=outcome.ref)
    run_due()
    due = again(row).due_at
    assert due - timezone.now() > timedelta(minutes=4)
    deliveries.door.set()
    assert deliveries.answered.wait(PATIENCE)
    assert again(row).due_at < due
    run_due()
    row = again(row)
    assert (row.state, row.reason) == ("completed", "found")
    assert row.settled_at < due
    assert receipts(row).count("observe") == 1
    assert len(faults.sends(method="POST", path="/v1/payment_intents")) == 1
