"""Requests of both kinds, made by hand, for the tests of fingerprints."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.test import RequestFactory
from django.test.client import BOUNDARY, encode_multipart
from rest_framework.parsers import FormParser, JSONParser, MultiPartParser
from rest_framework.request import Request

from effects.http.fingerprints import (
    differs,
    fingerprint,
)

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
factory = RequestFactory()


def plain(body: bytes = b"", content_type: str = JSON, path: str = "/refunds/", method: str = "POST") -> WSGIRequest:
    return factory.generic(method, path, body, content_type)


def drf(http: HttpRequest) -> Request:
    return Request(http, parsers=[JSONParser(), FormParser(), MultiPartParser()])


def as_is(http: HttpRequest) -> Any:
    return http


def upload(boundary: str = BOUNDARY, *, name: str = "a.txt", content: bytes = b"hello", **fields: str) -> WSGIRequest:
    data = {"note": "n", **fields, "file": SimpleUploadedFile(name, content, "text/plain")}
    body = encode_multipart(boundary, data)
    return plain(body, f"multipart/form-data; boundary={boundary}")


def same(first: Any, second: Any, **options: Any) -> bool:
    return differs(fingerprint(first, **options), fingerprint(second, **options)) == []


KINDS = pytest.mark.parametrize("kind", [as_is, drf], ids=["django", "drf"])
