"""Protected views in each place, for their schema alone."""

from __future__ import annotations

from typing import Any

from django.urls import include, path
from django.views.decorators.cache import never_cache
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from effects.http.decorators import idempotent
from tests.http.does import charge_answer


class Thing(serializers.Serializer[Any]):
    """What goes in and comes out; `state` and `code` are fields that many have."""

    state = serializers.ChoiceField(["new", "old"])
    code = serializers.ChoiceField(["a", "b"])


class OwnSchema(AutoSchema):
    """A project's own schema class."""

    def get_tags(self) -> list[str]:
        return ["own"]


class Api(APIView):
    """A view with its own schema class, one method protected."""

    schema = OwnSchema()

    @extend_schema(request=Thing, responses={201: Thing})
    @idempotent("schema.post", mode="transactional")
    def post(self, request: Any) -> Any:
        """Make a thing."""

    @idempotent("schema.patch", mode="journaled", performs=["bank.charge"], answer=charge_answer, required=False)
    @extend_schema(request=Thing, responses={200: Thing, 202: Thing, 409: Thing})
    def patch(self, request: Any) -> Any:
        """Change a thing."""

    @extend_schema(responses=Thing)
    def get(self, request: Any) -> Any:
        """Return a thing."""


class Things(GenericViewSet[Any]):
    """A viewset, its actions decorated on either side."""

    serializer_class = Thing

    @idempotent("schema.create", mode="transactional")
    def create(self, request: Any) -> Any:
        """Make one of them."""

    def list(self, request: Any) -> Any:
        """List them."""

    @extend_schema(responses={204: None})
    @action(detail=False, methods=["post"])
    @idempotent("schema.below", mode="journaled")
    def below(self, request: Any) -> Any:
        """Do."""

    @idempotent("schema.above", mode="journaled")
    @action(detail=False, methods=["post"])
    def above(self, request: Any) -> Any:
        """Do too."""

    @extend_schema(exclude=True)
    @action(detail=False, methods=["post"])
    @idempotent("schema.hidden", mode="journaled")
    def hidden(self, request: Any) -> Any:
        """Is not shown."""


@extend_schema(request=Thing, responses={201: Thing})
@api_view(["POST", "GET"])
@never_cache
@idempotent("schema.function", mode="journaled")
def function(request: Any) -> Any:
    """Call."""
    return Response()


router = SimpleRouter()
router.register("things", Things, basename="things")
urlpatterns = [
    path("operations/", include("effects.urls")),
    path("effects/", include("effects.http.api.urls")),
    path("api/", Api.as_view()),
    path("function/", function),
    *router.urls,
]
