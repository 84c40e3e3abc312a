"""Errors of ours that leave a protected view: a problem with the error's code, never a page of HTML."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import clear_url_caches, path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.views import APIView

from effects.http.decorators import idempotent
from effects.http.problems import CODES
from effects.vocabulary import exceptions
from effects.vocabulary.exceptions import EffectsError
from effects.vocabulary.outcomes import Rejected
from tests.http.conftest import Sender
from tests.http.reading import body, code

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_setting]
CLASSES = [
    each
    for _, each in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(each, EffectsError) and each.__module__ == exceptions.__name__
]
raising: list[Exception] = []
returning: list[Any] = []


def make(kind: type[EffectsError]) -> EffectsError:
    """Return an error as the library makes it; a new class that needs more is to be added here."""
    if not issubclass(kind, exceptions.OutcomeError):
        return kind("words that a client must not read")
    outcome = Rejected(operation="x", ref="r", reason="denied")
    more = ("expired", "gone") if issubclass(kind, exceptions.OutputUnavailableError) else ()
    return kind(outcome, *more)


class Api(APIView):
    @idempotent("own_errors.api", mode="journaled", required=False)
    def post(self, request: Any) -> Any:
        raise raising[0]

    @idempotent("own_errors.put", mode="transactional", required=False)
    def put(self, request: Any) -> Any:
        raise raising[0]


@csrf_exempt
@idempotent("own_errors.plain", mode="journaled", required=False)
def plain(request: Any) -> Any:
    raise raising[0]


@csrf_exempt
@idempotent("own_errors.async", mode="journaled", required=False)
async def asynchronous(request: Any) -> Any:
    raise raising[0]


@csrf_exempt
@idempotent("own_errors.returns", mode="journaled")
def returns(request: Any) -> Any:
    return returning[0]


urlpatterns = [
    path("returns/", returns),
    path("api/", Api.as_view()),
    path("plain/", plain),
    path("async/", asynchronous),
]


@pytest.fixture
def send(settings: Any, user: User) -> Iterator[Sender]:
    """Send a request to the views of this module."""
    settings.ROOT_URLCONF, settings.EFFECTS = __name__, {}
    clear_url_caches()
    yield Sender(user)
    raising.clear()
    clear_url_caches()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_a_problem_with_a_code(send: Sender, kind: type[EffectsError]) -> None:
    """From each kind of view, with a key and without; the message stays in the log."""
    for url, method in (("/api/", "POST"), ("/api/", "PUT"), ("/plain/", "POST"), ("/async/", "POST")):
        for key in (f"{url}{method}", None):
            raising[:] = [make(kind)]
            answer = send(url, key, method=method)
            assert answer["Content-Type"] == "application/problem+json", (url, method, key)
            assert answer.status_code >= 400
            assert code(answer) in {*CODES, kind.code if isinstance(kind.code, str) else "operation_rejected"}
            assert "client must not" not in answer.content.decode()
            assert body(answer)["safe_new_key"] is False


def test_who_watches_for_errors_is_told(send: Sender, caplog: pytest.LogCaptureFixture) -> None:
    """As of any error that nobody handled: a test's client raises it, and the log has its trace."""
    raising[:] = [exceptions.NobodyEntitledError("nobody")]
    with pytest.raises(exceptions.NobodyEntitledError):
        send("/api/", raises=True)
    answer = send("/api/", "other")
    assert (answer.status_code, code(answer)) == (500, "nobody_entitled")
    assert any(record.name == "django.request" and record.exc_info for record in caplog.records)


@pytest.mark.parametrize("what", [None, {"a": 1}, [1], "text", 201])
def test_what_is_no_response_is_named(send: Sender, what: object) -> None:
    """A view that returns nothing, or its data alone, is told what to return."""
    returning[:] = [what]
    with pytest.raises(TypeError, match=rf"returned {type(what).__name__}, which is no response. Return .*Response"):
        send("/returns/", raises=True)
