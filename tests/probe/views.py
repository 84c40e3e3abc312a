"""Views that the probe is shown: ours, none, and what people write in place of them."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from django.core.cache import cache
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from rest_framework.decorators import api_view
from rest_framework.response import Response
from rest_framework.views import APIView

import effects
from effects.http.decorators import idempotent
from tests.core.declared import Charge, ChargePayload
from tests.http.does import charge_answer

#: What the provider has done.
ledger: list[Any] = []
Handler = Callable[[Any], HttpResponse]


def pay(request: Any) -> HttpResponse:
    """Do it, without any protection."""
    ledger.append(json.loads(request.body))
    return JsonResponse({"paid": len(ledger)}, status=201)


def _key(request: Any) -> str:
    return f"probe:{request.headers['Idempotency-Key']}"


def _per_user(request: Any) -> str:
    return f"{_key(request)}:{request.user.pk}"


def _digest(request: Any) -> str:
    return hashlib.sha256(request.body).hexdigest()


def naive(view: Handler) -> Handler:
    """Look, run, store: the decorator of a thousand blog posts."""

    @functools.wraps(view)
    def wrapped(request: Any) -> HttpResponse:
        found = cache.get(_key(request))
        if found is None:
            found = view(request)
            cache.set(_key(request), found)
        return found

    return wrapped


def locking(
    key_of: Callable[[Any], str], *, compares: bool, frees: bool = False, forgets: bool = False, echoes: bool = False
) -> Callable[[Handler], Handler]:
    """Return a decorator that takes a lock in the cache first.

    Args:
        key_of: what is locked.
        compares: refuse another body under the key.
        frees: let the key go when the view is cut short.
        forgets: let the key go when the view is done.
        echoes: answer a repetition in other words than the first one.
    """

    def decorate(view: Handler) -> Handler:
        @functools.wraps(view)
        def wrapped(request: Any) -> HttpResponse:
            key = key_of(request)
            if not cache.add(key, (_digest(request), None)):
                digest, answer = cache.get(key)
                if compares and digest != _digest(request):
                    return JsonResponse({"reused": True}, status=422)
                if answer is None:
                    return JsonResponse({"running": True}, status=409)
                return JsonResponse({"done": True}) if echoes else answer
            try:
                answer = view(request)
            except BaseException:
                if frees:
                    cache.delete(key)
                raise
            if forgets:
                cache.delete(key)
            else:
                cache.set(key, (_digest(request), answer))
            return answer

        return wrapped

    return decorate


def looking(view: Handler) -> Handler:
    """Compare bodies and users as one should, and lock nothing."""

    @functools.wraps(view)
    def wrapped(request: Any) -> HttpResponse:
        digest, answer = cache.get(_per_user(request), (None, None))
        if digest not in (None, _digest(request)):
            return JsonResponse({"reused": True}, status=422)
        if answer is None:
            answer = view(request)
            cache.set(_per_user(request), (_digest(request), answer))
        return answer

    return wrapped


#: Planted faults, and the probes that find them.
PLANTED: dict[str, tuple[Handler, set[str]]] = {
    "unprotected": (pay, {"twice", "concurrent", "changed", "crash"}),
    "naive": (naive(pay), {"concurrent", "changed", "other_user", "crash"}),
    "looking": (looking(pay), {"concurrent", "crash"}),
    "shared": (locking(_key, compares=True)(pay), {"other_user"}),
    "comparing_nothing": (locking(_per_user, compares=False)(pay), {"changed"}),
    "freeing": (locking(_per_user, compares=True, frees=True)(pay), {"crash"}),
    "forgetting": (locking(_per_user, compares=True, forgets=True)(pay), {"twice", "changed"}),
    "echoing": (locking(_per_user, compares=True, echoes=True)(pay), {"twice"}),
    "keyed_by_body": (
        locking(lambda request: f"{_per_user(request)}:{_digest(request)}", compares=True)(pay),
        {"changed"},
    ),
}


class Opaque(APIView):
    """Calls out by itself."""

    @idempotent("probe.opaque", mode="journaled")
    def post(self, request: Any) -> Any:
        ledger.append(dict(request.data))
        return Response({"paid": len(ledger)}, status=201)


class Declared(APIView):
    """Performs an effect."""

    @idempotent("probe.declared", mode="journaled", performs=[Charge], answer=charge_answer)
    def post(self, request: Any) -> Any:
        payload = ChargePayload("c1", request.data["amount"])
        return charge_answer(effects.perform(Charge, payload=payload))


class Transactional(View):
    """Writes a row."""

    @idempotent("probe.transactional", mode="transactional")
    def post(self, request: Any) -> Any:
        Group.objects.create(name=f"group-{Group.objects.count()}")
        return JsonResponse({"groups": Group.objects.count()}, status=201)


@api_view(["POST"])
@idempotent("probe.function", mode="journaled")
def function(request: Any) -> Any:
    """Below `@api_view`."""
    ledger.append(dict(request.data))
    return Response({"paid": len(ledger)}, status=201)


urlpatterns = [
    *(path(f"{name}/", csrf_exempt(view)) for name, (view, _) in PLANTED.items()),
    path("opaque/", Opaque.as_view()),
    path("declared/", Declared.as_view()),
    path("transactional/", Transactional.as_view()),
    path("function/", function),
]
