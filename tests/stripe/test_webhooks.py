"""Stripe's webhooks: hints about our executions, which are looked into, and never the last word."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

import effects
from effects import transitions
from effects.contrib.stripe import PaymentIntentPayload
from effects.models import Execution, Receipt
from effects.models.base import new_id
from effects.runtime import operators
from effects.testing import provider_says, run_due, time_passes
from effects.testing.faults import Interrupted, interrupt_at
from effects.vocabulary.types import monotonic
from project.payments.effects import RefundPayment, ShopRefund
from project.payments.models import Order, Refund
from tests.core.declared import Charge, ChargePayload
from tests.stripe.shop import Pay, again, applied, heard, intent_of, paid, postponed, receipts, refund_of, refunded
from tests.stripe.signing import deliver, event_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("endpoint")]
LOGGER = "effects.contrib.stripe"
HOUR = timedelta(hours=1)


def test_what_is_not_ours_is_heard_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Objects without our marks, events without an object: 200, so that Stripe repeats nothing."""
    caplog.set_level(logging.INFO, LOGGER)
    plain = {"id": "re_5", "object": "refund", "status": "succeeded"}
    for found in (plain, {**plain, "metadata": {}}, {**plain, "metadata": None}, {**plain, "metadata": []},
                  {**plain, "metadata": {"effects_ref": "only one of two"}}, None, [], "text"):  # fmt: skip
        heard(found)
    assert deliver({"object": "v2.core.event", "id": "evt_1", "type": "v1.thin"}).status_code == 200
    assert deliver({"id": "evt_1", "data": None}).status_code == 200
    assert {it.levelno for it in caplog.records if it.name == LOGGER} == {logging.INFO}


@pytest.mark.parametrize("ref", ["01a22b70-d604-768d-9362-b5b02af942c3", "no ref", "", 5, {"a": 1}, "\x00"])
def test_an_unknown_ref_is_said(ref: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Another environment shares the account, or the journal was restored: a warning, and 200."""
    marks = {"effects_ref": ref or "-", "effects_key": "fx_1"}
    heard({"id": "re_5", "object": "refund", "status": "succeeded", "metadata": marks})
    (line,) = [it for it in caplog.records if it.name == LOGGER]
    assert (line.levelno, "no such execution" in line.getMessage()) == (logging.WARNING, True)


def test_what_stands_in_the_metadata_writes_no_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """With Connect somebody without the secret writes it: it is quoted."""
    marks = {"effects_ref": "x\n2026-11-30 CRITICAL all is lost", "effects_key": "fx_1"}
    heard({"id": "re_5", "object": "refund", "status": "succeeded", "metadata": marks})
    (line,) = [it.getMessage() for it in caplog.records if it.name == LOGGER]
    assert "\n" not in line


def test_both_marks_must_agree(order: Order, caplog: pytest.LogCaptureFixture) -> None:
    """A ref under another key is not about this execution: nothing is recorded."""
    row = postponed(refunded(order, TimeoutError()))
    found = refund_of(row)
    found["metadata"]["effects_key"] = "fx_of_another"
    heard(found)
    assert "effects_key is another one" in caplog.text
    assert again(row).receipt_count == row.receipt_count


def test_an_effect_of_another_provider_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Marks of an execution that Stripe was never called for prove nothing."""
    with provider_says(Charge, effects.Declined("no")):
        row = Execution.objects.get(pk=effects.perform(Charge, payload=ChargePayload("c1", 400), key="k").ref)
    heard(refund_of(row))
    assert "no StripeEffect" in caplog.text
    assert again(row).state == "failed"


def test_an_effect_that_is_gone_is_an_error_in_the_log(order: Order, caplog: pytest.LogCaptureFixture) -> None:
    """Its class was removed: 200, so that the charges of old payments do not cost the endpoint."""
    row = refunded(order, applied())
    Execution.objects.filter(pk=row.pk).update(operation="payments.removed")
    heard(refund_of(row, "failed"))
    assert "not registered" in caplog.text
    assert again(row).state == "completed"


def test_the_charge_of_a_payment_is_not_the_payment() -> None:
    """Stripe copies an intent's metadata to its charges, whose ids would pass for second references."""
    row = paid(applied("pi_9"))
    heard({**intent_of(row), "id": "ch_1", "object": "charge", "refunded": True}, "charge.refunded")
    assert (again(row).state, again(row).receipt_count) == ("completed", row.receipt_count)


def test_a_class_that_does_not_say_what_it_creates_hears_nothing(monkeypatch: pytest.MonkeyPatch, order: Order) -> None:
    """A project's own effect opts in by `creates`."""
    row = postponed(refunded(order, TimeoutError()))
    monkeypatch.setattr(RefundPayment, "creates", "")
    heard({**refund_of(row), "object": ""})
    assert again(row).receipt_count == row.receipt_count


@pytest.mark.parametrize(
    "refunds", [None, [], {}, {"data": None}, {"data": ["re_1", None]}, {"object": "list", "data": []}]
)
def test_a_charge_that_shows_no_refund(refunds: Any) -> None:
    """Newer versions of the API show none, and send an event for the refund itself."""
    heard({"id": "ch_1", "object": "charge", "refunds": refunds}, "charge.refunded")


def test_the_refunds_of_a_charge_are_heard(order: Order) -> None:
    """`charge.refunded` of older versions of the API shows them inside."""
    row = postponed(refunded(order, TimeoutError()))
    other = {"id": "re_7", "object": "refund", "metadata": {}}
    heard({"id": "ch_1", "object": "charge", "refunds": {"data": [other, refund_of(row)]}}, "charge.refunded")
    assert again(row).applied_evidence["object"] == "re_1"


# -- what it does ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("atomic_requests")
def test_something_in_doubt_is_looked_up_now(order: Order) -> None:
    """The row is due, without a broker; the look-up's own answer completes it, and the shop's row is there."""
    row = postponed(refunded(order, TimeoutError()))
    heard(refund_of(row))
    row = again(row)
    assert (row.state, row.may_have_applied) == ("uncertain", True)
    assert row.due_at <= timezone.now()
    with provider_says(RefundPayment, look_up=effects.Found("re_1")) as said:
        run_due()
    assert (again(row).state, len(said.look_ups)) == ("completed", 1)
    assert Refund.objects.get().stripe_id == "re_1"


@pytest.mark.parametrize("status", ["pending", "requires_action", "failed", "canceled", "a new word", None])
def test_whatever_changed_in_doubt_is_looked_into(order: Order, status: Any) -> None:
    """Of something uncertain any status is a hint, and no proof."""
    row = postponed(refunded(order, TimeoutError()))
    heard(refund_of(row, status))
    row = again(row)
    assert (row.state, row.applied_evidence) == ("uncertain", None)
    assert row.due_at <= timezone.now()


def test_an_accepted_refund_that_succeeded_is_looked_up_now(order: Order) -> None:
    """A bank's refund is pending for days; its end is seen when Stripe tells of it."""
    row = refunded(order, effects.Submitted("re_1"))
    with provider_says(RefundPayment, look_up=effects.InProgress("re_1")):
        run_due()
    heard(refund_of(row, "pending"), "refund.created")
    assert again(row).due_at > timezone.now()
    heard(refund_of(row))
    assert again(row).due_at <= timezone.now()
    with provider_says(RefundPayment, look_up=effects.Found("re_1")):
        run_due()
    assert again(row).state == "completed"


@pytest.mark.usefixtures("atomic_requests")
def test_success_of_what_did_not_happen_is_a_persons(order: Order) -> None:
    """Failed, and it is there: never silently overwritten, and nothing is sent."""
    row = refunded(order, effects.Declined("no"))
    heard(refund_of(row))
    assert (again(row).state, again(row).reason) == ("needs_intervention", "contradicted")


def test_success_of_what_waits_is_a_persons(order: Order) -> None:
    """Pending: it is not sent any more."""
    row = refunded(order, effects.NotNow("busy"))
    assert row.state == "pending"
    heard(refund_of(row))
    time_passes(HOUR)
    with provider_says(RefundPayment) as said:
        run_due()
    assert (again(row).state, said.sends) == ("needs_intervention", [])


@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_the_bank_returned_a_completed_refund(order: Order, status: str) -> None:
    """It is a person's, who resolves it; the shop's row goes with their decision, and a repetition changes nothing."""
    row = refunded(order, applied())
    event = event_of(refund_of(row, status, failure_reason="lost_or_stolen_card"), "refund.failed")
    assert deliver(event).status_code == 200
    now = again(row)
    assert (now.state, now.reason, now.applied_evidence["undone"]) == ("needs_intervention", "contradicted", True)
    operators.resolve(row.pk, decision="undone", revision=now.revision, by="ann", reason="the bank returned it")
    settled = again(row)
    assert (settled.state, settled.reason) == ("completed", "undone")
    assert deliver(event).status_code == 200
    heard(refund_of(row, status), "charge.refund.updated")
    assert again(row).receipt_count == settled.receipt_count


def test_a_payment_that_was_canceled_is_a_persons() -> None:
    """An authorisation that ran out after `requires_capture`."""
    row = paid(applied("pi_9"))
    heard(intent_of(row, "canceled"), "payment_intent.canceled")
    assert again(row).applied_evidence["undone"] is True


@pytest.mark.parametrize("status", ["requires_payment_method", "processing", "requires_action", "requires_capture"])
def test_older_news_of_a_payment_changes_nothing(status: str) -> None:
    """A first card that was declined, or what came before the success, delivered after it."""
    row = paid(applied("pi_9"))
    heard(intent_of(row, status), "payment_intent.payment_failed")
    assert again(row).receipt_count == row.receipt_count


@pytest.mark.parametrize("status", ["pending", "requires_action"])
def test_older_news_of_a_refund_changes_nothing(order: Order, status: str) -> None:
    """`refund.created` comes after the success."""
    row = refunded(order, applied())
    heard(refund_of(row, status), "refund.created")
    assert again(row).receipt_count == row.receipt_count


@pytest.mark.parametrize(
    ("key", "livemode", "is_heard"),
    [
        ("sk_live_1", False, False), ("rk_live_1", False, False), ("sk_test_1", True, False),
        ("rk_test_1", True, False),
        ("sk_live_1", True, True), ("sk_test_1", False, True), ("", True, True), ("odd", False, True),
        ("sk_live_1", None, True), ("sk_live_1", "false", True),
    ],
)  # fmt: skip
def test_events_of_the_other_mode_are_ignored(
    key: str, livemode: Any, is_heard: bool, order: Order, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Test objects prove nothing where real money moves, nor the other way round; what says no mode is heard."""
    row = refunded(order, applied())
    settings.STRIPE_API_KEY = key
    assert deliver({**event_of(refund_of(row, "failed")), "livemode": livemode}).status_code == 200
    assert (again(row).state == "needs_intervention") is is_heard
    assert ("is ignored" in caplog.text) is not is_heard


def test_success_that_we_know_leaves_no_receipt(order: Order) -> None:
    """The usual case, however often it is delivered."""
    row = refunded(order, applied())
    event = event_of(refund_of(row), "refund.created")
    for _ in range(3):
        assert deliver(event).status_code == 200
        heard(refund_of(row))
    assert (again(row).revision, again(row).receipt_count) == (row.revision, row.receipt_count)


def test_a_second_refund_under_our_marks_is_a_persons(order: Order) -> None:
    """Two references for one execution."""
    row = refunded(order, applied())
    event = event_of(refund_of(row, id="re_2"))
    assert deliver(event).status_code == 200
    now = again(row)
    assert (now.state, now.applied_evidence["other_reference"]) == ("needs_intervention", "re_2")
    assert deliver(event).status_code == 200
    assert again(row).receipt_count == now.receipt_count


def test_other_money_is_said(order: Order, caplog: pytest.LogCaptureFixture) -> None:
    """In doubt the look-up finds the conflict; the evidence has the difference."""
    row = postponed(refunded(order, TimeoutError()))
    heard(refund_of(row, amount=401))
    assert "401 eur instead of 400 eur" in caplog.text
    assert again(row).applied_evidence["difference"] == "401 eur instead of 400 eur"


def test_what_is_kept(order: Order) -> None:
    """Ids, status and money of the event; nothing of the card, and not its body."""
    row = postponed(refunded(order, TimeoutError()))
    event = event_of(refund_of(row))
    deliver(event)
    kept = Receipt.objects.get(execution=row, event="observe").evidence
    assert kept == {
        "event": event["id"], "says": "happened", "from": "a webhook of Stripe's", "type": "refund.updated",
        "created": event["created"], "livemode": False, "object": "re_1", "status": "succeeded", "amount": 400,
        "currency": "eur", "reference": "re_1",
    }  # fmt: skip


@pytest.mark.parametrize(("status", "state"), [("succeeded", "completed"), ("failed", "needs_intervention"),
                                               ("requires_action", "completed")])  # fmt: skip
def test_a_payload_that_retention_dropped(order: Order, settings: Any, status: str, state: str) -> None:
    """The status alone speaks then, and the evidence says so; no amount is judged."""
    settings.EFFECTS = {"DISPATCH": "none", "EXECUTION_RETENTION": HOUR}
    row = refunded(order, applied())
    time_passes(2 * HOUR)
    run_due()
    assert again(row).payload == ""
    heard(refund_of(row, status, amount=1))
    now = again(row)
    assert now.state == state
    if state != "completed":
        assert "status alone" in now.applied_evidence["judged"]
        assert "difference" not in now.applied_evidence


def test_odd_objects_cost_nothing(order: Order, caplog: pytest.LogCaptureFixture) -> None:
    """Members of another kind than Stripe documents, in a signed event; what is logged of them can be written."""
    row = postponed(refunded(order, TimeoutError()))
    heard(refund_of(row, ["a", "list"], amount={"a": 1}, currency=None, id=None), id="evt_1")
    assert again(row).state == "uncertain"
    odd = event_of(refund_of(row, currency="\u0000\ud800", id={"deep": [1]}))
    assert deliver({**odd, "id": 7, "type": None, "created": 1.5, "livemode": "\x00"}).status_code == 200
    assert again(row).state == "uncertain"
    assert deliver({**odd, "id": "\ud800", "type": "\ud800"}).status_code == 200
    assert caplog.text.encode()


# -- in whose name, and when it goes wrong ---------------------------------------------------------------------------


def test_the_effect_is_asked_within_its_tenant(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`TENANT_CONTEXT` surrounds the project's code."""
    seen: list[str] = []
    within: list[str] = []

    @contextmanager
    def context(tenant: str) -> Iterator[None]:
        within.append(tenant)
        yield
        within.pop()

    def difference(self: Any, payload: Any, found: Any) -> str:
        seen.extend(within)
        return ""

    settings.EFFECTS = {"DISPATCH": "none", "TENANT_CONTEXT": context}
    monkeypatch.setattr(Pay, "difference", difference)
    payload = PaymentIntentPayload(amount=700, currency="eur")
    with provider_says(Pay, applied("pi_9")):
        outcome = effects.perform(Pay, payload=payload, key="k", tenant="north")
    heard(intent_of(Execution.objects.get(pk=outcome.ref)))
    assert seen == ["north"]


def test_a_tenant_context_that_swallows_is_an_error(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the effect raised must not pass for an answer."""

    @contextmanager
    def swallows(tenant: str) -> Iterator[None]:
        with suppress(ZeroDivisionError):
            yield

    row = paid(applied("pi_9"))
    settings.EFFECTS = {"DISPATCH": "none", "TENANT_CONTEXT": swallows}
    monkeypatch.setattr(Pay, "standing", lambda self, payload, found: 1 / 0)
    with pytest.raises(RuntimeError, match="TENANT_CONTEXT swallowed"):
        deliver(event_of(intent_of(row)))


@pytest.mark.usefixtures("atomic_requests")
def test_an_error_is_delivered_again(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """500, nothing half done; the next delivery of the same event is heard."""
    row = postponed(refunded(order, TimeoutError()))
    event = event_of(refund_of(row))
    with monkeypatch.context() as patched:
        patched.setattr(RefundPayment, "standing", lambda self, payload, found: 1 / 0)
        assert deliver(event, raises=False).status_code == 500
    assert again(row).receipt_count == row.receipt_count
    assert deliver(event).status_code == 200
    assert receipts(again(row))[-1] == "observe"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("atomic_requests")
@pytest.mark.parametrize("point", ["recording_evidence.before_commit", "recording_evidence.after_commit"])
def test_a_process_that_dies_over_an_event(order: Order, point: str) -> None:
    """Stripe delivers it again: it is there once, whichever side of the commit the process died on."""
    row = postponed(refunded(order, TimeoutError()))
    event = event_of(refund_of(row))
    with interrupt_at(point), pytest.raises(Interrupted):
        deliver(event)
    assert deliver(event).status_code == 200
    assert receipts(again(row)).count("observe") == 1
    assert again(row).due_at <= timezone.now()


def test_undone_while_it_is_being_sent_comes_again(order: Order) -> None:
    """503: the sender may complete it without knowing. Delivered after that, a person hears of it."""
    payload = ShopRefund(order=order.number, payment_intent="pi_1", amount=400, currency="eur")
    row = Execution.objects.get(pk=effects.perform_later(RefundPayment, payload=payload, key="k").ref)
    decision = transitions.permit(row.pk, attempt=new_id(), started=monotonic(), summary=row.summary)
    event = event_of(refund_of(row, "failed"), "refund.failed")
    assert deliver(event).status_code == 503
    assert again(row).applied_evidence is None
    assert decision.permit is not None
    permit = decision.permit
    transitions.record_outcome(row.pk, attempt=permit.attempt, epoch=permit.epoch, report=applied())
    assert deliver(event).status_code == 200
    assert again(row).state == "needs_intervention"
