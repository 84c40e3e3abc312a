"""Rows 43 to 51 of the HTTP contract: what nobody knows yet, and what is not told before it is known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

import effects
from effects.models import Approval, Execution, Request
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import DuplicatePerformError
from tests.core.declared import Approved, Charge, Plain
from tests.http import does
from tests.http.conftest import Sender
from tests.http.reading import body, code, state

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


@pytest.mark.parametrize(("do", "status"), [("calls_out_then_fails", 500), ("calls_out_then_500", 502)])
def test_row_43_an_opaque_view_never_calls_twice(send: Sender, do: str, status: int) -> None:
    """What it called by itself is in doubt after an error."""
    assert send("/opaque/api/", do=do).status_code == status
    for _ in range(2):
        assert code(send("/opaque/api/", do=do)) == "operation_uncertain"
    assert len(does.direct_calls) == 1


@pytest.mark.parametrize("do", ["ask", "ask_then_boom"])
def test_row_44_people_take_their_time(send: Sender, approver: User, do: str) -> None:
    """202 on each retry, never "not applied"; after the grant the answer of `answer=`."""
    first = send("/declared/api/", do=do)
    assert first.status_code == (500 if do == "ask_then_boom" else 202)
    time_passes(timedelta(hours=1))
    run_due()
    second = send("/declared/api/", do=do)
    assert (second.status_code, code(second)) == (202, "operation_awaiting_approval")
    assert second["Retry-After"] == "30"
    assert second["Location"] == body(second)["status_url"]
    approval = Approval.objects.get()
    with provider_says(Approved, DONE) as provider:
        effects.grant(approval.execution_id, by=approver, digest=approval.digest)
        run_due()
        run_due()
    third = send("/declared/api/", do=do)
    assert (third.status_code, body(third)) == (201, {"charged": {"id": "ch_1"}})
    assert len(provider.sends) == 1


def test_row_45_the_same_effect_twice_needs_keys(send: Sender) -> None:
    """An error, not a silent skip; the first one is known."""
    with provider_says(Charge, DONE) as provider, pytest.raises(DuplicatePerformError):
        send("/declared/api/", do="charge_twice", raises=True)
    assert len(provider.sends) == 1


def test_row_46_half_of_the_work_is_not_the_work(send: Sender) -> None:
    """Lost after the first of two effects, `answer=` says so and a person decides."""
    with provider_says(Charge, DONE):
        assert send("/two/", do="charge_plain_and_boom").status_code == 500
    run_due()
    assert code(send("/two/", do="charge_plain_and_boom")) == "operation_uncertain"
    assert state() == "in_doubt"


def test_row_48_perform_later_commits_with_the_rows(send: Sender) -> None:
    """Rows, intent and answer in one commit; the answer is not held back, and it is sent once."""
    first = send("/transactional/api/", do="later", name="a")
    assert (first.status_code, Execution.objects.get().state, Group.objects.count()) == (201, "pending", 1)
    assert send("/transactional/api/", do="later", name="a").content == first.content
    with provider_says(Charge, DONE) as provider:
        run_due()
    assert len(provider.sends) == 1


def test_row_49_safe_new_key(send: Sender) -> None:
    """True only where all that was performed has failed for good, in a view that calls out through `perform` alone."""
    with provider_says(Charge, effects.Declined("no funds")):
        first = send("/declared/api/", do="charge")
        assert first.status_code == 402
        send("/opaque/api/", "o", do="charge")
    safe = {
        row.key: body(send(f"/operations/{row.pk}/", None, method="GET"))["safe_new_key"]
        for row in Request.objects.all()
    }
    assert safe == {"k": True, "o": False}
    with provider_says(Charge, TimeoutError("t")):
        assert body(send("/declared/api/", "u", do="charge"))["safe_new_key"] is False


@pytest.mark.parametrize("told", [DONE, effects.Declined("no")])
def test_require_in_a_view_with_one_effect(send: Sender, told: Any) -> None:
    """`require()` that raises is answered by `answer=` at once, where all is settled."""
    with provider_says(Charge, told), provider_says(Plain, DONE):
        response = send("/two/", do="charge_require_plain")
    if told is DONE:
        assert response.status_code == 201
    else:
        assert (response.status_code, code(response), state()) == (409, "operation_uncertain", "in_doubt")


def test_row_50_require_cuts_the_handler_short(send: Sender) -> None:
    """More work was to come, so it is never completed by itself: `answer=` or a person decides."""
    with provider_says(Charge, TimeoutError("t"), look_up=effects.Found("ch_1")):
        assert code(send("/two/", do="charge_require_plain")) == "operation_uncertain"
        run_due()
    assert code(send("/two/", do="charge_require_plain")) == "operation_uncertain"
    assert state() == "in_doubt"


def test_row_51_performed_and_called_directly(send: Sender, in_thread: Any) -> None:
    """An opaque view that was cut short stays in doubt, though what it performed is settled; a person resolves it."""
    with provider_says(Charge, DONE) as provider:
        first = in_thread(send, "/opaque/api/", do="charge_and_call_out")
        assert does.gate.entered.wait(10)
        time_passes(timedelta(minutes=2))
        assert code(send("/opaque/api/", do="charge_and_call_out")) == "operation_uncertain"
        does.gate.opened.set()
        first()
        run_due()
    assert code(send("/opaque/api/", do="charge_and_call_out")) == "operation_uncertain"
    assert (len(provider.sends), len(does.direct_calls)) == (1, 1)
