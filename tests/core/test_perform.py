"""What `perform` does with every answer of a provider."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

import effects
from effects.models import Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.runtime.background import run
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import failures
from effects.vocabulary.exceptions import (
    ExecutionNotFoundError,
    OutcomeError,
)
from tests.core.declared import (
    Charge,
    ChargePayload,
    Deduplicated,
    Plain,
    hook_calls,
)
from tests.core.items import DOUBTFUL_ITEMS, Wavering
from tests.core.reading import events, row_of, run_again

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db


class SoftTimeLimitExceeded(Exception):  # noqa: N818
    """Named as Celery's, which is recognised by its name."""


class Hostile(Exception):  # noqa: N818
    """An exception whose every attribute raises."""

    @property
    def code(self):
        raise RuntimeError

    @property
    def retry_after(self):
        raise RuntimeError

    def __str__(self):
        raise RuntimeError


class Unfinished(effects.Declined):
    """A subclass that forgets to call its base, and invents a reason."""

    reason = "because"

    def __init__(self):
        pass


class TestAnswers:
    """What is recorded of each kind of answer."""

    def test_applied(self):
        """`Applied` is proof: completed, with output and reference, and the hook ran in the same commit."""
        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
        assert outcome == effects.Completed(outcome.ref, "bank.charge", True, {"id": "ch_1"}, "ch_1")
        assert outcome.require() == {"id": "ch_1"}
        assert hook_calls == [(outcome.ref, "completed")]
        assert events() == ["record", "permit", "complete"]
        assert Attempt.objects.get().outcome == "applied"
        context, permit = said.sends[0]
        assert (context.ref, context.attempt, context.payload) == (outcome.ref, 1, PAYLOAD)
        assert timedelta(seconds=9) < permit.remaining() <= timedelta(seconds=10)

    def test_submitted(self):
        """`Submitted` is an order taken: accepted, it may have applied, and a look-up is due at once."""
        expect_by = datetime(2030, 1, 1, tzinfo=timezone.utc)
        with provider_says(Charge, effects.Submitted("po_1", expect_by)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome == effects.Accepted(outcome.ref, "bank.charge", True, expect_by, "po_1")
        row = row_of(outcome)
        assert row.due_at == Attempt.objects.get().ended_at

    @pytest.mark.parametrize("when", ["tomorrow", datetime(2030, 1, 1)])
    def test_submitted_with_an_unreadable_time(self, when):
        """A wrong `expect_by` costs the date, not the record: seven days are taken."""
        with provider_says(Charge, effects.Submitted("po_1", when)):
            row = row_of(effects.perform(Charge, payload=PAYLOAD, key="order-17"))
        assert row.state == "accepted"
        assert row.expect_by - Attempt.objects.get().ended_at == timedelta(days=7)

    def test_submitted_without_a_look_up_waits_for_its_day(self):
        """Where nobody can be asked, no person is called before the order should have been carried out."""
        with provider_says(Plain, effects.Submitted("po_1")):
            outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
        run_due()
        assert effects.get(outcome.ref).state == "accepted"
        time_passes(timedelta(days=8))
        run_due()
        assert effects.get(outcome.ref).state == "needs_intervention"

    def test_partial(self):
        """`Partial` with some refused is partially completed, and shows the items."""
        items = [effects.Item("a", True, "r1"), effects.Item("b", False, code="closed", message="account closed")]
        with provider_says(Charge, effects.Partial(items, {"n": 1}, "batch_1")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome == effects.PartiallyCompleted(
            outcome.ref, "bank.charge", True, tuple(items), {"n": 1}, "batch_1"
        )

    def test_partial_with_all_applied(self):
        """A `Partial` of which nothing was refused is completed."""
        with provider_says(Charge, effects.Partial([effects.Item("a", True)])):
            assert isinstance(effects.perform(Charge, payload=PAYLOAD, key="order-17"), effects.Completed)

    @pytest.mark.parametrize("others", [(), (effects.Item("b", False),), (effects.Item("", False, message="no"),)])
    def test_partial_with_none_applied(self, others):
        """A `Partial` of which nothing was applied did not happen."""
        with provider_says(Charge, effects.Partial([effects.Item("a", False, code="closed"), *others])):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Failed)
        assert (outcome.code, outcome.may_have_applied) == ("closed", False)

    def test_very_many_items(self):
        """Ten thousand items are kept and read back, each one."""
        items = [effects.Item(f"item-{number}", number % 2 == 0, message="é" * 300) for number in range(10_000)]
        with provider_says(Charge, effects.Partial(items)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.PartiallyCompleted)
        assert len(outcome.items) == 10_000
        assert [item.applied for item in outcome.items] == [item.applied for item in items]

    @pytest.mark.parametrize(
        "nonsense",
        [None, True, {"id": 1}, "applied", effects.Partial([]), effects.Partial(["a"]), effects.Partial(None)],
    )
    def test_nonsense_is_doubt(self, nonsense):
        """What `send` returns and cannot be read is doubt: something was sent."""
        with provider_says(Charge, effects.Applied()) as said:
            said._sends[:] = [nonsense]
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Uncertain)
        assert outcome.may_have_applied
        assert "send() returned" in Attempt.objects.get().message

    @pytest.mark.parametrize("items", DOUBTFUL_ITEMS)
    def test_items_that_do_not_say_what_was_applied_are_doubt(self, items):
        """Only True and False say it, for each item once: a text is true whatever it says."""
        with provider_says(Charge, effects.Partial(items, reference="batch_1")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Uncertain)
        assert outcome.may_have_applied
        assert "send() returned Partial with" in Attempt.objects.get().message

    def test_items_of_a_class_of_ones_own_are_read_once(self):
        """What was checked is what is recorded."""
        with provider_says(Charge, effects.Partial([Wavering("a", True), effects.Item("b", False)])):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.PartiallyCompleted)
        assert [type(item) for item in outcome.items] == [effects.Item] * 2
        assert outcome.items[0].applied is True

    @pytest.mark.parametrize(
        "output", [object(), {"amount": 1.5}, {1: "a"}, 2**70, b"bytes", {"at": datetime(2026, 1, 1)}]
    )
    def test_output_that_is_no_json_is_kept_as_text(self, output):
        """An output that cannot be kept exactly is kept cleaned: the outcome is recorded all the same."""
        with provider_says(Charge, effects.Applied(output, "ch_1")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Completed)
        json.dumps(outcome.output)

    def test_output_with_surrogates(self):
        """NUL of an output survives, as an escape; half of a character is no text, and no answer could hold it."""
        with provider_says(Charge, effects.Applied({"text": "a\x00b\ud800"}, "ch\x00_1\ud800")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.require() == {"text": "a\x00b\ufffd"}
        assert row_of(outcome).reference == "ch_1\ufffd"


class TestFailures:
    """What each exception proves."""

    @pytest.mark.parametrize(
        ("error", "state", "reason"),
        [
            (effects.Declined("no", code="card_declined"), "failed", "declined"),
            (effects.InvalidRequest("no"), "failed", "invalid_request"),
            (effects.Unauthenticated("no"), "failed", "unauthenticated"),
            (effects.Forbidden("no"), "failed", "forbidden"),
            (effects.Stale("no"), "failed", "stale"),
            (effects.NotSent("no"), "pending", "not_sent"),
            (effects.NotNow("no"), "pending", "retry"),
            (effects.Doubt("no"), "uncertain", "provider_error"),
            (effects.Doubt("no", reason="because"), "uncertain", "unclassified"),
            (TimeoutError("no"), "uncertain", "timeout"),
            (ConnectionResetError("no"), "uncertain", "no_reply"),
            (ValueError("no"), "uncertain", "unclassified"),
            (failures.SendError("no"), "uncertain", "unclassified"),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
    )
    def test_state_and_reason(self, error, state, reason):
        """Only what proves "not applied" is no doubt, and only what may be repeated is pending."""
        with provider_says(Charge, error):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        row, attempt = row_of(outcome), Attempt.objects.get()
        assert (row.state, row.reason, row.may_have_applied) == (state, reason, state == "uncertain")
        # a bug is told by its class too
        said = "ValueError: no" if type(error) is ValueError else "no"
        assert (attempt.message, attempt.failure_reason) == (said, reason)
        expected = {"failed": "not_applied", "uncertain": "unknown", "pending": "not_applied"}[state]
        assert attempt.outcome == ("not_sent" if isinstance(error, effects.NotSent) else expected)
        verb = {"failed": "fail", "uncertain": "doubt", "pending": "reschedule"}[state]
        assert events() == ["record", "permit", verb]
        assert hook_calls == ([(outcome.ref, "failed")] if state == "failed" else [])

    def test_a_refusal_says_why(self):
        """The provider's code and words reach the outcome, and `require()` raises them."""
        with provider_says(Charge, effects.Declined("insufficient funds", code="card_declined")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome == effects.Failed(outcome.ref, "bank.charge", False, "card_declined", "insufficient funds")
        with pytest.raises(OutcomeError) as caught:
            outcome.require()
        assert (caught.value.code, caught.value.effect_may_have_happened) == ("operation_not_applied", False)

    def test_doubt_says_that_it_may_have_happened(self):
        """`require()` of something in doubt raises, and says so."""
        with provider_says(Charge, TimeoutError()), pytest.raises(OutcomeError) as caught:
            effects.perform(Charge, payload=PAYLOAD, key="order-17").require()
        assert (caught.value.code, caught.value.effect_may_have_happened) == ("operation_uncertain", True)

    @pytest.mark.parametrize("error", [Hostile(), Hostile])
    def test_a_hostile_exception_is_recorded(self, error):
        """An exception that can neither be printed nor read is doubt like any other."""
        with provider_says(Charge, error):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Uncertain)
        assert Attempt.objects.get().failure_code == "Hostile"

    def test_a_careless_subclass_proves_what_its_base_proves(self):
        """A subclass of Declined that does not call its base is still a refusal."""
        with provider_says(Charge, Unfinished):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert (row_of(outcome).state, row_of(outcome).reason) == ("failed", "declined")

    @pytest.mark.parametrize(
        "text", ["a\x00b", "a\ud800b", "x" * 1_000_000, "card 4111 1111 1111 1111", 4111111111111111, b"\xff", None]
    )
    @pytest.mark.parametrize("kind", [effects.Declined, effects.Doubt, effects.NotNow])
    def test_provider_text_is_stored_cleaned(self, text, kind):
        """NUL, surrogates, a megabyte and card numbers are cleaned, cut and masked, wherever they stand."""
        with provider_says(Charge, kind(text, code=text, reference=text)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        attempt, row = Attempt.objects.get(), row_of(outcome)
        stored = [attempt.message, attempt.failure_code, attempt.reference, row.failure_message, row.failure_code]
        stored += [json.dumps(receipt.evidence) for receipt in Receipt.objects.all()]
        assert all(len(value) <= 5000 for value in stored)
        assert not any("411111111111" in value.replace(" ", "") for value in stored)

    @pytest.mark.parametrize(
        ("error", "again"),
        [
            (effects.Declined("already processed"), "declined"),
            (effects.NotSent("dns"), "not_sent"),
            (effects.NotNow("busy"), "retry"),
            (TimeoutError(), "timeout"),
        ],
        ids=str,
    )
    def test_after_older_doubt_every_failure_is_doubt(self, error, again):
        """A refusal proves nothing about an earlier attempt that may have applied."""
        with provider_says(Deduplicated, TimeoutError(), error) as said:
            outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(seconds=1))
            run_again(outcome)
        row = row_of(outcome)
        assert len(said.sends) == 2
        assert (row.state, row.may_have_applied) == ("uncertain", True)
        assert row.reason == ("timeout" if again == "timeout" else "older_doubt")
        assert [attempt.failure_reason for attempt in row.attempt_rows.order_by("number")] == ["timeout", again]

    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, SoftTimeLimitExceeded])
    def test_interrupts_are_recorded_and_go_on(self, interrupt):
        """Doubt is recorded, then the interrupt is raised again."""
        with provider_says(Charge, interrupt), pytest.raises(interrupt):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        row = Execution.objects.get()
        assert (row.state, row.reason, row.may_have_applied) == ("uncertain", "interrupted", True)


class TestDoubt:
    """From doubt to an outcome, without a person."""

    def test_found(self):
        """A look-up before the barrier that finds it is believed; an absence before it is not."""
        verdicts = [effects.Absent(), effects.Found("ch_1", {"id": 1})]
        with provider_says(Charge, TimeoutError(), look_up=verdicts) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert isinstance(outcome, effects.Uncertain)
            run_due()
            assert effects.get(outcome.ref).state == "uncertain"
            time_passes(timedelta(minutes=6))
            run_due()
        assert effects.get(outcome.ref).outcome.require() == {"id": 1}
        assert len(said.sends) == 1
        assert hook_calls == [(outcome.ref, "completed")]

    def test_absent(self):
        """Absence after the barrier is believed: it is sent again, once, under the same key."""
        with provider_says(Charge, TimeoutError(), effects.Applied(1, "ch_1"), look_up=effects.Absent()) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=6))
            run_due()
        assert effects.get(outcome.ref).state == "completed"
        assert [permit.number for _, permit in said.sends] == [1, 2]
        assert len({permit.provider_key for _, permit in said.sends}) == 1


@pytest.mark.parametrize("ref", ["nonsense", "", "01a228e3-6a6b-7d29-b432-efca8de63336"])
def test_an_unknown_ref_is_not_found(ref):
    """A ref that is none, or nobody's, is our own error."""
    with pytest.raises(ExecutionNotFoundError):
        effects.get(ref)


def test_a_hint_for_nobody():
    """A worker that is told of a row that is not there says so."""
    with pytest.raises(ExecutionNotFoundError):
        run(new_id())


class TestReferences:
    """A provider's id is kept as it is."""

    def test_digits_that_pass_for_a_card_number_stay(self):
        """One numeric id in ten looks like a card; masked it would find nothing at the provider."""
        with provider_says(Charge, effects.Applied(1, reference="4111111111111111")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.reference == "4111111111111111"
        assert row_of(outcome).attempt_rows.get().reference == "4111111111111111"
