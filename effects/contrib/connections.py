"""One TCP connection, until one deadline: what the layers of this package begin with that speak to a provider."""

from __future__ import annotations

import io
import socket
from typing import Any

from effects.vocabulary.types import monotonic

__all__ = ["Incoming", "TooLongError", "dial", "send_all", "time_left"]


class TooLongError(OSError):
    """The other side says more than is read."""


def time_left(deadline: float) -> float:
    """Return the seconds left to `deadline`, a reading of `effects.vocabulary.types.monotonic`.

    Raises:
        TimeoutError: it has passed.
    """
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left


def dial(host: str, port: int, deadline: float) -> socket.socket:
    """Return a connection to the first address of `host` that answers; all of them share one deadline.

    A name server that does not answer is not bounded by it: no byte was sent then, however late we learn so.

    Raises:
        OSError, UnicodeError: there is no connection, or no time for one. Nothing was sent.
    """
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(time_left(deadline))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


def send_all(sock: socket.socket, data: Any, deadline: float) -> None:
    """Send it all by the deadline. `sendall` over TLS counts its time anew with each part that a slow reader takes.

    Raises:
        OSError: the connection broke, or the deadline passed; a part may have been sent.
    """
    rest = memoryview(data)
    while rest:
        sock.settimeout(time_left(deadline))
        rest = rest[sock.send(rest) :]


class Incoming(io.RawIOBase):
    """The bytes that arrive, until one deadline and up to one limit, however slowly or in whatever pieces they come.

    Args:
        sock: the connection.
        deadline: a reading of `effects.vocabulary.types.monotonic`; it may be changed.
        limit: the most bytes that are read; the next one is a `TooLongError`.
    """

    def __init__(self, sock: socket.socket, deadline: float, limit: int) -> None:
        self._sock, self.deadline, self.left = sock, deadline, limit

    def readable(self) -> bool:
        """Say so."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is."""
        self._sock.settimeout(time_left(self.deadline))
        count = self._sock.recv_into(buffer)
        self.left -= count
        if self.left < 0:
            raise TooLongError("the other side says more than is read")
        return count
