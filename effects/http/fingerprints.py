"""Digest everything of a request that changes what would be done, part by part.

Two requests under one key are the same request if their parts agree. The rule behind every choice here: a
false "differs" is a nuisance, a false "same" answers one request with the result of another.

Definitions are versioned: a row names the version that it was made by, and is compared by that one, so that
a deploy with a new definition refuses nobody. A definition is never changed, only added.

What is compared was sent by anybody, and before a throttle charges them: no step may take more than a tenth of a second
for the body that `MAX_FINGERPRINT_BYTES` lets in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote

from django.conf import settings as project
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.utils.http import parse_header_parameters
from django.utils.translation import gettext as _

from effects.conf import settings
from effects.http.bodies import (
    BodyTooLargeError,
    BodyUnreadableError,
    FingerprintFields,
    Request,
    consumed_error,
    django_request,
    form_fields,
    parsed_form,
    parsed_json,
    read_body,
)
from effects.http.json_bodies import MAX_MARKS, json_of_bytes, json_of_value, refuse_unreadable
from effects.http.uploads import Multipart, brings_files, file_parts, read_multipart, read_upload
from effects.vocabulary.canonical import digest, dump
from effects.vocabulary.exceptions import EffectsError

__all__ = [
    "DEFINITIONS",
    "PARTS",
    "VERSION",
    "BodyTooLargeError",
    "BodyUnreadableError",
    "FingerprintFields",
    "UnknownDefinitionError",
    "compare",
    "differs",
    "fingerprint",
    "is_known",
]

PARTS = ("method", "path", "query", "body", "media_type")
"""The parts of a fingerprint, in the order in which a difference is named."""

JSON_TYPES = ("application/json", "text/json")
FORM_TYPE = "application/x-www-form-urlencoded"
MULTIPART_TYPE = "multipart/form-data"
CSRF_FIELD = "csrfmiddlewaretoken"
_ASCII = bytes(range(128))
MAX_FIELDS = 10_000
"""Most fields of a form or a query that are taken apart; `DATA_UPLOAD_MAX_NUMBER_FIELDS` may name fewer."""


class UnknownDefinitionError(EffectsError, LookupError):
    """The fingerprint was made by a definition that this release does not know."""

    code: ClassVar[str] = "operation_policy_changed"


Fields = FingerprintFields | Callable[[Request], object] | None
Definition = Callable[[Request, Fields], dict[str, str]]


def fingerprint(request: Request, fields: Fields = None) -> dict[str, str]:
    """Return the digests of a request's parts by the present definition.

    Reads the body if nobody has; the handler finds it as if nobody had.

    Args:
        request: Django's request, or DRF's.
        fields: What counts of the body; a callable gets `request` and returns a value that `canonical.dump`
            accepts, or bytes.

    Returns:
        `PARTS` → SHA-256 in hexadecimal.

    Raises:
        BodyTooLargeError: If what is not an uploaded file exceeds `MAX_FINGERPRINT_BYTES`.
        BodyUnreadableError: If the client hung up, or the stream was consumed and its contents are gone.
        PayloadError: If the callable returns something that cannot be written exactly.
    """
    return DEFINITIONS[VERSION](request, fields)


def is_known(version: int) -> bool:
    """Return whether this release can compare a request with a fingerprint of that version."""
    return version in DEFINITIONS


def differs(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ, those of `PARTS` first; empty for the same request."""
    names = [*PARTS, *sorted({*first, *second} - set(PARTS))]
    return [name for name in names if first.get(name) != second.get(name)]


def compare(version: int, stored: Mapping[str, str], request: Request, fields: Fields = None) -> list[str]:
    """Compare a request with a stored fingerprint by the definition that made it.

    Args:
        version: The definition that the row names.
        stored: The row's parts.
        request: Django's request, or DRF's.
        fields: As for `fingerprint`.

    Returns:
        The names of the parts that differ; empty for the same request.

    Raises:
        UnknownDefinitionError: If this release does not know the definition.
        BodyTooLargeError: As `fingerprint`.
        BodyUnreadableError: As `fingerprint`.
    """
    definition = DEFINITIONS.get(version)
    if definition is None:
        raise UnknownDefinitionError(version=version)
    return differs(stored, definition(request, fields))


# --- Definition 1: frozen
# -------------------------------------------------------------------------------------------


def _definition_1(request: Request, fields: Fields) -> dict[str, str]:
    http = django_request(request)
    media_type, parameters = parse_header_parameters(http.META.get("CONTENT_TYPE", ""))
    media_type = media_type.lower()
    return {
        "method": digest("fingerprint.method", (http.method or "").upper()),
        # With the script name: two mounts of one view may be two shops.
        "path": digest("fingerprint.path", http.path),
        "query": digest("fingerprint.query", *_query(http)),
        "body": digest("fingerprint.body", *_body(request, http, media_type, fields)),
        "media_type": digest("fingerprint.media_type", *_media_type(http, media_type, parameters)),
    }


def _query(http: HttpRequest) -> Iterable[str]:
    # In the order sent: a view may give meaning to it ("?sort=a&sort=b", or the last one wins), and a client
    # that repeats a request repeats its URL. Decoded, since "%41" and "A" are one (RFC 3986 §6.2.2.2).
    text = http.META.get("QUERY_STRING", "")
    if _is_costly(text.encode("utf-8", "surrogatepass")):
        yield text
        return
    for name, value in _pairs(http, text):
        yield name
        yield value


def _pairs(http: HttpRequest, text: str) -> list[tuple[str, str]]:
    # WSGI hands bytes over as Latin-1 (PEP 3333), ASGI as the text that they are. Written with escapes, a byte that
    # was sent bare and one that was sent escaped are one, as for Django.
    raw = text.encode("latin-1" if isinstance(http, WSGIRequest) else "utf-8", "surrogateescape")
    # surrogateescape keeps invalid UTF-8 apart that Django's own decoding would merge into U+FFFD.
    return parse_qsl(quote(raw, safe=_ASCII), keep_blank_values=True, encoding="utf-8", errors="surrogateescape")


def _media_type(http: HttpRequest, media_type: str, parameters: Mapping[str, Any]) -> Iterable[str]:
    yield media_type
    yield http.META.get("HTTP_CONTENT_ENCODING", "").lower()
    for name, value in sorted(parameters.items()):
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        if name == "boundary" and media_type == MULTIPART_TYPE:
            # No part of the contents (RFC 2046 §5.1.1); clients make a new one for each try.
            continue
        if name == "charset" and text.lower() == "utf-8" and (_is_json(media_type) or media_type == FORM_TYPE):
            # Both are UTF-8 anyway (RFC 8259 §8.1, WHATWG URL §5.1); client libraries differ in saying so.
            continue
        yield name
        yield text


def _is_json(media_type: str) -> bool:
    return media_type in JSON_TYPES or media_type.endswith("+json")


def _is_utf_8(http: HttpRequest) -> bool:
    """Return whether a text body is decoded as UTF-8, unless its parser knows better."""
    return (http.encoding or project.DEFAULT_CHARSET).lower() in ("utf-8", "utf8")


def _body(request: Request, http: HttpRequest, media_type: str, fields: Fields) -> Iterable[str | bytes]:
    """Return kind and contents of the body."""
    if callable(fields):
        value = fields(request)
        return ("callable", value if isinstance(value, bytes) else dump(value))
    limit = settings.MAX_FINGERPRINT_BYTES
    if brings_files(request, _is_known):
        upload = read_upload(request, limit)
        if upload.multipart.files:
            return ("upload", *_multipart(upload.multipart, fields), upload.raw or b"")
        if upload.raw is None:
            raise consumed_error()
        return _bytes(http, upload.raw)
    if media_type == MULTIPART_TYPE:
        return ("multipart", *_multipart(read_multipart(request, limit), fields))
    raw = read_body(http, limit)
    if raw is not None and not _is_utf_8(http):
        if _is_json(media_type):
            refuse_unreadable(raw, utf_8=False)
        # decoded otherwise, two bodies that are one value as UTF-8 may be two
        return ("bytes", raw)
    if _is_json(media_type):
        text = _json_read_before(request, fields) if raw is None else json_of_bytes(raw, fields)
        return ("bytes", raw or b"") if text is None else ("json", text)
    if media_type == FORM_TYPE:
        pairs = list(form_fields(parsed_form(request))) if raw is None else _form_of_bytes(raw, fields)
        if pairs is not None:
            return ("form", *(text for pair in pairs if _counts(fields, pair[0]) for text in pair))
    if raw is None:
        raise consumed_error()
    return _bytes(http, raw)


def _is_known(media_type: str) -> bool:
    return _is_json(media_type) or media_type in (FORM_TYPE, MULTIPART_TYPE)


def _bytes(http: HttpRequest, raw: bytes) -> Iterable[str | bytes]:
    """Return a body that counts by its bytes, with the name that it may have as a file (RFC 6266)."""
    name = http.META.get("HTTP_CONTENT_DISPOSITION")
    return ("bytes", raw) if name is None else ("bytes", raw, name)


def _json_read_before(request: Request, fields: FingerprintFields | None) -> str:
    try:
        return json_of_value(parsed_json(request), fields)
    except (ValueError, RecursionError, TypeError) as error:
        raise consumed_error() from error


def _counts(fields: FingerprintFields | None, name: str) -> bool:
    """Return whether a form's field counts; Django's CSRF token, fresh in each page, does where it is included."""
    if name == CSRF_FIELD and (fields is None or fields.include is None):
        return False
    return fields is None or fields.counts(name)


def _multipart(multipart: Multipart, fields: FingerprintFields | None) -> Iterable[str]:
    for name, value in form_fields(multipart.fields):
        if _counts(fields, name):
            yield from ("field", name, value)
    for part in file_parts(multipart):
        if fields is None or fields.counts(part[0]):
            yield from ("file", *part)


def _form_of_bytes(raw: bytes, fields: FingerprintFields | None) -> list[tuple[str, str]] | None:
    """Return pairs as `form_fields` gives them; None for what counts by its bytes: not UTF-8, or too costly."""
    most = project.DATA_UPLOAD_MAX_NUMBER_FIELDS
    if most is not None and raw.count(b"&") >= most:
        # Django refuses it too, but only once a view looks
        raise BodyTooLargeError(most, _("It has more than %(limit)d fields."))
    if _is_costly(raw):
        if fields is not None:
            raise BodyTooLargeError(MAX_FIELDS, _("It has more than %(limit)d fields, so they cannot be told apart."))
        return None
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, encoding="utf-8", errors="strict")
    except UnicodeDecodeError:
        return None
    return sorted(pairs, key=itemgetter(0))


def _is_costly(raw: bytes) -> bool:
    """Return whether a form or query would take long to take apart, which is Python's work field by field."""
    return raw.count(b"&") >= MAX_FIELDS or raw.count(b"%") > MAX_MARKS


DEFINITIONS: Mapping[int, Definition] = MappingProxyType({1: _definition_1})
"""All definitions that a stored fingerprint may name, by version."""

VERSION = 1
"""The definition of new fingerprints."""
