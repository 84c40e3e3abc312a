"""Read what a request carries, whoever read it before, or say why that is impossible.

Works on Django's HttpRequest and on DRF's Request, which is known by its `_request`; DRF is not imported. The
attributes of both that are looked at (`_body`, `_post`, `_read_started`, `_data`, `_full_data`) are private
there but are the only way to learn who consumed the stream; the tests hold them against each supported
release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from django.conf import settings as django_settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, QueryDict, RawPostDataException, UnreadablePostError
from django.utils.translation import gettext as _

from effects.vocabulary.exceptions import EffectsError

__all__ = [
    "BodyTooLargeError",
    "BodyUnreadableError",
    "FingerprintFields",
    "Request",
    "announced_length",
    "consumed_error",
    "django_request",
    "form_fields",
    "largest_in_memory",
    "parsed_form",
    "parsed_json",
    "read_body",
    "refuse_chunked",
]

Request = Any
"""Django's HttpRequest or DRF's Request."""


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


class BodyTooLargeError(EffectsError, ValueError):
    """The request's body is too large to be fingerprinted.

    `status` is that of the answer (RFC 9110 §15.5.14), `reason` a translated sentence for the client.
    """

    code: ClassVar[str] = "idempotency_request_invalid"
    status: ClassVar[int] = 413

    def __init__(self, limit: int, reason: str = "") -> None:
        self.limit = limit
        self.reason = (reason or _("It is larger than %(limit)d bytes.")) % {"limit": limit}
        super().__init__(self.reason)


class BodyUnreadableError(EffectsError, ValueError):
    """The request's body cannot be read.

    `status` is that of the answer, `reason` a translated sentence for the client; the message adds what a
    developer can do about it.
    """

    code: ClassVar[str] = "idempotency_request_invalid"
    status: ClassVar[int] = 400

    def __init__(self, reason: str, fix: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason} {fix}".strip())


def django_request(request: Request) -> HttpRequest:
    """Return the Django request inside a request of DRF, or the request itself."""
    inner = getattr(request, "_request", request)
    if not isinstance(inner, HttpRequest):
        raise TypeError(f"Expected a request of Django or of DRF, not {type(request).__name__}.")
    return inner


def read_body(http: HttpRequest, limit: int) -> bytes | None:
    """Return the body's bytes, and leave the request as if nobody had read them.

    Args:
        http: Django's request.
        limit: Most bytes that are accepted; a longer Content-Length is refused unread.

    Returns:
        The bytes, or None if the stream was consumed by somebody who did not keep them.

    Raises:
        BodyTooLargeError: If it is longer than `limit` or than `DATA_UPLOAD_MAX_MEMORY_SIZE`.
        BodyUnreadableError: If the client hung up, or the length is not known.
    """
    announced = announced_length(http)
    already_read = hasattr(http, "_body")
    if not already_read and announced is not None and announced > limit:
        raise BodyTooLargeError(limit)
    try:
        body = http.body
    except RawPostDataException:
        return None
    except RequestDataTooBig as error:
        raise BodyTooLargeError(django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE or limit) from error
    except UnreadablePostError as error:
        raise BodyUnreadableError(_("It could not be read to its end.")) from error
    if len(body) > limit:
        raise BodyTooLargeError(limit)
    if not already_read and announced is not None and len(body) < announced:
        # A server may hand out what arrived before the client hung up, without an error.
        raise BodyUnreadableError(_("It could not be read to its end."))
    if not body:
        refuse_chunked(http, announced)
    return body


def parsed_form(request: Request) -> QueryDict:
    """Return the form that somebody parsed who consumed the stream.

    Raises:
        BodyUnreadableError: If nobody kept it.
    """
    http = django_request(request)
    form = vars(request).get("_data") if request is not http else vars(http).get("_post")
    if not isinstance(form, QueryDict) or (not form and announced_length(http)):
        raise consumed_error()
    return form


def parsed_json(request: Request) -> Any:
    """Return the value that DRF parsed when it consumed the stream.

    Releases of DRF before 3.18 keep no bytes. Without them 1.0 and 1.00 are one number, so a value with
    floats is refused instead of guessed.

    Raises:
        BodyUnreadableError: If there is no such value or if it holds a float.
    """
    value = vars(request).get("_full_data") if request is not django_request(request) else None
    # DRF leaves an empty QueryDict where parsing failed, and a class where nobody tried.
    if isinstance(value, (QueryDict, type)) or (value is None):
        raise consumed_error()
    return value


def form_fields(form: Any) -> Iterator[tuple[str, str]]:
    """Return names and values in the order of the names; the values of one name in the order sent.

    Views see a form by name, and that is all that a parsed form still tells.
    """
    for name in sorted(form):
        for value in form.getlist(name):
            # DRF puts files among the data of some parsers; they are digested as files.
            if isinstance(value, str):
                yield name, value


def largest_in_memory(limit: int) -> int:
    """Return how many bytes of a body Django reads into memory, `limit` where it reads any number."""
    most = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return limit if most is None else most


def announced_length(http: HttpRequest) -> int | None:
    """Return the Content-Length, None where there is none.

    Raises:
        BodyUnreadableError: If it is no number.
    """
    text = http.META.get("CONTENT_LENGTH") or ""
    try:
        return int(text) if text else None
    except ValueError as error:
        raise BodyUnreadableError(_("Its Content-Length is not a number.")) from error


def refuse_chunked(http: HttpRequest, announced: int | None) -> None:
    """Refuse a body that Django does not see.

    Raises:
        BodyUnreadableError: If it was sent in chunks, without a length.
    """
    # Under WSGI Django takes a body without Content-Length for empty, whatever was sent.
    if announced is None and "chunked" in http.META.get("HTTP_TRANSFER_ENCODING", "").lower():
        raise BodyUnreadableError(_("It was sent without a Content-Length."))


def consumed_error() -> BodyUnreadableError:
    """Return the error for a stream that was consumed without a trace of its contents."""
    return BodyUnreadableError(
        _("It was consumed before it could be compared."),
        "A middleware, permission or throttle read the request's stream and did not keep its bytes; let it "
        "read request.body first, or use djangorestframework 3.18 or later.",
    )
