"""Answers of REST framework's views that no handler made: the same kind of response, with the same bytes, as its own.

A middleware may wrap `response.data` and render again. The journal keeps bytes and no data; so data is what the bytes
say, on the first answer as on its replays, and each of them comes out of such a middleware alike.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any, NamedTuple, cast

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

__all__ = ["as_rest_response"]


class _Reading(NamedTuple):
    """What bytes say, and what writes it."""

    data: Any
    renderer: Any
    media_type: str


def as_rest_response(view: Any, response: HttpResponseBase) -> HttpResponseBase:
    """Return a rendered response as REST framework's `Response`, its bytes, headers and cookies unchanged.

    Its `data` is what the view's own parser for the media type reads, where the view's renderer writes the same bytes
    of it; otherwise what JSON says. Bytes that neither can read have no data: they are Django's response, also where
    the handler's was not. A stream stays what it is.
    """
    if not isinstance(response, HttpResponse) or response.streaming:
        return response
    reading, given = _read(view, response), cast("Any", response)
    dressed: Any = HttpResponse() if reading is None else Response(reading.data)
    dressed.content = given.content
    for name in ("status_code", "_reason_phrase", "headers", "cookies", "_resource_closers"):
        setattr(dressed, name, getattr(given, name))
    if reading is not None:
        dressed.exception = response.status_code >= 400
        dressed.content_type = response.get("Content-Type")
        dressed.accepted_renderer, dressed.accepted_media_type = reading.renderer, reading.media_type
        dressed.renderer_context = {**view.get_renderer_context(), "response": dressed}
    return dressed  # type: ignore[no-any-return]


def _read(view: Any, response: HttpResponse) -> _Reading | None:
    body, content_type = response.content, response.get("Content-Type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    writer = _writer(view, media_type)
    if not body:
        return _Reading(None, *(writer or (JSONRenderer(), JSONRenderer.media_type)))
    for parser in view.get_parsers():
        if writer is None or parser.media_type != media_type:
            continue
        try:
            data = parser.parse(
                BytesIO(body), content_type, {**view.get_parser_context(view.request), "encoding": "utf-8"}
            )
            context = {**view.get_renderer_context(), "response": response}
            if _as_bytes(writer[0].render(data, writer[1], context)) == body:
                return _Reading(data, *writer)
        except Exception:  # noqa: BLE001, S112 - whatever a project's parser or renderer raises, it does not fit
            continue
    if media_type != "application/json" and not media_type.endswith("+json"):
        return None
    try:
        return _Reading(json.loads(body), JSONRenderer(), JSONRenderer.media_type)
    except (ValueError, RecursionError):
        return None


def _writer(view: Any, media_type: str) -> tuple[Any, str] | None:
    """Return the renderer of a media type, and what it is told of it: as this request negotiated it, if it did."""
    accepted = getattr(view.request, "accepted_renderer", None)
    if accepted is not None and media_type in ("", accepted.media_type):
        return accepted, view.request.accepted_media_type
    fits = (renderer for renderer in view.get_renderers() if renderer.media_type == media_type)
    return next(((renderer, renderer.media_type) for renderer in fits), None)


def _as_bytes(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)
