"""What the handlers of the tests' views do, by name; and what they were called with."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import IntegrityError, connection
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotFound, PermissionDenied, Throttled
from rest_framework.response import Response

import effects
from tests.core.declared import Approved, Charge, ChargePayload, Plain

calls: list[Any] = []
"""What handlers were called with."""


class Gate:
    """Holds the first handler that comes by, until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened, self.taken = threading.Event(), threading.Event(), threading.Lock()

    def pass_through(self) -> None:
        if self.taken.acquire(blocking=False):
            self.entered.set()
            assert self.opened.wait(20), "nobody opened the gate"


gate = Gate()


def reset() -> None:
    """Begin a test."""
    global gate  # noqa: PLW0603 - each test has a gate of its own
    gate = Gate()
    calls.clear()
    direct_calls.clear()


direct_calls: list[Any] = []
"""The ledger of a provider that opaque views call by themselves."""


def charge_answer(*outcomes: effects.Outcome) -> Any:
    """Answer for what was performed, whenever it settles."""
    first = outcomes[0]
    if isinstance(first, effects.Completed):
        return Response({"charged": first.output}, status=201, headers={"Location": "/charges/1/"})
    if isinstance(first, effects.Failed):
        return Response({"declined": first.code}, status=402)
    return Response({"later": str(first.state)}, status=202)


def two_or_more(*outcomes: effects.Outcome) -> Any:
    """Answer only for a handler that came to its second effect."""
    return charge_answer(*outcomes) if len(outcomes) > 1 else effects.NotFinished("one of two")


PAYLOAD = ChargePayload("c1", 1000)


def write(name: str) -> None:
    Group.objects.create(name=name)


def _clash(name: str) -> None:
    with contextlib.suppress(IntegrityError):
        write(name)


DOES: dict[str, Callable[[dict[str, Any]], Any]] = {}


def does(function: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """Name what a handler may be told to do."""
    DOES[function.__name__] = function
    return function


@does
def create(data: dict[str, Any]) -> Any:
    write(data["name"])
    headers = {"Location": "/things/1/", "Set-Cookie": "a=b", "X-Trace": "1"}
    return Response({"n": len(calls)}, status=201, headers=headers)


@does
def nothing(data: dict[str, Any]) -> Any:
    return Response({"n": len(calls)})


@does
def empty(data: dict[str, Any]) -> Any:
    return Response(status=204)


@does
def hold(data: dict[str, Any]) -> Any:
    gate.pass_through()
    return Response({"n": len(calls)})


@does
def invalid(data: dict[str, Any]) -> Any:
    raise serializers.ValidationError({"name": ["no"]})


@does
def write_then_invalid(data: dict[str, Any]) -> Any:
    write(data["name"])
    raise serializers.ValidationError({"name": ["no"]})


@does
def write_then_throttled(data: dict[str, Any]) -> Any:
    write(data["name"])
    raise Throttled


@does
def write_then_409(data: dict[str, Any]) -> Any:
    write(data["name"])
    return Response({"kept": True}, status=409)


@does
def not_found(data: dict[str, Any]) -> Any:
    raise NotFound


@does
def django_404(data: dict[str, Any]) -> Any:
    raise Http404


@does
def forbidden(data: dict[str, Any]) -> Any:
    raise PermissionDenied


@does
def boom(data: dict[str, Any]) -> Any:
    if "name" in data:
        write(data["name"])
    raise KeyError("bug")


@does
def teapot(data: dict[str, Any]) -> Any:
    raise APIException("a handled 5xx")


@does
def clash(data: dict[str, Any]) -> Any:
    _clash(data["name"])
    _clash(data["name"])
    return Response({"fine": True})


@does
def exits(data: dict[str, Any]) -> Any:
    raise SystemExit(1)


@does
def changes_data(data: dict[str, Any]) -> Any:
    data["injected"] = True
    return Response({"n": len(calls)}, status=201)


@does
def streams(data: dict[str, Any]) -> Any:
    return StreamingHttpResponse([b"one", b"two"], content_type="text/plain")


@does
def large(data: dict[str, Any]) -> Any:
    return Response({"x": "y" * 4096}, status=201)


@does
def page(data: dict[str, Any]) -> Any:
    return HttpResponse("<form>token</form>", status=200)


@does
def calls_out_then_fails(data: dict[str, Any]) -> Any:
    direct_calls.append(data)
    raise TimeoutError("no reply")


@does
def calls_out_then_500(data: dict[str, Any]) -> Any:
    direct_calls.append(data)
    return Response({"oops": True}, status=502)


@does
def says_release(data: dict[str, Any]) -> Any:
    _current().release()
    return Response({"again": True}, status=503)


@does
def says_freeze(data: dict[str, Any]) -> Any:
    _current().freeze()
    return Response({"kept": len(calls)}, status=409)


@does
def charge(data: dict[str, Any]) -> Any:
    return charge_answer(effects.perform(Charge, payload=PAYLOAD))


@does
def charge_then_boom(data: dict[str, Any]) -> Any:
    effects.perform(Charge, payload=PAYLOAD)
    raise KeyError("bug")


@does
def charge_then_hold(data: dict[str, Any]) -> Any:
    outcome = effects.perform(Charge, payload=PAYLOAD)
    gate.pass_through()
    return charge_answer(outcome)


@does
def charge_twice(data: dict[str, Any]) -> Any:
    effects.perform(Charge, payload=PAYLOAD)
    effects.perform(Charge, payload=PAYLOAD)


@does
def charge_require_plain(data: dict[str, Any]) -> Any:
    effects.perform(Charge, payload=PAYLOAD).require()
    return charge_answer(effects.perform(Plain, payload=PAYLOAD))


@does
def charge_plain_and_boom(data: dict[str, Any]) -> Any:
    effects.perform(Charge, payload=PAYLOAD)
    raise KeyError("before the second one")


@does
def charge_and_call_out(data: dict[str, Any]) -> Any:
    outcome = effects.perform(Charge, payload=PAYLOAD)
    direct_calls.append(data)
    gate.pass_through()
    return charge_answer(outcome)


@does
def ask(data: dict[str, Any]) -> Any:
    return charge_answer(effects.perform(Approved, payload=PAYLOAD))


@does
def ask_then_boom(data: dict[str, Any]) -> Any:
    effects.perform(Approved, payload=PAYLOAD)
    raise KeyError("bug")


@does
def undeclared(data: dict[str, Any]) -> Any:
    effects.perform(Plain, payload=PAYLOAD)


@does
def later(data: dict[str, Any]) -> Any:
    write(data["name"])
    effects.perform_later(Charge, payload=PAYLOAD, key="later")
    return Response({"n": len(calls)}, status=201)


@does
def finish(data: dict[str, Any]) -> Any:
    outcome = effects.perform(Charge, payload=PAYLOAD)
    with _current().finishing():
        write(data["name"])
        return charge_answer(outcome)


@does
def finish_then_invalid(data: dict[str, Any]) -> Any:
    with _current().finishing():
        write(data["name"])
        raise serializers.ValidationError({"name": ["late no"]})


@does
def finish_clash(data: dict[str, Any]) -> Any:
    with _current().finishing():
        _clash(data["name"])
        _clash(data["name"])
    return Response({"fine": True})


def _current() -> Any:
    return effects.current()


@does
def runs(data: dict[str, Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(data["sql"])
    return Response({}, status=data.get("status", 200))


@does
def caches(data: dict[str, Any]) -> Any:
    for value in (1, 2):
        cache.set("thing", value)
    return Response({"kept": cache.get("thing")}, status=data.get("status", 200))


@does
def counts(data: dict[str, Any]) -> Any:
    cache.add("count", 1)
    return Response({"count": cache.incr("count")}, status=data.get("status", 200))


@does
def forgets(data: dict[str, Any]) -> Any:
    cache.delete("thing")
    cache.clear()
    return Response({}, status=data.get("status", 200))


@does
def culls(data: dict[str, Any]) -> Any:
    cache.set_many({str(number): number for number in range(4)}, timeout=60)
    return Response({}, status=data.get("status", 200))


@does
def unites(data: dict[str, Any]) -> Any:
    groups = Group.objects.order_by("pk").values_list("name")
    return Response({"names": list(groups[:1].union(groups[1:2]))})


@does
def arithmetic(data: dict[str, Any]) -> Any:
    raise ZeroDivisionError


def work(data: dict[str, Any]) -> Any:
    """Do what the body says."""
    calls.append(dict(data))
    return DOES[data.get("do", "create")](data)


def plain_work(request: Any) -> Any:
    """Do it without REST framework's answers."""
    answer = work(json.loads(request.body or b"{}"))
    if isinstance(answer, Response):
        headers = {"Location": answer.get("Location", "/")}
        return JsonResponse(answer.data or {}, status=answer.status_code, headers=headers)
    return answer
