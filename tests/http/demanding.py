"""Protected views of each kind that do, and answer, what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.views import APIView

import effects
from effects.http.decorators import idempotent
from tests.core.declared import Approved, Charge, Plain, Ruled
from tests.core.people import PAYLOAD

runs: list[Any] = []
"""What the handlers were called with."""


def demand(*outcomes: effects.Outcome) -> Any:
    """Build an answer out of every output."""
    return JsonResponse({"outputs": [outcome.require() for outcome in outcomes]}, status=201)


class Told:
    """What a test says that handlers do and answers are."""

    handle: Callable[[], Any]
    answer: Callable[..., Any]

    def reset(self) -> None:
        """Charge, and demand the output."""
        self.handle, self.answer = charge, demand
        runs.clear()


def charge() -> Any:
    """Charge under a key that does not hang on the request, and demand the output."""
    return demand(effects.perform(Charge, payload=PAYLOAD, key="c"))


told = Told()


def told_answer(*outcomes: effects.Outcome) -> Any:
    """Answer as the test says."""
    return told.answer(*outcomes)


OPTIONS: dict[str, Any] = {
    "mode": "journaled",
    "performs": [Charge, Approved, Plain, Ruled],
    "answer": told_answer,
}


def work(request: Any) -> Any:
    """Do what the test says."""
    runs.append(request)
    return told.handle()


class Api(APIView):
    @idempotent("demanding.api", **OPTIONS)
    def post(self, request: Any) -> Any:
        return work(request)

    @idempotent("demanding.opaque", mode="journaled")
    def put(self, request: Any) -> Any:
        return work(request)

    @idempotent("demanding.transactional", mode="transactional")
    def patch(self, request: Any) -> Any:
        return work(request)


class Optional(APIView):
    @idempotent("demanding.optional", mode="journaled", required=False)
    def post(self, request: Any) -> Any:
        return work(request)


@csrf_exempt
@idempotent("demanding.plain", **OPTIONS)
def plain(request: Any) -> Any:
    return work(request)


@csrf_exempt
@idempotent("demanding.async", **OPTIONS)
async def coroutine(request: Any) -> Any:
    outcome = await effects.aperform(Charge, payload=PAYLOAD, key="c")
    runs.append(request)
    return effects.NotFinished if told.handle is nothing_finished else demand(outcome)


def nothing_finished() -> Any:
    """Perform, and say that more work was to come."""
    effects.perform(Charge, payload=PAYLOAD, key="c")
    return effects.NotFinished


urlpatterns = [
    path("api/", Api.as_view()),
    path("optional/", Optional.as_view()),
    path("plain/", plain),
    path("async/", coroutine),
    path("operations/", include("effects.urls")),
]
__all__ = ["charge", "demand", "nothing_finished", "runs", "told"]
