"""Protected views for the tests: each kind in each place. What a request's body says under `do` is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.urls import include, path
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from rest_framework import parsers, serializers
from rest_framework.decorators import action, api_view
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from effects.http.decorators import idempotent
from tests.core.declared import Approved, Charge, Plain
from tests.http.does import calls, charge_answer, plain_work, two_or_more, work, write

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
            write(request.data["name"])
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
