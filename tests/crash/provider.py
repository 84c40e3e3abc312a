"""The provider of the crash matrix: a process of its own, with its own ledger, that no kill of ours touches.

One JSON object a connection, one back. `python -m tests.crash.provider` prints its port; it ends with its input.
"""

from __future__ import annotations

import json
import os
import select
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from effects.journal.faults import reach

__all__ = ["ADDRESS", "ask", "call", "running", "wait_held"]

#: The environment variable that says where it listens.
ADDRESS = "CRASH_PROVIDER"
PATIENCE = 20.0


class HasFileno(Protocol):
    """Something that can be waited for."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...


def call(**order: Any) -> dict[str, Any]:
    """Send an order as an effect does; the matrix kills its sender at each step of it.

    Raises:
        ConnectionError: no answer came.
    """
    with socket.create_connection(("127.0.0.1", int(os.environ[ADDRESS])), timeout=PATIENCE) as wire:
        reach("wire.connected")
        wire.sendall(json.dumps(order).encode() + b"\n")
        reach("wire.sent")
        with wire.makefile("rb") as lines:
            answer = lines.readline()
        reach("wire.answered")
    if not answer:
        raise ConnectionResetError("the provider closed the connection")
    found: dict[str, Any] = json.loads(answer)
    return found


def ask(do: str, **order: Any) -> Any:
    """Ask past the wire: what tests and look-ups do."""
    with socket.create_connection(("127.0.0.1", int(os.environ[ADDRESS])), timeout=PATIENCE) as wire:
        wire.sendall(json.dumps({"do": do, **order}).encode() + b"\n")
        with wire.makefile("rb") as lines:
            return json.loads(lines.readline())


@contextmanager
def running() -> Iterator[str]:
    """Run the provider; its address is in the environment, for us and for the processes that we start."""
    command = [sys.executable, "-m", "tests.crash.provider"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        os.environ[ADDRESS] = process.stdout.readline().strip()
        yield os.environ[ADDRESS]
    finally:
        os.environ.pop(ADDRESS, None)
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def wait_held(sender: HasFileno) -> bool:
    """Wait until the provider holds an order, or until its sender has ended; return whether it holds one.

    Args:
        sender: readable as soon as it has ended.

    Raises:
        TimeoutError: neither.
    """
    with socket.create_connection(("127.0.0.1", int(os.environ[ADDRESS])), timeout=PATIENCE) as wire:
        wire.sendall(b'{"do": "wait_held"}\n')
        ready, _, _ = select.select([wire, sender], [], [], PATIENCE)
        if not ready:
            ask("release")
            raise TimeoutError("the provider holds no order, and the sender has not ended")
        return wire in ready


class _Ledger:
    """What arrived, what was applied, and how the provider behaves."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.leaped = 0.0
        self.do_reset(deduplicates=False, lag=0.0, trouble="")

    def clock(self) -> float:
        return time.monotonic() + self.leaped

    def do_reset(self, deduplicates: bool, lag: float, trouble: str) -> Any:
        with self.lock:
            self.deduplicates, self.lag, self.trouble = deduplicates, lag, trouble
            self.arrived: list[dict[str, Any]] = []
            self.applied: list[dict[str, Any]] = []
            self.held, self.released, self.holder = threading.Event(), threading.Event(), 0
        return True

    def do_send(self, **order: Any) -> Any:
        """Apply an order; None: the client hears nothing."""
        with self.lock:
            trouble = "" if self.trouble == "gate" else self.trouble
            self.trouble = "" if trouble else self.trouble
            self.arrived.append(order)
            if trouble == "request_lost":
                return None
            known = [entry for entry in self.applied if entry["key"] == order["key"]]
            if not (known and self.deduplicates):
                reference = f"pay_{len(self.applied) + 1}"
                known = [{"key": order["key"], "reference": reference, "shows": self.clock() + self.lag}]
                self.applied += known
        if trouble == "late":
            self._hold(order)
        return None if trouble == "reply_lost" else {"reference": known[0]["reference"]}

    def do_pass(self, **order: Any) -> Any:
        """Let pass who comes by, but hold one if that is the trouble."""
        with self.lock:
            held = self.trouble == "gate"
            self.trouble = "" if held else self.trouble
        if held:
            self._hold(order)
        return True

    def do_find(self, key: str) -> Any:
        """Look a key up, as far as the look-up sees already."""
        with self.lock:
            return [one["reference"] for one in self.applied if one["key"] == key and one["shows"] <= self.clock()]

    def do_books(self) -> Any:
        """Show the truth."""
        with self.lock:
            return {"arrived": self.arrived, "applied": self.applied}

    def do_age(self, seconds: float) -> Any:
        self.leaped += seconds
        return True

    def do_wait_held(self) -> Any:
        return self.held.wait(PATIENCE)

    def do_holder(self) -> Any:
        """Say which process is held."""
        return self.holder

    def do_release(self) -> Any:
        self.released.set()
        return True

    def _hold(self, order: dict[str, Any]) -> None:
        self.holder = order.get("pid", 0)
        self.held.set()
        self.released.wait(PATIENCE)


class _Server(socketserver.ThreadingTCPServer):
    """Knows which orders came before which."""

    daemon_threads = True
    request_queue_size = 64
    ledger = _Ledger()
    busy = threading.Condition()
    at_work: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.busy:
            self.at_work = self.at_work | {request}
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.leave(request)
        super().shutdown_request(request)

    def leave(self, request: Any) -> None:
        """Say that an order has had its effect."""
        with self.busy:
            self.at_work = self.at_work - {request}
            self.busy.notify_all()

    def wait_for_others(self, request: Any) -> None:
        """Wait until what came before has had its effect: a dead sender's bytes are still on their way."""
        with self.busy:
            earlier = self.at_work - {request}
            self.busy.wait_for(lambda: not earlier & self.at_work, PATIENCE)


class _Answering(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line.endswith(b"\n"):
            return  # the sender died before its order was complete
        order = json.loads(line)
        if order["do"] == "wait_held":
            self.server.leave(self.request)  # nobody waits for one who waits
        if order["do"] == "books":
            self.server.wait_for_others(self.request)
        answer = getattr(self.server.ledger, f"do_{order.pop('do')}")(**order)
        if answer is not None:
            try:
                self.wfile.write(json.dumps(answer).encode() + b"\n")
            except ConnectionError:
                return  # whoever asked is dead


def main() -> None:
    """Serve until the process that started this one closes its standard input, or is gone."""
    with _Server(("127.0.0.1", 0), _Answering) as server:
        threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
