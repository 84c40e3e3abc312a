"""`@idempotent` under django-ninja: replays, problems, ATOMIC_REQUESTS, checks, the schema, and where it may stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.http import HttpRequest
from django.test import Client
from django.urls import clear_url_caches
from ninja import NinjaAPI
from ninja.decorators import decorate_view

import effects
from effects.inspection.checks.views import check_transactions_of_views, protected_views
from effects.models import Execution, Request
from effects.testing import provider_says
from tests.ninja import shop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True, params=[False, True], ids=["plain", "atomic_requests"])
def _project(request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shop's addresses, with and without ATOMIC_REQUESTS."""
    settings.ROOT_URLCONF = shop.__name__
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", request.param)
    clear_url_caches()
    shop.ran.clear()
    yield
    clear_url_caches()


def ask(path: str, body: Any = None, *, key: str = "k1", by: str = "ann", method: str = "post", **headers: str) -> Any:
    """Send a request as a client does."""
    given = {"Authorization": f"Bearer {by}", **headers, **({"Idempotency-Key": f'"{key}"'} if key else {})}
    client = Client(raise_request_exception=False)
    send = getattr(client, method)
    return send(f"/api{path}", json.dumps(body), content_type="application/json", headers=given)


def test_a_retry_gets_the_first_answer() -> None:
    """What ninja makes of the result, its schema and status, is stored and replayed, and the function runs once."""
    first, again = ask("/orders", {"name": "a"}), ask("/orders", {"name": "a"})
    assert (first.status_code, first.json()["name"]) == (201, "a")
    assert (again.status_code, again.content, again["Content-Type"]) == (201, first.content, first["Content-Type"])
    assert again["Idempotent-Replayed"] == "true"
    assert shop.ran == [True]
    assert Group.objects.count() == 1


def test_a_provider_is_called_outside_of_transactions() -> None:
    """A journaled operation calls its provider once, whatever ATOMIC_REQUESTS says."""
    first, again = ask("/charges", {"name": "a"}), ask("/charges", {"name": "a"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert shop.ran == [False]
    assert Execution.objects.get().state == "completed"


def test_doubt_is_a_problem_document() -> None:
    """What `require()` raises within an operation is answered by the decorator, not by ninja's handlers."""
    with provider_says(shop.Charge, TimeoutError("?")):
        first = ask("/charges", {"name": "a"})
    again = ask("/charges", {"name": "a"})
    assert [first.status_code, again.status_code] == [409, 409]
    assert first.json()["code"] == again.json()["code"] == "operation_uncertain"
    assert first["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("count", "status"), [(4, 418), (5, 404)], ids=["ninja's own error", "an error that ninja answers"]
)
def test_a_raised_error_undoes_its_rows(count: int, status: int) -> None:
    """The API's exception handlers answer, once; the rows are rolled back, and a retry gets the same answer."""
    first, again = (ask("/orders", {"name": "a", "count": count}) for _ in range(2))
    assert (first.status_code, again.status_code, again.content) == (status, status, first.content)
    assert Group.objects.count() == 0
    assert len(shop.ran) == 1


def test_an_error_before_anything_was_written_frees_the_key() -> None:
    """A corrected request may use the same key, as after a refusal of any view."""
    assert ask("/orders", {"name": "", "count": 1}).status_code == 409
    assert ask("/orders", {"name": "a"}).status_code == 201


def test_a_bug_is_raised_as_ever() -> None:
    """What no handler answers is a 500; nothing of it is stored, and no row stays."""
    assert ask("/orders", {"name": "a", "count": 6}).status_code == 500
    assert Group.objects.count() == 0


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"key": ""}, 400, "idempotency_key_missing"),
        ({"key": "x" * 300}, 400, "idempotency_key_invalid"),
        ({"body": {"name": "b"}}, 422, "idempotency_key_reused"),
    ],
)
def test_refusals_are_problem_documents(given: dict[str, Any], status: int, code: str) -> None:
    """A missing, a malformed and a reused key are refused before the function runs."""
    ask("/orders", {"name": "a"})
    refused = ask("/orders", **{"body": {"name": "a"}, **given})
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert len(shop.ran) == 1


def test_authentication_and_validation_come_first() -> None:
    """Ninja refuses a stranger and an unreadable body before a key is looked at, on replays too; callers are apart."""
    assert ask("/orders", {"name": "a"}).status_code == 201
    assert ask("/orders", {"name": "a"}, by="eve").status_code == 401
    assert ask("/orders", {"count": "many"}, key="k2").status_code == 422
    assert Request.objects.filter(key="k2").count() == 0
    assert ask("/orders", {"name": "b"}, by="ben").status_code == 201


def test_headers_of_the_given_response_are_kept() -> None:
    """What the function sets on the response that ninja gave it goes out, and is replayed; a key may be optional."""
    path = "/settings/colour"
    answers = [ask(path, {"name": "x"}, method="put", key=key, **{"X-Kind": "warm"}) for key in ("k", "k", "")]
    assert [answer["ETag"] for answer in answers] == ['"warm"'] * 3
    assert [answer.json() for answer in answers] == [{"id": 7, "name": "colour"}] * 3
    assert answers[2]["Idempotency-Status"] == "ignored"
    assert shop.ran == ["colour", "colour"]


@pytest.mark.parametrize("place", ["/one", "/two"])
def test_a_router_may_be_mounted_twice(place: str) -> None:
    """Each of its addresses answers, an empty answer is replayed, and the path counts."""
    answers = [ask(f"{place}/things/{number}", method="delete") for number in (7, 7, 8)]
    assert [answer.status_code for answer in answers] == [204, 204, 422]
    assert shop.ran == [7]


def test_a_caller_whom_the_session_does_not_know_is_told_what_to_write() -> None:
    """What `auth=` found is no user of Django's: the refusal is ninja's 403, and names identity=."""
    refused = ask("/one/whoever", {})
    assert refused.status_code == 403
    assert "identity=" in refused.json()["detail"]


def test_an_unprotected_operation_keeps_its_transaction() -> None:
    """At the address of a protected operation another one runs in ATOMIC_REQUESTS' transaction as before."""
    listed = Client().get("/api/orders").json()
    assert listed == {"atomic": connection.settings_dict["ATOMIC_REQUESTS"], "count": 0}


def test_checks_find_the_operations() -> None:
    """The system checks know what is protected behind an API's addresses, and have nothing against it."""
    found = {view.name for view in protected_views()}
    assert found == {"ninja.order", "ninja.charge_it", "ninja.setting", "ninja.remove", "ninja.whoever"}
    assert check_transactions_of_views() == []


def test_the_schema_has_the_key() -> None:
    """The API's own schema shows the header, and whether it is required."""
    paths = shop.api.get_openapi_schema()["paths"]
    shown = [
        [each["required"] for each in paths[path][method]["parameters"] if each["name"] == "Idempotency-Key"]
        for path, method in (("/api/orders", "post"), ("/api/orders", "get"), ("/api/settings/{name}", "put"))
    ]
    assert shown == [[True], [], [False]]


def _above() -> None:
    api = NinjaAPI(urls_namespace="above")

    @effects.idempotent("ninja.above", mode="journaled")
    @api.post("/x")
    def above(request: HttpRequest) -> Any: ...


def _through_decorate_view() -> None:
    api = NinjaAPI(urls_namespace="through")

    @api.post("/x")
    @decorate_view(effects.idempotent("ninja.through", mode="journaled"))
    def through(request: HttpRequest) -> Any: ...


def _safe() -> None:
    api = NinjaAPI(urls_namespace="safe")

    @api.get("/x")
    @effects.idempotent("ninja.safe", mode="journaled")
    def safe(request: HttpRequest) -> Any: ...


def _async() -> None:
    api = NinjaAPI(urls_namespace="async")

    @api.post("/x")
    @effects.idempotent("ninja.async", mode="journaled")
    async def waits(request: HttpRequest) -> Any: ...


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (_above, "goes below the decorator of django-ninja"),
        (_through_decorate_view, "goes below the decorator of django-ninja"),
        (_safe, "a safe method"),
        (_async, "plain `def waits`"),
    ],
)
def test_what_cannot_be_protected_is_refused_at_import(declare: Any, said: str) -> None:
    """Above the route, through `decorate_view`, on a safe method, on an async one: an error that says what to write."""
    with pytest.raises(ImproperlyConfigured, match=said):
        declare()
