"""One HTTP request over one connection, until one deadline. What its failures prove follows from where they happen.

The SDK's own HTTP client repeats requests, follows redirects, and counts its timeout anew at each read, so that an
answer that trickles in is never late. And a connection that it kept may be dead: it learns so after sending, which is
doubt. Here each request has a connection of its own, so that all that can fail before the first byte is proof.
"""

from __future__ import annotations

import functools
import io
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, NoReturn, cast
from urllib.parse import SplitResult, urlsplit

import stripe

from effects.contrib.connections import Incoming, TooLongError, dial, send_all, time_left
from effects.vocabulary.failures import Doubt, InvalidRequest, NotSent
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import monotonic

__all__ = ["DEFAULT_TIMEOUT", "DeadlineTransport", "until"]

#: Seconds that a request may take outside of `until`.
DEFAULT_TIMEOUT = 10.0
#: Most bytes of an answer, its headers included. A list of a hundred refunds has less than a quarter of a million.
MAX_ANSWER = 8_000_000
#: What the SDK tells of this machine, and of the times of earlier requests.
TELEMETRY = frozenset({"x-stripe-client-user-agent", "x-stripe-client-telemetry"})

_SAFE = frozenset({"GET", "HEAD"})


@dataclass
class _Bounds:
    """What holds in a block of `until`."""

    deadline: float
    once: bool
    sent: bool = False


_bounds: ContextVar[_Bounds | None] = ContextVar("effects_stripe_bounds", default=None)


@contextmanager
def until(deadline: float, *, once: bool = False) -> Iterator[None]:
    """End every request in the block by `deadline`, a reading of `monotonic`, as a permit has one.

    A name server that does not answer is not bounded by it: no byte was sent then, however late we learn so.

    Args:
        deadline: one for all requests of the block.
        once: a permit's block: of the requests that may change something one is sent, and a second one is refused.
    """
    token = _bounds.set(_Bounds(deadline, once))
    try:
        yield
    finally:
        _bounds.reset(token)


class DeadlineTransport(stripe.HTTPClient):
    """The HTTP layer of our Stripe client: one request for each call, whatever the SDK's options say.

    Raises:
        NotSent: name, connection or TLS failed, or the deadline passed, before the first byte.
        Doubt: after it, with the reason `timeout` or `no_reply`.
    """

    name = "effects"

    def request_with_retries(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None,
        max_network_retries: int | None = None, *, _usage: list[str] | None = None,  # noqa: ARG002 - none, ever
    ) -> tuple[Any, int, Mapping[str, str]]:  # fmt: skip
        """Make one request, and measure nothing."""
        return self.request(method, url, headers, post_data)

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None, *,
        _usage: list[str] | None = None,
    ) -> tuple[Any, int, Mapping[str, str]]:  # fmt: skip
        """Return body, status and headers of the answer; a redirect is an answer like any other."""
        deadline = _use(method)
        kept = {name: value for name, value in (headers or {}).items() if name.lower() not in TELEMETRY}
        parts = urlsplit(url)
        wire = _Wire(_connect(parts, deadline), deadline)
        try:
            return _exchange(wire, method.upper(), parts, kept, post_data)
        finally:
            wire.hang_up()

    async def request_async(self, method: str, url: str, headers: Any, post_data: Any = None) -> Any:  # noqa: ARG002
        """Refuse: nothing is sent.

        Raises:
            InvalidRequest: always.
        """
        raise InvalidRequest("this client is not async: call create(), not create_async()", code="async_client")

    def close(self) -> None:
        """Do nothing: no connection outlives its request."""


def _use(method: str) -> float:
    """Return the deadline of the request that is about to be made.

    Raises:
        Doubt: the permit's one request was sent before; this one is not.
    """
    bounds = _bounds.get()
    if bounds is None:
        return monotonic() + DEFAULT_TIMEOUT
    if bounds.once and method.upper() not in _SAFE:
        if bounds.sent:
            raise Doubt("one permit is one request, and it was sent; a second one was not", code="second_request")
        bounds.sent = True
    return bounds.deadline


class _Wire:
    """The part of a socket that `http.client` uses, each step of it bounded by one deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self.touched = False

    def sendall(self, data: Any) -> None:
        """Send; from the first call on the provider may have it."""
        time_left(self._deadline)
        self.touched = True
        send_all(self._sock, data, self._deadline)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return the answer's bytes as a file."""
        return io.BufferedReader(Incoming(self._sock, self._deadline, MAX_ANSWER))

    def close(self) -> None:
        """Do nothing: `http.client` closes before the answer is read to its end."""

    def hang_up(self) -> None:
        """Close the connection."""
        self._sock.close()


def _connect(url: SplitResult, deadline: float) -> socket.socket:
    """Return a connection that nothing was sent on yet."""
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    try:
        sock = dial(host, port, deadline)
        if url.scheme == "https":
            sock.settimeout(time_left(deadline))
            # a failed handshake closes the socket that it was given
            sock = _tls().wrap_socket(sock, server_hostname=host)
    except (OSError, UnicodeError) as error:
        raise NotSent(f"no connection to {host}: {error}", code=type(error).__name__) from error
    return sock


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=stripe.ca_bundle_path)


def _exchange(
    wire: _Wire, method: str, url: SplitResult, headers: Mapping[str, str], body: Any
) -> tuple[str, int, Mapping[str, str]]:
    """Send the request, and read the answer to its end."""
    connection = HTTPConnection(url.hostname or "", url.port)
    connection.auto_open = 0
    connection.sock = wire
    target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    host = url.netloc.rpartition("@")[2]
    try:
        connection.request(method, target, body, {**headers, "Host": host, "Connection": "close"})
        answer = connection.getresponse()
        # what is no UTF-8 is no JSON either, and the SDK's to refuse
        text = answer.read().decode("utf-8", "replace")
        return text, answer.status, cast("Mapping[str, str]", answer.headers)
    except (OSError, HTTPException, ValueError) as error:
        _raise(error, sent=wire.touched)


def _raise(error: Exception, *, sent: bool) -> NoReturn:
    text, code = str(error), "answer_too_long" if isinstance(error, TooLongError) else type(error).__name__
    if not sent:
        raise NotSent(text, code=code) from error
    reason = ExecutionReason.TIMEOUT if isinstance(error, TimeoutError) else ExecutionReason.NO_REPLY
    raise Doubt(text, code=code, reason=reason) from error
