"""Read what a request carries as files: of a multipart form, or of whatever a parser of REST framework's makes files.

Files are streamed to Django's upload handlers and digested in chunks; no limit of ours counts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NamedTuple

from django.conf import settings as django_settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.core.files.uploadhandler import load_handler
from django.http import HttpRequest, QueryDict, RawPostDataException, UnreadablePostError
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from effects.http.bodies import (
    BodyTooLargeError,
    BodyUnreadableError,
    Request,
    announced_length,
    consumed_error,
    django_request,
    form_fields,
    largest_in_memory,
    read_body,
    refuse_chunked,
)

__all__ = ["Multipart", "Upload", "brings_files", "file_parts", "read_multipart", "read_upload"]


class Multipart(NamedTuple):
    """A parsed multipart body.

    Attributes:
        fields: MultiValueDict of what is no file.
        files: MultiValueDict of uploaded files.
        ours: Whether the files were parsed for the fingerprint alone, and are to be closed after it.
    """

    fields: Any
    files: Any
    ours: bool = False


def read_multipart(request: Request, limit: int) -> Multipart:
    """Return fields and files of a multipart body, parsed by whoever handles this request.

    Django streams files to its upload handlers, so a large body is not loaded whole; only for methods other
    than POST outside of DRF, which Django does not parse, it is, within `DATA_UPLOAD_MAX_MEMORY_SIZE`.

    Args:
        request: Django's request, or DRF's.
        limit: Most characters in names and values that are no files.

    Returns:
        Fields and files.

    Raises:
        BodyTooLargeError: If the fields exceed the limit.
        BodyUnreadableError: If it is malformed, the client hung up, or the stream was consumed by somebody
        who
            did not keep what it held.
    """
    http = django_request(request)
    if request is http and (announced_length(http) or 0) <= min(limit, largest_in_memory(limit)):
        # a view that takes JSON reads the bytes, whatever a client says that they are; parsed, they would be gone
        read_body(http, limit)
    with _refusing_unreadable(limit):
        multipart = _parsed_by_owner(request, http)
    fields, files = multipart.fields, multipart.files
    if not hasattr(fields, "getlist"):
        raise _no_form_error(fields)
    announced = announced_length(http)
    if not fields and not files:
        refuse_chunked(http, announced)
        if (announced or 0) > _longest_empty_multipart(http):
            # Django remembers a failed parse as an empty form; the digest of that would be a lie.
            raise consumed_error()
    _refuse_cut_stream(http)
    _refuse_long_fields(fields, limit)
    return multipart


class Upload(NamedTuple):
    """A body that is no form, as a parser of REST framework's read it.

    Attributes:
        multipart: the files that the parser brought, and a form's fields beside them.
        raw: the body's bytes, where they count: there are no files, or something else than a form beside them.
    """

    multipart: Multipart
    raw: bytes | None


def brings_files(request: Request, known: Callable[[str], bool]) -> bool:
    """Return whether the parser that REST framework chooses for this request may bring files: any but the `known`.

    Args:
        request: Django's request, which has no parsers, or REST framework's.
        known: tells of a parser's media type whether its bodies are read in another way.
    """
    if request is django_request(request):
        return False
    parser = request.negotiator.select_parser(request, request.parsers)
    return parser is not None and not known(parser.media_type.lower())


def read_upload(request: Request, limit: int) -> Upload:
    """Return what the parser of a REST framework's view makes of the body: files are streamed to the upload handlers.

    Args:
        request: REST framework's request.
        limit: Most bytes of a body of which the parser makes no files, and of fields beside them.

    Raises:
        BodyTooLargeError: If it is longer, and no file.
        BodyUnreadableError: As `read_multipart`.
    """
    http = django_request(request)
    raw = None
    if (announced_length(http) or 0) <= min(limit, largest_in_memory(limit)):
        raw = read_body(http, limit)
    with _refusing_unreadable(limit):
        files = _listed(request.FILES)
    if not files:
        if raw is None and (announced_length(http) or 0) > limit:
            raise BodyTooLargeError(limit)
        return Upload(Multipart(QueryDict(), files), raw)
    _refuse_cut_stream(http)
    fields = vars(request).get("_data")
    if hasattr(fields, "getlist"):
        _refuse_long_fields(fields, limit)
        return Upload(Multipart(fields, files), None)
    if fields and raw is None:
        raise _no_form_error(fields)
    return Upload(Multipart(QueryDict(), files), raw if fields else None)


def _listed(files: Any) -> Any:
    """Return files as a form has them, several under a name; parsers may bring a plain dict."""
    if hasattr(files, "getlist"):
        return files
    return MultiValueDict(
        {name: list(each) if isinstance(each, (list, tuple)) else [each] for name, each in files.items()}
    )


def file_parts(multipart: Multipart) -> Iterator[tuple[str, ...]]:
    """Return field name, file name, content type, charset and SHA-256 of each file; files are read in chunks.

    Raises:
        BodyUnreadableError: If a file was closed or handed on by an upload handler, so that its contents
        are gone.
    """
    for name in sorted(multipart.files):
        for file in multipart.files.getlist(name):
            hasher = hashlib.sha256()
            try:
                for chunk in file.chunks():
                    hasher.update(chunk)
                if multipart.ours:
                    file.close()
                else:
                    file.seek(0)
            except (OSError, ValueError, AttributeError, TypeError) as error:
                raise BodyUnreadableError(
                    _("An uploaded file could not be read."),
                    f"The file in {name!r} was closed or taken away before it could be compared.",
                ) from error
            # a parser of the project's may bring a plain File
            told = (str(getattr(file, each, None) or "") for each in ("name", "content_type", "charset"))
            yield name, *told, hasher.hexdigest()


@contextmanager
def _refusing_unreadable(limit: int) -> Iterator[None]:
    """Refuse what a parser fails at."""
    try:
        yield
    except RawPostDataException as error:
        raise consumed_error() from error
    except RequestDataTooBig as error:
        raise BodyTooLargeError(django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE or limit) from error
    except (TooManyFieldsSent, TooManyFilesSent) as error:
        # both messages name the setting alone
        raise BodyUnreadableError(_("It has too many fields or files."), str(error)) from error
    except UnreadablePostError as error:
        raise BodyUnreadableError(_("It could not be read to its end.")) from error
    except MultiPartParserError as error:
        raise BodyUnreadableError(_("It is not well-formed multipart/form-data.")) from error


def _refuse_long_fields(fields: Any, limit: int) -> None:
    if sum(len(name) + len(value) for name, value in form_fields(fields)) > limit:
        raise BodyTooLargeError(limit)


def _no_form_error(fields: object) -> BodyUnreadableError:
    return BodyUnreadableError(
        _("It could not be compared."),
        f"The parser of this view returns a {type(fields).__name__}; name what counts by a callable.",
    )


def _parsed_by_owner(request: Request, http: HttpRequest) -> Multipart:
    if request is not http:
        return Multipart(request.POST, request.FILES)
    if http.method == "POST":
        if not hasattr(http, "_post") and http._read_started and not hasattr(http, "_body"):
            raise consumed_error()
        return Multipart(http.POST, http.FILES)
    body = http.body
    handlers = [load_handler(path, http) for path in django_settings.FILE_UPLOAD_HANDLERS]
    parser = MultiPartParser(http.META, BytesIO(body), handlers, http.encoding)
    return Multipart(*parser.parse(), ours=True)


def _refuse_cut_stream(http: HttpRequest) -> None:
    """Refuse a body that ended early: Django's parser takes a file that was cut off for a whole one."""
    stream = getattr(http, "_stream", None)
    limit, position = getattr(stream, "limit", None), getattr(stream, "_pos", None)
    if isinstance(limit, int) and isinstance(position, int) and position < limit:
        raise BodyUnreadableError(_("It could not be read to its end."))


def _longest_empty_multipart(http: HttpRequest) -> int:
    # RFC 2046 §5.1.1: two dashes, at most 70 characters of boundary, two dashes, line ends. The shortest
    # part adds "Content-Disposition: form-data" to a boundary that stands twice, and passes this by its
    # length.
    boundary = (http.content_params or {}).get("boundary", "")
    return len(boundary) + len("----") + 2 * len("\r\n")
