"""Rows 14 to 16, 20, 22 and 23: which answers are kept, and which leave the key free."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction

from effects.models import Request
from effects.vocabulary.exceptions import MarkedForRollbackError
from tests.http.conftest import Sender
from tests.http.rows import shop
from tests.http.rows.conftest import Ledger, trouble
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)
HEALING = ("transactional", "declared")
#: Refusals of the moment.
PASSING = (401, 403, 409, 423, 425, 429)


def code(response: Any) -> str:
    return str(json.loads(response.content).get("code", ""))


def states() -> list[str]:
    return sorted(Request.objects.values_list("state", flat=True))


# -- row 14 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HEALING)
@pytest.mark.parametrize("do", ["raise_status", "return_status"])
def test_row_14_before_anything_was_done_the_key_is_released(send: Sender, ledger: Ledger, kind: str, do: str) -> None:
    """Raised or returned, the corrected request may use the same key, and has the one effect."""
    for status in (400, 404, 422, *PASSING):
        assert send(f"/{kind}/api/", do=do, status=status).status_code == status
    assert not Request.objects.filter(holds_key=True).exists()
    assert send(f"/{kind}/api/").status_code == 201
    assert ledger.of(kind) == 1


@pytest.mark.parametrize("do", ["raise_status", "return_status"])
def test_row_14_an_opaque_view_freezes_every_refusal(send: Sender, ledger: Ledger, do: str) -> None:
    """It may have called out before it refused, so the refusal is the answer, also one of the moment."""
    for status in (400, *PASSING):
        for replayed in (None, "true"):
            answer = send("/opaque/api/", str(status), do=do, status=status)
            assert (answer.status_code, answer.get("Idempotent-Replayed")) == (status, replayed)
    assert len(shop.seen) == 1 + len(PASSING)
    assert ledger.applied() == 0


def test_row_14_returned_commits_its_rows(send: Sender, ledger: Ledger) -> None:
    """After a write of a transactional view a returned refusal stands, its rows too; also one of the moment."""
    for number, status in enumerate((400, 409), 1):
        sent = {"do": "return_status", "status": status, "after": True, "number": str(status)}
        first = send("/transactional/api/", str(status), **sent)
        again = send("/transactional/api/", str(status), **sent)
        assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (status, first.content, "true")
        assert ledger.rows() == number


def test_row_14_raised_rolls_its_rows_back(send: Sender, ledger: Ledger) -> None:
    """After a write a raised 400 is frozen without the rows; a raised refusal of the moment leaves nothing at all."""
    sent = {"do": "raise_status", "status": 400, "after": True}
    first, again = send("/transactional/api/", "f", **sent), send("/transactional/api/", "f", **sent)
    assert (first.status_code, again.content, again["Idempotent-Replayed"]) == (400, first.content, "true")
    for status in PASSING:
        assert send("/transactional/api/", "m", **{**sent, "status": status}).status_code == status
    assert ledger.rows() == 0
    assert Request.objects.get().key == "f"
    assert send("/transactional/api/", "m").status_code == 201


@pytest.mark.parametrize("do", ["raise_status", "return_status"])
def test_row_14_after_an_attempt_it_is_frozen(send: Sender, ledger: Ledger, do: str) -> None:
    """A declared view that performed something has had its effect, whatever it answers then."""
    for number, status in enumerate((400, 409), 1):
        sent = {"do": do, "status": status, "after": True, "number": str(status)}
        first = send("/declared/api/", str(status), **sent)
        again = send("/declared/api/", str(status), **sent)
        assert (first.status_code, again.content, again["Idempotent-Replayed"]) == (status, first.content, "true")
        assert ledger.applied() == number


def test_row_14_the_project_says_otherwise(send: Sender, ledger: Ledger) -> None:
    """`freeze=`, a callable, `current().freeze()` and `current().release()`."""
    for url, do, kept in (
        ("/freezing/", "return_status", True),
        ("/declared/api/", "say_freeze", True),
        ("/opaque/api/", "say_release", False),
        ("/thawing/", "return_status", False),
    ):
        key = url.strip("/").replace("/", "-")
        first, again = (send(url, key, do=do, status=422) for _ in range(2))
        assert (first.status_code, again.status_code) == (422, 422)
        assert (again.content == first.content) is kept, url
    assert send("/thawing/", "w", do="return_status", status=422, after=True, number="w").status_code == 422
    assert ledger.rows() == 1


@each_kind
def test_row_14_a_success_that_is_released_runs_again(send: Sender, ledger: Ledger, kind: str) -> None:
    """The handler said that the answer is not worth keeping; a transactional view's rows stand all the same."""
    for number in (1, 2):
        answer = send(f"/{kind}/api/", do="say_release", status=200, after=kind == "transactional")
        assert (answer.status_code, "Idempotent-Replayed" in answer) == (200, False)
        assert ledger.rows() == (number if kind == "transactional" else 0)
    assert states() == ["released", "released"]
    assert len(shop.seen) == 2


# -- row 15 ------------------------------------------------------------------------------------------------------------


@each_kind
def test_row_15_what_the_framework_refuses_leaves_nothing(
    send: Sender, user: User, ledger: Ledger, settings: Any, kind: str
) -> None:
    """Authentication, permission, throttle, parser, media type, negotiation, method and routing: as ever."""
    url = f"/{kind}/api/"
    User.objects.filter(pk=user.pk).update(first_name="revoked")
    assert send(url).status_code == 403
    User.objects.filter(pk=user.pk).update(first_name="")
    for status, answer in (
        (401, Sender(None)(url)),
        (401, Sender(None)(url, headers={"Authorization": "Basic d3Jvbmc6d3Jvbmc="})),
        (429, send(url, headers={"X-Throttle": "1"})),
        (400, send(url, body=b"{broken")),
        (415, send(url, body=b"<a/>", content_type="application/xml")),
        (406, send(f"/{kind}/function/", headers={"Accept": "image/png"})),
        (405, send(f"/{kind}/class/", method="PUT")),
        (404, send(f"/{kind}/nowhere/")),
    ):
        assert answer.status_code == status, answer.content
    assert not shop.seen
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)
    assert send(url).status_code == 201


# -- row 16 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["api/", "function/", "plain/"])
def test_row_16_a_transactional_view_leaves_nothing(send: Sender, ledger: Ledger, place: str) -> None:
    """Unhandled exceptions, 5xx raised and returned: rows and key are undone, and the same key runs again."""
    for do in ("boom", "raise_status", "return_status"):
        if place == "plain/" and do == "raise_status":
            continue  # no plain Django view's
        assert send(f"/transactional/{place}", do=do, status=503, after=True).status_code >= 500
    assert (ledger.rows(), Request.objects.count()) == (0, 0)
    assert send(f"/transactional/{place}").status_code == 201
    assert ledger.rows() == 1


def test_row_16_a_success_on_lost_rows_is_an_error(send: Sender, ledger: Ledger) -> None:
    """A database error that the handler swallowed has undone its rows: an error with the fix, never a frozen 200."""
    for place in ("api/", "function/", "plain/"):
        with pytest.raises(MarkedForRollbackError, match="block of their own"):
            send(f"/transactional/{place}", do="swallow", raises=True)
    assert (ledger.rows(), Request.objects.count()) == (0, 0)


def test_row_16_a_declared_view_is_released_or_answered(send: Sender, ledger: Ledger) -> None:
    """Before anything was sent the key is free; after success `answer=` answers, and nothing is sent again."""
    for do in ("boom", "raise_status", "return_status"):
        assert send("/declared/api/", do, do=do, status=503).status_code >= 500
        sent = {"do": do, "status": 503, "after": True, "number": do}
        assert send("/declared/api/", f"after {do}".replace(" ", "-"), **sent).status_code >= 500
        again = send("/declared/api/", f"after-{do}", **sent)
        assert (again.status_code, set(json.loads(again.content))) == (201, {"paid"})
    assert states() == ["answered"] * 3 + ["released"] * 3
    assert ledger.applied() == 3


def test_row_16_an_opaque_view_is_in_doubt(send: Sender, ledger: Ledger) -> None:
    """After an error it never runs again by itself."""
    for number, do in enumerate(("boom", "raise_status", "return_status"), 1):
        sent = {"do": do, "status": 503, "after": True, "number": do}
        assert send("/opaque/api/", do, **sent).status_code >= 500
        again = send("/opaque/api/", do, **sent)
        assert (again.status_code, code(again)) == (409, "operation_uncertain")
        assert ledger.applied() == number


def test_row_16_the_exception_handler_runs_once(send: Sender, ledger: Ledger) -> None:
    """In each kind of view, whether it answers with a 4xx or builds a 5xx of its own."""
    for method in ("POST", "PATCH", "DELETE"):
        for do, status in (("boom", 500), ("raise_status", 400)):
            shop.seen.clear()
            answer = send("/watched/", f"{method}-{do}", method=method, do=do, status=400)
            assert (answer.status_code, len(shop.seen)) == (status, 1)
    assert (ledger.rows(), ledger.applied()) == (0, 0)


# -- row 20 ------------------------------------------------------------------------------------------------------------


@each_kind
def test_row_20_a_lock_wait_is_over_at_the_claim(send: Sender, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """503 with Retry-After, nothing ran; afterwards the same request runs."""
    locked, done = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE effects_request IN ACCESS EXCLUSIVE MODE")
            locked.set()
            assert done.wait(20)

    holder = in_thread(lock)
    assert locked.wait(10)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    try:
        answer = send(f"/{kind}/api/")
    finally:
        done.set()
        connection.close()
    holder()
    assert (answer.status_code, code(answer)) == (503, "execution_unavailable")
    assert int(answer["Retry-After"]) > 0
    assert not shop.seen
    assert send(f"/{kind}/api/").status_code == 201
    assert ledger.of(kind) == 1


def test_row_20_the_database_is_down(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails closed: 503, and nothing was called."""
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        away.setitem(connection.settings_dict, "PORT", "1")
        connection.close()
        for url in ("/machine/", "/upload/"):
            answer = Sender(None)(url)
            assert (answer.status_code, code(answer)) == (503, "execution_unavailable")
            assert int(answer["Retry-After"]) > 0
    connection.close()
    assert not shop.seen
    assert (ledger.applied(), ledger.rows()) == (0, 0)


def test_row_20_the_status_cannot_be_read(send: Sender, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After as well, also where it is not even known who asks."""
    assert send("/declared/api/").status_code == 201
    url = f"/operations/{Request.objects.get().pk}/"
    assert send(url, None, method="GET").status_code == 200
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        away.setitem(connection.settings_dict, "PORT", "1")
        connection.close()
        answer = send(url, None, method="GET")
    connection.close()
    assert (answer.status_code, code(answer)) == (503, "execution_unavailable")
    assert int(answer["Retry-After"]) > 0


# -- rows 22, 23 -------------------------------------------------------------------------------------------------------


@each_kind
def test_row_22_what_cannot_be_stored_goes_out_whole(send: Sender, ledger: Ledger, settings: Any, kind: str) -> None:
    """Streams, files, long answers: whole for the first, an honest no for the retry, one effect."""
    settings.EFFECTS = {"DISPATCH": "none", "MAX_ANSWER_BYTES": 100_000}
    for number, (do, why) in enumerate((("stream", "streaming"), ("file", "streaming"), ("large", "oversize")), 1):
        first = send(f"/{kind}/api/", do, do=do, number=do)
        whole = b"".join(first.streaming_content) if first.streaming else first.content
        assert (first.status_code, whole) == (200, b"x" * 300_000 if do == "large" else b"onetwo")
        again = send(f"/{kind}/api/", do, do=do, number=do)
        assert (again.status_code, code(again)) == (409, "operation_result_unavailable")
        row = Request.objects.get(key=do)
        assert (row.state, row.answer_missing) == ("answered", why)
        assert ledger.of(kind) == number


@each_kind
def test_row_23_safe_methods_ignore_the_key(send: Sender, ledger: Ledger, kind: str) -> None:
    """GET, HEAD and OPTIONS with the header run as ever; PUT, not decorated, too."""
    for method in ("GET", "HEAD", "OPTIONS"):
        for url in (f"/{kind}/api/", f"/{kind}/function/"):
            if (method, url) != ("HEAD", f"/{kind}/function/"):
                assert send(url, method=method, do="nothing").status_code == 200
    for number in ("1", "2"):
        assert send(f"/{kind}/api/", method="PUT", number=number).status_code == 201
    assert not Request.objects.exists()
    assert ledger.rows() == 2


@each_kind
def test_row_23_other_methods_where_decorated(send: Sender, ledger: Ledger, kind: str) -> None:
    """PATCH and DELETE are protected as POST is, and the method counts."""
    for number, method in enumerate(("PATCH", "DELETE"), 1):
        first = send(f"/{kind}/api/", method, method=method, number=method)
        assert send(f"/{kind}/api/", method, method=method, number=method).content == first.content
        assert send(f"/{kind}/api/", method, number=method).status_code == 422
        assert ledger.of(kind) == number
    assert Group.objects.filter(name__in=("PATCH", "DELETE")).count() == (2 if kind == "transactional" else 0)


def test_row_20_and_the_provider_is_asked_nothing(ledger: Ledger) -> None:
    """Control of the ledger: what reaches the provider is counted."""
    trouble("")
    assert Sender(None)("/machine/", do="nothing").status_code == 200
    assert (ledger.applied(), ledger.rows()) == (0, 0)
    assert Sender(None)("/machine/", "2").status_code == 201
    assert ledger.rows() + ledger.applied() == 1
