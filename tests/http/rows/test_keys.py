"""Rows 3 to 5, 8, 9, 18 and 19: the key, whose it is, and how long it stands."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from effects.models import Request
from effects.testing import run_due, time_passes
from tests.http.conftest import Sender
from tests.http.rows import shop
from tests.http.rows.conftest import Ledger
from tests.http.rows.server import Server
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)

MALFORMED = {
    "empty": "", "blank": "  ", "blank, quoted": '" "', "too long": "x" * 256, "too long, quoted": f'"{"x" * 256}"',
    "not ASCII": "schlüssel", "control": "a\x07b", "a tab": "a\tb", "NUL": "a\x00b", "a list": "a, b",
    "two lines": '"a", "b"', "not closed": '"a', "not opened": 'a"', "single quotes": "'a'",
    "broken escape": '"a\\b"', "broken parameters": "a;=1", "an inner list": "(a b)", "bytes": ":YQ==:",
}  # fmt: skip


def body(response: Any) -> dict[str, Any]:
    return dict(json.loads(response.content))


@each_kind
def test_row_03_a_required_key_is_missing(send: Sender, ledger: Ledger, kind: str) -> None:
    """400 with a link to the page that explains; no handler, no row."""
    response = send(f"/{kind}/api/", None)
    assert (response.status_code, body(response)["code"]) == (400, "idempotency_key_missing")
    assert 'rel="describedby"' in response["Link"]
    assert response["Content-Type"] == "application/problem+json"
    assert not shop.seen
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)


@pytest.mark.parametrize("url", ["/optional/", "/optional/opaque/"])
def test_row_03_an_optional_view_runs_plainly(send: Sender, ledger: Ledger, url: str) -> None:
    """Without a key each request runs, nothing is stored, and the answer says that it was not protected."""
    for number in ("1", "2"):
        response = send(url, None, number=number)
        assert (response.status_code, response["Idempotency-Status"]) == (201, "ignored")
    assert (ledger.rows(), Request.objects.count()) == (2, 0)
    with_key = [send(url, number="3") for _ in range(2)]
    assert "Idempotency-Status" not in with_key[0]
    assert with_key[1]["Idempotent-Replayed"] == "true"


def test_row_03_an_optional_view_without_key_is_as_atomic_as_with_one(send: Sender, ledger: Ledger) -> None:
    """An error undoes the rows of a transactional view, whatever ATOMIC_REQUESTS says."""
    assert send("/optional/", None, do="boom", after=True).status_code == 500
    assert send("/optional/", None, do="raise_status", after=True, status=400).status_code == 400
    assert ledger.rows() == 0


def test_row_04_a_malformed_key_is_refused_before_any_database_work(ledger: Ledger) -> None:
    """400 that repeats nothing of the key; no statement, no row, no handler."""
    for what, raw in MALFORMED.items():
        with CaptureQueriesContext(connection) as queries:
            response = Sender(None)("/machine/", raw)
        assert (response.status_code, body(response)["code"]) == (400, "idempotency_key_invalid"), what
        assert not queries.captured_queries
    assert not shop.seen
    assert (ledger.applied(), Request.objects.count()) == (0, 0)


def _through_gunicorn(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue("live")
    return server


def _through_uvicorn(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue("live_async")
    request.getfixturevalue("password")
    return server


def _through_runserver(request: pytest.FixtureRequest) -> Server:
    # the classes that runserver uses, in a thread
    port = request.getfixturevalue("live_server").thread.port
    request.getfixturevalue("password")
    return Server(None, port)  # type: ignore[arg-type]


@pytest.mark.parametrize("through", [_through_gunicorn, _through_uvicorn, _through_runserver])
def test_row_04_two_header_lines_on_the_wire(
    protected_views: None, ledger: Ledger, request: pytest.FixtureRequest, through: Any
) -> None:
    """A server joins them and shows nobody that it did; whatever they join to is no key."""
    server = through(request)
    for first, second in (("a", "b"), ('"a', 'b"'), ('"a";p="x', 'y"'), ("a", "a"), ('"', '"')):
        wire = server.open("/opaque/api/", f"{first}\r\nIdempotency-Key: {second}")
        with wire, wire.makefile("rb") as answer:
            assert b" 400 " in answer.readline(), (first, second)
            assert b"idempotency_key_invalid" in answer.read()
    assert (ledger.applied(), Request.objects.count()) == (0, 0)
    assert server.get("/opaque/api/", '"a;b"').status == 201


@each_kind
def test_row_05_quoted_and_bare_are_one_key(send: Sender, ledger: Ledger, kind: str) -> None:
    """However it is written, and with whatever parameters."""
    first = send(f"/{kind}/api/", "K-1")
    for other in ('"K-1"', 'K-1;version="2";flag', '"K-1"; p=1', "  K-1  "):
        again = send(f"/{kind}/api/", other)
        assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")
    assert ledger.of(kind) == 1


@each_kind
def test_row_08_another_user_is_independent(send: Sender, ledger: Ledger, kind: str) -> None:
    """The same key of somebody else runs, and neither sees anything of the other."""
    other = Sender(User.objects.create_user("bob"))
    answers = [send(f"/{kind}/api/", number="mine"), other(f"/{kind}/api/", number="theirs")]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert "Idempotent-Replayed" not in answers[1]
    assert ledger.of(kind) == 2
    mine = Request.objects.earliest("created_at")
    assert other(f"/operations/{mine.pk}/", None, method="GET").status_code == 404


@each_kind
def test_row_08_another_tenant_is_independent(send: Sender, ledger: Ledger, settings: Any, kind: str) -> None:
    """The same user and key in two tenants are two requests, and two effects."""
    settings.EFFECTS = {"TENANT": lambda request: request.META.get("HTTP_X_TENANT", ""), "DISPATCH": "none"}
    for tenant in ("a", "b"):
        headers = {"X-Tenant": tenant}
        assert send(f"/{kind}/api/", number=tenant, headers=headers).status_code == 201
        assert send(f"/{kind}/api/", number=tenant, headers=headers)["Idempotent-Replayed"] == "true"
    assert ledger.of(kind) == 2
    mine = Request.objects.get(tenant="a")
    assert send(f"/operations/{mine.pk}/", None, method="GET", headers={"X-Tenant": "b"}).status_code == 404


@each_kind
def test_row_09_nobody_is_refused(protected_views: None, ledger: Ledger, kind: str) -> None:
    """A view that lets anybody in does not let them share keys: 401 or 403, nothing stored."""
    for place in ("api", "plain", "class"):
        assert Sender(None)(f"/{kind}/{place}/").status_code in (401, 403)
    assert not shop.seen
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)


def test_row_09_a_view_may_declare_who_they_are(protected_views: None, ledger: Ledger) -> None:
    """Each declared sender has keys of its own; whom the view cannot name is refused."""
    nobody = Sender(None)
    assert nobody("/webhook/").status_code == 403
    for sender in ("stripe", "adyen"):
        for replayed in (None, "true"):
            answer = nobody("/webhook/", number=sender, headers={"X-Sender": sender})
            assert (answer.status_code, answer.get("Idempotent-Replayed")) == (201, replayed)
    assert ledger.rows() == 2


@each_kind
def test_row_18_the_answer_is_past_retention(send: Sender, ledger: Ledger, kind: str) -> None:
    """The key is kept, and says so, before retention has dropped the answer and after."""
    send(f"/{kind}/api/")
    time_passes(timedelta(hours=73))
    for sweep in (run_due, lambda: None):
        answer = send(f"/{kind}/api/")
        assert (answer.status_code, body(answer)["code"]) == (409, "operation_result_expired")
        assert body(answer)["safe_new_key"] is False
        sweep()
    assert ledger.of(kind) == 1


@each_kind
def test_row_19_the_key_is_past_its_own_retention(send: Sender, ledger: Ledger, kind: str) -> None:
    """A new execution, whose effect happens once more; the old row stays, without its key."""
    send(f"/{kind}/api/", number="old")
    time_passes(timedelta(days=31))
    run_due()
    assert not Request.objects.get().holds_key
    for replayed in (None, "true"):
        assert send(f"/{kind}/api/", number="new").get("Idempotent-Replayed") == replayed
    assert ledger.of(kind) == 2
