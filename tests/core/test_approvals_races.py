"""Approvals that race: the row's lock decides, and each race is shown with the lock taken away."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

import effects
from effects import _locks, exceptions, runner, transitions
from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.testing import provider_says
from effects.types import monotonic
from tests.core.declared import Approved
from tests.core.people import approve, asked, live, person
from tests.core.racing import at_once, beside, remove_locks, until_waiting

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
    return [lambda who=name: effects.grant(row.pk, by=users.get(username=who), digest=digest) for name in ("bob", "carl")]


def test_two_approvers_at_one_instant_make_one_licence(row: Execution) -> None:
    """With a quorum of one the first lock grants; the other person gets a plain message."""
    results = at_once(*votes_of(row))
    refused = [result for result in results if isinstance(result, exceptions.ApprovalError)]
    assert len(refused) == 1
    assert "granted already" in str(refused[0])
    assert ApprovalVote.objects.count() == 1
    assert Receipt.objects.filter(event="grant").count() == 1
    with provider_says(Approved, effects.Applied()) as said:
        at_once(lambda: runner.run(row.pk), lambda: runner.run(row.pk))
    assert len(said.sends) == 1


def test_without_the_lock_both_would_grant(row: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: both read `requested` and vote; only the database's unique receipts stop the second grant."""
    remove_locks(monkeypatch, 2)
    results = at_once(*votes_of(row))
    assert [type(result) for result in results if isinstance(result, Exception)] == [IntegrityError]


def test_a_double_click_in_two_tabs_is_one_vote(row: Execution) -> None:
    """Both clicks of one person at one instant return the same."""
    bob = votes_of(row)[0]
    first, second = at_once(bob, bob)
    assert first == second
    assert ApprovalVote.objects.count() == 1


def test_expired_while_waiting_for_the_lock_is_refused(row: Execution) -> None:
    """The clock is read after the lock was obtained, however early the click was."""
    vote, approval = votes_of(row)[0], live(row)
    with beside() as start:
        with transaction.atomic():
            _locks.lock_execution(row.pk)
            clicked = start(vote)
            until_waiting()
            # it expires now, while the click waits
            Approval.objects.filter(pk=approval.pk).update(decide_by=_locks.now())
        assert "expired" in str(clicked.result(20))
    assert Execution.objects.get().state == "awaiting_approval"


def test_a_clock_read_before_the_lock_would_accept_it(row: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: with the statement's start as its clock, the late click grants."""
    vote, approval = votes_of(row)[0], live(row)

    def lock(model: Any, column: str, value: object, also: str = "") -> Any:
        sql = (
            f"SELECT *, statement_timestamp() AS locked_at, pg_current_xact_id()::text AS xid "
            f"FROM {model._meta.db_table} WHERE {column} = %s {also} FOR NO KEY UPDATE"
        )
        return model._default_manager.raw(sql, [str(value)])[0]

    with beside() as start:
        with transaction.atomic():
            _locks.lock_approval(approval.pk)
            monkeypatch.setattr(_locks, "_lock", lock)
            clicked = start(vote)
            until_waiting()
            Approval.objects.filter(pk=approval.pk).update(decide_by=_locks.now())
        assert clicked.result(20).state == "pending"


def test_a_withdrawal_that_waits_for_the_permit_finds_it_spent(row: Execution) -> None:
    """The permit holds the row first: the withdrawal is refused, the send goes on."""
    bob = get_user_model().objects.get(username="bob")
    approve(row, bob)
    results = _race(row, first="permit")
    assert isinstance(results["withdraw"], exceptions.ApprovalError)
    assert results["permit"].permit is not None
    assert Approval.objects.get().state == "spent"


def test_a_permit_that_waits_for_the_withdrawal_is_refused(row: Execution) -> None:
    """The withdrawal holds the row first: no attempt is opened."""
    bob = get_user_model().objects.get(username="bob")
    approve(row, bob)
    results = _race(row, first="withdraw")
    assert results["withdraw"].state == "rejected"
    assert results["permit"].permit is None
    assert not Attempt.objects.exists()


def test_without_the_lock_both_would_win(row: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: both read `granted` and go on; only the database's unique receipts stop the second one."""
    approve(row, get_user_model().objects.get(username="bob"))
    remove_locks(monkeypatch, 2)
    results = at_once(lambda: _permit(row), lambda: effects.withdraw(row.pk, by="ann"))
    assert [type(result) for result in results if isinstance(result, Exception)] == [IntegrityError]


def _permit(row: Execution) -> Any:
    return transitions.permit(row.pk, attempt=new_id(), started=monotonic(), summary=row.summary)


def _race(row: Execution, *, first: str) -> dict[str, Any]:
    """Let permit and withdrawal queue for the row in that order."""
    calls = {"permit": lambda: _permit(row), "withdraw": lambda: effects.withdraw(row.pk, by="ann")}
    order = [first, *(name for name in calls if name != first)]
    with beside() as start:
        started = {}
        with transaction.atomic():
            _locks.lock_execution(row.pk)
            for waiting, name in enumerate(order, start=1):
                started[name] = start(calls[name])
                until_waiting(waiting)
        return {name: future.result(20) for name, future in started.items()}
