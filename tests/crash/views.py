"""The project's views: declared, opaque, and one that leaves its payment to a worker."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

import effects
from tests.crash.declared import EFFECTS, payload_of

__all__ = ["urlpatterns"]


def payment_answer(outcome: effects.Outcome) -> HttpResponse:
    """Answer for the payment, whenever it settles."""
    if isinstance(outcome, effects.Completed):
        return JsonResponse({"paid": outcome.output}, status=201)
    return JsonResponse({"state": str(outcome.state)}, status=409 if outcome.settled else 202)


def _perform(request: Any, verb: Any = effects.perform) -> effects.Outcome:
    data = json.loads(request.body)
    outcome: effects.Outcome = verb(
        EFFECTS[data["provider"], data["asks"]], payload=payload_of(data["order"], data["trouble"]), key=data["order"],
        requested_by="alice",
    )  # fmt: skip
    if data["trouble"] == "raises":
        raise RuntimeError("the project's own bug")
    return outcome


@csrf_exempt
@effects.idempotent(
    "crash.declared", mode="journaled", performs=list(EFFECTS.values()), answer=payment_answer, identity="alice"
)
def declared(request: Any) -> HttpResponse:
    """Perform the one effect, and say how it stands; or decline without performing anything."""
    if json.loads(request.body)["trouble"] == "declined":
        return JsonResponse({"state": "declined"}, status=409)
    return payment_answer(_perform(request))


@csrf_exempt
@effects.idempotent("crash.opaque", mode="journaled", identity="alice")
def opaque(request: Any) -> HttpResponse:
    """Perform it too, and note the request in a row of its own that commits with the answer."""
    outcome = _perform(request)
    if isinstance(outcome, effects.Completed):
        handle = effects.current()
        assert handle is not None
        with handle.finishing(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO crash_note (request) VALUES (%s)", [handle.ref])
    return payment_answer(outcome)


@csrf_exempt
@effects.idempotent("crash.later", mode="transactional", identity="alice")
def later(request: Any) -> HttpResponse:
    """Record it for a worker, with the answer, in one commit."""
    outcome = _perform(request, effects.perform_later)
    return JsonResponse({"ref": outcome.ref}, status=202)


urlpatterns = [path("declared/", declared), path("opaque/", opaque), path("worker/", later)]
