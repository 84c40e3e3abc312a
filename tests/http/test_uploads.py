"""Files that a parser of REST framework's brings, whatever its media type: row 33 of the HTTP contract for all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.handlers.wsgi import WSGIRequest
from django.http import QueryDict
from rest_framework.parsers import BaseParser, DataAndFiles, FileUploadParser, JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from effects.http.decorators import idempotent
from effects.http.fingerprints import (
    BodyTooLargeError,
    BodyUnreadableError,
    FingerprintFields,
    differs,
    fingerprint,
)
from effects.models import Request as Row
from tests.http.asking import FORM, JSON, factory

MIB = 1024 * 1024


class Archive(BaseParser):
    """A project's own parser: two files of one body, and beside them what a subclass says."""

    media_type = "application/x-archive"
    fields: Any = {}

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        raw = stream.read()
        half = len(raw) // 2
        files = QueryDict(mutable=True)
        files.setlist("page", [ContentFile(raw[:half], "one"), ContentFile(raw[half:], "two")])  # type: ignore[list-item]
        return DataAndFiles(self.fields, files)


class WithForm(Archive):
    fields = QueryDict("csrfmiddlewaretoken=x&note=n")


class WithDict(Archive):
    fields = {"note": ["no", "form"]}


class Csv(BaseParser):
    """A parser that brings no file."""

    media_type = "text/csv"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return list(csv.reader(io.StringIO(stream.read().decode())))


def http(body: bytes, name: str | None = "a.bin", content_type: str = "application/octet-stream") -> WSGIRequest:
    headers = {} if name is None else {"Content-Disposition": f"attachment; filename={name}"}
    return factory.generic("POST", "/files/", body, content_type, headers=headers)


def parsed_by(parser: type[BaseParser], *args: Any, **kwargs: Any) -> Request:
    request = Request(http(*args, **kwargs), parsers=[parser()], parser_context={"kwargs": {}})
    requests.append(request)
    return request


requests: list[Request] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what REST framework leaves open."""
    yield
    for request in requests:
        for files in vars(request).get("_files", {}).values():
            for file in files if isinstance(files, list) else [files]:
                file.close()
    requests.clear()


def bodies_differ(first: Any, second: Any) -> bool:
    found = differs(fingerprint(first), fingerprint(second))
    assert found in ([], ["body"])
    return bool(found)


@pytest.mark.parametrize("content_type", ["application/octet-stream", "image/png", JSON, FORM, "multipart/form-data"])
@pytest.mark.parametrize("size", [1, 3 * MIB], ids=["small", "on disk"])
def test_a_file_counts_with_its_name_and_contents(size: int, content_type: str) -> None:
    """`FileUploadParser` takes every media type and any size; the handler finds the file whole."""
    body = b"x" * size

    def sent(body: bytes, name: str) -> Request:
        return parsed_by(FileUploadParser, body, name, content_type)

    assert not bodies_differ(sent(body, "a.bin"), sent(body, "a.bin"))
    assert bodies_differ(sent(body, "a.bin"), sent(body, "b.bin"))
    assert bodies_differ(sent(body, "a.bin"), sent(body[:-1] + b"y", "a.bin"))
    request = sent(body, "a.bin")
    fingerprint(request)
    assert request.data["file"].read() == body


def test_a_file_that_a_permission_read_before_is_the_same() -> None:
    """Row 37: the fingerprint does not hang on who parsed first."""
    request = parsed_by(FileUploadParser, b"abc")
    request.data["file"].read()
    assert not bodies_differ(request, parsed_by(FileUploadParser, b"abc"))


@pytest.mark.parametrize("parser", [Archive, WithForm, WithDict])
@pytest.mark.parametrize("body", [b"one, two", b"x" * (MIB + 512 * 1024)], ids=["small", "large"])
def test_files_of_a_parser_of_the_project(parser: type[BaseParser], body: bytes) -> None:
    """Several files, with a form beside them or none; anything else counts by its bytes, up to the limit."""
    request = parsed_by(parser, body, content_type=Archive.media_type)
    if parser is WithDict and len(body) > MIB:
        with pytest.raises(BodyUnreadableError, match="name what counts"):
            fingerprint(request)
        return
    assert not bodies_differ(request, parsed_by(parser, body, content_type=Archive.media_type))
    assert bodies_differ(request, parsed_by(parser, body[:-1] + b"!", content_type=Archive.media_type))


def test_named_files_of_an_upload_count() -> None:
    """`FingerprintFields` names an upload's files as it names those of a form."""
    without = FingerprintFields(exclude=("file",))
    first, second = (fingerprint(parsed_by(FileUploadParser, body), without) for body in (b"a", b"b"))
    assert differs(first, second) == []


def test_what_is_no_file_counts_by_its_bytes_and_name() -> None:
    """A parser that makes no files of the body keeps the limit; the name in the header counts where there is one."""
    assert not bodies_differ(
        parsed_by(Csv, b"a,b", content_type="text/csv"), parsed_by(Csv, b"a,b", content_type="text/csv")
    )
    assert bodies_differ(
        parsed_by(Csv, b"a,b", content_type="text/csv"), parsed_by(Csv, b"a,c", content_type="text/csv")
    )
    assert bodies_differ(http(b"raw"), http(b"raw", "b.bin"))
    assert bodies_differ(http(b"raw"), http(b"raw", None))
    with pytest.raises(BodyTooLargeError):
        fingerprint(parsed_by(Csv, b"a\n" * MIB, content_type="text/csv"))


@pytest.mark.parametrize("size", [100, 2 * MIB])
def test_a_file_that_was_cut_off_is_no_file(size: int) -> None:
    """Row 21: the client hung up before the last byte."""
    environ = http(b"").META | {"CONTENT_LENGTH": str(size + 1), "wsgi.input": io.BytesIO(b"x" * size)}
    request = WSGIRequest(environ)
    with pytest.raises(BodyUnreadableError, match="to its end"):
        fingerprint(Request(request, parsers=[FileUploadParser()], parser_context={"kwargs": {}}))


class Files(APIView):
    authentication_classes = ()
    permission_classes = ()
    parser_classes = [FileUploadParser]

    @idempotent("uploads.file", mode="transactional", identity="machine")
    def put(self, request: Any) -> Response:
        """Take a file."""
        file = request.data["file"]
        return Response({"name": file.name, "size": len(file.read())}, status=201)


class Mixed(Files):
    parser_classes = [JSONParser, MultiPartParser, FileUploadParser]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("view", [Files, Mixed])
def test_an_upload_is_retried(view: type[APIView]) -> None:
    """1.5 MB go through; a retry is a replay, another name or content is 422."""

    def put(name: str, body: bytes) -> Any:
        headers = {"Idempotency-Key": "k", "Content-Disposition": f"attachment; filename={name}"}
        request = factory.generic("PUT", "/files/", body, "application/octet-stream", headers=headers)
        return view.as_view()(request)

    large = b"x" * (MIB + 512 * 1024)
    first = put("a.bin", large)
    assert (first.status_code, first.data) == (201, {"name": "a.bin", "size": len(large)})
    assert put("a.bin", large)["Idempotent-Replayed"] == "true"
    assert [put("b.bin", large).status_code, put("a.bin", large[1:]).status_code] == [422, 422]
    assert Row.objects.count() == 1


@pytest.mark.parametrize("form", ["a=1&csrfmiddlewaretoken={}", "csrfmiddlewaretoken={}&a=1"])
def test_the_csrf_token_of_a_form_does_not_count(form: str) -> None:
    """A page has a new one each time; a field that is named to count does, and so does a member of JSON."""

    def sent(token: str, content_type: str = FORM) -> WSGIRequest:
        return http(form.format(token).encode(), None, content_type)

    assert not bodies_differ(sent("x"), sent("y"))
    assert bodies_differ(sent("x"), http(b"a=2&csrfmiddlewaretoken=x", None, FORM))
    named = FingerprintFields(include=("csrfmiddlewaretoken",))
    assert differs(fingerprint(sent("x"), named), fingerprint(sent("y"), named)) == ["body"]
    tokens = [http(b'{"csrfmiddlewaretoken":"%s"}' % token, None, JSON) for token in (b"x", b"y")]
    assert bodies_differ(*tokens)


def test_the_csrf_token_of_a_multipart_form_does_not_count() -> None:
    """The same where the form brings files; a file of that name counts."""

    def sent(token: str, file: str = "f", field: str = "file") -> WSGIRequest:
        upload = ContentFile(file.encode(), "a.txt")
        return factory.post("/files/", {"csrfmiddlewaretoken": token, field: upload})

    assert not bodies_differ(sent("x"), sent("y"))
    assert bodies_differ(sent("x"), sent("x", "g"))
    both = [factory.post("/files/", {"csrfmiddlewaretoken": ContentFile(each, "a")}) for each in (b"x", b"y")]
    assert bodies_differ(*both)
