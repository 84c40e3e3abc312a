"""Row 20 of the HTTP contract: the journal is there, and refuses; what `perform` says of that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

import effects
from effects.http import journaled
from effects.models import Execution, Request
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import JournalUnavailableError, OutcomeUnrecordedError
from tests.core.declared import Charge
from tests.http import does
from tests.http.conftest import Sender
from tests.http.reading import body, code

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


@pytest.fixture
def refuses(transactional_db: None) -> Iterator[Callable[..., None]]:
    """Let a table refuse rows, with an error of the server's that passes: a lock timeout, a deadlock, a full disk."""

    def arrange(table: str, condition: str, sqlstate: str = "55P03") -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION refuse_for_now() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{sqlstate}'; END $$"
            )
            cursor.execute(
                f"CREATE TRIGGER refuse_for_now BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW "
                f"WHEN ({condition}) EXECUTE FUNCTION refuse_for_now()"
            )

    yield arrange
    connection.close()
    relent()


def relent() -> None:
    """Let the table take rows again."""
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION IF EXISTS refuse_for_now CASCADE")


@pytest.mark.parametrize("sqlstate", ["55P03", "40P01", "57014", "53100"])
@pytest.mark.parametrize(("kind", "state_of_refusal"), [("transactional", "answered"), ("opaque", "running")])
def test_row_20_a_statement_that_fails(
    send: Sender, refuses: Any, kind: str, state_of_refusal: str, sqlstate: str
) -> None:
    """Whatever passes by itself is 503 with Retry-After, no 500: nothing was recorded, nothing stands."""
    refuses("effects_request", f"NEW.state = '{state_of_refusal}'", sqlstate)
    do = "create" if kind == "transactional" else "nothing"
    response = send(f"/{kind}/api/", do=do, name="a")
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    assert int(response["Retry-After"]) > 0
    relent()
    assert not Request.objects.exists()
    assert not Group.objects.exists()
    assert send(f"/{kind}/api/", do=do, name="a").status_code in (200, 201)


@pytest.mark.parametrize("do", ["charge", "finish"])
def test_row_20_the_answer_is_not_taken(send: Sender, refuses: Any, monkeypatch: pytest.MonkeyPatch, do: str) -> None:
    """The handler's bytes are not sent; what it performed is answered once the journal takes answers again."""
    monkeypatch.setattr(journaled, "WRITE_WAITS", (0.01,))
    refuses("effects_request", "NEW.state <> 'running'")
    with provider_says(Charge, DONE) as provider:
        response = send("/declared/api/", do=do, name="a")
        assert (response.status_code, code(response)) == (503, "execution_unavailable")
        relent()
        assert not Group.objects.exists()
        time_passes(timedelta(minutes=2))
        assert send("/declared/api/", do=do, name="a").status_code == 201
    assert len(provider.sends) == 1


def test_row_20_a_left_behind_request_cannot_be_closed(send: Sender, refuses: Any, in_thread: Any) -> None:
    """Taking over a dead owner's request fails closed too."""
    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    time_passes(timedelta(minutes=2))
    refuses("effects_request", "NEW.state = 'in_doubt'")
    response = send("/opaque/api/", do="hold")
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    relent()
    does.gate.opened.set()
    first()


def test_row_20_what_it_performed_cannot_be_read(send: Sender, in_thread: Any) -> None:
    """The decision of a retry, and the status resource, say 503 and not 500."""
    with provider_says(Charge, TimeoutError("t")):
        url = body(send("/declared/api/", do="charge"))["status_url"]
    locked, done = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE effects_requestexecution IN ACCESS EXCLUSIVE MODE")
            locked.set()
            done.wait(20)

    holder = in_thread(lock)
    assert locked.wait(10)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '100ms'")
    try:
        told = [send("/declared/api/", do="charge"), send(url, None, method="GET")]
    finally:
        done.set()
        connection.close()
    holder()
    assert [(it.status_code, code(it)) for it in told] == [(503, "execution_unavailable")] * 2


# -- perform ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sqlstate", ["55P03", "40P01", "57014", "53100"])
def test_perform_says_that_nothing_was_sent(refuses: Any, sqlstate: str) -> None:
    """A statement that fails before the call is the journal's absence, not an error of the database."""
    refuses("effects_execution", "true", sqlstate)
    with provider_says(Charge, DONE) as provider, pytest.raises(JournalUnavailableError) as refused:
        effects.perform(Charge, payload=does.PAYLOAD, key="k")
    assert refused.value.effect_may_have_happened is False
    assert not provider.sends
    with pytest.raises(JournalUnavailableError):
        effects.perform_later(Charge, payload=does.PAYLOAD, key="k")


def test_perform_writes_the_outcome_until_it_is_taken(refuses: Any) -> None:
    """A refusal after the call is waited out, and the call is not repeated."""

    def answered(context: Any, permit: Any) -> Any:
        refuses("effects_execution", "NEW.state = 'completed'")
        threading.Timer(0.2, _relent_elsewhere).start()
        return DONE

    with provider_says(Charge, answered) as provider:
        outcome = effects.perform(Charge, payload=does.PAYLOAD, key="k")
    assert outcome.state == "completed"
    assert len(provider.sends) == 1


def _relent_elsewhere() -> None:
    relent()
    connection.close()


def test_perform_says_that_it_may_have_been_sent(refuses: Any) -> None:
    """An outcome that the journal will never take is told as what it is; the row goes on by its lease."""
    told = provider_says(Charge, lambda context, permit: refuses("effects_execution", _COMPLETED, "23514") or DONE)
    with told as provider, pytest.raises(OutcomeUnrecordedError) as unrecorded:
        effects.perform(Charge, payload=does.PAYLOAD, key="k")
    assert unrecorded.value.effect_may_have_happened is True
    assert len(provider.sends) == 1
    relent()
    time_passes(timedelta(minutes=2))
    run_due()
    assert Execution.objects.get().state == "uncertain"


_COMPLETED = "NEW.state = 'completed'"


def test_a_view_says_that_it_may_have_been_sent(send: Sender, refuses: Any) -> None:
    """Its request waits for the execution, whose lease is not past yet; nothing is sent again."""
    told = provider_says(Charge, lambda context, permit: refuses("effects_execution", _COMPLETED, "23514") or DONE)
    with told as provider:
        assert send("/declared/api/", do="charge").status_code == 202
        relent()
        time_passes(timedelta(minutes=2))
        run_due()
        assert code(send("/declared/api/", do="charge")) == "operation_uncertain"
    assert len(provider.sends) == 1
