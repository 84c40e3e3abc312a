"""Notices: told after the commit, at least once, never in the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection, transaction

import effects
from effects import transitions
from effects.models import Approval, Execution, PendingNotice
from effects.people.notices import Notice
from effects.runtime import background
from effects.sweeps import send_notices
from effects.sweeps._batches import AGAIN
from effects.testing import provider_says, run_due, time_passes
from effects.transitions import notices as ends
from tests.core.declared import Approved, Charge, Order
from tests.core.people import PAYLOAD, approve, asked, live, person

pytestmark = pytest.mark.django_db(transaction=True)
told: list[Notice] = []
failing: list[Exception] = []


def notify(notice: Notice) -> None:
    """What a project's NOTIFY is; it fails as often as a test says."""
    assert not connection.in_atomic_block
    told.append(notice)
    if failing:
        raise failing.pop()


@pytest.fixture(autouse=True)
def hears(settings: Any) -> Any:
    """Nothing was told yet, and this module's `notify` hears of everything."""
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": f"{__name__}.notify"}
    told.clear()
    failing.clear()
    yield told
    told.clear()
    failing.clear()


@pytest.fixture
def ann() -> Any:
    """Who asks."""
    return person("ann")


@pytest.fixture
def bob() -> Any:
    """Who approves."""
    return person("bob")


def heard() -> list[str]:
    """Do what is due, and return the events that were told since the last time, in order."""
    run_due()
    events = [str(notice.event) for notice in told]
    told.clear()
    return events


def test_the_entitled_are_told_of_a_request(ann: Any, bob: Any) -> None:
    """Not the requester, though she holds the permission; with all that a message needs."""
    carl = person("carl")
    row = asked(Approved, by=ann)
    run_due()
    (notice,) = told
    assert notice.event == "approval_requested"
    assert set(notice.people) == {bob, carl}
    assert [str(actor) for actor in notice.requesters] == ["ann"]
    assert (notice.execution.ref, notice.approval.digest) == (str(row.pk), live(row).digest)
    assert (notice.approval.missing, notice.approval.summary["amount"]) == (1, 1000)
    assert "It needs one more from" in notice.approval.outlook


def test_reminders_come_at_half_of_the_window_and_before_its_end(ann: Any, bob: Any) -> None:
    """Each once, and none for what was decided."""
    asked(Approved, by=ann)
    assert heard() == ["approval_requested"]
    time_passes(timedelta(days=3))
    assert heard() == []
    time_passes(timedelta(hours=13))
    assert heard() == ["approval_reminder"]
    time_passes(timedelta(days=3))
    assert heard() == ["approval_reminder"]
    time_passes(timedelta(days=1))
    assert heard() == ["approval_expired"]
    assert not PendingNotice.objects.exists()


def test_a_decided_approval_reminds_nobody(ann: Any, bob: Any) -> None:
    """What it would ask people to do was done."""
    row = asked(Approved, by=ann)
    effects.deny(row.pk, by=bob, digest=live(row).digest)
    assert heard() == ["approval_denied"]
    time_passes(timedelta(days=7))
    assert heard() == []
    assert not PendingNotice.objects.exists()


def test_who_has_voted_is_not_reminded(ann: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quorum of two only the others are asked."""
    carl = person("carl")
    monkeypatch.setattr(
        Approved, "approval", lambda self, context: effects.ApprovalRule("effects.approve_execution", quorum=2)
    )
    row = asked(Approved, by=ann)
    heard()
    approve(row, bob)
    time_passes(timedelta(days=4))
    run_due()
    (notice,) = told
    assert notice.people == (carl,)


def test_the_requesters_are_told_how_it_ended(ann: Any, bob: Any) -> None:
    """Granted, withdrawn, lapsed: those who asked, and all who joined."""
    service = person("service", approver=False)
    row = asked(Approved, by=service, on_behalf_of=ann)
    heard()
    approve(row, bob)
    time_passes(timedelta(days=2))
    with provider_says(Approved):
        run_due()
    assert [(str(notice.event), {user.get_username() for user in notice.people}) for notice in told] == [
        ("approval_granted", {"ann", "service"}),
        ("approval_lapsed", {"ann", "service"}),
    ]
    assert told[-1].execution.state == "rejected"
    other = asked(Approved, by=ann, key="k2")
    heard()
    effects.withdraw(other.pk, by=ann)
    assert heard() == ["approval_withdrawn"]


def test_something_in_doubt_calls_a_person(ann: Any) -> None:
    """Those who may resolve it."""
    chief = person("chief", approver=False)
    chief.user_permissions.add(Permission.objects.get(codename="resolve_execution"))
    with provider_says(Order, TimeoutError("t"), look_up=effects.Conflict("two of them")):
        effects.perform(Order, payload=PAYLOAD, key="k1", requested_by=ann)
        time_passes(timedelta(minutes=10))
        run_due()
    (notice,) = told
    assert (notice.event, notice.approval, notice.people) == ("needs_person", None, (chief,))


def test_what_was_resolved_before_it_was_told_calls_nobody(ann: Any) -> None:
    """A notice asks people only for what is still to be done."""
    with provider_says(Order, TimeoutError("t"), look_up=effects.Conflict("two of them")):
        ref = effects.perform(Order, payload=PAYLOAD, key="k1", requested_by=ann).ref
        time_passes(timedelta(minutes=10))
        row = background.look_up(Execution.objects.get(pk=ref).pk)
        effects.resolve(ref, decision="applied", revision=row.revision, by="olga", reason="seen", reference="ch_1")
    assert PendingNotice.objects.count() == 1
    assert heard() == []
    assert not PendingNotice.objects.exists()


def test_a_failure_stops_nothing_and_is_tried_again_under_the_same_key(ann: Any, bob: Any) -> None:
    """The approval stands, the error is kept and shown, and the next try has the same key."""
    failing.append(RuntimeError("no mail today"))
    row = asked(Approved, by=ann)
    run_due()
    pending = PendingNotice.objects.get(event="approval_requested")
    assert (pending.failures, pending.error) == (1, "RuntimeError: no mail today")
    assert approve(row, bob).state == "pending"
    failing.append(RuntimeError("no mail today"))
    run_due()
    time_passes(timedelta(minutes=1))
    run_due()
    granted = [notice.key for notice in told if notice.event == "approval_granted"]
    assert len(granted) == 2
    assert len(set(granted)) == 1


def test_a_process_that_dies_after_telling_tells_again(ann: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least once, and the key says that it is the same."""
    asked(Approved, by=ann)
    with monkeypatch.context() as died:
        died.setattr(transitions, "drop_notice", lambda notice_id: None)
        run_due()
    time_passes(timedelta(minutes=1))
    run_due()
    assert [notice.event for notice in told] == ["approval_requested"] * 2
    assert len({notice.key for notice in told}) == 1


def test_what_fails_for_ever_is_given_up(ann: Any, bob: Any) -> None:
    """After some three days, with an error in the log."""
    asked(Approved, by=ann)
    PendingNotice.objects.update(failures=ends.MOST_FAILURES - 1)
    failing.append(RuntimeError("no mail today"))
    assert heard() == ["approval_requested"]
    assert not PendingNotice.objects.filter(event="approval_requested").exists()


def test_what_rolled_back_is_not_told(ann: Any, bob: Any) -> None:
    """A notice is written in the commit that it tells of."""
    with transaction.atomic():
        effects.perform_later(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
        transaction.set_rollback(True)
    assert heard() == []


def test_a_function_that_cannot_be_imported_stops_no_decision(ann: Any, bob: Any, settings: Any) -> None:
    """The decision is made, and told once the setting is mended."""
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": "no.such.module"}
    row = asked(Approved, by=ann)
    assert approve(row, bob).state == "pending"
    assert heard() == []
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": notify}
    time_passes(timedelta(minutes=1))
    with provider_says(Approved, effects.Applied()):
        assert heard() == ["approval_granted"]


def test_without_a_function_nothing_is_written(ann: Any, bob: Any, settings: Any) -> None:
    """Who tells nobody pays nothing; what is left from before is dropped."""
    row = asked(Approved, by=ann)
    assert PendingNotice.objects.count() == 3
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": None}
    approve(row, bob)
    assert PendingNotice.objects.count() == 3
    assert heard() == []
    with provider_says(Charge, effects.Applied()):
        effects.perform(Charge, payload=PAYLOAD, key="k2")
    assert not PendingNotice.objects.filter(event="approval_requested").exists()
    assert Approval.objects.count() == 1


def test_one_whose_people_cannot_be_found_backs_off_too(ann: Any, bob: Any) -> None:
    """It is tried ever more rarely, and holds up no other, however small the batch."""
    row = asked(Approved, by=ann)
    asked(Approved, by=ann, key="k2")
    broken = live(row)
    Approval.objects.filter(pk=broken.pk).update(
        approvers="call:gone.people", rule={**broken.rule, "approvers": "call:gone.people"}
    )
    for _ in range(3):
        send_notices.run_once(1)
        time_passes(AGAIN)
    assert [notice.execution.key for notice in told] == ["k2"]
    assert PendingNotice.objects.get(execution=row, event="approval_requested").failures == 2
