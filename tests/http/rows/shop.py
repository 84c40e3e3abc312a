"""The views of the rows: each kind in each place. What a request's body says under `do` is done."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.urls import include, path
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from rest_framework.decorators import action, api_view
from rest_framework.parsers import JSONParser
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from effects.http.decorators import idempotent
from effects.http.fingerprints import FingerprintFields
from tests.http.rows import async_views
from tests.http.rows.declared import Ask, Note, Pay
from tests.http.rows.does import both_answer, pay_answer, work

__all__ = ["KINDS", "PLACES", "seen", "urlpatterns"]

KINDS: dict[str, dict[str, Any]] = {
    "transactional": {"mode": "transactional"},
    "opaque": {"mode": "journaled"},
    "declared": {"mode": "journaled", "performs": [Pay, Ask], "answer": pay_answer},
}
PLACES = ("api/", "things/", "things/1/below/", "things/1/above/", "function/", "plain/", "class/")

seen: list[Any] = []
"""What handlers, exception handlers and undecorated methods of this process have noted."""


class Revoked(BasePermission):
    """Lets through whom nobody has named as revoked."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return getattr(request.user, "first_name", "") != "revoked"


class Throttled(BaseThrottle):
    """Lets through what does not ask for the contrary."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return "HTTP_X_THROTTLE" not in request.META


def noted(request: Any) -> Any:
    """Note that a handler runs, and do its work."""
    data = request.data if hasattr(request, "data") else json.loads(request.body or b"{}")
    seen.append(dict(data))
    return work(data)


def views_of(kind: str) -> list[Any]:
    """Return the URLs of one kind of view, in every place."""
    protect = {name: idempotent(f"rows.{kind}.{name}", **KINDS[kind]) for name in (*"abcdefghij",)}
    api_view_of_kind, router = _classes(kind, protect)
    function, atomic_function, plain = _functions(protect)

    class ClassBased(View):
        @protect["j"]
        def post(self, request: Any) -> Any:
            return noted(request)

    return [
        path("api/", api_view_of_kind),
        path("api/<str:number>/", api_view_of_kind),
        path("function/", function),
        path("atomic/", atomic_function),
        path("plain/", plain),
        path("class/", csrf_exempt(ClassBased.as_view())),
        *router.urls,
    ]


def _classes(kind: str, protect: dict[str, Any]) -> tuple[Any, SimpleRouter]:
    """Return views of REST framework's classes."""

    class Api(APIView):
        permission_classes = (Revoked,)
        throttle_classes = (Throttled,)

        @protect["a"]
        def post(self, request: Any, number: str = "") -> Any:
            return noted(request)

        @protect["b"]
        def patch(self, request: Any, number: str = "") -> Any:
            return noted(request)

        @protect["c"]
        def delete(self, request: Any, number: str = "") -> Any:
            return noted(request)

        def put(self, request: Any, number: str = "") -> Any:
            seen.append(transaction.get_connection().in_atomic_block)
            return noted(request)

        def get(self, request: Any, number: str = "") -> Any:
            return noted(request)

    class Things(ViewSet):
        @protect["d"]
        def create(self, request: Any) -> Any:
            return noted(request)

        @action(detail=True, methods=["post"])
        @protect["e"]
        def below(self, request: Any, pk: Any = None) -> Any:
            return noted(request)

        @protect["f"]
        @action(detail=True, methods=["post"])
        def above(self, request: Any, pk: Any = None) -> Any:
            return noted(request)

    router = SimpleRouter()
    router.register("things", Things, basename=f"{kind}-things")
    return Api.as_view(), router


def _functions(protect: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return functions: under @api_view, where ATOMIC_REQUESTS is left and where it is not, and a plain one."""

    @transaction.non_atomic_requests
    @api_view(["POST", "GET"])
    @protect["g"]
    def function(request: Any) -> Any:
        return noted(request)

    @api_view(["POST"])
    @protect["h"]
    def atomic_function(request: Any) -> Any:
        return noted(request)

    @csrf_exempt
    @protect["i"]
    def plain(request: Any) -> Any:
        return noted(request)

    return function, atomic_function, plain


def api(operation: str, **options: Any) -> Any:
    """Return a view with one protected POST; what is no option of `idempotent` is an attribute of the class."""
    attributes = {name: options.pop(name) for name in list(options) if name.endswith("_classes")}

    @idempotent(f"rows.{operation}", **options)
    def post(self: Any, request: Any) -> Any:
        return noted(request)

    return type("Api", (APIView,), {**attributes, "post": post}).as_view()


class ReadsBody(BasePermission):
    """Looks into what was sent before the view does."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return "forbidden" not in request.data


class Watched(APIView):
    """Has an exception handler of its own, which notes what it is asked."""

    def get_exception_handler(self) -> Any:
        original = super().get_exception_handler()

        def handler(error: Any, context: Any) -> Any:
            seen.append(error)
            return Response({"ours": True}, 500) if isinstance(error, RuntimeError) else original(error, context)

        return handler

    @idempotent("rows.watched.transactional", mode="transactional")
    def post(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("rows.watched.opaque", mode="journaled")
    def patch(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("rows.watched.declared", **KINDS["declared"])
    def delete(self, request: Any) -> Any:
        return work(request.data)


def first_letter(request: HttpRequest) -> str:
    """Name what counts of a body."""
    return request.body.decode()[:1]


@csrf_exempt
@idempotent("rows.machine", mode="journaled", identity="machine")
def machine(request: Any) -> Any:
    return noted(request)


@csrf_exempt
@idempotent("rows.upload", mode="transactional", identity="machine")
def upload(request: Any) -> Any:
    """Take an upload and say what came."""
    files = {name: file.size for name, file in request.FILES.items()}
    return work({"number": request.POST.get("number", "upload"), "files": files})


SENDER = {"identity": lambda request: request.META.get("HTTP_X_SENDER")}
OPEN: dict[str, Any] = {"authentication_classes": (), "permission_classes": ()}

urlpatterns = [
    *(path(f"{kind}/", include(views_of(kind))) for kind in KINDS),
    *(path(f"{kind}/async/", view) for kind, view in async_views.VIEWS.items()),
    path("optional/", api("optional", mode="transactional", required=False)),
    path("optional/opaque/", api("optional.opaque", mode="journaled", required=False)),
    path("patient/transactional/", api("patient.t", wait=timedelta(seconds=15), **KINDS["transactional"])),
    path("patient/opaque/", api("patient.o", wait=timedelta(seconds=15), **KINDS["opaque"])),
    path("patient/declared/", api("patient.d", wait=timedelta(seconds=15), **KINDS["declared"])),
    path("impatient/", api("impatient", wait=timedelta(milliseconds=50), mode="journaled")),
    path("scoped/", api("scoped", mode="transactional", scope="scoped")),
    path("webhook/", api("webhook", mode="transactional", **SENDER, **OPEN)),
    path("freezing/", api("freezing", mode="transactional", freeze={422})),
    path("thawing/", api("thawing", mode="transactional", freeze=lambda response: False)),
    path("two/", api("two", mode="journaled", performs=[Pay, Note], answer=both_answer)),
    path("json_only/", api("json_only", mode="journaled", parser_classes=(JSONParser,))),
    path("fields/", api("fields", mode="transactional", fingerprint=FingerprintFields(exclude=("token",)))),
    path("callable/", api("callable", mode="transactional", fingerprint=first_letter)),
    path("reads/transactional/", api("reads.t", permission_classes=(ReadsBody,), **KINDS["transactional"])),
    path("reads/opaque/", api("reads.o", permission_classes=(ReadsBody,), **KINDS["opaque"])),
    path("reads/declared/", api("reads.d", permission_classes=(ReadsBody,), **KINDS["declared"])),
    path("watched/", Watched.as_view()),
    path("machine/", machine),
    path("upload/", upload),
    path("operations/", include("effects.urls")),
]
