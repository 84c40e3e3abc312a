"""Async views: the same contract, the handler on its event loop, the journal's work in the request's thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import AsyncClient, Client, TestCase, override_settings
from rest_framework.decorators import api_view
from rest_framework.views import APIView

import effects
from effects.http.async_views import Handler, shielded
from effects.http.decorators import idempotent
from effects.models import Execution, Request
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import LocalWriteError, OpenTransactionError, UndeclaredEffectError
from tests.core.declared import Charge
from tests.http import async_shop
from tests.http.reading import body, state

pytestmark = pytest.mark.django_db(transaction=True)
both_settings = pytest.mark.parametrize("atomic_requests", [False, True], indirect=True, ids=["", "atomic"])
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


Send = Callable[..., Any]


@pytest.fixture(params=["asgi", "wsgi"])
def send(request: Any, async_views: None, user: User) -> Send:
    """Send a request as the user: through Django's asynchronous handler, or its synchronous one."""

    def sync(url: str, key: str | None = "k", *, method: str = "POST", raises: bool = False, **data: Any) -> Any:
        client = Client(raise_request_exception=raises)
        client.force_login(user)
        headers = {"Idempotency-Key": key} if key is not None else {}
        return client.generic(method, url, json.dumps(data), "application/json", headers=headers)

    @async_to_sync
    async def asynchronous(
        url: str, key: str | None = "k", *, method: str = "POST", raises: bool = False, **data: Any
    ) -> Any:
        client = AsyncClient(raise_request_exception=raises)
        await client.aforce_login(user)
        headers = {"Idempotency-Key": key} if key is not None else {}
        return await client.generic(method, url, json.dumps(data), "application/json", headers=headers)

    return sync if request.param == "wsgi" else asynchronous


@both_settings
@pytest.mark.parametrize("url", ["/opaque/function/", "/opaque/class/", "/declared/function/", "/declared/class/"])
def test_row_1_2_29_once_and_replayed(send: Send, atomic_requests: bool, url: str) -> None:
    """A plain async view and an async class-based one run once; the retry gets the same bytes."""
    first = send(url)
    second = send(url)
    assert (first.status_code, body(first)["n"]) == (200, 1), first.content
    assert body(first)["ref"] == str(Request.objects.get().pk)
    assert (second.content, second["Idempotent-Replayed"]) == (first.content, "true")
    assert "Idempotent-Replayed" not in first
    assert len(async_shop.calls) == 1


@both_settings
def test_row_27_the_classs_other_methods_run(send: Send, atomic_requests: bool) -> None:
    """An undecorated async method runs as it is: Django gives async views no transaction."""
    assert body(send("/opaque/class/", None, method="PUT")) == {"unprotected": True}


def test_row_3_4_23_without_a_key(send: Send) -> None:
    """Missing and malformed keys are refused, an optional view says that it was unprotected, GET passes."""
    assert body(send("/opaque/function/", None))["code"] == "idempotency_key_missing"
    assert body(send("/opaque/function/", ""))["code"] == "idempotency_key_invalid"
    told = send("/optional/", None)
    assert (body(told)["handle"], told["Idempotency-Status"]) == (False, "ignored")
    read = send("/optional/", "k", method="GET")
    assert body(read) == {"handle": False, "method": "GET"}
    assert "Idempotency-Status" not in read
    assert body(send("/optional/", "k"))["handle"] is True
    assert Request.objects.count() == 1


def test_row_6_9_another_request_and_nobody(send: Send, user: User) -> None:
    """Another body is 422, an anonymous caller is refused."""
    send("/opaque/function/")
    assert send("/opaque/function/", do="boom").status_code == 422
    assert Client().post("/opaque/function/", headers={"Idempotency-Key": "k"}).status_code == 403
    assert Request.objects.count() == 1


def test_an_effect_is_performed_and_answered(send: Send, approver: User) -> None:
    """`aperform` finds the request by itself, and several at once stand in one request."""
    with provider_says(Charge, DONE) as provider:
        assert (send("/declared/function/", do="charge").status_code, state()) == (201, "answered")
        assert send("/declared/function/", do="charge").status_code == 201
        assert send("/declared/function/", "g", do="charge_and_gather", name="g").status_code == 202
    assert len(provider.sends) == 2
    assert list(Execution.objects.order_by("created_at").values_list("requests__key", flat=True)) == ["k", "g", "g"]


def test_an_undeclared_effect_is_refused(send: Send) -> None:
    """`performs=` binds an async handler too."""
    with pytest.raises(UndeclaredEffectError):
        send("/declared/function/", do="undeclared", raises=True)
    assert state() == "released"


@pytest.mark.parametrize("do", ["create", "create_in_a_function"])
def test_the_read_only_rule_sees_async_queries(send: Send, do: str) -> None:
    """A declared handler's async ORM calls are refused where they write; an opaque one may write."""
    with pytest.raises(LocalWriteError, match="finishing"):
        send("/declared/function/", do=do, name="a", raises=True)
    assert not Group.objects.exists()
    assert body(send("/declared/function/", "r", do="read")) == {"groups": 0}
    assert send("/opaque/function/", "o", do=do, name="a").status_code == 200
    assert Group.objects.count() == 1


def test_finishing_commits_rows_with_the_answer(send: Send) -> None:
    """`async with`: the rows are written once, in the commit of the answer, and an error undoes them."""
    with provider_says(Charge, DONE):
        assert send("/declared/function/", do="finish", name="a").status_code == 201
        assert send("/declared/function/", do="finish", name="a")["Idempotent-Replayed"] == "true"
    assert Group.objects.count() == 1
    assert send("/declared/function/", "e", do="finish_then_boom", name="b").status_code == 403
    assert state("e") == "released"
    assert Group.objects.count() == 1


def test_finishing_without_async_is_refused(send: Send) -> None:
    """It would open a transaction of another thread; the error says what to write."""
    with pytest.raises(OpenTransactionError, match="async with"):
        send("/declared/function/", do="finish_without_async", raises=True)


@pytest.mark.parametrize(
    ("kind", "do", "status", "then"),
    [
        ("declared", "boom", 500, "released"),
        ("opaque", "boom", 500, "in_doubt"),
        ("declared", "invalid", 400, "released"),
        ("opaque", "invalid", 400, "answered"),
        ("opaque", "release", 409, "released"),
        ("declared", "charge_then_boom", 500, "answered"),
    ],
)
def test_row_11_14_16_how_it_ends(send: Send, kind: str, do: str, status: int, then: str) -> None:
    """A bug and a 4xx end an async handler's request as they end any other's."""
    with provider_says(Charge, DONE):
        assert send(f"/{kind}/function/", do=do).status_code == status
    assert state() == then


def test_row_50_require_speaks_for_the_outcome(send: Send) -> None:
    """`require()` of what is in doubt is 409; once it is known `answer=` answers."""
    with provider_says(Charge, TimeoutError("t"), look_up=effects.Found("ch_1", {"id": "ch_1"})):
        assert body(send("/declared/function/", do="require"))["code"] == "operation_uncertain"
        run_due()
    assert send("/declared/function/", do="require").status_code == 201


def test_a_handler_that_cancels_itself(async_views: None, user: User) -> None:
    """Its CancelledError goes on, after the request was given up."""

    @async_to_sync
    async def send() -> None:
        client = AsyncClient()
        await client.aforce_login(user)
        data = json.dumps({"do": "cancels_itself"})
        await client.post("/opaque/function/", data, "application/json", headers={"Idempotency-Key": "k"})

    with pytest.raises((asyncio.CancelledError, concurrent.futures.CancelledError)):
        send()
    assert state() == "in_doubt"


def test_a_lost_commit_of_finishing(send: Send, commit_dies: Any) -> None:
    """It is settled by its transaction's id, though the block was opened in another context than it is left in."""
    commit_dies("answered")
    with provider_says(Charge, DONE) as provider:
        assert send("/declared/function/", do="finish", name="a").status_code in (409, 503)
        commit_dies.heal()
        assert not Group.objects.exists()
        time_passes(timedelta(minutes=1))  # what broke with `answer=` in it is tried again a little later
        run_due()
        assert send("/declared/function/", do="finish", name="a").status_code == 201
    assert len(provider.sends) == 1


@override_settings(ROOT_URLCONF="tests.http.async_shop", EFFECTS={})
class InsideTestCase(TestCase):
    """Async views work inside of Django's TestCase, in its transaction."""

    async def test_row_42(self) -> None:
        """Answers, replays, effects and rows of `finishing()`."""
        async_shop.reset()
        user = await User.objects.acreate(username="ada")
        await self.async_client.aforce_login(user)

        async def post(kind: str, key: str, **data: Any) -> Any:
            headers = {"Idempotency-Key": key}
            return await self.async_client.post(
                f"/{kind}/function/", json.dumps(data), "application/json", headers=headers
            )

        with provider_says(Charge, DONE):
            for kind, do in (("opaque", "nothing"), ("declared", "charge"), ("declared", "finish")):
                first, again = [await post(kind, do, do=do, name="a") for _ in range(2)]
                assert first.status_code in (200, 201)
                assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")
        assert await Group.objects.acount() == 1
        assert (await post("opaque", "boom", do="invalid")).status_code == 400


def test_row_26_a_cancellation_waits_for_the_record() -> None:
    """It goes on when the work in the thread is done, however often it is repeated; the view is told each time."""
    started, may_end, ended = threading.Event(), threading.Event(), []

    def record() -> None:
        started.set()
        assert may_end.wait(20)
        ended.append("recorded")

    class Told(Handler):
        def cancel(self) -> None:
            ended.append("told")

    async def story() -> None:
        request = asyncio.create_task(shielded(record, Told(async_shop.gate.pass_through)))
        await asyncio.to_thread(started.wait, 20)
        for _ in range(2):
            request.cancel()
            await asyncio.wait({request}, timeout=0.05)
            assert not request.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(story())
    assert ended == ["told", "told", "recorded"]


# -- where it may stand -----------------------------------------------------------------------------------------------


def test_a_transactional_async_view_is_refused() -> None:
    """Its transaction could not span the awaits."""
    with pytest.raises(ImproperlyConfigured, match="do not span awaits"):

        @idempotent("async.transactional", mode="transactional")
        async def view(request: HttpRequest) -> Any: ...


def test_rest_framework_awaits_nothing() -> None:
    """An async method of its views is refused at import, and so is an async function under `@api_view`."""
    with pytest.raises((ImproperlyConfigured, RuntimeError)) as refused:

        class Api(APIView):
            @idempotent("async.drf", mode="journaled")
            async def post(self, request: Any) -> Any: ...

    # Python before 3.12 wraps what `__set_name__` raises
    assert "awaits nothing" in str(refused.value.__cause__ or refused.value)

    with pytest.raises(ImproperlyConfigured, match="awaits nothing"):

        @api_view(["POST"])
        @idempotent("async.drf.function", mode="journaled")
        async def function(request: Any) -> Any: ...
