"""What the rows' handlers do, by the name that a request's body says under `do`."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import os
import uuid
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from rest_framework.exceptions import APIException
from rest_framework.response import Response

import effects
from tests.crash import provider
from tests.http.rows.declared import Ask, Note, Order, Pay, call_directly

__all__ = ["both_answer", "pay_answer", "work"]

HEADERS = {
    "Location": "/payments/1/", "ETag": '"1"', "Link": '</help>; rel="help"', "Content-Language": "de",
    # and what belongs to one client, one moment or one hop
    "Set-Cookie": "session=secret", "WWW-Authenticate": "Basic", "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
    "X-Trace-Id": "t", "traceparent": "00-t", "X-RateLimit-Remaining": "1", "RateLimit": "r=1",
    "Access-Control-Allow-Origin": "*", "Connection": "close",
}  # fmt: skip


def pay_answer(*outcomes: effects.Outcome) -> Any:
    """Answer for what was performed, whenever it settles."""
    first = outcomes[0]
    if isinstance(first, effects.Completed):
        return Response({"paid": first.output}, status=201)
    if isinstance(first, effects.Failed):
        return Response({"declined": first.code}, status=402)
    first.require()
    raise AssertionError(first)


def both_answer(*outcomes: effects.Outcome) -> Any:
    """Answer only for a handler that came to its second effect."""
    return pay_answer(*outcomes) if len(outcomes) > 1 else effects.NotFinished("one of two")


def work(data: dict[str, Any]) -> Any:
    """Do what the body says; the answer of each run is another one, so that a replay is told from it."""
    return _DOES[data.get("do", "pay")](data)


_DOES: dict[str, Callable[[dict[str, Any]], Any]] = {}


def _does(function: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    _DOES[function.__name__] = function
    return function


def _run() -> str:
    return uuid.uuid4().hex


def _number(data: dict[str, Any]) -> str:
    return str(data.get("number", "o-1"))


def _happen(data: dict[str, Any]) -> Any:
    """Have the effect of this kind of view: a row, a direct call, or a performed effect."""
    handle = effects.current()
    if handle is None or handle.operation.mode == "transactional":
        return Group.objects.create(name=_number(data)).name
    if handle.operation.performs is None:
        return call_directly(_number(data))
    return effects.perform(Pay, payload=Order(_number(data), data.get("amount", 1700))).require()


@_does
def pay(data: dict[str, Any]) -> Any:
    return Response({"paid": _happen(data), "run": _run()}, status=201)


@_does
def nothing(data: dict[str, Any]) -> Any:
    return Response({"run": _run()})


@_does
def headers(data: dict[str, Any]) -> Any:
    return Response({"paid": _happen(data), "pad": data.get("pad")}, status=201, headers=HEADERS)


@_does
def empty(data: dict[str, Any]) -> Any:
    _happen(data)
    return Response(status=data.get("status", 204))


@_does
def change(data: dict[str, Any]) -> Any:
    data["injected"] = _run()
    data.pop("number", None)
    return pay(data)


@_does
def hold(data: dict[str, Any]) -> Any:
    """Wait at the provider's gate before the effect."""
    provider.ask("pass", pid=os.getpid())
    return pay(data)


@_does
def pay_then_hold(data: dict[str, Any]) -> Any:
    answer = pay(data)
    provider.ask("pass", pid=os.getpid())
    return answer


# -- errors


def _status_error(status: int) -> APIException:
    error = APIException("refused")
    error.status_code = status
    return error


@_does
def raise_status(data: dict[str, Any]) -> Any:
    if data.get("after"):
        _happen(data)
    raise _status_error(data["status"])


@_does
def return_status(data: dict[str, Any]) -> Any:
    if data.get("after"):
        _happen(data)
    return Response({"run": _run()}, status=data["status"])


@_does
def boom(data: dict[str, Any]) -> Any:
    if data.get("after"):
        _happen(data)
    raise RuntimeError("the project's own bug")


@_does
def swallow(data: dict[str, Any]) -> Any:
    for _ in range(2):
        with contextlib.suppress(IntegrityError):
            Group.objects.create(name="twice")
    return Response({"run": _run()})


@_does
def interrupt(data: dict[str, Any]) -> Any:
    if data.get("after"):
        _happen(data)
    kinds: dict[str, BaseException] = {
        "exit": SystemExit(1), "cancelled": asyncio.CancelledError(), "keyboard": KeyboardInterrupt(),
    }  # fmt: skip
    raise kinds[data["kind"]]


@_does
def say_release(data: dict[str, Any]) -> Any:
    handle = effects.current()
    assert handle is not None
    if data.get("after"):
        _happen({**data, "number": _run()})
    handle.release()
    return Response({"run": _run()}, status=data.get("status", 422))


@_does
def say_freeze(data: dict[str, Any]) -> Any:
    handle = effects.current()
    assert handle is not None
    handle.freeze()
    return Response({"run": _run()}, status=422)


# -- answers that are not kept


@_does
def stream(data: dict[str, Any]) -> Any:
    _happen(data)
    return StreamingHttpResponse(iter([b"one", b"two"]), content_type="text/plain")


@_does
def file(data: dict[str, Any]) -> Any:
    _happen(data)
    return FileResponse(io.BytesIO(b"onetwo"), content_type="text/plain")


@_does
def large(data: dict[str, Any]) -> Any:
    _happen(data)
    return HttpResponse(b"x" * 300_000, content_type="text/plain")


@_does
def page(data: dict[str, Any]) -> Any:
    _happen(data)
    return HttpResponse('<input name="csrfmiddlewaretoken" value="secret">')


@_does
def packed(data: dict[str, Any]) -> Any:
    _happen(data)
    body = gzip.compress(b'{"packed": true}')
    return HttpResponse(body, content_type="application/json", headers={"Content-Encoding": "gzip"})


# -- what is performed


@_does
def perform(data: dict[str, Any]) -> Any:
    """Answer by the outcome, whatever it is."""
    return _answered(effects.perform(Pay, payload=Order(_number(data), data.get("amount", 1700))))


@_does
def ask(data: dict[str, Any]) -> Any:
    outcome = effects.perform(Ask, payload=Order(_number(data)))
    if data.get("then") == "boom":
        raise RuntimeError("the project's own bug")
    return _answered(outcome)


@_does
def twice(data: dict[str, Any]) -> Any:
    effects.perform(Pay, payload=Order("one"))
    effects.perform(Pay, payload=Order("one"))


@_does
def two(data: dict[str, Any]) -> Any:
    first = effects.perform(Pay, payload=Order(_number(data), data.get("amount", 1700)))
    first.require()
    if data.get("then") == "boom":
        raise RuntimeError("the project's own bug")
    if data.get("then") == "hold":
        provider.ask("pass", pid=os.getpid())
    return both_answer(first, effects.perform(Note, payload=Order(_number(data))))


@_does
def perform_and_call(data: dict[str, Any]) -> Any:
    outcome = effects.perform(Pay, payload=Order(_number(data)))
    call_directly(_number(data))
    provider.ask("pass", pid=os.getpid())
    return _answered(outcome)


@_does
def later(data: dict[str, Any]) -> Any:
    Group.objects.create(name=_number(data))
    outcome = effects.perform_later(Pay, payload=Order(_number(data)), key=_number(data))
    if data.get("then") == "boom":
        raise RuntimeError("the project's own bug")
    return Response({"ref": outcome.ref, "run": _run()}, status=201)


@_does
def finish(data: dict[str, Any]) -> Any:
    handle = effects.current()
    assert handle is not None
    with handle.finishing():
        Group.objects.create(name=_number(data))
    return Response({"run": _run()}, status=201)


def _answered(outcome: effects.Outcome) -> Any:
    known = isinstance(outcome, (effects.Completed, effects.Failed))
    return pay_answer(outcome) if known else Response({"state": str(outcome.state)}, status=202)
