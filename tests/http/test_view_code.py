"""What views of a project do around their handlers, and what of it runs for an answer that is not the handler's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import clear_url_caches, path
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from effects.http.decorators import idempotent
from tests.http.conftest import Sender

pytestmark = pytest.mark.django_db(transaction=True)
finalized: list[int] = []


class Wrapped(APIView):
    """Puts each answer of REST framework's into an envelope, as many APIs do."""

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response.data = {"data": response.data}
        finalized.append(response.status_code)
        return super().finalize_response(request, response, *args, **kwargs)

    @idempotent("code.wrapped", mode="journaled")
    def post(self, request: Request) -> Response:
        if "refuse" in request.data:
            raise ValidationError("no")
        return Response({"n": 1}, status=201)


class Keeps(View):
    """Keeps its request under the name that REST framework's request has for Django's."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self._request = request

    @idempotent("code.keeps", mode="transactional")
    def post(self, request: HttpRequest) -> HttpResponse:
        return JsonResponse({}, status=201)


class Optional(APIView):
    @idempotent("code.optional", mode="transactional", required=False)
    def post(self, request: Request) -> Response:
        raise ValidationError("no")


urlpatterns = [
    path("wrapped/", Wrapped.as_view()),
    path("keeps/", csrf_exempt(Keeps.as_view())),
    path("optional/", Optional.as_view()),
]


@pytest.fixture
def send(settings: Any, user: User) -> Iterator[Sender]:
    """Send a request to the views of this module."""
    settings.ROOT_URLCONF, settings.EFFECTS = __name__, {}
    clear_url_caches()
    finalized.clear()
    yield Sender(user)
    clear_url_caches()


def test_row_02_a_view_finalizes_its_own_answers_alone(send: Sender) -> None:
    """Once for each run; a replay is the stored bytes, and what we refuse is no answer of the view's."""
    first = send("/wrapped/")
    assert (first.status_code, json.loads(first.content)) == (201, {"data": {"n": 1}})
    again = send("/wrapped/")
    assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (201, first.content, "true")
    assert "Allow" in again
    assert [send("/wrapped/", key, n=2).status_code for key in ("k", None, "a, b")] == [422, 400, 400]
    assert finalized == [201]
    refused = send("/wrapped/", "r", refuse=True)
    assert (refused.status_code, json.loads(refused.content)) == (400, {"data": ["no"]})
    assert send("/wrapped/", "r", refuse=True).content == refused.content
    assert finalized == [201, 400]


def test_row_29_a_view_may_name_its_attributes_as_it_likes(send: Sender) -> None:
    """Also as an attribute is named by which we know REST framework's request."""
    assert [send("/keeps/").status_code for _ in range(2)] == [201, 201]


def test_row_03_an_unprotected_refusal_says_so_too(send: Sender) -> None:
    """A handler without a key that raises was not protected either."""
    refused = send("/optional/", None)
    assert (refused.status_code, refused["Idempotency-Status"]) == (400, "ignored")
