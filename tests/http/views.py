"""Protected views for the tests: each kind in each place. What a request's body says under `do` is done."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import include, path
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from rest_framework import parsers, serializers
from rest_framework.decorators import action, api_view
from rest_framework.exceptions import APIException, NotFound, PermissionDenied, Throttled
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

import effects
from effects.http.decorators import idempotent
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


def _write(name: str) -> None:
    Group.objects.create(name=name)


def _clash(name: str) -> None:
    with contextlib.suppress(IntegrityError):
        _write(name)


DOES: dict[str, Callable[[dict[str, Any]], Any]] = {}


def does(function: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """Name what a handler may be told to do."""
    DOES[function.__name__] = function
    return function


@does
def create(data: dict[str, Any]) -> Any:
    _write(data["name"])
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
    _write(data["name"])
    raise serializers.ValidationError({"name": ["no"]})


@does
def write_then_throttled(data: dict[str, Any]) -> Any:
    _write(data["name"])
    raise Throttled


@does
def write_then_409(data: dict[str, Any]) -> Any:
    _write(data["name"])
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
        _write(data["name"])
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
    _write(data["name"])
    effects.perform_later(Charge, payload=PAYLOAD, key="later")
    return Response({"n": len(calls)}, status=201)


@does
def finish(data: dict[str, Any]) -> Any:
    outcome = effects.perform(Charge, payload=PAYLOAD)
    with _current().finishing():
        _write(data["name"])
        return charge_answer(outcome)


@does
def finish_then_invalid(data: dict[str, Any]) -> Any:
    with _current().finishing():
        _write(data["name"])
        raise serializers.ValidationError({"name": ["late no"]})


@does
def finish_clash(data: dict[str, Any]) -> Any:
    with _current().finishing():
        _clash(data["name"])
        _clash(data["name"])
    return Response({"fine": True})


def _current() -> Any:
    return effects.current()


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


KINDS: dict[str, dict[str, Any]] = {
    "transactional": {"mode": "transactional"},
    "opaque": {"mode": "journaled"},
    "declared": {"mode": "journaled", "performs": [Charge, Approved], "answer": charge_answer},
}


class Denied(BaseThrottle):
    """Lets through what does not ask for the contrary."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return "HTTP_X_THROTTLE" not in request.META


def views_of(kind: str) -> list[Any]:
    """Return the URLs of one kind of view, in every place."""
    options = KINDS[kind]

    class Api(APIView):
        throttle_classes = [Denied]

        @idempotent(f"{kind}.api", **options)
        def post(self, request: Any) -> Any:
            return work(request.data)

        def put(self, request: Any) -> Any:
            _write(request.data["name"])
            calls.append(transaction.get_connection().in_atomic_block)
            raise serializers.ValidationError("no")

        @idempotent(f"{kind}.patch", **options)
        def patch(self, request: Any) -> Any:
            return work(request.data)

    class Things(ViewSet):
        @idempotent(f"{kind}.create", **options)
        def create(self, request: Any) -> Any:
            return work(request.data)

        @action(detail=True, methods=["post"])
        @idempotent(f"{kind}.below", **options)
        def below(self, request: Any, pk: Any = None) -> Any:
            return work(request.data)

        @idempotent(f"{kind}.above", **options)
        @action(detail=True, methods=["post"])
        def above(self, request: Any, pk: Any = None) -> Any:
            return work(request.data)

    @transaction.non_atomic_requests
    @api_view(["POST", "GET"])
    @idempotent(f"{kind}.function", **options)
    def function(request: Any) -> Any:
        return work(request.data)

    @api_view(["POST"])
    @idempotent(f"{kind}.atomic", **options)
    def atomic_function(request: Any) -> Any:
        return work(request.data)

    @csrf_exempt
    @never_cache
    @idempotent(f"{kind}.plain", **options)
    def plain(request: Any) -> Any:
        return plain_work(request)

    class ClassBased(View):
        @idempotent(f"{kind}.class", **options)
        def post(self, request: Any) -> Any:
            return plain_work(request)

    router = SimpleRouter()
    router.register("things", Things, basename=f"{kind}-things")
    return [
        path("api/", Api.as_view()),
        path("function/", function),
        path("atomic/", atomic_function),
        path("plain/", plain),
        path("class/", ClassBased.as_view()),
        *router.urls,
    ]


class Optional(APIView):
    @idempotent("optional", mode="transactional", required=False)
    def post(self, request: Any) -> Any:
        return work(request.data)


class Patient(APIView):
    @idempotent("patient", mode="journaled", wait=timedelta(seconds=10))
    def post(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("patient.transactional", mode="transactional", wait=timedelta(seconds=10))
    def patch(self, request: Any) -> Any:
        return work(request.data)


class Scoped(APIView):
    @idempotent("scoped", mode="transactional", scope="scoped")
    def post(self, request: Any) -> Any:
        return work(request.data)


class Webhook(APIView):
    authentication_classes = ()
    permission_classes = ()

    @idempotent("webhook", mode="transactional", identity=lambda request: request.META.get("HTTP_X_SENDER"))
    def post(self, request: Any) -> Any:
        return work(request.data)


class Freezing(APIView):
    @idempotent("freezing", mode="transactional", freeze={400})
    def post(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("freezing.not", mode="journaled", performs=[Charge], answer=charge_answer, freeze=lambda answer: False)
    def patch(self, request: Any) -> Any:
        return work(request.data)


class Two(APIView):
    @idempotent("two", mode="journaled", performs=[Charge, Plain], answer=two_or_more)
    def post(self, request: Any) -> Any:
        return work(request.data)


class Writing(APIView):
    @idempotent("writing", mode="journaled", performs=[Charge], answer=charge_answer, local_writes=True)
    def post(self, request: Any) -> Any:
        return work(request.data)


class JsonOnly(APIView):
    parser_classes = (parsers.JSONParser,)

    @idempotent("json_only", mode="journaled")
    def post(self, request: Any) -> Any:
        return work(request.data)


class ReadsData(BasePermission):
    """Looks into the body before the view."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return "forbidden" not in request.data


class ReadBefore(APIView):
    permission_classes = (ReadsData,)

    @idempotent("read_before", mode="transactional")
    def post(self, request: Any) -> Any:
        return work(request.data)


handled: list[BaseException] = []
"""What the project's exception handler has seen."""


class Watched(APIView):
    """Has an exception handler of its own, and an envelope around each answer."""

    def get_exception_handler(self) -> Any:
        original = super().get_exception_handler()

        def handler(error: Any, context: Any) -> Any:
            handled.append(error)
            if isinstance(error, KeyError):
                return None
            if isinstance(error, ArithmeticError):
                return Response({"ours": True}, status=500)
            return original(error, context)

        return handler

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(response, Response):
            response.data = {"result": response.data}
        return super().finalize_response(request, response, *args, **kwargs)

    @idempotent("watched", mode="transactional")
    def post(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("watched.journaled", mode="journaled")
    def patch(self, request: Any) -> Any:
        return work(request.data)


@does
def arithmetic(data: dict[str, Any]) -> Any:
    raise ZeroDivisionError


@csrf_exempt
@idempotent("machine", mode="journaled", identity="machine")
def machine(request: Any) -> Any:
    return plain_work(request)


urlpatterns = [
    *(path(f"{kind}/", include(views_of(kind))) for kind in KINDS),
    path("optional/", Optional.as_view()),
    path("patient/", Patient.as_view()),
    path("scoped/", Scoped.as_view()),
    path("webhook/", Webhook.as_view()),
    path("freezing/", Freezing.as_view()),
    path("two/", Two.as_view()),
    path("writing/", Writing.as_view()),
    path("json_only/", JsonOnly.as_view()),
    path("read_before/", ReadBefore.as_view()),
    path("watched/", Watched.as_view()),
    path("machine/", machine),
    path("operations/", include("effects.urls")),
]
