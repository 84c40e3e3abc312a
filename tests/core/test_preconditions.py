"""Preconditions are asked outside of any transaction, just before the permit."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from django.db import connection

import effects
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge, ChargePayload, Conditional
from tests.core.reading import row_of

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db


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
        monkeypatch.setattr("effects.transitions.deferrals.MOST_POSTPONED", 3)
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

    def test_later_than_the_calendar_is_cut(self, says):
        """However long it says: the row gets a due time, and nobody an OverflowError."""
        says(effects.Later(timedelta.max))
        outcome = effects.perform(Conditional, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Pending)

    def test_a_time_limit_within_it_is_no_refusal(self, says):
        """The process's time is up, which says nothing about the order; the row backs off, and is sent later."""
        says(SoftTimeLimitExceeded(), SoftTimeLimitExceeded(), effects.Proceed())
        outcome = effects.perform_later(Conditional, payload=PAYLOAD, key="order-17")
        with pytest.raises(SoftTimeLimitExceeded):
            background.run(outcome.ref)
        assert (row_of(outcome).state, row_of(outcome).trouble_count) == ("pending", 1)
        time_passes(timedelta(minutes=1))
        with pytest.raises(SoftTimeLimitExceeded):
            run_due()
        time_passes(timedelta(minutes=2))
        with provider_says(Conditional, effects.Applied()):
            run_due()
        assert (row_of(outcome).state, row_of(outcome).trouble_count) == ("completed", 0)

    def test_it_ends_no_row_of_another_safety_version(self, says, monkeypatch):
        """What newer code would refuse, older code may have good reason to send."""
        outcome = effects.perform_later(Conditional, payload=PAYLOAD, key="order-17")
        monkeypatch.setattr(Conditional, "safety_version", 2)
        says(effects.Refuse("unknown to me"))
        run_due()
        assert (row_of(outcome).state, row_of(outcome).trouble_count) == ("pending", 1)


class SoftTimeLimitExceeded(Exception):  # noqa: N818 - Celery's, which is known by its name
    """Celery's signal that a task's time is up."""


@pytest.mark.parametrize("failure", [TimeoutError, SoftTimeLimitExceeded])
def test_a_time_limit_within_a_look_up_goes_on(failure):
    """It spends nothing of the budget, the row backs off, and the worker ends as it was told to."""
    outcome = effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
    with provider_says(Charge, failure(), look_up=SoftTimeLimitExceeded()):
        with contextlib.suppress(SoftTimeLimitExceeded):
            background.run(outcome.ref)
        for _ in range(2):
            with pytest.raises(SoftTimeLimitExceeded):
                background.look_up(outcome.ref)
            time_passes(timedelta(hours=1))
    row = row_of(outcome)
    assert (row.state, row.lookups_spent, row.trouble_count) == ("uncertain", 0, 2)


def test_a_time_limit_within_a_send_delays_no_look_up():
    """Its doubt is recorded; that is all there is to say."""
    outcome = effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
    with provider_says(Charge, SoftTimeLimitExceeded()), pytest.raises(SoftTimeLimitExceeded):
        background.run(outcome.ref)
    row = row_of(outcome)
    assert (row.state, row.reason, row.trouble_count, row.swept_until) == ("uncertain", "interrupted", 0, None)
