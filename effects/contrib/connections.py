"""One TCP connection, until one deadline: what the HTTP layers of this package begin with."""

from __future__ import annotations

import socket

from effects.types import monotonic

__all__ = ["dial", "time_left"]


def time_left(deadline: float) -> float:
    """Return the seconds left to `deadline`, a reading of `effects.types.monotonic`.

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
