"""What goes over the wire, and what ends it."""

import gzip
import json
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

import effects
from effects.contrib.httpx import ApiRequest
from effects.vocabulary.failures import Doubt, InvalidRequest, NotSent
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import Applied, monotonic
from tests.httpx.conftest import Transfer, asking, context_for, declared, fails, told
from tests.stripe.scripted import Scripted, serve

DONE = {"id": "t-1"}


def test_one_send_is_one_request_under_the_key(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """One permit puts one POST on the wire, on a connection of its own, with the provider key in the header."""
    api.says(201, DONE)
    allowed = permit()
    transfer.send(context_for(allowed), allowed)
    ((method, path, headers, body),) = api.seen
    assert (method, path, json.loads(body)) == ("POST", "/transfers", {"amount": 400})
    sent = {name.lower(): value for name, value in headers.items()}
    assert sent.pop("host") == api.url.removeprefix("http://")
    assert sent == {
        "idempotency-key": allowed.provider_key,
        "authorization": "Bearer s3cret",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "accept": "application/json",
        "accept-encoding": "identity",
        "connection": "close",
        "user-agent": f"django-effects/{effects.__version__}",
    }


@pytest.mark.parametrize("status", [301, 408, 409, 425, 429, 500, 502, 503, 504])
def test_nothing_is_repeated(api: Scripted, transfer: Transfer, permit: Callable, status: int) -> None:
    """What clients repeat a request for is the answer to one request here."""
    for _ in range(3):
        api.says(status, {}, Retry_After="0")
    fails(transfer, permit())
    assert len(api.seen) == 1


def test_the_permit_s_key_goes_over_one_of_the_project_s(api: Scripted, permit: Callable) -> None:
    """The header holds one key, the permit's, whatever the request says."""
    effect = asking(api.url, ApiRequest("POST", api.url, headers={"idempotency-key": "mine"}))
    api.says(204, b"")
    allowed = permit()
    effect.send(context_for(allowed), allowed)
    headers = api.seen[0][2]
    assert [value for name, value in headers.items() if name.lower() == "idempotency-key"] == [allowed.provider_key]


@pytest.mark.parametrize(("header", "expected"), [("X-Request-Id", True), (None, False)])
def test_the_key_s_header_has_the_provider_s_name(
    api: Scripted, permit: Callable, header: str | None, expected: bool
) -> None:
    """Or there is none."""
    effect = declared(url=api.url, key_header=header)
    api.says(204, b"")
    allowed = permit()
    effect.send(context_for(allowed), allowed)
    found = [name for name, value in api.seen[0][2].items() if value == allowed.provider_key]
    assert [name.lower() for name in found] == (["x-request-id"] if expected else [])


@pytest.mark.parametrize(
    ("asked", "kind", "body"),
    [
        ({"json": {"a": "é"}}, "application/json", '{"a":"é"}'),
        ({"json": False}, "application/json", "false"),
        ({"form": {"a": "b c", "d": "é"}}, "application/x-www-form-urlencoded", "a=b+c&d=%C3%A9"),
        ({"content": "<a/>", "headers": {"Content-Type": "text/xml"}}, "text/xml", "<a/>"),
        ({"content": b"x"}, None, "x"),
        ({}, None, ""),
    ],
    ids=told,
)
def test_the_body(api: Scripted, permit: Callable, asked: Any, kind: str | None, body: str) -> None:
    """JSON, a form, or what the project wrote itself."""
    effect = asking(api.url, ApiRequest("POST", f"{api.url}/a?b=c", params={"d": "e f"}, **asked))
    api.says(204, b"")
    allowed = permit()
    effect.send(context_for(allowed), allowed)
    _, path, headers, sent = api.seen[0]
    # httpx 0.27 writes JSON with spaces and escapes
    assert (json.loads(sent) == json.loads(body)) if kind == "application/json" else sent == body
    assert path in ("/a?b=c&d=e+f", "/a?b=c&d=e%20f")
    assert {name.lower(): value for name, value in headers.items()}.get("content-type") == kind


def test_a_redirect_is_not_followed(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """A redirect is an answer that proves nothing; the server that it points at is never asked."""
    with serve() as other:
        other.says(201, DONE)
        for status in (301, 302, 303, 307, 308):
            api.says(status, b"", Location=f"{other.url}/elsewhere")
            assert isinstance(fails(transfer, permit()), Doubt)
        assert other.seen == []
    assert len(api.seen) == 5


def test_the_environment_names_no_proxy(
    api: Scripted, transfer: Transfer, permit: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that a variable names is not asked."""
    with serve() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        api.says(201, DONE)
        allowed = permit()
        transfer.send(context_for(allowed), allowed)
        assert proxy.seen == []


# -- before the first byte --------------------------------------------------------------------------------------------


def test_nobody_listens(permit: Callable) -> None:
    """A refused connection proves that nothing was sent."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert isinstance(fails(declared(url=f"http://127.0.0.1:{free.getsockname()[1]}"), permit()), NotSent)


@pytest.mark.parametrize("host", ["no-such-host.invalid", f"{'a' * 63}.invalid"])
def test_no_such_name(permit: Callable, host: str) -> None:
    """A name that cannot be resolved proves that nothing was sent."""
    assert isinstance(fails(declared(url=f"https://{host}"), permit()), NotSent)


def test_after_the_deadline_nothing_is_sent(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """A permit that has run out sends nothing, and says so."""
    assert isinstance(fails(transfer, permit(-0.1)), NotSent)
    assert api.seen == []


def test_a_request_that_cannot_be_made(api: Scripted, permit: Callable) -> None:
    """What `request` raises is proof, for it comes before the send, and may be otherwise next time."""

    def asked(context: Any) -> Any:
        raise LookupError("no account yet")

    found = fails(asking(api.url, asked), permit())
    assert isinstance(found, NotSent)
    assert "no account yet" in found.message


def test_a_request_that_the_project_refuses(api: Scripted, permit: Callable) -> None:
    """A failure of our own kind keeps its meaning."""

    def asked(context: Any) -> Any:
        raise effects.Declined("closed", code="closed")

    assert isinstance(fails(asking(api.url, asked), permit()), effects.Declined)


class SoftTimeLimitExceeded(Exception):  # noqa: N818 - Celery's name
    """What Celery raises in a worker."""


def test_an_interrupt_in_the_request_goes_on(api: Scripted, permit: Callable) -> None:
    """A soft time limit is nobody's refusal."""

    def asked(context: Any) -> Any:
        raise SoftTimeLimitExceeded

    allowed = permit()
    with pytest.raises(SoftTimeLimitExceeded):
        asking(api.url, asked).send(context_for(allowed), allowed)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"url": "{api}", "headers": {"Authorization": "Bearer s3cret\r\nX-Evil: 1"}}, "headers"),
        ({"url": "{api}", "headers": {"Authorization": "s3cret\x00"}}, "headers"),
        ({"url": "{api}", "headers": {"Author ization": "s3cret"}}, "headers"),
        ({"url": "{api}", "headers": {"Authorization": "s3crét"}}, "cannot be written"),
        ({"url": "{api}", "headers": {"X": None}}, "cannot be written"),
        ({"url": "{api}/\n"}, "cannot be written"),
        ({"url": "{api}", "json": {"amount": object()}}, "cannot be written"),
        ({"url": "http://ann:s3cret@bank.example"}, "in a header"),
        ({"url": "/transfers"}, "no https address"),
        ({"url": "ftp://bank.example"}, "no https address"),
        ({"url": "https:///transfers"}, "no https address"),
    ],
    ids=told,
)
def test_a_request_that_cannot_be_written(api: Scripted, permit: Callable, asked: dict[str, Any], says: str) -> None:
    """A header with a line break, a URL that is none, a body that is no JSON: refused, nothing sent, nothing told."""
    url = asked.pop("url").replace("{api}", api.url)
    effect = asking(api.url, ApiRequest("POST", url, **asked))
    asked["url"] = url.replace(api.url, "{api}")
    found = fails(effect, permit())
    assert isinstance(found, InvalidRequest)
    assert says in found.message
    assert "s3cr" not in found.message
    assert api.seen == []


def test_something_that_is_no_request(api: Scripted, permit: Callable) -> None:
    """A hook that returns something else is told so."""
    assert isinstance(fails(asking(api.url, {"url": api.url}), permit()), InvalidRequest)
    assert isinstance(fails(asking(api.url, None), permit()), InvalidRequest)


def test_without_tls_nothing_is_sent(api: Scripted, permit: Callable) -> None:
    """Unless the effect says that it may be."""
    found = fails(declared(url=api.url, allow_http=False), permit())
    assert isinstance(found, InvalidRequest)
    assert "allow_http = True" in found.message
    assert api.seen == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"method": "post"},
        {"method": ""},
        {"method": "PO ST"},
        {"json": {}, "content": b""},
        {"form": {}, "json": []},
        {"content": iter([b"x"])},
    ],
    ids=told,
)
def test_a_request_in_itself_wrong(arguments: dict[str, Any]) -> None:
    """It cannot even be made."""
    with pytest.raises(ValueError, match="ApiRequest"):
        ApiRequest(**{"method": "POST", "url": "https://bank.example", **arguments})


# -- after it ----------------------------------------------------------------------------------------------------------


def says(*parts: bytes) -> Callable[[Any], None]:
    """Return an answer that is written as it is, and then the connection ends."""

    def answer(wire: Any) -> None:
        for part in parts:
            wire.write(part)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 201 Cre",
        b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 422 No\r\nContent-Length: 100\r\n\r\n{",
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
def test_a_broken_connection_is_doubt(api: Scripted, transfer: Transfer, permit: Callable, answer: bytes) -> None:
    """After the first byte a connection that ends, or says something else, tells nothing."""
    api.does(says(answer))
    found = fails(transfer, permit())
    assert isinstance(found, Doubt)
    assert found.reason is ExecutionReason.NO_REPLY
    assert len(api.seen) == 1


def trickle(head: bytes, part: bytes) -> Callable[[Any], None]:
    """Return an answer whose parts come one by one, for longer than any permit of these tests."""

    def answer(wire: Any) -> None:
        wire.write(head)
        for _ in range(100):
            wire.write(part)
            wire.flush()
            time.sleep(0.05)

    return answer


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
    ids=["headers", "body", "hints"],
)
def test_a_trickling_answer_ends_at_the_deadline(
    api: Scripted, transfer: Transfer, permit: Callable, head: bytes, part: bytes
) -> None:
    """The deadline is one for the whole request, not one for each read."""
    api.does(trickle(head, part))
    started = monotonic()
    found = fails(transfer, permit(0.5))
    assert isinstance(found, Doubt)
    assert found.reason is ExecutionReason.TIMEOUT
    assert 0.4 < monotonic() - started < 1.0


def test_a_body_that_nobody_reads_ends_at_the_deadline(permit: Callable) -> None:
    """Writing is bounded as well, and a part that was written is doubt."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        started = monotonic()
        found = fails(asking(url, ApiRequest("POST", url, content=b"x" * 50_000_000)), permit(0.5))
    assert isinstance(found, Doubt)
    assert found.reason is ExecutionReason.TIMEOUT
    assert 0.4 < monotonic() - started < 1.5


@pytest.mark.parametrize("status", [200, 422])
def test_an_answer_that_is_too_long(api: Scripted, permit: Callable, status: int) -> None:
    """It is not read to its end, and half an answer proves nothing."""
    effect = declared(url=api.url, max_answer_bytes=1000)
    api.says(status, b'"' + b"x" * 998 + b'"')
    api.says(status, b'"' + b"x" * 999 + b'"')
    allowed = permit()
    if status == 200:
        assert isinstance(effect.send(context_for(allowed), allowed), Applied)
    else:
        assert isinstance(fails(effect, allowed), InvalidRequest)
    found = fails(effect, permit())
    assert (type(found), found.code) == (Doubt, "answer_too_long")


def test_an_answer_that_does_not_say_how_long_it_is(api: Scripted, permit: Callable) -> None:
    """One that comes fast and for long is cut off by its length."""

    def answer(wire: Any) -> None:
        wire.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1000):
            wire.write(b"x" * 65536)

    api.does(answer)
    assert fails(declared(url=api.url), permit()).code == "answer_too_long"


def test_a_compressed_answer(api: Scripted, permit: Callable) -> None:
    """One that was not asked for is read, within the limit of what it becomes; a broken or exotic one is doubt."""
    effect = declared(url=api.url, max_answer_bytes=1000)
    allowed = permit()
    api.says(200, gzip.compress(b'{"id": "t-1"}'), Content_Encoding="gzip")
    assert effect.send(context_for(allowed), allowed) == Applied(DONE, "t-1")
    api.says(200, gzip.compress(b" " * 100_000), Content_Encoding="gzip")
    assert fails(effect, permit()).code == "answer_too_long"
    for coding, body in (("gzip", b"no gzip"), ("gzip, gzip", gzip.compress(gzip.compress(b"{}"))), ("br", b"{}")):
        api.says(200, body, Content_Encoding=coding)
        found = fails(effect, permit())
        assert (type(found), found.code) == (Doubt, "unreadable_answer")


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_are_not_shown(api: Scripted, permit: Callable, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the logs of what we stand on nor the request's repr show headers, query, path or body."""
    asked = ApiRequest(
        "POST", f"{api.url}/s3cret?key=s3cret", params={"token": "s3cret"}, headers={"Authorization": "s3cret"},
        json={"pin": "s3cret"},
    )  # fmt: skip
    caplog.set_level(logging.DEBUG)
    for logger in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=logger)
    api.says(201, DONE)
    allowed = permit()
    asking(api.url, asked).send(context_for(allowed), allowed)
    assert repr(asked) == f"ApiRequest('POST', '{api.url}')"
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(ApiRequest("POST", "https://ann:s3cret@bank.example/x"))
    assert repr(ApiRequest("POST", "https://[s3cret")) == "ApiRequest('POST', '<no URL>')"


def test_an_error_does_not_quote_a_header(api: Scripted, permit: Callable) -> None:
    """Not even by what it came from."""
    asked = ApiRequest("POST", api.url, headers={"Authorization": "s3cret\n"})
    error: BaseException | None = fails(asking(api.url, asked), permit())
    assert "s3cret" not in str(error)
    assert error is not None
    assert error.__cause__ is None
    assert error.__suppress_context__
