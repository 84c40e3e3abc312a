"""One permit, one send; the epoch fences."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

import effects
from effects import transitions
from effects.models import Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.runtime.background import run
from effects.testing import provider_says, run_due, time_passes
from effects.transitions import NotSentInTime, PermitDecision
from effects.vocabulary.exceptions import FencedError
from effects.vocabulary.failures import classify
from effects.vocabulary.types import monotonic
from tests.core.declared import Charge, ChargePayload, Deduplicated, Plain
from tests.core.racing import OnSend

PAYLOAD = ChargePayload("c1", 1000)
APPLIED = effects.Applied({"id": "ch_1"}, "ch_1")

pytestmark = pytest.mark.django_db


def ask_permit(execution_id: UUID, attempt: UUID | None = None) -> PermitDecision:
    row = Execution.objects.get(pk=execution_id)
    return transitions.permit(execution_id, attempt=attempt or new_id(), started=monotonic(), summary=row.summary)


@pytest.fixture
def due() -> Execution:
    """A pending execution that is due."""
    return Execution.objects.get(pk=effects.perform_later(Charge, payload=PAYLOAD, key="order-17").ref)


@pytest.fixture
def taken_over() -> tuple[Execution, Attempt]:
    """An execution whose first sender lost its lease without a word."""
    row = Execution.objects.get(pk=effects.perform_later(Charge, payload=PAYLOAD, key="order-17").ref)
    ask_permit(row.pk)
    time_passes(timedelta(seconds=16))
    transitions.expire_lease(row.pk)
    return row, Attempt.objects.get()


class TestPermit:
    def test_carries_what_the_sender_needs(self, due):
        """Attempt, number, epoch, provider key, and a deadline that runs from before the permit was asked for."""
        attempt, started = new_id(), monotonic()
        permit = transitions.permit(due.pk, attempt=attempt, started=started, summary=due.summary).permit
        assert permit == effects.Permit(attempt, 1, 1, due.provider_key, started + 10)
        row = Attempt.objects.get()
        assert (row.pk, row.outcome, row.deadline - row.permitted_at) == (attempt, "open", timedelta(seconds=10))
        due.refresh_from_db()
        assert due.lease_expires_at == row.deadline + timedelta(seconds=5)
        assert due.exposed_until == row.deadline

    def test_a_second_one_is_refused_while_the_first_is_open(self, due):
        """Two attempts of one execution are never open at once."""
        assert ask_permit(due.pk).permit
        second = ask_permit(due.pk)
        assert (second.permit, second.execution.state) == (None, "executing")
        assert Attempt.objects.count() == 1

    def test_repeated_for_the_same_attempt_it_is_the_same(self, due):
        """A caller whose COMMIT was in question gets its own permit again, not a second one."""
        attempt = new_id()
        first = ask_permit(due.pk, attempt).permit
        again = ask_permit(due.pk, attempt).permit
        assert first is not None
        assert again is not None
        assert (again.attempt, again.epoch, again.number) == (first.attempt, first.epoch, first.number)
        assert Attempt.objects.count() == 1

    def test_not_before_it_is_due(self, due):
        """A row whose due time lies ahead, by the database's clock, gets none."""
        time_passes(-timedelta(hours=1))
        assert ask_permit(due.pk).permit is None
        assert not Attempt.objects.exists()

    def test_not_with_proof_of_success_on_file(self, due):
        """Evidence that it applied beats any plan to send."""
        Execution.objects.update(applied_evidence={"reference": "ch_0"})
        assert ask_permit(due.pk).permit is None

    def test_not_without_its_key(self, due):
        """What gave its key to a successor is never sent again."""
        Execution.objects.update(holds_key=False)
        assert ask_permit(due.pk).permit is None

    def test_raises_the_epoch(self, due):
        """Every acquisition of the lease does."""
        with provider_says(Charge, effects.NotNow(), effects.NotNow()) as said:
            run(due.pk)
            time_passes(timedelta(minutes=1))
            run(due.pk)
        assert [permit.epoch for _, permit in said.sends] == [1, 2]


class TestOutcome:
    def test_repeated_it_returns_the_snapshot(self, due):
        """The same attempt and outcome again is no second outcome."""
        permit = ask_permit(due.pk).permit
        first = transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=APPLIED)
        assert transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=APPLIED) == first
        assert Receipt.objects.count() == 3

    @pytest.mark.parametrize(
        "report",
        [
            effects.Submitted("po_1"),
            NotSentInTime(),
            classify(effects.Declined("no")),
            classify(effects.NotSent("no")),
            classify(effects.NotNow("no")),
            classify(TimeoutError()),
        ],
        ids=repr,
    )
    def test_each_kind_can_be_repeated(self, due, report):
        """Whatever was reported, the repetition changes nothing."""
        permit = ask_permit(due.pk).permit
        first = transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=report)
        assert transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=report) == first

    def test_another_outcome_of_the_same_attempt_is_refused(self, due):
        """What was recorded as refused is not recorded as applied afterwards."""
        permit = ask_permit(due.pk).permit
        transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=classify(effects.NotNow()))
        with pytest.raises(FencedError) as caught:
            transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=APPLIED)
        assert caught.value.effect_may_have_happened

    def test_an_older_epoch_is_refused(self, due):
        """A write under another epoch than the row's is refused, whatever attempt it names."""
        permit = ask_permit(due.pk).permit
        with pytest.raises(FencedError):
            transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=0, report=APPLIED)
        due.refresh_from_db()
        assert due.state == "executing"

    def test_an_attempt_that_is_not_the_open_one_is_refused(self, due):
        """The right epoch does not help a stranger."""
        ask_permit(due.pk)
        with pytest.raises(FencedError):
            transitions.record_outcome(due.pk, attempt=new_id(), epoch=1, report=APPLIED)
        due.refresh_from_db()
        assert due.state == "executing"


class TestLease:
    def test_until_somebody_takes_it_over_it_is_ours(self, due):
        """The epoch decides, not the clock: an outcome that is late by an hour is recorded as the sender's own."""
        permit = ask_permit(due.pk).permit
        time_passes(timedelta(hours=1))
        done = transitions.record_outcome(due.pk, attempt=permit.attempt, epoch=1, report=APPLIED)
        assert (done.state, done.reason) == ("completed", "sent")

    def test_past_it_the_sweep_puts_the_send_in_doubt(self, due):
        """A sender that died on either side of the call leaves doubt, and a look-up is due."""
        ask_permit(due.pk)
        time_passes(timedelta(seconds=16))
        with provider_says(Charge, APPLIED, look_up=effects.Found("ch_1", {"id": "ch_1"})) as said:
            run_due()
        due.refresh_from_db()
        assert said.sends == []
        assert (due.state, due.reason, Attempt.objects.get().outcome) == ("completed", "found", "unknown")

    def test_a_live_one_is_left_alone(self, due):
        """Before its end nobody touches it."""
        ask_permit(due.pk)
        time_passes(timedelta(seconds=14))
        assert transitions.expire_lease(due.pk).state == "executing"

    def test_expiring_twice_is_expiring_once(self, taken_over):
        """The second sweep finds nothing to do."""
        row, _ = taken_over
        assert transitions.expire_lease(row.pk).state == "uncertain"
        assert Receipt.objects.filter(event="expire_lease").count() == 1


class TestLateOutcome:
    def test_it_is_refused_as_an_outcome(self, taken_over):
        """A write under a lease that was taken over is refused."""
        row, attempt = taken_over
        with pytest.raises(FencedError):
            transitions.record_outcome(row.pk, attempt=attempt.pk, epoch=1, report=APPLIED)
        with pytest.raises(FencedError):
            transitions.record_outcome(row.pk, attempt=attempt.pk, epoch=1, report=classify(TimeoutError()))

    def test_its_own_success_settles_it(self, taken_over):
        """No later attempt was permitted, so the attempt's own success is the proof."""
        row, attempt = taken_over
        late = transitions.late_outcome(row.pk, attempt=attempt.pk, report=APPLIED)
        assert (late.state, late.reason, late.reference) == ("completed", "late_reply", "ch_1")
        assert Attempt.objects.get().outcome == "applied"

    def test_a_slow_sender_settles_it_through_the_runner(self):
        """A sender that wakes after its lease was taken over: refused, kept, and settled by its own success."""
        with provider_says(Charge, APPLIED) as said:

            def lose_the_lease() -> None:
                time_passes(timedelta(hours=1))
                transitions.expire_lease(UUID(said.sends[0][0].ref))

            said.sends = OnSend(lose_the_lease)
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.require() == {"id": "ch_1"}
        assert [receipt.event for receipt in Receipt.objects.order_by("sequence")] == [
            "record", "permit", "expire_lease", "confirm",
        ]  # fmt: skip

    def test_while_a_look_up_is_under_way_it_settles_it_and_the_look_up_is_fenced(self, taken_over):
        """The look-up's "absent" comes after the proof, and changes nothing."""
        row, attempt = taken_over
        claim = transitions.claim(row.pk)
        transitions.late_outcome(row.pk, attempt=attempt.pk, report=APPLIED)
        after = transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent())
        assert after.state == "completed"

    def test_a_late_failure_changes_nothing(self, taken_over):
        """It proves nothing about what the look-up is for; it is kept."""
        row, attempt = taken_over
        late = transitions.late_outcome(row.pk, attempt=attempt.pk, report=classify(effects.Declined("no")))
        assert (late.state, late.may_have_applied) == ("uncertain", True)
        assert Receipt.objects.filter(event="observe").exists()

    def test_after_a_later_permit_it_is_evidence_that_a_look_up_weighs(self, taken_over):
        """The later attempt goes on; when it ends without an answer of its own, nothing is sent any more."""
        row, attempt = taken_over
        time_passes(timedelta(minutes=6))
        claim = transitions.claim(row.pk)
        assert transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent()).state == "pending"
        second = ask_permit(row.pk).permit
        late = transitions.late_outcome(row.pk, attempt=attempt.pk, report=APPLIED)
        assert (late.state, late.may_have_applied) == ("executing", True)
        after = transitions.record_outcome(
            row.pk, attempt=second.attempt, epoch=second.epoch, report=classify(effects.Declined("already processed"))
        )
        assert (after.state, after.reason) == ("uncertain", "older_doubt")
        assert ask_permit(row.pk).permit is None

    def test_two_applied_attempts_with_two_references_are_a_persons(self, taken_over):
        """The provider did it twice: nobody is told that all is well."""
        row, attempt = taken_over
        time_passes(timedelta(minutes=6))
        claim = transitions.claim(row.pk)
        transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent())
        second = ask_permit(row.pk).permit
        transitions.late_outcome(row.pk, attempt=attempt.pk, report=APPLIED)
        twice = transitions.record_outcome(
            row.pk, attempt=second.attempt, epoch=second.epoch, report=effects.Applied({"id": "ch_2"}, "ch_2")
        )
        assert (twice.state, twice.reason, twice.may_have_applied) == ("needs_intervention", "conflict", True)

    @pytest.mark.parametrize("settled", [True, False])
    def test_after_absence_was_believed_it_contradicts(self, taken_over, settled):
        """Pending or failed says that nothing happened; the late success says otherwise, and a person decides."""
        row, attempt = taken_over
        if settled:
            Execution.objects.update(contract={**row.contract, "retry": {**row.contract["retry"], "attempts": 1}})
        time_passes(timedelta(minutes=6))
        claim = transitions.claim(row.pk)
        before = transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent())
        assert before.state == ("failed" if settled else "pending")
        late = transitions.late_outcome(row.pk, attempt=attempt.pk, report=APPLIED)
        assert (late.state, late.reason, late.may_have_applied) == ("needs_intervention", "contradicted", True)
        assert ask_permit(row.pk).permit is None


class TestResend:
    """Without a look-up an execution in doubt is sent again where repeating is safe, and a permit is asked for."""

    def test_within_the_keys_lifetime(self):
        """The provider deduplicates: the same key again, and its answer settles it."""
        with provider_says(Deduplicated, TimeoutError(), APPLIED) as said:
            outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(seconds=1))
            run_due()
        assert effects.get(outcome.ref).state == "completed"
        assert len({permit.provider_key for _, permit in said.sends}) == 1
        assert [receipt.event for receipt in Receipt.objects.order_by("sequence")] == [
            "record", "permit", "doubt", "resend", "complete",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("after", "resent"),
        [
            # the lifetime of 24 h, less 5 min of quiet and 10 s of timeout, is how long a resend may still be permitted
            (timedelta(hours=23, minutes=54), True),
            (timedelta(hours=23, minutes=54, seconds=51), False),
            (timedelta(hours=24), False),
        ],
    )
    def test_not_when_the_keys_lifetime_could_end_before_it_lands(self, after, resent):
        """Decided at the permit, by the database's clock: too late for it a person is asked."""
        with provider_says(Deduplicated, TimeoutError(), APPLIED) as said:
            outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
            time_passes(after)
            run_due()
        assert len(said.sends) == 1 + resent
        assert effects.get(outcome.ref).state == ("completed" if resent else "needs_intervention")

    def test_not_beyond_the_budget(self):
        """Five sends over the execution's life, each after a longer wait, then a person."""
        with provider_says(Deduplicated, TimeoutError()) as said:
            outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
            for longest in (1, 2, 4, 8):
                row = Execution.objects.get(pk=outcome.ref)
                waits = row.due_at - Attempt.objects.get(number=row.attempts).ended_at
                assert timedelta(seconds=longest / 2) <= waits <= timedelta(seconds=longest)
                time_passes(timedelta(seconds=longest))
                run_due()
            run_due()
        assert len(said.sends) == 5
        assert effects.get(outcome.ref).state == "needs_intervention"

    def test_not_before_the_provider_wishes(self):
        """A provider that is too busy to say what happened names the wait, which may be longer than ours."""
        busy = effects.NotNow("busy", retry_after=timedelta(minutes=7))
        with provider_says(Deduplicated, TimeoutError(), busy, APPLIED) as said:
            effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(seconds=2))
            run_due()
            time_passes(timedelta(minutes=6))
            run_due()
            assert len(said.sends) == 2
            time_passes(timedelta(minutes=1))
            run_due()
        assert len(said.sends) == 3

    def test_never_where_repeating_is_not_safe(self):
        """Neither a look-up nor deduplication: a person decides at once."""
        with provider_says(Plain, TimeoutError()) as said:
            outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
            run_due()
        execution = effects.get(outcome.ref)
        assert len(said.sends) == 1
        assert (execution.state, execution.reason) == ("needs_intervention", "no_plan")
