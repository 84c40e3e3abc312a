"""One JSON object a connection, one back: how the soak's processes talk to its provider and to its proxy."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
from typing import Any

__all__ = ["ask", "serve"]


def ask(port: int, *, timeout: float = 10.0, **order: Any) -> Any:
    """Send an order, return the answer.

    Args:
        port: of 127.0.0.1.
        timeout: seconds, of each step: a client library's, which several steps can overrun.
        **order: `do` names what is asked.

    Raises:
        OSError: no answer came; a refused connection has sent nothing.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=max(timeout, 0.01)) as wire:
        wire.sendall(json.dumps(order).encode() + b"\n")
        with wire.makefile("rb") as lines:
            answer = lines.readline()
    if not answer.endswith(b"\n"):
        raise ConnectionResetError("the other side closed the connection")
    return json.loads(answer)


def serve(port: int, peer: Any) -> None:
    """Answer each order by the method `do_…` of a peer, each in a thread; None: the connection ends without a word."""

    class Answering(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if not line.endswith(b"\n"):
                return  # the sender died before its order was complete
            order = json.loads(line)
            answer = getattr(peer, f"do_{order.pop('do')}")(**order)
            if answer is not None:
                with contextlib.suppress(ConnectionError):  # whoever asked may be dead
                    self.wfile.write(json.dumps(answer).encode() + b"\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 128

    with Server(("127.0.0.1", port), Answering) as server:
        server.serve_forever()
