"""Fingerprints of bodies that somebody read before, or nobody can read: rows 21, 36 and 37 of the HTTP contract."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.handlers.wsgi import WSGIRequest
from django.http import UnreadablePostError
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from rest_framework.exceptions import ParseError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request

from effects.http.fingerprints import (
    BodyTooLargeError,
    BodyUnreadableError,
    fingerprint,
)
from tests.http.asking import FORM, JSON, KINDS, drf, plain, same, upload


@KINDS
class TestWhoReadBefore:
    @pytest.mark.parametrize(
        ("body", "content_type"),
        [(b'{"a":1}', JSON), (b"a=1&b=2", FORM), (b"raw", "text/plain")],
    )
    def test_37_body_or_post_was_touched(self, kind: Callable[..., Any], body: bytes, content_type: str) -> None:
        """A middleware that read `body` or `POST` changes nothing."""
        parts = fingerprint(kind(plain(body, content_type)))
        for attribute in ("body", "POST"):
            http = plain(body, content_type)
            getattr(http, attribute)
            assert fingerprint(kind(http)) == parts

    @pytest.mark.parametrize("attribute", ["body", "POST", "FILES"])
    def test_37_multipart_was_touched(self, kind: Callable[..., Any], attribute: str) -> None:
        """The same for uploads, even after somebody read the file to its end."""
        http = upload()
        getattr(http, attribute)
        if attribute == "FILES":
            http.FILES["file"].read()
        assert fingerprint(kind(http)) == fingerprint(kind(upload()))

    def test_37_handler_reads_after_us(self, kind: Callable[..., Any]) -> None:
        """The handler finds body, stream and data untouched, and may change the data: row 36."""
        request = kind(plain(b'{"a":1}'))
        parts = fingerprint(request)
        if kind is drf:
            request.data["a"] = 2
        assert request.body == b'{"a":1}'
        assert fingerprint(request) == parts

    def test_37_consumed_without_a_trace(self, kind: Callable[..., Any]) -> None:
        """A stream that somebody read and threw away is a clear error, never an empty body."""
        for http in (plain(b'{"a":1}'), plain(b"a=1", FORM), plain(b"raw", "text/plain"), upload()):
            http.read()
            with pytest.raises(BodyUnreadableError, match="did not keep"):
                fingerprint(kind(http))
            if http.content_type == "multipart/form-data":
                _ = http.POST
                with pytest.raises(BodyUnreadableError, match="did not keep"):
                    fingerprint(kind(http))

    def test_closed_upload(self, kind: Callable[..., Any]) -> None:
        """A file that was closed before is an error."""
        request = kind(upload())
        request.FILES["file"].close()
        with pytest.raises(BodyUnreadableError, match="closed"):
            fingerprint(request)


class TestDRFReadBefore:
    @pytest.mark.parametrize(
        "make", [lambda: plain(b'{"a":1,"b":["x",null,true]}'), lambda: plain(b"a=1&b=2", FORM), upload]
    )
    def test_37_data_was_touched(self, make: Callable[[], WSGIRequest]) -> None:
        """A permission class that read `request.data` changes nothing."""
        request = drf(make())
        assert request.data
        assert fingerprint(request) == fingerprint(drf(make())) == fingerprint(make())

    @pytest.mark.parametrize("body", [b'{"a":1,"b":["x",null,true]}', b"a=1&b=2"])
    def test_37_releases_that_keep_no_bytes(self, body: bytes) -> None:
        """Where DRF parsed straight from the stream, its value gives the same fingerprint."""
        content_type = JSON if body.startswith(b"{") else FORM
        request = drf(plain(body, content_type))
        assert request.data
        del request._request._body
        request._request._read_started = True
        assert fingerprint(request) == fingerprint(plain(body, content_type))

    def test_37_floats_without_bytes(self) -> None:
        """A parsed float does not tell how it was written, so nothing is guessed."""
        request = drf(plain(b'{"a":1.50}'))
        assert request.data
        del request._request._body
        with pytest.raises(BodyUnreadableError, match=r"3\.18"):
            fingerprint(request)

    def test_broken_json_that_a_permission_swallowed(self) -> None:
        """The empty data that DRF leaves after a parse error is not the body."""
        request = drf(plain(b'{"a":'))
        with pytest.raises(ParseError):
            _ = request.data
        assert fingerprint(request) == fingerprint(plain(b'{"a":'))
        del request._request._body
        with pytest.raises(BodyUnreadableError):
            fingerprint(request)

    def test_parser_of_another_kind(self) -> None:
        """A multipart parser that returns a dict needs a callable."""

        class Nested(MultiPartParser):
            def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
                stream.read()
                return {"nested": {}}

        with pytest.raises(BodyUnreadableError, match="callable"):
            fingerprint(Request(upload(), parsers=[Nested()]))


class Broken(BytesIO):
    def read(self, *args: Any) -> bytes:
        raise OSError("connection reset")


def over(stream: BytesIO, length: int, content_type: str = JSON) -> WSGIRequest:
    environ = plain(b"", content_type).META
    environ.update({"CONTENT_LENGTH": str(length), "wsgi.input": stream})
    return WSGIRequest(environ)


@KINDS
class TestUnreadable:
    @pytest.mark.parametrize("content_type", [JSON, FORM, "text/plain", MULTIPART_CONTENT])
    def test_21_client_hung_up(self, kind: Callable[..., Any], content_type: str) -> None:
        """A connection that broke is an error, with an exception of the server or without."""
        with pytest.raises(BodyUnreadableError) as caught:
            fingerprint(kind(over(Broken(b""), 100, content_type)))
        assert caught.value.status == 400
        assert caught.value.code == "idempotency_request_invalid"
        assert isinstance(caught.value.__cause__, UnreadablePostError)
        whole = encode_multipart(BOUNDARY, {"file": SimpleUploadedFile("a", b"x" * 1000)})
        half = whole[:700] if content_type == MULTIPART_CONTENT else b'{"a":1}'
        with pytest.raises(BodyUnreadableError):
            fingerprint(kind(over(BytesIO(half), len(whole), content_type)))

    def test_21_no_length(self, kind: Callable[..., Any]) -> None:
        """A chunked body that Django takes for empty is not the empty one; a bad length is an error."""
        for content_type in (JSON, MULTIPART_CONTENT):
            http = plain(b"", content_type)
            http.META.pop("CONTENT_LENGTH", None)
            http.META["HTTP_TRANSFER_ENCODING"] = "chunked"
            with pytest.raises(BodyUnreadableError, match="Content-Length"):
                fingerprint(kind(http))
        http = plain(b"{}")
        http.META["CONTENT_LENGTH"] = "many"
        with pytest.raises(BodyUnreadableError, match="number"):
            fingerprint(kind(http))

    def test_21_too_large(self, kind: Callable[..., Any], settings: Any) -> None:
        """A body over the limit is refused, unread if its length is known, read before or not."""
        settings.EFFECTS = {"MAX_FINGERPRINT_BYTES": 10}
        http = over(Broken(b""), 11)
        with pytest.raises(BodyTooLargeError) as caught:
            fingerprint(kind(http))
        assert caught.value.status == 413
        assert caught.value.limit == 10
        assert fingerprint(kind(plain(b'{"a": 123}')))
        http = plain(b'{"a": 1234}')
        assert http.body
        with pytest.raises(BodyTooLargeError):
            fingerprint(kind(http))
        with pytest.raises(BodyTooLargeError):
            fingerprint(kind(upload(note="x" * 11)))

    def test_21_larger_than_django_takes(self, kind: Callable[..., Any], settings: Any) -> None:
        """Django's own limit of bodies in memory is the same problem."""
        settings.EFFECTS = {"MAX_FINGERPRINT_BYTES": 1000}
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 20
        with pytest.raises(BodyTooLargeError) as caught:
            fingerprint(kind(plain(b'{"a":"xxxxxxxxxxxxxxxxxxxxxxxx"}')))
        assert caught.value.limit == 20
        with pytest.raises(BodyTooLargeError):
            fingerprint(kind(upload(note="x" * 100)))

    def test_empty_bodies(self, kind: Callable[..., Any]) -> None:
        """No body, an empty form and an empty multipart body are requests like others."""
        assert same(kind(plain(b"", "")), kind(plain(b"", "")))
        assert same(kind(plain(b"", FORM)), kind(plain(b"", FORM)))
        empty = encode_multipart(BOUNDARY, {})
        assert same(kind(plain(empty, MULTIPART_CONTENT)), kind(plain(empty, MULTIPART_CONTENT)))
