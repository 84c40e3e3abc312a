"""Async protected views for the tests; what a request's body says under `do` is done."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.views import View
from django.views.decorators.csrf import csrf_exempt

import effects
from effects.http.decorators import idempotent
from tests.core.declared import Approved, Charge, Plain
from tests.http.does import PAYLOAD, charge_answer, direct_calls

calls: list[Any] = []
"""What handlers were called with."""
ends: list[str] = []
"""How handlers ended that were held."""


class Gate:
    """Holds handlers on their event loop until a test opens it, from any thread."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._opened: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def pass_through(self) -> None:
        opened = asyncio.Event()
        self._opened = asyncio.get_running_loop(), opened
        self.entered.set()
        try:
            async with asyncio.timeout(20) if hasattr(asyncio, "timeout") else contextlib.nullcontext():
                await opened.wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("passed")

    def open(self) -> None:
        if self._opened is not None:
            loop, opened = self._opened
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(opened.set)


gate = Gate()


def reset() -> None:
    """Begin a test."""
    global gate  # noqa: PLW0603 - each test has a gate of its own
    gate = Gate()
    calls.clear()
    ends.clear()


def answer(outcome: effects.Outcome) -> HttpResponse:
    """Answer without REST framework."""
    told = charge_answer(outcome)
    return JsonResponse(told.data, status=told.status_code)


def handle() -> Any:
    return effects.current()


async def nothing(data: dict[str, Any]) -> Any:
    return {"n": len(calls), "ref": handle().ref}


async def create(data: dict[str, Any]) -> Any:
    await Group.objects.acreate(name=data["name"])
    return {"n": len(calls)}


async def create_in_a_function(data: dict[str, Any]) -> Any:
    await sync_to_async(Group.objects.create)(name=data["name"])
    return {"n": len(calls)}


async def read(data: dict[str, Any]) -> Any:
    return {"groups": await Group.objects.acount()}


async def charge(data: dict[str, Any]) -> Any:
    return answer(await effects.aperform(Charge, payload=PAYLOAD))


async def charge_and_gather(data: dict[str, Any]) -> Any:
    both = [effects.aperform(it, payload=PAYLOAD, key=data["name"]) for it in (Charge, Approved)]
    return answer((await asyncio.gather(*both))[0])


async def charge_then_boom(data: dict[str, Any]) -> Any:
    await effects.aperform(Charge, payload=PAYLOAD)
    raise KeyError("bug")


async def charge_then_hold(data: dict[str, Any]) -> Any:
    outcome = await effects.aperform(Charge, payload=PAYLOAD)
    await gate.pass_through()
    return answer(outcome)


async def undeclared(data: dict[str, Any]) -> Any:
    await effects.aperform(Plain, payload=PAYLOAD)


async def require(data: dict[str, Any]) -> Any:
    (await effects.aperform(Charge, payload=PAYLOAD)).require()


async def finish(data: dict[str, Any]) -> Any:
    outcome = await effects.aperform(Charge, payload=PAYLOAD)
    async with handle().finishing():
        await Group.objects.acreate(name=data["name"])
    return answer(outcome)


async def finish_then_boom(data: dict[str, Any]) -> Any:
    async with handle().finishing():
        await Group.objects.acreate(name=data["name"])
        raise PermissionDenied


async def finish_and_hold(data: dict[str, Any]) -> Any:
    async with handle().finishing():
        await Group.objects.acreate(name=data["name"])
        await gate.pass_through()


async def finish_without_async(data: dict[str, Any]) -> Any:
    with handle().finishing():
        return {}


async def calls_out_then_hold(data: dict[str, Any]) -> Any:
    direct_calls.append(data)
    await gate.pass_through()
    return {"n": len(calls)}


async def hold(data: dict[str, Any]) -> Any:
    await gate.pass_through()
    return {"n": len(calls)}


async def boom(data: dict[str, Any]) -> Any:
    raise KeyError("bug")


async def cancels_itself(data: dict[str, Any]) -> Any:
    raise asyncio.CancelledError


async def invalid(data: dict[str, Any]) -> Any:
    return JsonResponse({"name": "no"}, status=400)


async def release(data: dict[str, Any]) -> Any:
    handle().release()
    return JsonResponse({}, status=409)


async def work(request: HttpRequest) -> HttpResponse:
    """Do what the body says."""
    data = json.loads(request.body or b"{}")
    calls.append(data)
    told = await globals()[data.get("do", "nothing")](data)
    return told if isinstance(told, HttpResponse) else JsonResponse(told)


KINDS: dict[str, dict[str, Any]] = {
    "opaque": {"mode": "journaled"},
    "declared": {"mode": "journaled", "performs": [Charge, Approved], "answer": lambda *told: answer(told[0])},
}


def views_of(kind: str) -> list[Any]:
    options = KINDS[kind]

    @csrf_exempt
    @idempotent(f"async.{kind}", **options)
    async def function(request: HttpRequest) -> HttpResponse:
        return await work(request)

    class ClassBased(View):
        @idempotent(f"async.{kind}.class", **options)
        async def post(self, request: HttpRequest) -> HttpResponse:
            return await work(request)

        async def put(self, request: HttpRequest) -> HttpResponse:
            return JsonResponse({"unprotected": True})

    return [path("function/", function), path("class/", ClassBased.as_view())]


@csrf_exempt
@idempotent("async.optional", mode="journaled", required=False, identity="machine")
async def optional(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"handle": handle() is not None, "method": request.method})


urlpatterns = [
    *(path(f"{kind}/", include(views_of(kind))) for kind in KINDS),
    path("optional/", optional),
    path("operations/", include("effects.urls")),
]
