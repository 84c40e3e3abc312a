"""The request that an effect asks for, and the words of an answer that refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

import effects

__all__ = ["ApiRequest", "refusal_words", "write"]

#: Where APIs say in words why they refuse, the most telling first.
_WORDS = ("detail", "message", "title", "error_description", "error")


@dataclass(frozen=True)
class ApiRequest:
    """One HTTP request. Of `json`, `form` and `content` at most one is its body.

    Only method and host are in its repr: paths, queries, headers and bodies hold secrets.

    Args:
        method: `POST`, `PUT`, in capital letters.
        url: with scheme and host; it holds no user and no password.
        params: the query, added to the URL.
        headers: what the API wants, authorization included.
        json: what the body says in JSON; None: it is no JSON.
        form: the fields of an URL-encoded form.
        content: the body as it is; say its `Content-Type` in the headers.
    """

    method: str
    url: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, Any] | None = None
    content: bytes | str | None = None

    def __post_init__(self) -> None:
        if not self.method.isalpha() or self.method != self.method.upper():
            raise ValueError(f"ApiRequest(method=…) is in capital letters, as 'POST', not {self.method!r:.40}")
        if sum(body is not None for body in (self.json, self.form, self.content)) > 1:
            raise ValueError("ApiRequest has one body: say json=, form= or content=")
        if self.content is not None and not isinstance(self.content, (bytes, str)):
            raise ValueError("ApiRequest(content=…) is bytes or text, whole: a stream could be sent only in part")

    def __repr__(self) -> str:
        return f"ApiRequest({self.method!r}, {self.origin!r})"

    @property
    def origin(self) -> str:
        """Scheme and host, which is what may be shown of the URL."""
        try:
            parts = urlsplit(self.url)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        except ValueError:
            return "<no URL>"


def write(asked: ApiRequest, more: Mapping[str, str]) -> httpx.Request:
    """Return the request as httpx sends it; `more` are headers that go before the effect's own.

    Raises:
        ValueError, TypeError, httpx.InvalidURL: it cannot be written.
    """
    defaults = {
        "Accept": "application/json",
        # what is not compressed needs no limit of its own for what it becomes
        "Accept-Encoding": "identity",
        "User-Agent": f"django-effects/{effects.__version__}",
    }
    headers = httpx.Headers(defaults)
    headers.update(dict(asked.headers))
    headers.update({**more, "Connection": "close"})
    # params= would replace a query that the URL has
    url = httpx.URL(asked.url)
    url = url.copy_merge_params(dict(asked.params)) if asked.params else url
    if url.userinfo:
        raise ValueError("the URL holds a user or a password: send them in a header")
    return httpx.Request(
        asked.method, url, headers=headers, json=asked.json, content=asked.content,
        data=None if asked.form is None else dict(asked.form),
    )  # fmt: skip


def refusal_words(answer: httpx.Response) -> tuple[str, str]:
    """Return code and message of an answer that is no success, from the usual places (RFC 9457's among them)."""
    plain = f"http_{answer.status_code}"
    try:
        said = answer.json()
    except (ValueError, RecursionError):
        return plain, answer.text
    if isinstance(said, dict) and isinstance(said.get("error"), dict):
        said = said["error"]
    if not isinstance(said, dict):
        return plain, answer.text
    texts = [said[name] for name in _WORDS if isinstance(said.get(name), str) and said[name]]
    code = said.get("code")
    return (code if isinstance(code, str) and code else plain), (texts or [answer.text])[0]
