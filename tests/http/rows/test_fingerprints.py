"""Rows 6, 7, 21, 30 to 34 and 37: which requests are the same."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory

from effects.http import decorators, fingerprints
from effects.models import Request
from tests.crash import provider
from tests.http.conftest import Sender
from tests.http.rows import shop
from tests.http.rows.conftest import Ledger, trouble
from tests.http.rows.server import Server
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)
FORM = "application/x-www-form-urlencoded"
KEY = {"/upload/": "u", "/transactional/api/": "t", "/fields/": "f"}


def told(response: Any) -> tuple[int, str, list[str]]:
    """Status, code and the parts that differ."""
    found = json.loads(response.content)
    return response.status_code, found["code"], found["differs"]


def others(kind: str) -> list[tuple[dict[str, Any], list[str]]]:
    """Requests that differ from `POST /kind/api/1/?a=1 {"number": "secret-1"}`, and in what."""
    url = f"/{kind}/api/1/"
    return [
        ({"url": f"{url}?a=1", "number": "secret-2"}, ["body"]),
        ({"url": f"{url}?a=2", "number": "secret-1"}, ["query"]),
        ({"url": f"/{kind}/api/2/?a=1", "number": "secret-1"}, ["path"]),
        ({"url": f"{url}?a=1", "content_type": "application/vnd.shop+json", "body": b"{}"}, ["body", "media_type"]),
    ]


@each_kind
def test_row_06_another_request_when_stored(send: Sender, ledger: Ledger, kind: str) -> None:
    """422 that names the kinds of parts, and neither a value nor a reference; nothing runs."""
    send(f"/{kind}/api/1/?a=1", number="secret-1")
    for other, parts in others(kind):
        if "content_type" in other:
            continue  # this view's parsers refuse it first
        refused = send(**other)
        assert told(refused) == (422, "idempotency_key_reused", parts)
        assert b"secret" not in refused.content
        assert b"operation_ref" not in refused.content
    assert send(f"/{kind}/api/1/?a=1", method="PATCH", number="secret-1").status_code == 422
    assert ledger.of(kind) == 1


@each_kind
def test_row_06_another_media_type(send: Sender, ledger: Ledger, kind: str) -> None:
    """The same bytes as another type are another request."""
    send(f"/{kind}/plain/", body=b'{"number": "1"}')
    refused = send(f"/{kind}/plain/", body=b'{"number": "1"}', content_type="application/merge-patch+json")
    assert told(refused) == (422, "idempotency_key_reused", ["media_type"])
    assert ledger.of(kind) == 1


@pytest.mark.parametrize("kind", ["opaque", "declared"])
def test_row_06_another_request_while_in_flight(live: Server, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """A journaled view refuses it at once, in every process."""
    trouble("gate")
    first = in_thread(live.get, f"/{kind}/api/", do="hold")
    assert provider.ask("wait_held")
    for other in ({"do": "pay"}, {"do": "hold", "number": "2"}):
        refused = live.get(f"/{kind}/api/", **other)
        assert (refused.status, refused.code, refused.body["differs"]) == (422, "idempotency_key_reused", ["body"])
    assert (live.get(f"/{kind}/api/", do="hold").status, live.get(f"/{kind}/api/", do="hold").code) == (
        409,
        "operation_in_progress",
    )
    provider.ask("release")
    assert first().status == 201
    assert ledger.of(kind) == 1


def test_row_06_another_request_in_flight_of_a_transactional_view(live: Server, ledger: Ledger, in_thread: Any) -> None:
    """It cannot see a row that is not committed: 409 at once, 422 afterwards; with `wait=` 422 in one go."""
    for url, key, waits in (("/transactional/api/", "a", False), ("/patient/transactional/", "b", True)):
        trouble("gate")
        first = in_thread(live.get, url, key, do="hold", number=url)
        assert provider.ask("wait_held")
        if waits:
            other = in_thread(live.get, url, key, do="pay")
            provider.ask("release")
            assert other().status == 422
        else:
            assert live.get(url, key, do="pay").code == "operation_in_progress"
            provider.ask("release")
        assert first().status == 201
        assert live.get(url, key, do="pay").status == 422
    assert ledger.rows() == 2


@each_kind
def test_row_06_after_losing_the_insert_race(live: Server, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """Of many different requests under one key at one instant one runs; no other gets its answer."""
    first = [in_thread(live.get, f"/{kind}/api/", number=f"n-{number}") for number in range(12)]
    answers = [wait() for wait in first]
    assert [answer.status for answer in answers].count(201) == 1
    assert {answer.status for answer in answers} <= {201, 409, 422}
    again = [live.get(f"/{kind}/api/", number=f"n-{number}").status for number in range(12)]
    assert sorted(again) == [201] + [422] * 11
    assert ledger.of(kind) == 1


@each_kind
def test_row_07_another_operation_under_the_key(send: Sender, ledger: Ledger, kind: str) -> None:
    """Refused by default; a scope of its own makes it another key."""
    send(f"/{kind}/api/")
    for other in (f"/{kind}/function/", f"/{kind}/things/", "/machine/" if kind == "" else f"/{kind}/plain/"):
        assert told(send(other)) == (422, "idempotency_key_reused", ["operation"])
    assert ledger.of(kind) == 1
    assert send("/scoped/", number="scoped").status_code == 201


# -- row 21: what cannot be read ---------------------------------------------------------------------------------------


@each_kind
def test_row_21_the_client_hung_up(live: Server, ledger: Ledger, kind: str) -> None:
    """Half a body is a quiet 400, never the digest of what came: nothing runs, nothing is stored or logged."""
    logged = live.process.log.stat().st_size
    for cut in (0, 5, -1):
        with live.open(f"/{kind}/api/", f"cut {cut}".replace(" ", ""), cut=cut, number="1") as wire:
            wire.shutdown(1)
            with wire.makefile("rb") as answer:
                assert b" 400 " in answer.readline()
                assert b"idempotency_request_invalid" in answer.read()
    with live.open(f"/{kind}/api/", "gone", cut=5, number="1"):
        pass
    assert live.get(f"/{kind}/api/", "cut5", number="1").status == 201
    assert "Traceback" not in live.process.log.read_bytes()[logged:].decode()
    assert Request.objects.count() == 1
    assert ledger.of(kind) == 1


@each_kind
def test_row_21_too_large_to_compare(send: Sender, ledger: Ledger, settings: Any, kind: str) -> None:
    """413 for what is beyond our limit or Django's."""
    settings.EFFECTS = {"MAX_FINGERPRINT_BYTES": 100, "DISPATCH": "none"}
    for place in ("api/", "plain/"):
        refused = send(f"/{kind}/{place}", number="y" * 200)
        assert (refused.status_code, json.loads(refused.content)["code"]) == (413, "idempotency_request_invalid")
    settings.EFFECTS = {"DISPATCH": "none"}
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert send(f"/{kind}/api/", number="y" * 200).status_code == 413
    assert not shop.seen
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)


# -- rows 30 to 34 -----------------------------------------------------------------------------------------------------


@each_kind
def test_row_30_a_deploy_changes_the_definition(
    send: Sender, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A row is compared by the definition that it names: no false 422 for what was stored before."""
    first = send(f"/{kind}/api/", "old")
    newer = {**fingerprints.DEFINITIONS, 2: lambda request, fields: {"all": request.method}}
    monkeypatch.setattr(fingerprints, "DEFINITIONS", newer)
    monkeypatch.setattr(fingerprints, "VERSION", 2)
    monkeypatch.setattr(decorators, "VERSION", 2)
    assert send(f"/{kind}/api/", "old").content == first.content
    assert told(send(f"/{kind}/api/", "old", number="2"))[2] == ["body"]
    second = send(f"/{kind}/api/", "new", number="2")
    assert Request.objects.get(key="new").fingerprint_version == 2
    monkeypatch.undo()
    # the deploy is taken back: an honest no, neither a replay nor a second run
    refused = send(f"/{kind}/api/", "new", number="2")
    assert (refused.status_code, json.loads(refused.content)["code"]) == (409, "operation_policy_changed")
    assert second.status_code == 201
    assert ledger.of(kind) == 2


@each_kind
def test_row_31_json_is_compared_by_value(send: Sender, ledger: Ledger, kind: str) -> None:
    """Order of names, white space, escapes and a trailing newline make no other request."""
    first = send(f"/{kind}/api/", body=b'{"number":"\xc3\xa9","deep":{"a":[1,2],"b":null}}')
    for body in (
        b'{"deep":{"b":null,"a":[1,2]},"number":"\xc3\xa9"}',
        b'\n{ "number" : "\\u00e9",\t"deep": {"a": [1, 2], "b": null} }\r\n',
    ):
        assert send(f"/{kind}/api/", body=body).content == first.content
    assert send(f"/{kind}/api/", body=b'{"number":"\xc3\xa9","deep":{"a":[2,1],"b":null}}').status_code == 422
    assert ledger.of(kind) == 1


@each_kind
def test_row_32_numbers_are_never_merged_by_rounding(send: Sender, ledger: Ledger, kind: str) -> None:
    """1 and 1.0, neighbours beyond 2^53, decimals beyond a double: each its own request."""
    for number, (first, second) in enumerate(
        ((b"1", b"1.0"), (b"9007199254740992", b"9007199254740993"), (b"0.1", b"0.1000000000000000000001")), 1
    ):
        key = f"n{number}"
        assert send(f"/{kind}/api/", key, body=b'{"number":"%d","n":%s}' % (number, first)).status_code == 201
        refused = send(f"/{kind}/api/", key, body=b'{"number":"%d","n":%s}' % (number, second))
        assert told(refused) == (422, "idempotency_key_reused", ["body"])
        assert ledger.of(kind) == number


def multipart(boundary: str, *, content: bytes = b"file", name: str = "a.txt", number: str = "1") -> dict[str, Any]:
    """A form with a file, as a client writes it."""
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="number"\r\n\r\n{number}\r\n'.encode(),
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'.encode(),
        b"Content-Type: text/plain\r\n\r\n" + content + f"\r\n--{boundary}--\r\n".encode(),
    ]
    return {"body": b"".join(lines), "content_type": f"multipart/form-data; boundary={boundary}"}


def test_row_33_a_new_boundary_is_the_same_request(send: Sender, ledger: Ledger) -> None:
    """For plain views and REST framework's; names, values, file names and contents count."""
    for number, url in enumerate(("/upload/", "/transactional/api/"), 1):
        first = send(url, KEY[url], **multipart("one", number=url))
        again = send(url, KEY[url], **multipart("another", number=url))
        assert first.status_code == 201
        assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")
        for other in ({"content": b"other"}, {"name": "b.txt"}, {"number": "2"}):
            refused = send(url, KEY[url], **multipart("one", **{"number": url, **other}))
            assert told(refused) == (422, "idempotency_key_reused", ["body"])
        assert ledger.rows() == number


class Counting(io.RawIOBase):
    """An upload of which no byte exists before it is read."""

    def __init__(self, length: int, boundary: str) -> None:
        whole = multipart(boundary, content=b"@")["body"]
        self._head, _, self._tail = whole.partition(b"@")
        self.length = len(self._head) + length + len(self._tail)
        self._at, self._end = 0, len(self._head) + length
        self.largest = 0

    def read(self, size: int = -1) -> bytes:
        size = self.length - self._at if size < 0 else min(size, self.length - self._at)
        self.largest = max(self.largest, size)
        start, self._at = self._at, self._at + size
        head, middle = self._head[start : self._at], max(0, min(self._at, self._end) - max(start, len(self._head)))
        return head + b"x" * middle + self._tail[max(0, start - self._end) : max(0, self._at - self._end)]


def test_row_33_the_body_is_never_loaded_whole(ledger: Ledger) -> None:
    """Twenty megabytes are fingerprinted, stored and replayed with a fraction of them in memory at any time."""
    handler, answers = WSGIHandler(), []
    for boundary in ("one", "another"):
        stream = Counting(20_000_000, boundary)
        environ = RequestFactory().generic("POST", "/upload/", b"", **{"wsgi.input": stream}).META | {
            "CONTENT_TYPE": f"multipart/form-data; boundary={boundary}", "CONTENT_LENGTH": str(stream.length),
            "HTTP_IDEMPOTENCY_KEY": "large", "wsgi.input": stream,
        }  # fmt: skip
        tracemalloc.start()
        response = handler(environ, lambda status, headers: None)
        answers.append((response.status_code, b"".join(response)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        response.close()
        assert stream.largest <= 100_000
        assert peak < 6_000_000
    assert answers[0] == answers[1]
    assert answers[0][0] == 201
    assert ledger.rows() == 1


def test_row_34_a_fresh_token_in_the_body(send: Sender, ledger: Ledger) -> None:
    """`fingerprint=` names what counts, by fields or by a callable; without it the token counts."""
    for url, other in (("/fields/", {"number": "2"}), ("/transactional/api/", {"token": "b"})):
        first = send(url, KEY[url], number="1" + url, token="a")
        if url == "/fields/":
            assert send(url, KEY[url], number="1" + url, token="b").content == first.content
        assert send(url, KEY[url], **{"number": "1" + url, "token": "a", **other}).status_code == 422
    first = send("/callable/", "c", number="c")
    assert send("/callable/", "c", number="other").content == first.content
    assert send("/callable/", "c", body=b'[{"number": "c"}]').status_code == 422
    assert ledger.rows() == 3


# -- row 37: somebody read before --------------------------------------------------------------------------------------


def reads_body(get_response: Any) -> Any:
    """Read the body, as a signature check or an audit log does."""

    def middleware(request: Any) -> Any:
        assert request.body is not None
        return get_response(request)

    return middleware


def reads_post(get_response: Any) -> Any:
    """Read the form, as a method override does."""

    def middleware(request: Any) -> Any:
        assert request.POST is not None
        return get_response(request)

    return middleware


def consumes(get_response: Any) -> Any:
    """Read the stream and keep nothing."""

    def middleware(request: Any) -> Any:
        request.read()
        return get_response(request)

    return middleware


@pytest.fixture
def before(settings: Any) -> Any:
    """Put a middleware of this module before the view."""

    def put(name: str) -> None:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.{name}"] if name else settings.MIDDLEWARE

    return put


@each_kind
@pytest.mark.parametrize("middleware", ["", "reads_body", "reads_post"])
def test_row_37_a_middleware_or_permission_read_before(
    send: Sender, ledger: Ledger, before: Any, kind: str, middleware: str
) -> None:
    """JSON, forms and uploads are fingerprinted from what was sent, whoever read it, and the handler gets it all."""
    before(middleware)
    urls = (f"/reads/{kind}/",) if middleware else (f"/reads/{kind}/", f"/{kind}/function/")
    count = 0
    for number, url in enumerate(urls):
        for name, sent, other in _sent_and_other(str(number)):
            key, count = f"{name}{number}", count + 1
            first = send(url, key, **sent)
            assert first.status_code == 201, first.content
            assert send(url, key, **sent).content == first.content
            assert told(send(url, key, **other)) == (422, "idempotency_key_reused", ["body"])
    assert ledger.of(kind) == count


def _sent_and_other(number: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each kind of body, and one that differs from it."""
    return [
        ("json", {"body": b'{"number": "j%s", "n": 1.0}' % number.encode()}, {"body": b'{"number": "j", "n": 1.00}'}),
        (
            "form",
            {"body": b"number=f%s&n=1" % number.encode(), "content_type": FORM},
            {"body": b"number=f%s&n=2" % number.encode(), "content_type": FORM},
        ),
        ("upload", multipart("one", number=f"u{number}"), multipart("one", number=f"u{number}", content=b"other")),
    ]


@each_kind
def test_row_37_a_stream_that_nobody_kept_is_a_clear_error(
    send: Sender, ledger: Ledger, before: Any, kind: str
) -> None:
    """400 that says what to do, never a RawPostDataException or the digest of an empty body."""
    before("consumes")
    for url in (f"/{kind}/api/", f"/{kind}/plain/"):
        for sent in ({"number": "1"}, multipart("one")):
            refused = send(url, **sent)
            assert refused.status_code == 400, refused.content
    assert not shop.seen
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)
