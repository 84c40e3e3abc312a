"""Rows 11 to 13, 26 and 39 of the HTTP contract: the handler is gone, and how it ends then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

import effects
from effects.models import Approval, Request
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge
from tests.http import does
from tests.http.conftest import Sender
from tests.http.reading import body, code, state

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


def test_row_11_39_a_declared_view_runs_again_where_nothing_was_sent(send: Sender, in_thread: Any) -> None:
    """Once the lease is past its key is free; the first owner, if it lives after all, is not heard."""
    first = in_thread(send, "/declared/api/", do="hold")
    assert does.gate.entered.wait(10)
    time_passes(timedelta(minutes=2))
    second = send("/declared/api/", do="hold")
    assert (second.status_code, body(second)) == (200, {"n": 2})
    does.gate.opened.set()
    assert (first().status_code, code(first())) == (503, "execution_unavailable")
    assert send("/declared/api/", do="hold").content == second.content
    assert sorted(Request.objects.values_list("state", flat=True)) == ["answered", "released"]


def test_row_11_an_opaque_view_is_in_doubt(send: Sender, in_thread: Any) -> None:
    """It may have called out, so it never runs again by itself, and its late answer is not sent."""
    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    time_passes(timedelta(minutes=2))
    for _ in range(2):
        second = send("/opaque/api/", do="hold")
        assert (second.status_code, code(second)) == (409, "operation_uncertain")
        assert "Retry-After" not in second
    does.gate.opened.set()
    assert code(first()) == "operation_uncertain"
    assert len(does.calls) == 1


def test_row_12_the_owner_died_after_a_send(send: Sender, in_thread: Any) -> None:
    """Nobody knows until the look-up does; then `answer=` answers."""
    with provider_says(Charge, TimeoutError("t"), look_up=effects.Found("ch_1", {"id": "ch_1"})) as provider:
        first = in_thread(send, "/declared/api/", do="charge_then_hold")
        assert does.gate.entered.wait(10)
        time_passes(timedelta(minutes=2))
        second = send("/declared/api/", do="charge_then_hold")
        assert (second.status_code, code(second)) == (409, "operation_uncertain")
        assert "Retry-After" not in second
        assert body(second)["safe_new_key"] is False
        does.gate.opened.set()
        assert code(first()) == "operation_uncertain"
        run_due()
    third = send("/declared/api/", do="charge_then_hold")
    assert (third.status_code, body(third), third["Location"]) == (201, {"charged": {"id": "ch_1"}}, "/charges/1/")
    assert len(provider.sends) == len(does.calls) == 1


def test_the_owner_died_after_success(send: Sender, in_thread: Any) -> None:
    """The retry that finds the lease past gets the answer that `answer=` builds."""
    with provider_says(Charge, DONE):
        first = in_thread(send, "/declared/api/", do="charge_then_hold")
        assert does.gate.entered.wait(10)
        time_passes(timedelta(minutes=2))
        second = send("/declared/api/", do="charge_then_hold")
        does.gate.opened.set()
    assert (second.status_code, body(second)) == (201, {"charged": {"id": "ch_1"}})
    assert first().content == second.content


@pytest.mark.parametrize(("kind", "expected"), [("declared", "released"), ("opaque", "in_doubt")])
def test_row_26_an_interrupt_is_recorded(send: Sender, kind: str, expected: str) -> None:
    """SystemExit in a handler closes its request at once and goes on."""
    with pytest.raises(SystemExit):
        send(f"/{kind}/api/", do="exits", raises=True)
    assert state() == expected


def test_row_13_applied_after_all(send: Sender) -> None:
    """In doubt, then the answer that `answer=` builds."""
    with provider_says(Charge, TimeoutError("t"), look_up=effects.Found("ch_1", {"id": "ch_1"})):
        first = send("/declared/api/", do="charge")
        assert (first.status_code, code(first)) == (409, "operation_uncertain")
        assert state() == "waiting"
        run_due()
    second = send("/declared/api/", do="charge")
    assert (second.status_code, body(second)) == (201, {"charged": {"id": "ch_1"}})
    assert second["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [(effects.Found("ch_1"), "operation_result_unavailable"), (effects.ProvenFailed("no"), "operation_not_applied")],
)
def test_row_13_without_an_answer_of_the_view(send: Sender, verdict: Any, expected: str) -> None:
    """An opaque view has no `answer=`: the client learns how it ended, and that nothing runs again."""
    with provider_says(Charge, TimeoutError("t"), look_up=verdict):
        assert code(send("/opaque/api/", do="charge")) == "operation_uncertain"
        time_passes(timedelta(minutes=10))
        run_due()
    second = send("/opaque/api/", do="charge")
    assert (second.status_code, code(second)) == (409, expected)


def test_row_13_refused_by_people(send: Sender, approver: User) -> None:
    """202 while they decide, then operation_rejected."""
    first = send("/opaque/api/", do="ask")
    assert (first.status_code, code(first)) == (202, "operation_awaiting_approval")
    approval = Approval.objects.get()
    effects.deny(approval.execution_id, by=approver, digest=approval.digest)
    second = send("/opaque/api/", do="ask")
    assert (second.status_code, code(second)) == (409, "operation_rejected")
