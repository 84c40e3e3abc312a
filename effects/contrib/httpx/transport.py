"""One HTTP request over one connection, until one deadline. What its failures prove follows from where they happen.

httpx counts its timeouts anew at each read, so that an answer that trickles in is never late; its client keeps
connections, of which a dead one is noticed only after sending. Here each request has a connection of its own, so that
all that can fail before the first byte is proof. httpx writes the request and reads the answer's body; httpcore, on
which it stands, speaks HTTP over the connection that we give it.
"""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from effects.contrib.connections import dial, send_all, time_left
from effects.vocabulary.failures import Doubt, InvalidRequest, NotSent, SendError
from effects.vocabulary.states import ExecutionReason

__all__ = ["default_tls", "exchange"]

#: What httpcore and our own connection raise. Whatever else is raised is doubt, as any error in `send` is.
_FAILURES = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpx.DecodingError,
)
#: Headers that were true of the body on the wire, and are not of the one that was read.
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
#: We ask for none. Of those that come unasked these are read: the others, and several at once, make gigabytes of what
#: fits into one read, before its length is known.
_CODINGS = frozenset({"", "identity", "gzip", "deflate"})


def exchange(request: httpx.Request, *, deadline: float, tls: ssl.SSLContext, limit: int) -> httpx.Response:
    """Make one request, and return the answer with its whole body. A redirect is an answer like any other.

    Args:
        request: what is sent, in one piece.
        deadline: a reading of `effects.vocabulary.types.monotonic`, as a permit has one.
        tls: how servers are known.
        limit: the longest body that is read, in bytes.

    Raises:
        NotSent: name, connection or TLS failed, or the deadline passed, before the first byte.
        InvalidRequest: the request cannot be written as HTTP; no byte was sent.
        Doubt: after it, with the reason `timeout` or `no_reply`; or the answer cannot be read, or is too long.
    """
    url, wire = request.url, _Wire(deadline)
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    # not httpx's client: it would follow redirects, repeat, pool, read the environment, and log the whole URL
    connection = httpcore.HTTPConnection(target.origin, ssl_context=tls, retries=0, network_backend=wire)
    try:
        answer = connection.handle_request(
            httpcore.Request(request.method, target, headers=request.headers.raw, content=request.read())
        )
        return _read(answer, limit)
    except _FAILURES as error:
        found = _failure(error, url.host, touched=wire.touched)
        # a header that cannot be written is quoted by the error that says so, secrets and all
        raise found from (None if isinstance(found, InvalidRequest) else error)
    finally:
        connection.close()
        wire.hang_up()


@functools.cache
def default_tls() -> ssl.SSLContext:
    """Return httpx's own settings: certifi's authorities, names are checked, and the environment changes nothing."""
    return httpx.create_ssl_context(trust_env=False)


class _Wire(httpcore.NetworkBackend):
    """Opens the one connection, and knows whether a byte was sent on it."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.touched = deadline, False
        self._sock: socket.socket | None = None

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None,  # noqa: ARG002 - the deadline bounds it
        local_address: str | None = None,  # noqa: ARG002 - we use none
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.NetworkStream:  # fmt: skip
        """Connect."""
        with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
            self._sock = dial(host, port, self.deadline)
        return _Stream(self, self._sock)

    def secure(self, sock: socket.socket, tls: ssl.SSLContext, name: str | None) -> socket.socket:
        """Return the connection with TLS on it."""
        with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
            sock.settimeout(time_left(self.deadline))
            # RFC 9112 §9.8: an end of the connection that TLS did not announce may be an attacker's, so that a body
            # without a length of its own is not whole. Some builds of Python have OpenSSL pass over it
            tls.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", ssl.Options(0))
            self._sock = tls.wrap_socket(sock, server_hostname=name, suppress_ragged_eofs=False)
        return self._sock

    def hang_up(self) -> None:
        """Close the connection, if there is one."""
        if self._sock is not None:
            self._sock.close()


class _Stream(httpcore.NetworkStream):
    """The connection as httpcore uses it, each step of it bounded by one deadline; its own timeouts are not asked."""

    def __init__(self, wire: _Wire, sock: socket.socket) -> None:
        self._wire, self._sock = wire, sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - as above
        with _named(httpcore.ReadTimeout, httpcore.ReadError):
            self._sock.settimeout(time_left(self._wire.deadline))
            return self._sock.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - as above
        """Send; from the first byte on the provider may have it."""
        with _named(httpcore.WriteTimeout, httpcore.WriteError):
            time_left(self._wire.deadline)
            self._wire.touched = True
            send_all(self._sock, buffer, self._wire.deadline)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - as above
    ) -> httpcore.NetworkStream:  # fmt: skip
        return _Stream(self._wire, self._wire.secure(self._sock, ssl_context, server_hostname))

    def close(self) -> None:
        self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        return self._sock if info == "ssl_object" and isinstance(self._sock, ssl.SSLSocket) else None


class _Body(httpx.SyncByteStream):
    """The body as it comes over the wire."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        yield from self._answer.iter_stream()


@contextmanager
def _named(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Raise a socket's errors as httpcore's."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise broken(str(error)) from error


def _read(answer: httpcore.Response, limit: int) -> httpx.Response:
    """Return the answer with its whole body, decoded."""
    on_the_wire = httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer))
    coding = on_the_wire.headers.get("Content-Encoding", "").strip().lower()
    if coding not in _CODINGS:
        raise Doubt(f"the answer is coded as {coding!r:.80}, which nobody asked for", code="unreadable_answer")
    body = bytearray()
    for part in on_the_wire.iter_bytes():
        body += part
        if len(body) > limit:
            raise Doubt(f"the answer with status {answer.status} is longer than {limit} bytes", code="answer_too_long")
    kept = [(name, value) for name, value in answer.headers if name.decode("ascii").lower() not in _OF_THE_WIRE]
    return httpx.Response(answer.status, headers=kept, content=bytes(body))


def _failure(error: Exception, host: str, *, touched: bool) -> SendError:
    text, code = str(error), type(error).__name__
    if not touched and isinstance(error, (httpcore.ProtocolError, httpcore.UnsupportedProtocol)):
        return InvalidRequest("the request's URL or one of its headers cannot be written as HTTP", code=code)
    if not touched:
        return NotSent(f"no connection to {host}: {text}", code=code)
    if isinstance(error, httpx.DecodingError):
        return Doubt(f"the answer cannot be read: {text}", code="unreadable_answer")
    late = isinstance(error, httpcore.TimeoutException)
    return Doubt(text, code=code, reason=ExecutionReason.TIMEOUT if late else ExecutionReason.NO_REPLY)
