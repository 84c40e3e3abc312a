"""Approvals that race: the row's lock decides, and each race is shown with the lock taken away."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError

import effects
from effects import transitions
from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.runtime import background
from effects.testing import provider_says
from effects.vocabulary import exceptions
from effects.vocabulary.types import monotonic
from tests.core.declared import Approved
from tests.core.people import approve, asked, live, person
from tests.core.racing import PATIENCE, held, in_thread, together, wait_until_blocked
from tests.core.unlocked import read_clock_before_locks, remove_locks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def row() -> Execution:
    """An execution that ann asked for and that bob and carl may approve."""
    person("bob")
    person("carl")
    return asked(Approved, by=person("ann"))


def votes_of(row: Execution) -> list[Any]:
    """Return the clicks of both approvers, each on a page of its own."""
    digest = live(row).digest
    users = get_user_model().objects
    return [
        lambda who=name: effects.grant(row.pk, by=users.get(username=who), digest=digest) for name in ("bob", "carl")
    ]


def test_two_approvers_at_one_instant_make_one_licence(row: Execution) -> None:
    """With a quorum of one the first lock grants; the other person gets a plain message."""
    results = together(*votes_of(row))
    refused = [result for result in results if isinstance(result, exceptions.ApprovalError)]
    assert len(refused) == 1
    assert "granted already" in str(refused[0])
    assert ApprovalVote.objects.count() == 1
    assert Receipt.objects.filter(event="grant").count() == 1
    with provider_says(Approved, effects.Applied()) as said:
        together(lambda: background.run(row.pk), lambda: background.run(row.pk))
    assert len(said.sends) == 1


def test_without_the_lock_both_would_grant(row: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: both read `requested` and vote; only the database's unique receipts stop the second grant."""
    remove_locks(monkeypatch, 2, last="Approval")
    results = together(*votes_of(row))
    assert [type(result) for result in results if isinstance(result, Exception)] == [IntegrityError]


def test_a_double_click_in_two_tabs_is_one_vote(row: Execution) -> None:
    """Both clicks of one person at one instant return the same."""
    bob = votes_of(row)[0]
    first, second = together(bob, bob)
    assert first == second
    assert ApprovalVote.objects.count() == 1


def test_expired_while_waiting_for_the_lock_is_refused(row: Execution) -> None:
    """The clock is read after the lock was obtained, however early the click was."""
    assert "expired" in str(_click_that_waits_past_decide_by(row))
    assert Execution.objects.get().state == "awaiting_approval"


def test_a_clock_read_before_the_lock_would_accept_it(row: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: with the statement's start as its clock, the late click grants."""
    read_clock_before_locks(monkeypatch)
    assert _click_that_waits_past_decide_by(row).state == "pending"


def test_a_withdrawal_that_waits_for_the_permit_finds_it_spent(row: Execution) -> None:
    """The permit holds the row first: the withdrawal is refused, the send goes on."""
    withdrawn, permitted = _permit_and_withdraw(row, first="permit")
    assert isinstance(withdrawn, exceptions.ApprovalError)
    assert permitted.permit is not None
    assert Approval.objects.get().state == "spent"


def test_a_permit_that_waits_for_the_withdrawal_is_refused(row: Execution) -> None:
    """The withdrawal holds the row first: no attempt is opened."""
    withdrawn, permitted = _permit_and_withdraw(row, first="withdraw")
    assert withdrawn.state == "rejected"
    assert permitted.permit is None
    assert not Attempt.objects.exists()


def test_without_the_lock_both_would_win(row: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: both read `granted` and go on; only the database's unique receipts stop the second one."""
    approve(row, get_user_model().objects.get(username="bob"))
    remove_locks(monkeypatch, 2, last="Approval")
    results = together(lambda: _permit(row), lambda: effects.withdraw(row.pk, by="ann"))
    assert [type(result) for result in results if isinstance(result, Exception)] == [IntegrityError]


def _click_that_waits_past_decide_by(row: Execution) -> Any:
    """Click in time, wait for the approval's row, and get it when its time is over; return what came of it."""
    vote, approval = votes_of(row)[0], live(row)
    with held("effects_approval", approval.pk) as holder:
        thread, result = in_thread(vote)
        wait_until_blocked()
        holder.execute("UPDATE effects_approval SET decide_by = clock_timestamp() WHERE id = %s", [approval.pk])
    thread.join(PATIENCE)
    return result[0]


def _permit(row: Execution) -> Any:
    return transitions.permit(row.pk, attempt=new_id(), started=monotonic(), summary=row.summary)


def _permit_and_withdraw(row: Execution, *, first: str) -> tuple[Any, Any]:
    """Let permit and withdrawal queue for a granted row; return what came of the withdrawal and of the permit."""
    approve(row, get_user_model().objects.get(username="bob"))
    calls = {"permit": lambda: _permit(row), "withdraw": lambda: effects.withdraw(row.pk, by="ann")}
    started = {}
    with held("effects_execution", row.pk):
        for waiting, name in enumerate(sorted(calls, key=lambda name: name != first), start=1):
            started[name] = in_thread(calls[name])
            wait_until_blocked(waiting)
    for thread, _ in started.values():
        thread.join(PATIENCE)
    return started["withdraw"][1][0], started["permit"][1][0]
