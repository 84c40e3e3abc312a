"""How "not applied, try later" is repeated, and deadlines that pass before the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import effects
from effects.models import Attempt, Execution
from effects.runtime.background import run
from effects.signals import execution_changed
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import failures, types
from tests.core.declared import (
    Charge,
    ChargePayload,
    Deduplicated,
    Patient,
    Plain,
)
from tests.core.reading import events, row_of, run_again

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


def delay(outcome: effects.Outcome) -> timedelta:
    """Return how long after its newest attempt ended an execution is due."""
    row = row_of(outcome)
    newest = row.attempt_rows.order_by("-number").first()
    assert newest is not None
    return row.due_at - newest.ended_at


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

    @pytest.mark.parametrize(
        "wish", [timedelta(0), timedelta(days=-1), float("nan"), "soon", object()], ids=lambda wish: type(wish).__name__
    )
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
