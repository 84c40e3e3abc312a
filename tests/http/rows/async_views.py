"""The journaled kinds of view as async functions, for an ASGI server."""

from __future__ import annotations

import json
import uuid
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

import effects
from effects.http.decorators import idempotent
from tests.http.rows.declared import Order, Pay, call_directly

__all__ = ["VIEWS"]


def pay_answer(outcome: effects.Outcome) -> HttpResponse:
    """Answer without REST framework."""
    return JsonResponse({"paid": outcome.require()}, status=201)


def _number(request: HttpRequest) -> str:
    return str(json.loads(request.body or b"{}").get("number", "o-1"))


@csrf_exempt
@idempotent("rows.opaque.async", mode="journaled", identity="machine")
async def opaque(request: HttpRequest) -> HttpResponse:
    paid = await sync_to_async(call_directly)(_number(request))
    return JsonResponse({"paid": paid, "run": uuid.uuid4().hex}, status=201)


@csrf_exempt
@idempotent("rows.declared.async", mode="journaled", performs=[Pay], answer=pay_answer, identity="machine")
async def declared(request: HttpRequest) -> HttpResponse:
    return pay_answer(await effects.aperform(Pay, payload=Order(_number(request))))


VIEWS: dict[str, Any] = {"opaque": opaque, "declared": declared}
