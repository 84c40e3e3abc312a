"""Whatever is sent to a protected view: the handler's answer or a refusal in words, never an error of the server's."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from django.test.client import BOUNDARY
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rest_framework.response import Response
from rest_framework.views import APIView

from effects.http.decorators import idempotent
from tests.http.conftest import Sender
from tests.http.reading import code
from tests.rubbish import DEEP, FEW, JSON_TEXTS, TEXTS, encoded

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_setting]
MANY = settings(FEW, max_examples=120)
JSON, FORM, MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    f"multipart/form-data; boundary={BOUNDARY}",
)
TYPES = [
    JSON, FORM, MULTIPART, "application/merge-patch+json", f"{JSON}; charset=utf-16", f"{JSON}; charset=latin-1",
    f"{JSON}; charset=nonsense", f"{FORM}; charset=ascii", "multipart/form-data", "multipart/form-data; boundary=é",
    "multipart/form-data; boundary=" + "x" * 300, "text/plain", "", ";;;", "a", "application/json;" * 50,
]  # fmt: skip
keys = count()


class Api(APIView):
    @idempotent("rubbish.transactional", mode="transactional")
    def post(self, request: Any) -> Any:
        return Response({"fine": True})

    @idempotent("rubbish.opaque", mode="journaled")
    def put(self, request: Any) -> Any:
        return Response({"fine": bool(request.data)})

    @idempotent("rubbish.picked", mode="journaled", fingerprint=lambda request: request.data)
    def patch(self, request: Any) -> Any:
        return Response({"fine": True})


@csrf_exempt
@idempotent("rubbish.plain", mode="journaled")
def plain(request: Any) -> Any:
    return Response({"fine": len(request.body)})


urlpatterns = [path("api/", Api.as_view()), path("plain/", plain)]


def part(name: str, value: str, extra: str = "") -> str:
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n{value}\r\n'


@pytest.fixture
def rubbish(send: Sender, settings: Any) -> Sender:
    """Views that take any body."""
    settings.ROOT_URLCONF = __name__
    return send


def told(answer: Any) -> None:
    """Check that it is no error of the server's, and in JSON if it is a refusal of ours."""
    assert answer.status_code < 500, answer.content
    if answer.status_code >= 400 and answer["Content-Type"] == "application/problem+json":
        assert json.loads(answer.content)["detail"]


@pytest.mark.parametrize("url", ["/api/", "/plain/"])
def test_any_body_under_any_type(rubbish: Sender, url: str) -> None:
    """JSON, forms, uploads, and what only says that it is one of them."""
    files = part("f", "x", '; filename="a"')
    bodies = st.one_of(
        (JSON_TEXTS | TEXTS).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.dictionaries(TEXTS, TEXTS, max_size=3).map(lambda fields: encoded(fields).encode()),
        st.tuples(TEXTS, TEXTS).map(
            lambda pair: (part(*pair) + f"--{BOUNDARY}--\r\n").encode("utf-8", "surrogatepass")
        ),
        st.sampled_from([part("a", "b"), files * 101, part("a", "b") * 1001, f"--{BOUNDARY}--", files[:-20]]).map(
            str.encode
        ),
        st.binary(max_size=30),
    )

    @MANY
    @given(st.sampled_from(["POST", "PUT", "PATCH"]), st.sampled_from(TYPES), bodies)
    @example("POST", JSON, DEEP[0].encode())
    @example("PUT", f"{JSON}; charset=utf-16", DEEP[0].encode("utf-16"))
    @example("PATCH", JSON, b'{"a": 1.5}')
    @example("PATCH", JSON, DEEP[1].encode())
    @example("PATCH", JSON, b'["\\ud800"]')
    @example("POST", FORM, b"&" * 5000)
    @example("POST", MULTIPART, (files * 101 + f"--{BOUNDARY}--\r\n").encode())
    @example("PUT", MULTIPART, (part("a", "b") * 1001 + f"--{BOUNDARY}--\r\n").encode())
    def holds(method: str, content_type: str, body: bytes) -> None:
        told(rubbish(url, f"r{next(keys)}", method=method, content_type=content_type, body=body))

    holds()


@pytest.mark.parametrize("url", ["/api/", "/plain/"])
@pytest.mark.parametrize(("count_of", "extra"), [(101, '; filename="a"'), (1001, "")])
def test_more_parts_than_django_takes_are_refused(rubbish: Sender, url: str, count_of: int, extra: str) -> None:
    """As a body that cannot be compared, whichever of the two limits it is."""
    body = (part("a", "b", extra) * count_of + f"--{BOUNDARY}--\r\n").encode()
    for method in ("POST", "PUT"):
        refused = rubbish(url, f"m{method}", method=method, content_type=MULTIPART, body=body)
        assert (refused.status_code, code(refused)) == (400, "idempotency_request_invalid")


def test_a_view_that_reads_bytes_finds_them_under_any_type(rubbish: Sender) -> None:
    """JSON that says that it is an upload reaches a view that takes JSON, as without the decorator."""
    upload = (part("a", "b") + f"--{BOUNDARY}--\r\n").encode()
    answer = rubbish("/plain/", "upload", content_type=MULTIPART, body=upload)
    assert json.loads(answer.content) == {"fine": len(upload)}
    assert rubbish("/plain/", "json", content_type=MULTIPART, body=b'"json"').status_code in (200, 400)


@pytest.mark.parametrize("body", [b'{"a": 1.5}', b"[" * 80 + b"]" * 80, b"[9007199254740993]"])
def test_what_a_callable_cannot_write_exactly_is_400(rubbish: Sender, body: bytes) -> None:
    """`fingerprint=` that returns what a client sent: the place is named, nothing is recorded."""
    refused = rubbish("/api/", method="PATCH", body=body)
    assert (refused.status_code, code(refused)) == (400, "idempotency_request_invalid")
    assert "$" in json.loads(refused.content)["detail"]


def test_any_query_and_key(rubbish: Sender) -> None:
    """Beside a body that is fine."""

    @MANY
    @given(st.dictionaries(TEXTS, TEXTS, max_size=2), TEXTS.filter(lambda text: "\n" not in text and "\r" not in text))
    def holds(query: dict[str, str], key: str) -> None:
        told(rubbish("/api/?" + encoded(query), key[:500]))

    holds()
