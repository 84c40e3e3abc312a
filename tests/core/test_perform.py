"""What `perform` does with every answer of a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import RequestFactory

import effects
from effects import failures, types
from effects.exceptions import (
    ExecutionNotFoundError,
    KeyRequiredError,
    OpenTransactionError,
    OutcomeError,
    PayloadConflictError,
    PayloadError,
    PolicyChangedError,
)
from effects.intents import binding_of, provider_key_of
from effects.models import Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.runner import look_up, run
from effects.signals import execution_changed
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import (
    Charge,
    ChargePayload,
    Conditional,
    Deduplicated,
    Opaque,
    Patient,
    Plain,
    Renamed,
    Ruled,
    hook_calls,
)
from tests.core.racing import OnSend, second_connection

PAYLOAD = ChargePayload("c1", 1000)

pytestmark = pytest.mark.django_db


@contextmanager
def stalled(effect: type[effects.Effect[Any]]) -> Iterator[None]:
    """Let an hour pass between a permit's commit and the call; an observer of the permit turns the clock."""
    with pytest.MonkeyPatch.context() as patch:

        def stall(sender: Any, execution: Any, **options: Any) -> None:
            if execution.state == "executing":
                ahead = types.monotonic() + 3600
                patch.setattr(types, "monotonic", lambda: ahead)

        execution_changed.connect(stall, sender=effect)
        yield
        execution_changed.disconnect(stall, sender=effect)


def row_of(outcome: effects.Outcome) -> Execution:
    return Execution.objects.get(pk=outcome.ref)


def events() -> list[str]:
    return list(Receipt.objects.order_by("execution", "sequence").values_list("event", flat=True))


class SoftTimeLimitExceeded(Exception):
    """Named as Celery's, which is recognised by its name."""


class Hostile(Exception):
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

    def test_partial_with_none_applied(self):
        """A `Partial` of which nothing was applied did not happen."""
        with provider_says(Charge, effects.Partial([effects.Item("a", False, code="closed")])):
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
        "nonsense", [None, True, {"id": 1}, effects.Applied, effects.Partial([]), effects.Partial(["a"]), effects.Partial(None)]
    )  # fmt: skip
    def test_nonsense_is_doubt(self, nonsense):
        """What `send` returns and cannot be read is doubt: something was sent."""
        with provider_says(Charge, effects.Applied()) as said:
            said._sends[:] = [nonsense]
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Uncertain)
        assert outcome.may_have_applied
        assert "send() returned" in Attempt.objects.get().message

    @pytest.mark.parametrize("output", [object(), {"amount": 1.5}, {1: "a"}, 2**70, b"bytes", {"at": datetime(2026, 1, 1)}])
    def test_output_that_is_no_json_is_kept_as_text(self, output):
        """An output that cannot be kept exactly is kept cleaned: the outcome is recorded all the same."""
        with provider_says(Charge, effects.Applied(output, "ch_1")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Completed)
        json.dumps(outcome.output)

    def test_output_with_surrogates(self):
        """NUL and lone surrogates of an output survive, as escapes."""
        with provider_says(Charge, effects.Applied({"text": "a\x00b\ud800"}, "ch\x00_1\ud800")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.require() == {"text": "a\x00b\ud800"}
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
        assert (attempt.message, attempt.failure_reason) == ("no", reason)
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
        assert not any("4111" in value.replace(" ", "").replace("1111", "", 1)[:8] for value in stored if "411" in value)
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


def run_again(outcome: effects.Outcome) -> None:
    """Do what the sweep would do once for an execution in doubt without a look-up."""
    look_up(row_of(outcome).pk)


class TestRetries:
    """How "not applied, try later" is repeated."""

    def test_the_budget_counts_all_attempts(self):
        """Five attempts over the execution's life, then failed, with one provider key in all of them."""
        with provider_says(Charge, effects.NotNow("busy", code="rate_limit")) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            for _ in range(6):
                time_passes(timedelta(minutes=1))
                run_due()
        row = row_of(outcome)
        assert (row.state, row.reason, row.attempts, row.failure_code) == ("failed", "attempts_spent", 5, "rate_limit")
        assert len(said.sends) == 5
        assert len({permit.provider_key for _, permit in said.sends}) == 1

    @pytest.mark.parametrize(("attempt", "longest"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)])
    def test_delays_double_with_jitter(self, attempt, longest):
        """The n-th delay lies between d/2 and d, d being 1 s doubled n-1 times."""
        with provider_says(Charge, effects.NotNow("busy")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            for _ in range(attempt - 1):
                time_passes(timedelta(minutes=1))
                run(row_of(outcome).pk)
        assert timedelta(seconds=longest / 2) <= delay(outcome) <= timedelta(seconds=longest)

    def test_delays_have_a_ceiling(self):
        """The hundredth delay is no longer than the ceiling, and the arithmetic holds at the two thousandth."""
        with provider_says(Patient, effects.NotNow("busy")):
            outcome = effects.perform(Patient, payload=PAYLOAD, key="order-17")
            for attempts in (100, 2000):
                Execution.objects.update(attempts=attempts)
                time_passes(timedelta(minutes=1))
                run(row_of(outcome).pk)
                assert timedelta(seconds=15) <= delay(outcome) <= timedelta(seconds=30)

    @pytest.mark.parametrize(
        ("wish", "wait"),
        [
            (timedelta(hours=2), timedelta(hours=2)),
            (7200, timedelta(hours=2)),
            (timedelta.max, failures.LONGEST_WAIT),
            (float("inf"), failures.LONGEST_WAIT),
        ],
        ids=str,
    )
    def test_retry_after_is_a_floor(self, wish, wait):
        """The provider's wish may exceed the ceiling; it never leaves the calendar."""
        with provider_says(Charge, effects.NotNow("busy", retry_after=wish)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert delay(outcome) == wait

    @pytest.mark.parametrize("wish", [timedelta(0), timedelta(days=-1), float("nan"), "soon", object()], ids=str)
    def test_an_unreadable_retry_after_is_none(self, wish):
        """A wish that is none leaves the usual delay."""
        with provider_says(Charge, effects.NotNow("busy", retry_after=wish)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert timedelta(seconds=0.5) <= delay(outcome) <= timedelta(seconds=1)

    def test_doubt_keeps_retry_after_as_not_before(self):
        """A look-up of something in doubt is not due before the provider's wish."""
        with provider_says(Charge, effects.Doubt("busy", retry_after=timedelta(minutes=3))):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert delay(outcome) == timedelta(minutes=3)

    def test_before_it_is_due_nothing_is_sent(self):
        """A caller who repeats the key meets the pending execution, and its due time stands."""
        with provider_says(Charge, effects.NotNow("busy", retry_after=timedelta(hours=2))) as said:
            first = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            again = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert again == first
        assert len(said.sends) == 1

    def test_once_it_is_due_a_caller_sends_it_on(self):
        """A caller who repeats the key of a due execution gets its outcome."""
        with provider_says(Charge, effects.NotNow("busy"), effects.Applied(1, "ch_1")) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1
        assert [context.attempt for context, _ in said.sends] == [1, 2]

    @pytest.mark.parametrize(
        ("header", "wait"),
        [
            ("120", timedelta(seconds=120)),
            (" 5 ", timedelta(seconds=5)),
            ("9" * 5000, failures.LONGEST_WAIT),
            ("Thu, 01 Jan 2026 00:02:00 GMT", timedelta(minutes=2)),
            ("Wed, 31 Dec 2025 00:00:00 GMT", timedelta(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", failures.LONGEST_WAIT),
            ("²", None),
            ("-5", None),
            ("soon", None),
            ("", None),
            (None, None),
        ],
    )
    def test_the_header(self, header, wait):
        """Retry-After is seconds or a date (RFC 9110 §10.2.3); anything else is nothing."""
        assert failures.parse_retry_after(header, datetime(2026, 1, 1, tzinfo=timezone.utc)) == wait


def delay(outcome: effects.Outcome) -> timedelta:
    """Return how long after its newest attempt ended an execution is due."""
    row = row_of(outcome)
    newest = row.attempt_rows.order_by("-number").first()
    assert newest is not None
    return row.due_at - newest.ended_at


class TestDeadline:
    def test_a_deadline_that_passed_before_the_call_is_no_doubt(self):
        """Nothing was sent, so the attempt ends as not sent, and the execution is pending again."""
        with provider_says(Plain, effects.Applied()) as said, stalled(Plain):
            outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
        row = row_of(outcome)
        assert said.sends == []
        assert (row.state, row.reason, row.may_have_applied) == ("pending", "not_sent", False)
        assert Attempt.objects.get().outcome == "not_sent"
        assert events() == ["record", "permit", "not_sent"]

    def test_after_older_doubt_it_stays_in_doubt(self):
        """An attempt that was not sent clears nothing."""
        with provider_says(Deduplicated, TimeoutError()) as said:
            outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(seconds=1))
            with stalled(Deduplicated):
                run_again(outcome)
        row = row_of(outcome)
        assert len(said.sends) == 1
        assert (row.state, row.reason, row.may_have_applied) == ("uncertain", "older_doubt", True)

    def test_it_counts_as_an_attempt(self):
        """A process that is always too late ends with failed, not in a loop."""
        with provider_says(Plain, effects.Applied()) as said, stalled(Plain):
            outcome = effects.perform(Plain, payload=PAYLOAD, key="order-17")
        for _ in range(5):
            time_passes(timedelta(minutes=1))
            with stalled(Plain):
                run_due()
        row = row_of(outcome)
        assert (row.state, row.reason, row.attempts) == ("failed", "attempts_spent", 5)
        assert said.sends == []


class TestKeys:
    """One key, one occurrence."""

    def test_same_key_same_payload_joins(self):
        """The outcome is returned; nothing is sent again, and no receipt is written for the same requester."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            first = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
            again = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
        assert again == first
        assert len(said.sends) == 1
        assert events() == ["record", "permit", "complete"]

    def test_a_dict_of_the_fields_is_the_same_payload(self):
        """Defaults may be left out: the declared type decides what the payload is."""
        with provider_says(Charge, effects.Applied(1, "ch_1")):
            first = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert effects.perform(Charge, payload={"customer": "c1", "amount": 1000}, key="order-17") == first

    def test_same_key_other_payload_is_refused(self):
        """Whatever state the first one is in, the other payload is not sent."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            with pytest.raises(PayloadConflictError, match="'order-17' already stands for another payload"):
                effects.perform(Charge, payload=ChargePayload("c1", 1001), key="order-17")
        assert len(said.sends) == 1

    def test_another_requester_joins_with_a_receipt(self):
        """Whoever asks for it becomes a requester, and cannot approve it."""
        with provider_says(Charge, effects.Applied(1, "ch_1")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
            effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="you", on_behalf_of="them")
        assert [actor["id"] for actor in row_of(outcome).requesters] == ["me", "you", "them"]
        assert events() == ["record", "permit", "complete", "join"]

    @pytest.mark.parametrize("key", [None, "", "k" * 256, "a\x00b", "a\ud800b", 17])
    def test_a_key_is_required(self, key):
        """Outside of a request a key is a text that can be stored; nothing else is recorded."""
        with pytest.raises(KeyRequiredError):
            effects.perform(Charge, payload=PAYLOAD, key=key)
        assert not Execution.objects.exists()

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            ({"customer": "c1", "amount": 1.5}, "$.amount"),
            ({"customer": "c1", "amount": float("nan")}, "$.amount"),
            ({"customer": "c1", "amount": 2**60}, "$.amount"),
            ({"customer": "c1", "amount": "1000"}, "$.amount"),
            ({"customer": "c1"}, "$"),
            ({"customer": "c1", "amount": 1, 2: 3}, "$"),
        ],
    )
    def test_a_payload_that_cannot_be_kept_exactly_is_refused(self, payload, path):
        """The error names the value, and nothing is recorded."""
        with pytest.raises(PayloadError) as caught:
            effects.perform(Charge, payload=payload, key="order-17")
        assert caught.value.path.startswith(path)
        assert not Execution.objects.exists()

    def test_the_provider_key_is_the_same_over_retries(self):
        """Every attempt of one execution is sent under one key."""
        with provider_says(Charge, effects.NotNow(), effects.NotSent(), effects.Applied()) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            for _ in range(2):
                time_passes(timedelta(minutes=1))
                run_due()
        assert [permit.number for _, permit in said.sends] == [1, 2, 3]
        assert len({permit.provider_key for _, permit in said.sends} | {Execution.objects.get().provider_key}) == 1

    def test_provider_keys_differ_by_all_that_makes_an_occurrence(self):
        """Tenant, provider, operation, key and generation each make another provider key, and no row's id does."""
        charge, plain = Charge(), Plain()
        keys = {
            provider_key_of(charge, "", "order-17"),
            provider_key_of(charge, "t", "order-17"),
            provider_key_of(plain, "", "order-17"),
            provider_key_of(charge, "", "order-18"),
            provider_key_of(charge, "", "order-17", 2),
            provider_key_of(type("Elsewhere", (Charge,), {"provider": "bank/other"})(), "", "order-17"),
        }
        assert len(keys) == 6
        assert provider_key_of(charge, "", "order-17") == provider_key_of(Charge(), "", "order-17")

    def test_tenants_do_not_meet(self):
        """The same key of two tenants is two occurrences."""
        with provider_says(Charge, effects.Applied()) as said:
            for tenant in ("a", "b"):
                effects.perform(Charge, payload=PAYLOAD, key="order-17", tenant=tenant)
        assert len({permit.provider_key for _, permit in said.sends}) == 2

    def test_a_renamed_operation_meets_what_it_recorded_before(self):
        """Keys are derived from the oldest name: a retry after the renaming is not a second charge."""
        old = type("Old", (Plain,), {"operation": "bank.old_name"})()
        assert provider_key_of(Renamed(), "", "order-17") == provider_key_of(old, "", "order-17")
        with provider_says(Renamed, effects.Applied(1, "ch_1")) as said:
            first = effects.perform(Renamed, payload=PAYLOAD, key="order-17")
            assert row_of(first).binding == binding_of("", "bank.old_name", "order-17")
            Execution.objects.update(operation="bank.old_name")
            again = effects.perform(Renamed, payload=PAYLOAD, key="order-17")
        assert again.ref == first.ref
        assert len(said.sends) == 1


class TestPolicy:
    """Code that was declared otherwise does not touch unsettled rows."""

    def test_a_changed_safety_version(self, monkeypatch):
        """Neither a caller nor a worker goes on, and a settled execution is still returned."""
        with provider_says(Charge, effects.NotNow(), effects.Applied(1)) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            with monkeypatch.context() as patch:
                patch.setattr(Charge, "safety_version", 2)
                with pytest.raises(PolicyChangedError, match="safety_version 1"):
                    effects.perform(Charge, payload=PAYLOAD, key="order-17")
                with pytest.raises(PolicyChangedError):
                    run(row_of(outcome).pk)
            assert len(said.sends) == 1
            run_due()
            monkeypatch.setattr(Charge, "safety_version", 2)
            assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1

    def test_a_changed_provider(self, monkeypatch):
        """An execution recorded for one account is never sent to another one, nor looked up there."""
        with provider_says(Charge, TimeoutError(), look_up=effects.Absent()) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            monkeypatch.setattr(Charge, "provider", "bank/other")
            with pytest.raises(PolicyChangedError, match="'bank/acct_test'"):
                effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(hours=1))
            run_due()
        assert said.look_ups == []
        assert row_of(outcome).state == "uncertain"

    @pytest.mark.parametrize(
        ("name", "value"), [("retry", effects.Retry(attempts=9)), ("lookup", effects.Authoritative()), ("repeatable", True)]
    )  # fmt: skip
    def test_changed_terms_are_named(self, monkeypatch, name, value):
        """Whoever asks again under other terms is told which; the row goes on under its own."""
        with provider_says(Charge, effects.NotNow(), effects.Applied(1)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            monkeypatch.setattr(Charge, name, value)
            with pytest.raises(PolicyChangedError, match=name):
                effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            run_due()
        assert row_of(outcome).state == "completed"

    def test_a_caller_who_demands_an_approval_is_not_sent_without_one(self, django_user_model):
        """A due execution that nobody had to approve is not sent on by a caller who asks for an approval."""
        django_user_model.objects.create_superuser("approver", password="x")
        with provider_says(Charge, effects.NotNow(), effects.Applied(1)) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
            time_passes(timedelta(minutes=1))
            with pytest.raises(PolicyChangedError, match="approval"):
                effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me", require_approval=True)
        assert len(said.sends) == 1

    def test_a_rule_that_is_gone_is_kept_by_the_row(self, django_user_model, monkeypatch):
        """A deploy that drops the rule does not free what waits for people."""
        django_user_model.objects.create_superuser("approver", password="x")
        with provider_says(Ruled, effects.Applied(1)) as said:
            effects.perform(Ruled, payload=PAYLOAD, key="order-17", requested_by="me")
            monkeypatch.setattr(Ruled, "rule", None)
            assert isinstance(
                effects.perform(Ruled, payload=PAYLOAD, key="order-17", requested_by="me"), effects.AwaitingApproval
            )
        assert said.sends == []

    def test_a_newer_payload_version_is_compared_after_its_upgrade(self, monkeypatch):
        """The same contents in a newer shape are the same payload."""
        with provider_says(Opaque, effects.Applied(1)):
            first = effects.perform(Opaque, payload={"sum": 5}, key="order-17")
            monkeypatch.setattr(Opaque, "payload_version", 2)
            monkeypatch.setattr(Opaque, "upgrade", lambda self, payload, version: {"amount": payload["sum"]})
            assert effects.perform(Opaque, payload={"amount": 5}, key="order-17") == first
            with pytest.raises(PayloadConflictError):
                effects.perform(Opaque, payload={"amount": 6}, key="order-17")


class TestPreconditions:
    """Asked outside of any transaction, just before the permit."""

    @pytest.fixture
    def says(self, monkeypatch):
        def answers(*answers):
            left = list(answers)

            def precondition(self, context):
                assert not connection.in_atomic_block or connection.atomic_blocks[-1]._from_testcase
                answer = left.pop(0) if len(left) > 1 else left[0]
                if isinstance(answer, Exception):
                    raise answer
                return answer

            monkeypatch.setattr(Conditional, "precondition", precondition)

        return answers

    def test_the_token_reaches_send(self, says):
        """What the precondition learned is what `send` is given."""
        says(effects.Proceed("etag-1"))
        with provider_says(Conditional, effects.Applied()) as said:
            effects.perform(Conditional, payload=PAYLOAD, key="order-17")
        assert said.sends[0][0].token == "etag-1"

    @pytest.mark.parametrize(
        "answer", [effects.Refuse("sold\x00 out"), ValueError("broken"), None, effects.Later(30), True], ids=str
    )
    def test_a_refusal_is_never_sent(self, says, answer):
        """A precondition that refuses, raises or returns nonsense ends it as rejected."""
        says(answer)
        with provider_says(Conditional, effects.Applied()) as said:
            outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Rejected)
        assert outcome.reason == "precondition"
        assert said.sends == []

    def test_after_an_attempt_a_refusal_is_failed(self, says):
        """What was sent once, and refused by the provider, is failed and not rejected."""
        says(effects.Proceed(), effects.Refuse("sold out"))
        with provider_says(Conditional, effects.NotNow()):
            outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            run_due()
        assert (row_of(outcome).state, row_of(outcome).reason) == ("failed", "precondition")

    def test_later_is_asked_again(self, says):
        """Later moves the due time; then it is sent."""
        says(effects.Later(timedelta(hours=1)), effects.Later(timedelta(hours=1)), effects.Proceed())
        with provider_says(Conditional, effects.Applied()) as said:
            outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
            assert isinstance(outcome, effects.Pending)
            run_due()
            assert said.sends == []
            time_passes(timedelta(hours=2))
            run_due()
        assert row_of(outcome).state == "completed"

    def test_later_for_ever_is_refused(self, says, monkeypatch):
        """A precondition that never ends is bounded, and ends as rejected."""
        monkeypatch.setattr("effects.transitions.executions.MOST_POSTPONED", 3)
        says(effects.Later(timedelta(seconds=1)))
        with provider_says(Conditional, effects.Applied()) as said:
            outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
            for _ in range(4):
                time_passes(timedelta(minutes=1))
                run_due()
        assert row_of(outcome).state == "rejected"
        assert "postponed 3 times" in row_of(outcome).failure_message
        assert said.sends == []

    @pytest.mark.parametrize("answer", [effects.Refuse("sold out"), effects.Later(timedelta(hours=1))], ids=str)
    def test_doubt_is_neither_refused_nor_resent(self, says, answer, monkeypatch):
        """What may have happened is not ended by a precondition: it waits, or goes to a person."""
        says(effects.Proceed(), answer)
        with provider_says(Conditional, TimeoutError()) as said:
            outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            run_due()
        row = row_of(outcome)
        assert len(said.sends) == 1
        assert row.may_have_applied
        assert row.state == ("needs_intervention" if isinstance(answer, effects.Refuse) else "uncertain")


class TestTransactions:
    """No provider is called inside a transaction that could still be rolled back."""

    pytestmark = pytest.mark.django_db(transaction=True)

    @pytest.mark.parametrize("depth", [1, 2])
    def test_perform_in_atomic_is_refused_before_anything_is_written(self, depth):
        """The message names perform_later."""
        with provider_says(Charge, effects.Applied()) as said, transaction.atomic():
            with transaction.atomic() if depth == 2 else transaction.atomic(savepoint=False):
                with pytest.raises(OpenTransactionError, match=r"perform\(Charge\).*effects\.perform_later"):
                    effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert not Execution.objects.exists()
        assert said.sends == []

    def test_perform_under_atomic_requests_is_refused(self):
        """The message names the decorator that exempts the view."""

        def view(request):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            return HttpResponse()

        connection.settings_dict["ATOMIC_REQUESTS"] = True
        try:
            wrapped = BaseHandler().make_view_atomic(view)
            with pytest.raises(OpenTransactionError, match="non_atomic_requests"):
                wrapped(RequestFactory().post("/"))
        finally:
            connection.settings_dict["ATOMIC_REQUESTS"] = False
        assert not Execution.objects.exists()

    def test_perform_later_commits_with_the_callers_rows(self, django_user_model):
        """It is there after the commit, and a sweep sends it."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            with transaction.atomic():
                django_user_model.objects.create(username="new")
                outcome = effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
                assert isinstance(outcome, effects.Pending)
                assert said.sends == []
            run_due()
        assert row_of(outcome).state == "completed"
        assert len(said.sends) == 1

    def test_perform_later_rolls_back_with_the_callers_rows(self, django_user_model, settings):
        """Neither the row nor the hint survives."""
        hints = []
        settings.EFFECTS = {"DISPATCH": hints.append}
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            django_user_model.objects.create(username="new")
            effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
            raise ZeroDivisionError
        assert not Execution.objects.exists()
        assert hints == []

    def test_perform_later_hints_after_the_commit(self, settings):
        """The worker is told once the row can be seen."""
        hints = []
        settings.EFFECTS = {"DISPATCH": hints.append}
        with transaction.atomic():
            outcome = effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
            assert hints == []
        assert hints == [outcome.ref]

    def test_perform_later_in_a_hook_joins_the_settling(self, monkeypatch):
        """A hook may record the next effect; it commits with the outcome that caused it."""
        monkeypatch.setattr(
            Charge, "settled", lambda self, context, outcome: effects.perform_later(Plain, payload=PAYLOAD, key="next")
        )
        with provider_says(Charge, effects.Applied(1)), provider_says(Plain, effects.Applied(2)):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert Execution.objects.get(key="next").state == "pending"
            run_due()
        assert Execution.objects.get(key="next").state == "completed"

    def test_perform_in_a_hook_is_refused(self, monkeypatch, caplog):
        """A provider call inside of the settling transaction is an error of the hook; the outcome stands."""
        monkeypatch.setattr(
            Charge, "settled", lambda self, context, outcome: effects.perform(Plain, payload=PAYLOAD, key="next")
        )
        with provider_says(Charge, effects.Applied(1)), provider_says(Plain, effects.Applied(2)) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.require() == 1
        assert said.sends == []
        assert "OpenTransactionError" in row_of(outcome).hook_error

    def test_a_framework_retry_meets_the_first_attempt(self):
        """Code that is run again after the call, by a retry of whoever called it, sends nothing again."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            for _ in range(2):
                assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1
        assert len(said.sends) == 1

    def test_the_record_is_committed_when_the_provider_is_called(self):
        """Another connection sees the open attempt while the call is under way."""
        seen = []

        def look() -> None:
            with second_connection() as second:
                seen.append(second.execute("SELECT state, open_attempts FROM effects_execution").fetchone())

        with provider_says(Charge, effects.Applied(1)) as said:
            said.sends = OnSend(look)
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert seen == [("executing", 1)]


class TestDoubt:
    """From doubt to an outcome, without a person."""

    def test_found(self):
        """A look-up before the barrier that finds it is believed; an absence before it is not."""
        with provider_says(Charge, TimeoutError(), look_up=[effects.Absent(), effects.Found("ch_1", {"id": 1})]) as said:
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
