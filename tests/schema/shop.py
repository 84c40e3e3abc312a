"""The demo project's web application, in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from effects.http.keys import KeyInvalidError, parse_key, raw_key
from project.wsgi import application

Start = Callable[..., Any]


class Shop:
    """The application; an answer has come whole, and has given its database connection back, before it is looked at."""

    def __init__(self) -> None:
        self.statuses: set[tuple[str, int]] = set()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Answer a request."""
        heard: list[Any] = []
        answer = application(environ, lambda *line: heard.extend(line))
        try:
            body = b"".join(answer)
        finally:
            answer.close()
        self.statuses.add((environ["REQUEST_METHOD"], int(heard[0].partition(" ")[0])))
        start(*heard)
        return [body]


class Crowd(Shop):
    """Requests that are drawn at random, each a client's of its own: it makes a new key, and may have to ask twice.

    No schema can say that a key is new. A key that is missing or malformed stays as it was drawn. Of every third
    request the answer is lost: what is returned is the answer to its retry.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys, self._requests = itertools.count(), itertools.count()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Answer a request, or its retry."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if _has_key(environ):
            environ["HTTP_IDEMPOTENCY_KEY"] = f'"key-{next(self._keys)}"'
        if next(self._requests) % 3 == 0:
            super().__call__({**environ, "wsgi.input": BytesIO(body)}, lambda *line: None)
        return super().__call__({**environ, "wsgi.input": BytesIO(body)}, start)


def _has_key(environ: dict[str, Any]) -> bool:
    try:
        return parse_key(raw_key(environ)) is not None
    except KeyInvalidError:
        return False
