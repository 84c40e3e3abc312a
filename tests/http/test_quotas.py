"""Quotas: the throttles that spare replays, and the hook that says what was not executed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.urls import path
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle
from rest_framework.views import APIView

from effects.http.decorators import idempotent
from effects.http.drf import ReplaySparingScopedRateThrottle, ReplaySparingUserRateThrottle, SparesReplays
from effects.models import Request
from tests.core.counting import counted
from tests.http import does
from tests.http.conftest import Sender
from tests.http.does import work
from tests.http.reading import code

pytestmark = pytest.mark.django_db(transaction=True)


class TwoAMinute(ReplaySparingUserRateThrottle):
    rate = "2/min"


class TwoAMinuteByScope(ReplaySparingScopedRateThrottle):
    THROTTLE_RATES = {"two": "2/min"}


class Plain(UserRateThrottle):
    rate = "2/min"


class Mine(SparesReplays, Plain):
    """A project's own, made sparing."""


class Quoted(APIView):
    throttle_classes = (TwoAMinute,)

    @idempotent("quota.post", mode="transactional")
    def post(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("quota.patch", mode="journaled", required=False)
    def patch(self, request: Any) -> Any:
        return work(request.data)

    def put(self, request: Any) -> Any:
        return Response({})


class Scoped(APIView):
    throttle_classes = (TwoAMinuteByScope,)
    throttle_scope = "two"

    @idempotent("quota.scoped", mode="transactional")
    def post(self, request: Any) -> Any:
        return work(request.data)


@transaction.non_atomic_requests
@api_view(["POST"])
@throttle_classes([Mine])
@idempotent("quota.function", mode="transactional")
def function(request: Any) -> Any:
    return work(request.data)


class Nobody(APIView):
    authentication_classes = ()
    permission_classes = ()

    @idempotent("quota.nobody", mode="transactional")
    def post(self, request: Any) -> Any: ...


urlpatterns = [
    path("quoted/", Quoted.as_view()),
    path("scoped/", Scoped.as_view()),
    path("function/", function),
    path("nobody/", Nobody.as_view()),
]


@pytest.fixture(autouse=True)
def _own_urls(protected_views: None, settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    cache.clear()
    yield
    cache.clear()


@pytest.mark.parametrize("url", ["/quoted/", "/scoped/", "/function/"])
def test_replays_are_not_charged_and_not_refused(send: Sender, url: str) -> None:
    """Two requests spend the quota of two; their replays come through before and after it is spent."""
    first = send(url, "a", do="nothing")
    assert [send(url, "a", do="nothing").content for _ in range(3)] == [first.content] * 3
    assert send(url, "b", do="nothing").status_code == 200
    assert send(url, "c", do="nothing").status_code == 429
    assert send(url, "a", do="nothing").content == first.content
    assert send(url, "a", do="empty").status_code == 422
    assert not Request.objects.filter(key="c").exists()


@pytest.mark.parametrize(("key", "expected"), [(None, "idempotency_key_missing"), ("", "idempotency_key_invalid")])
def test_a_bad_key_is_told_before_the_quota(send: Sender, key: str | None, expected: str) -> None:
    """400, charged to nobody, also when the quota is spent."""
    for _ in range(3):
        assert code(send("/quoted/", key, do="nothing")) == expected
    assert [send("/quoted/", name, do="nothing").status_code for name in "abc"] == [200, 200, 429]
    assert code(send("/quoted/", key, do="nothing")) == expected


def test_what_runs_unprotected_is_charged(send: Sender) -> None:
    """An optional key that is not sent, and a method that is not protected."""
    told = [send("/quoted/", None, method=method, do="nothing").status_code for method in ("PATCH", "PUT", "PUT")]
    assert told == [200, 200, 429]


def test_a_key_that_was_freed_is_charged_again(send: Sender) -> None:
    """A corrected request under the same key is another execution."""
    assert [send("/quoted/", do=do).status_code for do in ("invalid", "nothing")] == [400, 200]
    assert send("/quoted/", "other", do="nothing").status_code == 429


def test_sparing_costs_one_query(send: Sender) -> None:
    """The look-up of the key, and nothing for requests whose key says enough."""
    with counted() as spared:
        send("/quoted/", "a", do="nothing")
    with counted() as replayed:
        send("/quoted/", "a", do="nothing")
    looks = [sql for sql in replayed.statements if sql.startswith("SELECT 1") and "effects_request" in sql]
    assert len(looks) == 1
    assert spared.queries > replayed.queries


# -- the hook ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def told(settings: Any) -> list[str]:
    """What `NOT_EXECUTED` was told."""
    found: list[str] = []
    settings.EFFECTS = {"NOT_EXECUTED": lambda request, code: found.append(f"{request.method} {code}")}
    return found


def test_the_hook_is_told_what_did_not_run(send: Sender, told: list[str], settings: Any) -> None:
    """Once for each request whose handler did not run, with the code of its answer; never for one that ran."""
    send("/quoted/", do="nothing")
    assert told == []
    for key, data in (("k", {"do": "nothing"}), ("k", {"do": "empty"}), (None, {}), ("", {})):
        send("/quoted/", key, **data)
    send("/quoted/", "large", do="nothing", x="y" * 2**21)
    cache.clear()
    send("/quoted/", "broken", body=b"{broken", do="nothing")
    Sender(None)("/nobody/", do="nothing")
    assert told == [
        f"POST {code}"
        for code in (
            "operation_answered",
            "idempotency_key_reused",
            "idempotency_key_missing",
            "idempotency_key_invalid",
            "idempotency_request_invalid",
            "request_refused",
            "request_refused",
        )
    ]
    assert len(does.calls) == 1


def test_the_hook_is_told_of_duplicates_and_limits(
    send: Sender, in_thread: Any, settings: Any, told: list[str]
) -> None:
    """In progress, and at a limit."""
    settings.EFFECTS = {**settings.EFFECTS, "MAX_OPEN_PER_TENANT": 1}
    first = in_thread(send, "/quoted/", method="PATCH", do="hold")
    assert does.gate.entered.wait(10)
    send("/quoted/", method="PATCH", do="hold")
    cache.clear()
    send("/quoted/", "new", method="PATCH", do="nothing")
    does.gate.opened.set()
    first()
    assert told == ["PATCH operation_in_progress", "PATCH execution_capacity"]


def test_a_hook_that_raises_changes_no_answer(send: Sender, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged."""
    settings.EFFECTS = {"NOT_EXECUTED": lambda request, code: 1 / 0}
    assert code(send("/quoted/", None, do="nothing")) == "idempotency_key_missing"
    assert "NOT_EXECUTED failed" in caplog.text
