"""Stories of approvals: a person's yes to one send, spent in the step that records the attempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

import effects
from effects.models import Approval, Attempt, Execution
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from effects.testing.faults import Interrupted, interrupt_at
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Ruled, RuledBlind
from tests.core.people import PAYLOAD, approve, asked, live, person
from tests.core.racing import second_connection, together
from tests.scenarios.bank import Ledger
from tests.scenarios.times import AFTER_LEASE, AFTER_QUIET, DAY

pytestmark = pytest.mark.django_db
DONE = effects.Applied({"id": "tx_1"}, "tx_1")


@pytest.fixture
def bob(db: None) -> User:
    """Who approves."""
    user: User = person("bob")
    return user


@pytest.fixture
def ann(db: None) -> User:
    """Who asks."""
    user: User = person("ann", approver=False)
    return user


def again(row: Execution) -> Execution:
    """Return the row as it is now."""
    return Execution.objects.get(pk=row.pk)


def test_before_the_spend_a_refusal_costs_nothing(ann: User, bob: User) -> None:
    """Approved too long ago: nothing is spent, nothing is attempted, nobody is called."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    time_passes(DAY)
    with provider_says(Approved, DONE) as said:
        background.run(row.pk)
    approval = Approval.objects.get()
    assert (approval.state, approval.spent_at) == ("lapsed", None)
    assert (said.sends, Attempt.objects.count(), again(row).state) == ([], 0, "rejected")


@pytest.mark.django_db(transaction=True)
def test_spent_and_recorded_before_the_provider_is_called() -> None:
    """Whoever looks from outside while the provider works sees an open attempt and a spent approval."""
    ann, bob = person("ann", approver=False), person("bob")
    row = asked(Approved, by=ann)
    approve(row, bob)
    seen: list[Any] = []

    def look_from_outside(context: Any, permit: Any) -> effects.Applied:
        with second_connection() as second:
            sql = (
                "SELECT e.state, a.outcome, p.state FROM effects_execution e JOIN effects_attempt a ON "
                "a.execution_id = e.id JOIN effects_approval p ON p.id = a.approval_id"
            )
            seen.extend(second.execute(sql).fetchall())
        return DONE

    with provider_says(Approved, look_from_outside):
        background.run(row.pk)
    assert seen == [("executing", "open", "spent")]


@pytest.mark.django_db(transaction=True)
def test_two_executes_of_one_approval() -> None:
    """One send, one attempt, one spend; the other one changes nothing."""
    ann, bob = person("ann", approver=False), person("bob")
    row = asked(Approved, by=ann)
    approve(row, bob)
    with provider_says(Approved, DONE) as said:
        results = together(lambda: background.run(row.pk), lambda: background.run(row.pk))
    assert not [result for result in results if isinstance(result, Exception)], results
    assert (len(said.sends), Attempt.objects.count(), Approval.objects.get().state) == (1, 1, "spent")


@pytest.mark.parametrize(
    ("error", "state"),
    [(effects.Declined("no"), "failed"), (TimeoutError("no answer"), "uncertain"), (KeyError("bug"), "uncertain")],
)
def test_after_the_spend_an_error_is_a_record_and_no_invitation(
    ann: User, bob: User, error: Exception, state: str
) -> None:
    """The caller gets what is known, not an exception, and nothing is sent again on the spent yes."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    with provider_says(Approved, error) as said:
        assert background.run(row.pk).state == state
        for _ in range(3):
            background.run(row.pk)
            effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    assert len(said.sends) == 1
    assert Approval.objects.get().state == "spent"
    assert Attempt.objects.get().message or Attempt.objects.get().failure_code


def test_a_crash_after_the_spend_stays_what_it_is(ann: User, bob: User, ledger: Ledger) -> None:
    """Nobody knows whether the bytes arrived, so nobody says; the look-up does, and the yes stays spent."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    with interrupt_at("send.replied"), pytest.raises(Interrupted):
        background.run(row.pk)
    assert (again(row).state, Approval.objects.get().state) == ("executing", "spent")
    time_passes(AFTER_LEASE)
    run_due()
    assert (again(row).state, len(ledger.asked)) == ("completed", 1)


def test_a_crash_before_the_permit_is_committed_spends_nothing(ann: User, bob: User, ledger: Ledger) -> None:
    """The yes and the attempt are one commit: neither is there, and the next worker sends."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    with interrupt_at("sending_an_effect.before_commit"), pytest.raises(Interrupted):
        background.run(row.pk)
    assert (Approval.objects.get().state, Attempt.objects.count(), ledger.asked) == ("granted", 0, [])
    run_due()
    assert (again(row).state, len(ledger.asked)) == ("completed", 1)


def test_proven_absent_it_takes_a_new_yes_under_the_same_provider_key(ann: User, bob: User, ledger: Ledger) -> None:
    """A key that the provider deduplicates makes a retry safe for the provider; a person makes it legitimate."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    ledger.refuses = TimeoutError("the request never arrived")
    run_due()
    time_passes(AFTER_QUIET)
    run_due()
    assert (again(row).state, len(ledger.asked)) == ("awaiting_approval", 1)
    approve(row, bob)
    run_due()
    assert (again(row).state, len(ledger.asked), len(set(ledger.asked))) == ("completed", 2, 1)
    assert Approval.objects.filter(state="spent").count() == 2


def test_deduplication_is_no_licence(ann: User, bob: User) -> None:
    """Even a rule that covers retries is worth nothing while one of its sends may have happened."""
    row = asked(RuledBlind, by=ann)
    approve(row, bob)
    with provider_says(RuledBlind, TimeoutError("no answer")) as said:
        for _ in range(4):
            run_due()
            time_passes(timedelta(minutes=5))
    assert (len(said.sends), again(row).state) == (1, "needs_intervention")


def test_what_was_approved_is_what_is_sent(ann: User, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The price behind an id changed after the yes: nothing is sent, and people are shown the new one."""
    row = asked(Ruled, by=ann)
    shown = live(row).digest
    approve(row, bob)
    monkeypatch.setattr(Ruled, "price", "99.00")
    with provider_says(Ruled, DONE) as said:
        run_due()
    assert (said.sends, again(row).state) == ([], "awaiting_approval")
    with pytest.raises(exceptions.EffectsError):
        effects.grant(row.pk, by=bob, digest=shown)
    assert live(row).digest != shown


def test_expiry_and_window_are_one_reading_of_one_clock(ann: User, bob: User) -> None:
    """Past its use-by it has lapsed, although its window is open: both are compared with one instant."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    use_by = Approval.objects.get().use_by
    Approval.objects.update(not_before=use_by - 3 * DAY, use_by=use_by - DAY)
    with provider_says(Approved, DONE) as said:
        background.run(row.pk)
    assert (said.sends, Approval.objects.get().state, Approval.objects.get().spent_at) == ([], "lapsed", None)


def test_nobody_grants_their_own_wish(ann: User, bob: User) -> None:
    """Not as the requester, and not as the one it is done for."""
    eve = person("eve")
    row = asked(Approved, by=ann, on_behalf_of=eve)
    for who in (ann, eve):
        with pytest.raises(exceptions.NotEntitledError):
            approve(row, who)
    assert approve(row, bob).state == "pending"
