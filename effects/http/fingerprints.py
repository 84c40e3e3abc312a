"""Digest everything of a request that changes what would be done, part by part.

Two requests under one key are the same request if their parts agree. The rule behind every choice here: a
false "differs" is a nuisance, a false "same" answers one request with the result of another.

Definitions are versioned: a row names the version that it was made by, and is compared by that one, so that
a deploy with a new definition refuses nobody. A definition is never changed, only added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote

from django.conf import settings as project
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.utils.http import parse_header_parameters

from effects.canonical import digest, dump
from effects.conf import settings
from effects.exceptions import EffectsError
from effects.http.bodies import (
    BodyTooLargeError,
    BodyUnreadableError,
    Multipart,
    Request,
    consumed_error,
    django_request,
    file_parts,
    form_fields,
    parsed_form,
    parsed_json,
    read_body,
    read_multipart,
)

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
]

PARTS = ("method", "path", "query", "body", "media_type")
"""The parts of a fingerprint, in the order in which a difference is named."""

JSON_TYPES = ("application/json", "text/json")
FORM_TYPE = "application/x-www-form-urlencoded"
MULTIPART_TYPE = "multipart/form-data"
_ASCII = bytes(range(128))


class UnknownDefinitionError(EffectsError, LookupError):
    """The fingerprint was made by a definition that this release does not know."""

    code: ClassVar[str] = "operation_policy_changed"


@dataclass(frozen=True)
class FingerprintFields:
    """Which top-level members of a JSON object or names of a form count.

    Other bodies, and JSON that is no object, count whole. For anything finer use a callable.

    Attributes:
        include: The only names that count; None for all.
        exclude: Names that do not count, such as a token that is fresh in each retry.
    """

    include: Collection[str] | None = None
    exclude: Collection[str] = ()

    def __post_init__(self) -> None:
        """Refuse a bare string, whose letters would be taken for names."""
        for names in (self.include, self.exclude):
            if isinstance(names, str):
                raise TypeError(f"FingerprintFields takes a tuple of names; write ({names!r},).")

    def counts(self, name: str) -> bool:
        """Tell whether a name counts."""
        return (self.include is None or name in self.include) and name not in self.exclude


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
    for name, value in _pairs(http):
        yield name
        yield value


def _pairs(http: HttpRequest) -> list[tuple[str, str]]:
    text = http.META.get("QUERY_STRING", "")
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
    counting = fields or FingerprintFields()
    limit = settings.MAX_FINGERPRINT_BYTES
    if media_type == MULTIPART_TYPE:
        return ("multipart", *_multipart(read_multipart(request, limit), counting))
    raw = read_body(http, limit)
    if raw is not None and not _is_utf_8(http):
        # decoded otherwise, two bodies that are one value as UTF-8 may be two
        return ("bytes", raw)
    if _is_json(media_type):
        text = _json_of_value(parsed_json(request), counting) if raw is None else _json_of_bytes(raw, counting)
        return ("bytes", raw or b"") if text is None else ("json", text)
    if media_type == FORM_TYPE:
        pairs = list(form_fields(parsed_form(request))) if raw is None else _form_of_bytes(raw)
        if pairs is not None:
            return ("form", *(text for pair in pairs if counting.counts(pair[0]) for text in pair))
    if raw is None:
        raise consumed_error()
    return ("bytes", raw)


def _multipart(multipart: Multipart, counting: FingerprintFields) -> Iterable[str]:
    for name, value in form_fields(multipart.fields):
        if counting.counts(name):
            yield from ("field", name, value)
    for part in file_parts(multipart):
        if counting.counts(part[0]):
            yield from ("file", *part)


def _form_of_bytes(raw: bytes) -> list[tuple[str, str]] | None:
    """Return pairs as `form_fields` gives them; None for what is not UTF-8 and counts by bytes."""
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, encoding="utf-8", errors="strict")
    except UnicodeDecodeError:
        return None
    return sorted(pairs, key=itemgetter(0))


# JSON by value, in a notation of its own: objects are {"o": pairs in the order of their names}, or {"d":
# pairs as sent} if a name occurs twice (RFC 8259 §4 leaves open which one counts), numbers {"n": as
# written}, since 1 and 1.0 differ for some readers and no rounding may merge two. Each real object being
# tagged, nothing else looks like a tag.


def _number(lexeme: str) -> dict[str, Any]:
    return {"n": lexeme}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _value in pairs}) < len(pairs):
        return {"d": pairs}
    return {"o": sorted(pairs, key=itemgetter(0))}


def _json_of_bytes(raw: bytes, counting: FingerprintFields) -> str | None:
    """Return the JSON's value as text; None for what is no JSON and counts by bytes."""
    try:
        value = json.loads(
            raw, object_pairs_hook=_object, parse_int=_number, parse_float=_number, parse_constant=_number
        )
        return _json_text(value, counting)
    except (ValueError, RecursionError):
        return None


def _json_of_value(value: Any, counting: FingerprintFields) -> str:
    try:
        return _json_text(_tagged(value), counting)
    except (ValueError, RecursionError, TypeError) as error:
        raise consumed_error() from error


def _tagged(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return _number(str(value))
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if isinstance(value, dict):
        return _object([(name, _tagged(item)) for name, item in value.items()])
    raise TypeError(f"{type(value).__name__} does not tell how it was written.")


def _json_text(value: Any, counting: FingerprintFields) -> str:
    if isinstance(value, dict):
        value = {
            tag: content if tag == "n" else [pair for pair in content if counting.counts(pair[0])]
            for tag, content in value.items()
        }
    return json.dumps(value, separators=(",", ":"))


DEFINITIONS: Mapping[int, Definition] = MappingProxyType({1: _definition_1})
"""All definitions that a stored fingerprint may name, by version."""

VERSION = 1
"""The definition of new fingerprints."""
