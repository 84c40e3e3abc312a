"""Performing a known key that is not due: its outcome is returned, and nothing is asked, counted or moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

import effects
from effects import transitions
from effects.models import Execution
from effects.testing import provider_says, time_passes
from tests.core.declared import Charge, Conditional
from tests.core.people import PAYLOAD, approve, asked, person
from tests.core.racing import OnSend

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def precondition(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[str]]:
    """Let the precondition of `Conditional` say something; return the keys that it was asked about."""
    about: list[str] = []

    def says(answer: Any) -> list[str]:
        about.clear()
        monkeypatch.setattr(Conditional, "precondition", lambda self, context: about.append(context.key) or answer)
        return about

    says(effects.Proceed())
    return says


def postponed(says: Any) -> Execution:
    says(effects.Later(HOUR))
    effects.perform(Conditional, payload=PAYLOAD, key="k1", requested_by="ann")
    return Execution.objects.get()


def refused_for_now(says: Any) -> Execution:
    with provider_says(Conditional, effects.NotNow("busy", retry_after=HOUR)):
        effects.perform(Conditional, payload=PAYLOAD, key="k1", requested_by="ann")
    return Execution.objects.get()


def approved_for_later(says: Any) -> Execution:
    bob, ann = person("bob"), person("ann", approver=False)
    with pytest.MonkeyPatch.context() as patch:
        rule = effects.ApprovalRule(approvers="effects.approve_execution", not_before=timezone.now() + HOUR)
        patch.setattr(Conditional, "approval", lambda self, context: rule)
        row = asked(Conditional, by=ann)
    approve(row, bob)
    return Execution.objects.get()


def waiting_for_people(says: Any) -> Execution:
    person("bob")
    asked(Conditional, by=person("ann", approver=False), require_approval=True)
    return Execution.objects.get()


def in_doubt(says: Any) -> Execution:
    with provider_says(Conditional, TimeoutError()):
        effects.perform(Conditional, payload=PAYLOAD, key="k1", requested_by="ann")
    return Execution.objects.get()


def a_persons(says: Any) -> Execution:
    row = in_doubt(says)
    Execution.objects.filter(pk=row.pk).update(state="needs_intervention", due_at=None)
    return Execution.objects.get()


def completed(says: Any) -> Execution:
    with provider_says(Conditional, effects.Applied(1, "n1")):
        effects.perform(Conditional, payload=PAYLOAD, key="k1", requested_by="ann")
    return Execution.objects.get()


def failed(says: Any) -> Execution:
    with provider_says(Conditional, effects.Declined("no")):
        effects.perform(Conditional, payload=PAYLOAD, key="k1", requested_by="ann")
    return Execution.objects.get()


def executing(says: Any) -> Execution:
    row = refused_for_now(says)
    time_passes(2 * HOUR)
    transitions.permit(row.pk, attempt=row.pk, started=0.0, summary=row.summary)
    return Execution.objects.get()


MET = [
    postponed, refused_for_now, approved_for_later, waiting_for_people, in_doubt, a_persons, completed, failed,
    executing,
]  # fmt: skip


def by_perform(**options: Any) -> effects.Outcome:
    return effects.perform(Conditional, payload=PAYLOAD, key="k1", **options)


def by_sending(**options: Any) -> effects.Outcome:
    with effects.sending(Conditional, payload=PAYLOAD, key="k1", **options) as block:
        assert block.permit is None
    return block.outcome


def by_perform_later(**options: Any) -> effects.Outcome:
    return effects.perform_later(Conditional, payload=PAYLOAD, key="k1", **options)


def by_aperform(**options: Any) -> effects.Outcome:
    return async_to_sync(effects.aperform)(Conditional, payload=PAYLOAD, key="k1", **options)


@pytest.mark.parametrize("answer", [effects.Refuse("sold out"), effects.Later(HOUR * 24), ValueError("bug")], ids=repr)
@pytest.mark.parametrize("again", [by_perform, by_sending, by_perform_later, by_aperform])
@pytest.mark.parametrize("met", MET)
def test_a_known_key_that_is_not_due_asks_nothing(met: Any, again: Any, answer: Any, precondition: Any) -> None:
    """Whatever the precondition would say: state, due time, receipts and approval stay as they are."""
    row = met(precondition)
    about = precondition(answer)
    requested_by = {"requested_by": "ann"} if not row.requesters or row.requesters[0]["id"] == "ann" else {}
    if row.requesters and not requested_by:
        from django.contrib.auth import get_user_model

        requested_by = {"requested_by": get_user_model().objects.get(username="ann")}
    with provider_says(Conditional) as said:
        for _ in range(3):
            outcome = again(**requested_by)
    after = Execution.objects.get()
    assert (about, said.sends) == ([], [])
    assert str(outcome.state) == row.state
    for column in ("state", "reason", "due_at", "receipt_count", "revision", "attempts"):
        assert getattr(after, column) == getattr(row, column), column
    assert list(after.approvals.values_list("state")) == list(row.approvals.values_list("state"))


def test_a_known_key_that_is_due_is_asked_once_and_sent(precondition: Any) -> None:
    """What was postponed goes on once its time has come."""
    postponed(precondition)
    about = precondition(effects.Proceed())
    time_passes(2 * HOUR)
    with provider_says(Conditional, effects.Applied(1, "n1")):
        outcome = by_perform(requested_by="ann")
    assert (str(outcome.state), about) == ("completed", ["k1"])


def test_a_hundred_early_retries_are_no_hundred_postponements(precondition: Any) -> None:
    """A client that retries in seconds ends nothing."""
    row = postponed(precondition)
    for _ in range(101):
        by_perform(requested_by="ann")
    after = Execution.objects.get()
    assert (after.state, after.due_at, after.receipt_count) == ("pending", row.due_at, row.receipt_count)


def test_a_successor_is_fresh_and_repeated_it_is_known(precondition: Any) -> None:
    """What supersedes is asked about once, when it is made."""
    row = failed(precondition)
    about = precondition(effects.Later(HOUR))
    first = by_perform(supersede=row.pk, requested_by="ann")
    asked_for_it = len(about)
    assert asked_for_it >= 1
    again = by_perform(supersede=row.pk, requested_by="ann")
    assert (again.ref, len(about)) == (first.ref, asked_for_it)


def test_what_was_postponed_meanwhile_is_neither_postponed_again_nor_refused() -> None:
    """Two that asked at once: the one whose answer comes late changes nothing."""
    outcome = effects.perform_later(Charge, payload=PAYLOAD, key="k1")
    first = transitions.postpone_send(Execution.objects.get().pk, HOUR, "later")
    transitions.postpone_send(Execution.objects.get().pk, 2 * HOUR, "later")
    transitions.refuse(Execution.objects.get().pk, "no")
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.due_at, row.receipt_count) == ("pending", first.due_at, first.receipt_count)


def test_no_other_caller_asks_while_it_is_sent(precondition: Any) -> None:
    """A caller who meets the open attempt returns at once."""
    about = precondition(effects.Proceed())
    seen: list[Any] = []
    with provider_says(Conditional, effects.Applied(1, "n1")) as said:
        said.sends = OnSend(lambda: seen.append(by_perform(requested_by="ann")))
        by_perform(requested_by="ann")
    assert (len(about), [str(outcome.state) for outcome in seen]) == (1, ["executing"])
