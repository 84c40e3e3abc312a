"""Middleware that works on REST framework's `response.data` cannot tell a replay or a problem from a first answer."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse, JsonResponse
from django.urls import clear_url_caches, path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.decorators import api_view
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

import effects
from effects.http.decorators import idempotent
from effects.testing import provider_says
from tests.core.declared import Charge
from tests.http.conftest import Sender
from tests.http.does import PAYLOAD, charge_answer

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")
RAW = {"at": dt.date(2026, 1, 2), "of": (1, 2.5), 7: None}


def envelope(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap what REST framework answers, as many projects do."""

    def middleware(request: Any) -> Any:
        response = get_response(request)
        if hasattr(response, "data"):
            response.data = {
                "ok": not response.exception, "status": response.status_code,
                "type": type(response.data).__name__, "words": str(response.data), "data": response.data,
            }  # fmt: skip
            response._is_rendered = False
            response.render()
        return response

    return middleware


class Lines(BaseRenderer):
    """Writes what is no JSON."""

    media_type, format, charset = "text/lines", "lines", "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> str:
        if isinstance(data, list):
            return "\n".join(map(str, data))
        return "; ".join(f"{name}={value}" for name, value in data.items())


class LinesParser(BaseParser):
    """Reads what `Lines` writes of a list."""

    media_type = "text/lines"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> list[str]:
        return list(stream.read().decode().split("\n"))


class UpperRenderer(JSONRenderer):
    """Writes names in another case than the project's code has them."""

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return super().render({str(name).upper(): value for name, value in data.items()}, *args, **kwargs)


class UpperParser(JSONParser):
    """Reads names as the project's code has them."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        return {name.lower(): value for name, value in super().parse(*args, **kwargs).items()}


def perform() -> Any:
    return charge_answer(effects.perform(Charge, payload=PAYLOAD))


ANSWERS: dict[str, Callable[[], Any]] = {
    "raw": lambda: Response(RAW, status=201, headers={"Location": "/1/"}),
    "list": lambda: Response([{"a": 1}], headers={"Set-Cookie": "a=b"}),
    "empty": lambda: Response(status=204),
    "null": lambda: Response(None),
    "refused": lambda: Response({"no": RAW}, status=422),
    "json": lambda: JsonResponse({"n": 1.0}, status=201),
    "text": lambda: HttpResponse(b"plain \xff", content_type="text/plain"),
    "no json": lambda: HttpResponse(b"{", content_type="application/json"),
}


def views_of(name: str, make: Callable[[], Any]) -> list[Any]:
    """Return the views that answer with something: transactional, opaque, and a function."""

    class Transactional(APIView):
        @idempotent(f"wrapped.{name}.transactional", mode="transactional", freeze=range(400, 500))
        def post(self, request: Any) -> Any:
            return make()

    class Opaque(APIView):
        @idempotent(f"wrapped.{name}.opaque", mode="journaled")
        def post(self, request: Any) -> Any:
            return make()

    @api_view(["POST"])
    @idempotent(f"wrapped.{name}.function", mode="journaled")
    def function(request: Any) -> Any:
        return make()

    return [
        path(f"{name}/{kind}/", view)
        for kind, view in (("t", Transactional.as_view()), ("o", Opaque.as_view()), ("f", function))
    ]


class Declared(APIView):
    @idempotent("wrapped.declared", mode="journaled", performs=[Charge], answer=charge_answer)
    def post(self, request: Any) -> Any:
        return perform()


class Raises(APIView):
    @idempotent("wrapped.raises", mode="journaled")
    def post(self, request: Any) -> Any:
        raise ValidationError({"amount": ["too much"]})


class Spelled(APIView):
    renderer_classes, parser_classes = (UpperRenderer,), (UpperParser,)

    @idempotent("wrapped.spelled", mode="transactional")
    def post(self, request: Any) -> Any:
        return Response({"order": 1})


class Lined(APIView):
    renderer_classes, parser_classes = (Lines, JSONRenderer), (JSONParser, LinesParser)

    @idempotent("wrapped.lined", mode="transactional")
    def post(self, request: Any) -> Any:
        return Response(["a", "b"])


class Unread(APIView):
    renderer_classes = (Lines,)

    @idempotent("wrapped.unread", mode="transactional")
    def post(self, request: Any) -> Any:
        return Response({"a": 1})


@csrf_exempt
@idempotent("wrapped.asynchronous", mode="journaled")
async def asynchronous(request: Any) -> Any:
    return JsonResponse({"n": 1})


urlpatterns = [
    *(each for name, make in ANSWERS.items() for each in views_of(name.replace(" ", "-"), make)),
    path("declared/", Declared.as_view()),
    path("raises/", Raises.as_view()),
    path("spelled/", Spelled.as_view()),
    path("lined/", Lined.as_view()),
    path("unread/", Unread.as_view()),
    path("async/", asynchronous),
]
URLS = [f"/{name.replace(' ', '-')}/{kind}/" for name in ANSWERS for kind in "tof"]


@pytest.fixture
def send(settings: Any, user: User) -> Iterator[Sender]:
    """Send a request to the views of this module, behind the envelope."""
    settings.ROOT_URLCONF, settings.EFFECTS = __name__, {}
    settings.MIDDLEWARE = [f"{__name__}.envelope", *settings.MIDDLEWARE]
    clear_url_caches()
    with provider_says(Charge, DONE):
        yield Sender(user)
    clear_url_caches()


@pytest.mark.one_setting
@pytest.mark.parametrize("url", [*URLS, "/declared/", "/raises/", "/spelled/", "/lined/", "/unread/", "/async/"])
def test_a_first_answer_and_its_replay_leave_the_envelope_alike(send: Sender, url: str) -> None:
    """Status, content type and bytes, whatever was answered and by whichever kind of view."""
    first, again = send(url), send(url)
    assert again["Idempotent-Replayed"] == "true"
    assert (first.status_code, first.get("Content-Type")) == (again.status_code, again.get("Content-Type"))
    assert first.content == again.content
    assert hasattr(first, "data") == hasattr(again, "data") == hasattr(again, "accepted_renderer")


@pytest.mark.one_setting
def test_data_is_what_the_bytes_say(send: Sender) -> None:
    """In the project's own spelling where the view's parser reads it; the first answer keeps its other headers."""
    sent = [json.loads(send(url, key).content)["data"] for url, key in (("/raw/t/", "r"), ("/declared/", "d"))]
    assert sent == [{"at": "2026-01-02", "of": [1, 2.5], "7": None}, {"charged": {"id": "ch_1"}}]
    assert json.loads(send("/spelled/", "s").content)["DATA"] == {"order": 1}
    assert "a=b" in send("/list/o/", "l")["Set-Cookie"]


@pytest.mark.one_setting
@pytest.mark.parametrize("url", ["/raw/t/", "/raw/o/", "/raw/f/", "/declared/"])
def test_a_problem_of_rest_frameworks_view_has_data(send: Sender, url: str) -> None:
    """The envelope wraps a refusal as it wraps an answer, and the media type stays that of problems."""
    send(url)
    for key, more, code in ((None, {}, "idempotency_key_missing"), ("k", {"n": 2}, "idempotency_key_reused")):
        refused = send(url, key, **more)
        assert refused["Content-Type"] == "application/problem+json"
        assert json.loads(refused.content)["data"]["code"] == code
        assert json.loads(refused.content)["ok"] is False
