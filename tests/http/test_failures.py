"""Rows 11 to 13, 16, 20, 26, 39, 43 to 51 of the HTTP contract: what goes wrong, and what nobody knows yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

import effects
from effects.exceptions import DuplicatePerformError, LocalWriteError, MarkedForRollbackError, UndeclaredEffectError
from effects.models import Approval, Execution, Request
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Approved, Charge, Plain
from tests.http import does, views
from tests.http.conftest import Sender

both_settings = pytest.mark.parametrize("atomic_requests", [False, True], indirect=True, ids=["", "atomic"])
pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


def body(response: Any) -> dict[str, Any]:
    return dict(json.loads(response.content))


def code(response: Any) -> str:
    return str(body(response)["code"])


def state(key: str = "k") -> str:
    return str(Request.objects.get(key=key).state)


# -- rows 11, 12, 39: the owner is gone -------------------------------------------------------------------------------


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


# -- row 13: settled later --------------------------------------------------------------------------------------------


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


# -- row 16: bugs, 5xx, swallowed database errors ---------------------------------------------------------------------


@both_settings
@pytest.mark.parametrize("do", ["boom", "teapot"])
def test_row_16_transactional_leaves_nothing(send: Sender, atomic_requests: bool, do: str) -> None:
    """A bug or a 5xx undoes rows and key; the same key may be used again."""
    for _ in range(2):
        assert send("/transactional/api/", do=do, name="a").status_code == 500
    assert not Request.objects.exists()
    assert not Group.objects.exists()
    assert len(does.calls) == 2


@both_settings
def test_row_16_success_on_lost_rows_is_an_error(send: Sender, atomic_requests: bool) -> None:
    """A database error that the handler swallowed has undone its rows; 200 would be a lie."""
    with pytest.raises(MarkedForRollbackError, match="block of their own"):
        send("/transactional/api/", do="clash", name="a", raises=True)
    assert not Request.objects.exists()
    assert not Group.objects.exists()


def test_row_16_success_on_lost_rows_of_finishing(send: Sender) -> None:
    """The same for the rows of `finishing()`; nothing was sent, so the key is free."""
    with pytest.raises(MarkedForRollbackError):
        send("/declared/api/", do="finish_clash", name="a", raises=True)
    assert state() == "released"
    assert not Group.objects.exists()


@both_settings
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_row_16_the_exception_handler_runs_once(send: Sender, atomic_requests: bool, method: str) -> None:
    """Whether it answers or not; and the answer is finished once."""
    for do, status in (("boom", 500), ("arithmetic", 500), ("invalid", 400)):
        views.handled.clear()
        response = send("/watched/", do, method=method, do=do)
        assert response.status_code == status
        assert len(views.handled) == 1
        if do != "boom":
            assert set(body(response)) == {"result"}
            assert set(response.data) == {"result"}
            assert set(response.data["result"] or {}) != {"result"}


def test_row_16_journaled(send: Sender) -> None:
    """A declared view that sent nothing is released; an opaque one is in doubt."""
    assert send("/declared/api/", "d", do="boom").status_code == 500
    assert send("/opaque/api/", "o", do="boom").status_code == 500
    assert (state("d"), state("o")) == ("released", "in_doubt")
    assert code(send("/opaque/api/", "o", do="boom")) == "operation_uncertain"


# -- row 20: the journal is out of reach ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_row_20_a_lock_wait_that_is_over(send: Sender, in_thread: Any, kind: str) -> None:
    """503 with Retry-After; nothing ran."""
    import threading

    locked, done = threading.Event(), threading.Event()

    def lock() -> None:
        from django.db import transaction

        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE effects_request IN ACCESS EXCLUSIVE MODE")
            locked.set()
            done.wait(20)

    holder = in_thread(lock)
    assert locked.wait(10)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '100ms'")
    try:
        response = send(f"/{kind}/api/", do="nothing")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
        done.set()
    holder()
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    assert int(response["Retry-After"]) > 0
    assert not does.calls


def test_row_20_no_database(protected_views: None, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that needs no database to know its caller fails closed."""
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    connection.close()
    try:
        response = Sender(None)("/machine/", do="nothing")
    finally:
        monkeypatch.undo()
        connection.close()
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    assert not does.calls


@pytest.fixture
def commit_dies(transactional_db: None) -> Iterator[Callable[[str], None]]:
    """Let the server end the session at the COMMIT of a request that gets into a state."""

    def arrange(state: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION die_at_commit() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            cursor.execute(
                "CREATE CONSTRAINT TRIGGER die_at_commit AFTER INSERT OR UPDATE ON effects_request DEFERRABLE "
                f"INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = '{state}') EXECUTE FUNCTION die_at_commit()"
            )

    yield arrange
    connection.close()
    heal()


def heal() -> None:
    """Let COMMIT live again."""
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION IF EXISTS die_at_commit CASCADE")


@pytest.mark.parametrize(
    ("kind", "state_of_death"), [("transactional", "answered"), ("opaque", "running"), ("declared", "running")]
)
def test_row_20_a_lost_commit(send: Sender, commit_dies: Any, kind: str, state_of_death: str) -> None:
    """It is settled first: nothing was committed, so 503, and the same request may be sent again."""
    commit_dies(state_of_death)
    do = "create" if kind == "transactional" else "nothing"
    response = send(f"/{kind}/api/", do=do, name="a")
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    heal()
    assert not Request.objects.exists()
    assert not Group.objects.exists()
    assert send(f"/{kind}/api/", do=do, name="a").status_code in (200, 201)


def test_a_lost_commit_of_finishing(send: Sender, commit_dies: Any) -> None:
    """The rows are gone with it, and the effect is not: `answer=` answers, and nothing is sent again."""
    commit_dies("answered")
    with provider_says(Charge, DONE) as provider:
        response = send("/declared/api/", do="finish", name="a")
        assert response.status_code in (409, 503)
        heal()
        assert not Group.objects.exists()
        run_due()
        assert send("/declared/api/", do="finish", name="a").status_code == 201
    assert len(provider.sends) == 1


# -- row 26: interrupts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "expected"), [("declared", "released"), ("opaque", "in_doubt")])
def test_row_26_an_interrupt_is_recorded(send: Sender, kind: str, expected: str) -> None:
    """SystemExit in a handler closes its request at once and goes on."""
    with pytest.raises(SystemExit):
        send(f"/{kind}/api/", do="exits", raises=True)
    assert state() == expected


# -- rows 43 to 51 ----------------------------------------------------------------------------------------------------


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


# -- declared views: finishing(), the read-only rule ------------------------------------------------------------------


def test_finishing_commits_rows_with_the_answer(send: Sender) -> None:
    """Once, whatever comes after."""
    with provider_says(Charge, DONE):
        first = send("/declared/api/", do="finish", name="a")
        assert (first.status_code, Group.objects.count()) == (201, 1)
        assert send("/declared/api/", do="finish", name="a").content == first.content


def test_finishing_is_undone_by_an_error(send: Sender) -> None:
    """A raised 400 takes the rows with it; nothing was sent, so the key is free."""
    assert send("/declared/api/", do="finish_then_invalid", name="a").status_code == 400
    assert not Group.objects.exists()
    assert state() == "released"


def test_rows_outside_of_finishing_are_refused(send: Sender) -> None:
    """A declared view writes in `settled` or in `finishing()`; the error says how."""
    with pytest.raises(LocalWriteError, match="finishing"):
        send("/declared/api/", do="create", name="a", raises=True)
    assert not Group.objects.exists()
    assert send("/writing/", do="create", name="a").status_code == 201


def test_an_undeclared_effect_is_refused(send: Sender) -> None:
    """`performs=` is what the journal believes after a crash."""
    with pytest.raises(UndeclaredEffectError, match="performs="):
        send("/declared/api/", do="undeclared", raises=True)
    assert not Execution.objects.exists()
