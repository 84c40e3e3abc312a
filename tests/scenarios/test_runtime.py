"""Stories of the runtime: leases, crashes, failure classes, late replies, undoing, deploys."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

import effects
from effects import transitions
from effects.declarations.effect import get_effect
from effects.models import Approval, Attempt, Execution
from effects.runtime import background, sending
from effects.testing import provider_says, run_due, time_passes
from effects.testing.faults import Interrupted, interrupt_at
from effects.vocabulary import exceptions
from effects.vocabulary.types import monotonic
from tests.core.declared import Charge, Conditional, Deduplicated, LowRisk, Plain
from tests.core.people import PAYLOAD, approve, person
from tests.core.racing import in_thread
from tests.core.test_compensations import Transfer
from tests.scenarios.bank import Ledger
from tests.scenarios.times import AFTER_LEASE, AFTER_QUIET, DAY

pytestmark = pytest.mark.django_db
DONE = effects.Applied({"id": "tx_1"}, "tx_1")
CRASHES = [
    "performing_an_effect.before_commit",
    "performing_an_effect.after_commit",
    "send.before_call",
    "send.replied",
    "hook.before",
    "hook.after",
    "recording_an_outcome.before_commit",
    "recording_an_outcome.after_commit",
]


def settle(ledger: Ledger) -> None:
    """Let an hour pass, with sweeps."""
    for _ in range(4):
        time_passes(timedelta(minutes=15))
        run_due()


@pytest.mark.parametrize("point", CRASHES)
def test_wherever_the_process_ends_it_is_done_once(point: str, ledger: Ledger, no_hook_calls: list[Any]) -> None:
    """The caller asks again after an hour: applied once, recorded once, the project's row written once."""
    with interrupt_at(point), pytest.raises(Interrupted):
        effects.perform(Charge, payload=PAYLOAD, key="order-17")
    no_hook_calls.clear()  # what an interrupted hook wrote was rolled back with its transaction
    before = Execution.objects.filter(state="completed").count()
    settle(ledger)
    outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
    assert outcome.require() == {"id": "tx_1"}
    assert len(ledger.applied) == 1
    assert len(no_hook_calls) == 1 - before


@pytest.mark.django_db(transaction=True)
def test_who_comes_while_it_is_sent_hears_that_it_is(ledger: Ledger) -> None:
    """The second caller neither sends nor waits; `wait` tells the end."""
    called, go_on = threading.Event(), threading.Event()

    def slow(context: Any, permit: Any) -> effects.Applied:
        called.set()
        assert go_on.wait(10)
        return DONE

    with provider_says(Charge, slow) as said:
        thread, _ = in_thread(lambda: effects.perform(Charge, payload=PAYLOAD, key="order-17"))
        assert called.wait(10)
        second = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        go_on.set()
        assert isinstance(second, effects.Executing)
        assert effects.wait(second.ref, timedelta(seconds=10)).require() == {"id": "tx_1"}
        thread.join()
    assert len(said.sends) == 1


def test_a_late_reply_after_a_takeover() -> None:
    """The sender slept through its lease; its success is its own proof, since nobody sent after it."""

    def sleeper(context: Any, permit: Any) -> effects.Applied:
        time_passes(AFTER_LEASE)
        assert transitions.expire_lease(Execution.objects.get().pk).state == "uncertain"
        return DONE

    with provider_says(Charge, sleeper) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
    assert (effects.get(outcome.ref).state, effects.get(outcome.ref).reason) == ("completed", "late_reply")
    assert len(said.sends) == 1


def test_a_late_reply_after_somebody_sent_again_is_evidence() -> None:
    """Two attempts may have applied now: nobody takes the older news for the answer, a look-up decides."""
    sends: list[Any] = []

    def first_sleeps(context: Any, permit: Any) -> Any:
        sends.append(permit.number)
        if permit.number == 1:
            time_passes(AFTER_LEASE)
            run_due()
            time_passes(AFTER_LEASE)
            run_due()
            return DONE
        raise TimeoutError("the second has no answer")

    with provider_says(Deduplicated, first_sleeps):
        outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
    row = Execution.objects.get(pk=outcome.ref)
    assert sends[:2] == [1, 2]
    assert (row.state in ("uncertain", "needs_intervention"), row.may_have_applied) == (True, True)
    assert row.applied_evidence["reference"] == "tx_1"
    seen = len(sends)
    settle_without_ledger()
    assert len(sends) == seen


def settle_without_ledger() -> None:
    """Let half an hour pass."""
    for _ in range(2):
        time_passes(timedelta(minutes=15))
        run_due()


def test_a_refusal_after_doubt_proves_nothing(ledger: Ledger) -> None:
    """The second call is told that it was processed already, which is the first one's success: that is no failure."""
    ledger.replies = [TimeoutError("the answer got lost")]
    outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
    ledger.refuses = effects.Declined("already processed")
    time_passes(timedelta(seconds=1))
    background.look_up(Execution.objects.get().pk)
    row = effects.get(outcome.ref)
    assert (len(ledger.asked), row.state, row.reason, row.may_have_applied) == (2, "uncertain", "older_doubt", True)


def test_try_later_is_tried_later_and_not_for_ever() -> None:
    """Refused for now, with the provider's own time to wait; five times, then it has failed."""
    later = effects.NotNow("busy", retry_after=timedelta(minutes=2))
    with provider_says(Plain, later) as said:
        outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
        time_passes(timedelta(seconds=90))
        run_due()
        assert len(said.sends) == 1
        for _ in range(8):
            time_passes(timedelta(minutes=2))
            run_due()
    assert len(said.sends) == 5
    assert (effects.get(outcome.ref).state, effects.get(outcome.ref).reason) == ("failed", "attempts_spent")


@pytest.mark.parametrize(
    ("effect", "end", "sends"),
    [(Charge, "completed", 1), (Deduplicated, "completed", 2), (Plain, "needs_intervention", 1)],
    ids=["ask the provider", "send it again", "ask a person"],
)
def test_doubt_has_a_plan_for_each_capability(effect: Any, end: str, sends: int, ledger: Ledger) -> None:
    """Looked up where it can be, repeated where the provider deduplicates, otherwise a person's at once."""
    ledger.replies = [TimeoutError("the answer got lost"), None]
    outcome = effects.perform(effect, payload=PAYLOAD, key="order-17")
    settle(ledger)
    assert (effects.get(outcome.ref).state, len(ledger.asked), len(set(ledger.asked))) == (end, sends, 1)


@pytest.mark.parametrize("answer", [effects.Refuse("sold out"), ZeroDivisionError("broken")], ids=str)
def test_a_precondition_lets_nothing_through_that_it_did_not_allow(
    answer: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal and a bug in it end the same way: never sent."""

    def precondition(self: Any, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Conditional, "precondition", precondition)
    with provider_says(Conditional, DONE) as said:
        outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
    assert (type(outcome), said.sends) == (effects.Rejected, [])


def test_an_output_that_cannot_be_stored_happened_all_the_same() -> None:
    """Failing to keep what the provider said must not make its success look like a failure."""
    with provider_says(Plain, effects.Applied(object(), "tx_1")) as said:
        outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
        again = effects.perform(Plain, payload=PAYLOAD, key="order-17")
    assert isinstance(outcome, effects.Completed)
    assert (again.ref, len(said.sends)) == (outcome.ref, 1)


def test_one_key_is_one_payload() -> None:
    """Another amount under the key is refused, and the first stands."""
    with provider_says(Plain, DONE) as said:
        effects.perform(Plain, payload=PAYLOAD, key="order-17")
        with pytest.raises(exceptions.PayloadConflictError):
            effects.perform(Plain, payload={"customer": "c1", "amount": 9}, key="order-17")
    assert len(said.sends) == 1


# -- undoing and rules ---------------------------------------------------------------------------------------------


def test_undone_once_whoever_asks() -> None:
    """A compensation is an execution with receipts of its own; doubt about it is doubt, too."""
    with provider_says(Transfer, DONE, TimeoutError("no answer"), look_up=effects.Found("back_1")) as said:
        original = effects.perform(Transfer, payload=PAYLOAD, key="order-17")
        first = effects.compensate(original.ref, requested_by="zoe")
        assert isinstance(first, effects.Uncertain)
        assert effects.compensate(original.ref, requested_by="bob").ref == first.ref
        run_due()
    assert (effects.get(first.ref).state, effects.get(original.ref).state) == ("completed", "completed")
    assert len(said.sends) == 2


def test_the_projects_risk_policy_only_tightens(settings: Any) -> None:
    """High risk waits for people although the effect itself asks nobody; low risk goes through."""
    rule = effects.ApprovalRule("effects.approve_execution")
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {"high": rule}}
    bob = person("bob")
    with provider_says(Plain, DONE) as high, provider_says(LowRisk, DONE) as low:
        waiting = effects.perform(Plain, payload=PAYLOAD, key="order-17", requested_by="ann")
        effects.perform(LowRisk, payload=PAYLOAD, key="order-17", requested_by="ann")
        assert (type(waiting), len(high.sends), len(low.sends)) == (effects.AwaitingApproval, 0, 1)
        settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {}}
        run_due()
        assert high.sends == []
        approve(Execution.objects.get(pk=waiting.ref), bob)
        run_due()
    assert len(high.sends) == 1
    assert Approval.objects.get().state == "spent"


# -- deploys -------------------------------------------------------------------------------------------------------


def test_a_deploy_that_changed_the_payload_reads_the_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded yesterday in cents without a currency; sent today in the shape of today."""
    seen: list[Any] = []
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="order-17")
    Execution.objects.update(payload='{"amount":1000,"buyer":"c1"}')

    def upgrade(self: Any, payload: Any, version: int) -> Any:
        seen.append(version)
        return {"customer": payload["buyer"], "amount": payload["amount"], "currency": "chf"}

    monkeypatch.setattr(Plain, "payload_version", 2)
    monkeypatch.setattr(Plain, "upgrade", upgrade)
    with provider_says(Plain, DONE) as said:
        run_due()
    assert effects.get(outcome.ref).state == "completed"
    assert (said.sends[0][0].payload.customer, said.sends[0][0].payload.currency, set(seen)) == ("c1", "chf", {1})


def test_a_payload_that_nobody_can_read_any_more_is_shown_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upgrade raises: the row stays, with the trouble on it, and the others go on."""
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="order-17")
    monkeypatch.setattr(Plain, "payload_version", 2)
    monkeypatch.setattr(Plain, "upgrade", lambda self, payload, version: {"nonsense": True})
    with provider_says(Plain, DONE) as said:
        run_due()
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, said.sends, row.trouble_count) == ("pending", [], 1)
    assert row.trouble


def test_resumed_after_a_deploy_with_another_safety_version(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Newer code may not touch what older code left in doubt; rolled back, the older code finishes it."""
    ledger.replies = [TimeoutError("the answer got lost")]
    outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
    with monkeypatch.context() as deploy:
        deploy.setattr(Charge, "safety_version", 2)
        run_due()
        with pytest.raises(exceptions.PolicyChangedError):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert (effects.get(outcome.ref).state, len(ledger.asked)) == ("uncertain", 1)
    settle(ledger)
    assert (effects.get(outcome.ref).state, len(ledger.asked)) == ("completed", 1)


@pytest.mark.parametrize(
    ("name", "value"), [("repeatable", True), ("deduplicates", effects.Deduplication(DAY)), ("lookup", None)]
)
def test_a_deploy_loosens_nothing_of_what_is_under_way(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded keeps the terms that it was recorded under."""
    with provider_says(Plain, TimeoutError("no answer")) as said:
        outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
        monkeypatch.setattr(Plain, name, value)
        run_due()
        time_passes(AFTER_QUIET)
        run_due()
    assert (len(said.sends), effects.get(outcome.ref).state) == (1, "needs_intervention")


# -- time ----------------------------------------------------------------------------------------------------------


def test_a_slow_journal_eats_into_the_permit() -> None:
    """The deadline runs from before the permit was asked for: what comes back too late sends nothing, without doubt."""
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="order-17")
    row = Execution.objects.get(pk=outcome.ref)
    decision = transitions.permit(row.pk, attempt=row.pk, started=monotonic() - 60, summary=row.summary)
    assert decision.permit is not None
    with provider_says(Plain, DONE) as said:
        context = effects.Context(
            ref=str(row.pk), operation=row.operation, payload=PAYLOAD, tenant="", key=row.key,
            provider_key=row.provider_key, requested_by=None, on_behalf_of=None, attempt=1, reference="", about=None,
        )  # fmt: skip
        effect = get_effect(row.operation)
        after = sending.send(sending.License.of(effect, decision.execution, decision.permit, context, None))
    assert (after.state, after.may_have_applied, said.sends) == ("pending", False, [])
    assert Attempt.objects.get().outcome == "not_sent"
