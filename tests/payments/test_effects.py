"""The shop's refunds and payouts against localstripe over a bad network, from `perform` to the shop's own row."""

from datetime import timedelta
from typing import Any

import pytest
import requests
from django.contrib.auth.models import User

import effects
from effects.models import Approval, Attempt
from effects.testing import run_due, time_passes
from project.payments.effects import PayOut, PayoutPayload, RefundPayment
from project.payments.models import Order, Payout, Refund
from project.services import stripe
from project.services.faults import Faults
from project.services.processes import Service
from tests.payments.conftest import refund

pytestmark = pytest.mark.django_db(transaction=True)

POSTS = {"method": "POST", "path": "/v1/refunds"}


@pytest.fixture
def at_stripe(stripe_server: Service, order: Order) -> Any:
    """Ask localstripe, past the proxy, for the refunds of the order."""

    def ask() -> list[dict[str, Any]]:
        answer = requests.get(
            f"{stripe_server.url}/v1/refunds",
            params={"payment_intent": order.payment_intent, "limit": 100},
            headers={"Authorization": f"Bearer {stripe.API_KEY}"},
            timeout=10,
        )
        return list(answer.json()["data"])

    return ask


def perform(order: Order, amount: int = 400, **options: Any) -> effects.Outcome:
    """Refund an order once."""
    return effects.perform(RefundPayment, payload=refund(order, amount), key="r-1", about=order, **options)


def test_a_refund_completes(faults: Faults, order: Order, at_stripe: Any) -> None:
    """One request, one refund at Stripe, one row of the shop's."""
    outcome = perform(order)
    assert isinstance(outcome, effects.Completed)
    (known,) = at_stripe()
    assert outcome.require() == {"id": known["id"], "status": "succeeded", "amount": 400, "currency": "eur"}
    row = Refund.objects.get()
    assert (row.execution, row.stripe_id, row.amount, row.currency) == (outcome.ref, known["id"], 400, "eur")
    assert (row.order, order.refundable) == (order, 99_600)
    assert len(faults.sends(**POSTS)) == 1


def test_the_same_key_again_sends_nothing(faults: Faults, order: Order) -> None:
    """A second performance meets the first one's outcome."""
    assert perform(order) == perform(order)
    assert len(faults.sends(**POSTS)) == 1
    assert Refund.objects.count() == 1


def test_a_lost_reply_is_found(faults: Faults, order: Order, at_stripe: Any) -> None:
    """What Stripe did and nobody heard of is in doubt, found at once by the look-up, and never sent again."""
    faults.add("lose_reply", **POSTS)
    outcome = perform(order)
    assert isinstance(outcome, effects.Uncertain)
    assert not Refund.objects.exists()
    run_due()
    found = effects.get(outcome.ref).outcome
    (known,) = at_stripe()
    assert isinstance(found, effects.Completed)
    assert found.reference == known["id"] == Refund.objects.get().stripe_id
    assert len(faults.sends(**POSTS)) == 1


def test_a_lost_request_is_sent_again_after_the_barrier(faults: Faults, order: Order, at_stripe: Any) -> None:
    """Absence before the barrier is no evidence; after it the same key is sent once more."""
    faults.add("lose_request", **POSTS)
    outcome = perform(order)
    assert isinstance(outcome, effects.Uncertain)
    run_due()
    assert isinstance(effects.get(outcome.ref).outcome, effects.Uncertain)
    assert len(faults.sends(method="GET", path="/v1/refunds")) == 1
    assert len(faults.sends(**POSTS)) == 1
    time_passes(RefundPayment().quiet + timedelta(seconds=30))
    run_due()
    assert isinstance(effects.get(outcome.ref).outcome, effects.Completed)
    first, second = faults.sends(**POSTS)
    assert first.idempotency_key == second.idempotency_key
    assert len(at_stripe()) == Refund.objects.count() == 1


def test_two_refunds_under_one_key_are_a_person_s(faults: Faults, order: Order, at_stripe: Any) -> None:
    """A Stripe that forgot the key and did it twice ends as a conflict that names both, not as a guess."""
    faults.add("lose_reply", **POSTS)
    outcome = perform(order)
    (send,) = faults.wait_for("forwarded", **POSTS)
    headers = {"Authorization": f"Bearer {stripe.API_KEY}"}
    requests.post(f"{faults.url}/v1/refunds", data=send.form, headers=headers, timeout=10).raise_for_status()
    run_due()
    found = effects.get(outcome.ref).outcome
    assert isinstance(found, effects.NeedsIntervention)
    assert found.reason == "conflict"
    assert len(at_stripe()) == 2
    assert not Refund.objects.exists()


def test_a_refusal_fails(faults: Faults, order: Order) -> None:
    """What Stripe refuses has not happened, and the shop has no row of it."""
    Order.objects.update(payment_intent="pi_unknown")
    order.refresh_from_db()
    outcome = perform(order)
    assert isinstance(outcome, effects.Failed)
    assert not outcome.may_have_applied
    assert not Refund.objects.exists()


def test_stripe_asks_for_patience(faults: Faults, order: Order) -> None:
    """A 429 is sent again later, under the same key."""
    faults.add("status", status=429, **POSTS)
    outcome = perform(order)
    assert isinstance(outcome, effects.Pending)
    time_passes(timedelta(seconds=60))
    run_due()
    assert isinstance(effects.get(outcome.ref).outcome, effects.Completed)
    assert len({send.idempotency_key for send in faults.sends(**POSTS)}) == 1


def test_a_pending_refund_is_proven_later(faults: Faults, order: Order, at_stripe: Any) -> None:
    """A refund that the bank carries out completes when Stripe says so."""
    faults.add("lose_reply", **POSTS)
    outcome = perform(order)
    (known,) = at_stripe()
    tell_stripe(faults, known["id"], status="pending")
    run_due()
    assert isinstance(effects.get(outcome.ref).outcome, effects.Accepted)
    assert not Refund.objects.exists()
    tell_stripe(faults, known["id"], status="succeeded")
    time_passes(timedelta(hours=1))
    run_due()
    assert isinstance(effects.get(outcome.ref).outcome, effects.Completed)
    assert Refund.objects.get().stripe_id == known["id"]


def tell_stripe(faults: Faults, refund: str, **fields: Any) -> None:
    """Change a refund at localstripe, as Stripe's own systems would."""
    headers = {"Authorization": f"Bearer {stripe.API_KEY}"}
    requests.post(f"{faults.url}/v1/refunds/{refund}", json=fields, headers=headers, timeout=10).raise_for_status()


def test_a_large_refund_waits_for_another_person(faults: Faults, order: Order, customer: User, approver: User) -> None:
    """From the configured amount on nothing is sent before another person agrees, and then once."""
    outcome = perform(order, 50_000, requested_by=customer)
    assert isinstance(outcome, effects.AwaitingApproval)
    run_due()
    assert faults.sends(**POSTS) == []
    approval = Approval.objects.get()
    assert (approval.summary["amount"], approval.summary["target"]) == (50_000, order.payment_intent)
    with pytest.raises(effects.EffectsError):
        effects.grant(outcome.ref, by=customer, digest=approval.digest)
    effects.grant(outcome.ref, by=approver, digest=approval.digest)
    run_due()
    assert isinstance(effects.get(outcome.ref).outcome, effects.Completed)
    assert len(faults.sends(**POSTS)) == Refund.objects.count() == 1


def test_just_below_the_amount_nobody_is_asked(order: Order) -> None:
    """One minor unit less needs nobody."""
    assert isinstance(perform(order, 49_999), effects.Completed)


def test_nothing_left_to_refund_is_refused_unsent(faults: Faults, order: Order) -> None:
    """What an order has no money for any more is rejected, and Stripe hears nothing."""
    effects.perform(RefundPayment, payload=refund(order, 40_000), key="first")
    effects.perform(RefundPayment, payload=refund(order, 40_000), key="second")
    outcome = effects.perform(RefundPayment, payload=refund(order, 40_000), key="third")
    assert isinstance(outcome, effects.Rejected)
    assert len(faults.sends(**POSTS)) == 2


def test_a_payout_without_an_answer_is_a_person_s(faults: Faults) -> None:
    """No look-up can tell, so nothing is sent again, and a person's decision writes the shop's row."""
    faults.add("lose_reply", method="POST", path="/v1/payouts")
    outcome = effects.perform(PayOut, payload=PayoutPayload(amount=900, currency="eur"), key="p-1")
    assert isinstance(outcome, effects.Uncertain)
    run_due()
    waiting = effects.get(outcome.ref)
    assert isinstance(waiting.outcome, effects.NeedsIntervention)
    effects.resolve(
        outcome.ref, decision="applied", revision=waiting.revision, by="the clerk", reason="it is on the statement",
        reference="po_statement_4",
    )  # fmt: skip
    assert isinstance(effects.get(outcome.ref).outcome, effects.Completed)
    assert Payout.objects.get().stripe_id == "po_statement_4"
    assert len(faults.sends(method="POST")) == 1
    assert Attempt.objects.count() == 1


def test_a_payout_that_is_answered_completes(faults: Faults) -> None:
    """The provider's answer is its proof."""
    outcome = effects.perform(PayOut, payload=PayoutPayload(amount=900, currency="eur"), key="p-1")
    assert isinstance(outcome, effects.Completed)
    assert Payout.objects.get().stripe_id == outcome.reference
