"""The system checks that look at protected views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core import checks
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import clear_url_caches, include, path
from django.views import View
from rest_framework.decorators import api_view
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from effects.http.decorators import idempotent
from effects.inspection.checks import views
from effects.inspection.checks.messages import TAG, link
from tests.core.declared import Charge

urlpatterns: list[Any] = []
"""The URLs of the test that runs."""

ALL = (
    views.check_transactions_of_views,
    views.check_effects_of_views,
    views.check_status_url,
    views.check_cors,
)
STATUS = path("operations/", include("effects.urls"))


@pytest.fixture
def found(settings: Any) -> Iterator[Callable[..., list[str]]]:
    """Return the ids that the checks find with some URLs; each message has a hint that links to the page."""
    settings.ROOT_URLCONF = __name__

    def check(*patterns: Any) -> list[str]:
        urlpatterns[:] = patterns
        clear_url_caches()
        messages = [message for one in ALL for message in one()]
        assert all(str(it.hint).endswith(link(str(it.id).rpartition(".")[2])) for it in messages)
        return [str(message.id) for message in messages]

    yield check
    urlpatterns.clear()
    clear_url_caches()


@pytest.fixture
def atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


class Api(APIView):
    @idempotent("checked.api", mode="transactional")
    def post(self, request: Any) -> Any: ...


class Things(ViewSet):
    @idempotent("checked.things", mode="transactional")
    def create(self, request: Any) -> Any: ...


class ClassBased(View):
    @idempotent("checked.class", mode="transactional")
    def post(self, request: HttpRequest) -> HttpResponse: ...


class AsyncClass(View):
    @idempotent("checked.async.class", mode="journaled")
    async def post(self, request: HttpRequest) -> HttpResponse: ...


@idempotent("checked.function", mode="transactional", required=False)
def function(request: HttpRequest) -> HttpResponse: ...


@idempotent("checked.async", mode="journaled")
async def asynchronous(request: HttpRequest) -> HttpResponse: ...


@api_view(["POST"])
@idempotent("checked.unreached", mode="transactional")
def unreached(request: Any) -> Any: ...


@transaction.non_atomic_requests
@api_view(["POST"])
@idempotent("checked.reached", mode="transactional")
def reached(request: Any) -> Any: ...


def plain(request: HttpRequest) -> HttpResponse: ...


def test_they_are_registered() -> None:
    """`manage.py check` runs them, under our tag."""
    assert set(ALL) <= checks.registry.registry.registered_checks
    assert all(check.tags == (TAG,) for check in ALL)


def test_the_project_passes() -> None:
    """The example project has nothing to hide."""
    assert [message for check in ALL for message in check()] == []


def test_what_the_decorator_reaches(found: Any, atomic: None) -> None:
    """Methods of classes, plain functions and async ones leave ATOMIC_REQUESTS by themselves."""
    views = [Api.as_view(), Things.as_view({"post": "create"}), ClassBased.as_view(), AsyncClass.as_view()]
    patterns = [path(f"{n}/", view) for n, view in enumerate([*views, function, asynchronous, reached, plain])]
    assert found(STATUS, *patterns) == []


def test_e013_what_it_does_not_reach(found: Any, atomic: None) -> None:
    """Below `@api_view`, and inside of an outer wrapper that hides the view; in included URLs too."""

    def wrapper(request: Any) -> Any:
        return Api.as_view()(request)

    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    assert found(path("in/", include([path("a/", unreached)])), path("b/", wrapper)) == ["effects.E013"] * 2


def test_without_atomic_requests_nothing_needs_reaching(found: Any) -> None:
    """The same views are fine."""
    assert found(path("a/", unreached)) == []


def test_e014_an_effect_that_nobody_registered(found: Any) -> None:
    """A typing error in `performs=` is found at start-up, not at the first payment."""

    @idempotent("checked.typo", mode="journaled", performs=["bank.chrage", Charge], answer=lambda *told: told)
    def view(request: HttpRequest) -> HttpResponse: ...

    assert found(STATUS, path("a/", view)) == ["effects.E014"]


def test_w003_no_status_url(found: Any) -> None:
    """Journaled views want the status resource; transactional ones do without."""
    assert found(path("a/", asynchronous)) == ["effects.W003"]
    assert found(path("a/", asynchronous), STATUS) == []
    assert found(path("a/", function)) == []


@pytest.mark.parametrize(
    ("allowed", "exposed", "expected"),
    [
        (None, (), ["effects.W004", "effects.W005"]),
        (("accept", "Idempotency-Key"), ("Location", "Retry-After"), ["effects.W005"]),
        (
            ("idempotency-key",),
            ("idempotent-replayed", "location", "retry-after", "Idempotency-Status"),
            [],
        ),
    ],
)
def test_w004_w005_cors(found: Any, settings: Any, allowed: Any, exposed: Any, expected: list[str]) -> None:
    """With django-cors-headers, the key must be allowed and what the answers say exposed."""
    assert found(path("a/", function)) == []
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "corsheaders"]
    if allowed is not None:
        settings.CORS_ALLOW_HEADERS = allowed
    settings.CORS_EXPOSE_HEADERS = exposed
    assert found(path("a/", function)) == expected
    assert found(path("a/", plain)) == []


def test_urls_that_cannot_be_imported_are_left_to_django(settings: Any) -> None:
    """Its own checks say what is wrong with them."""
    settings.ROOT_URLCONF = "tests.http.nowhere"
    clear_url_caches()
    assert views.protected_views() == []
    clear_url_caches()


def test_a_checked_view_is_a_view(found: Any) -> None:
    """What the walk returns names the operation and the address."""
    found(path("in/", include([path("a/", unreached)])))
    (view,) = views.protected_views()
    assert (view.name, view.route) == ("checked.unreached", "in/a/")
