"""A bad network between the soak's processes and PostgreSQL.

It cuts connections in the middle of anything, is away for a while, keeps a COMMIT from the server, or its reply from
the client. `python -m benchmarks.database CONTROL_PORT SEED HOST PORT` serves until it is ended.
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import sys
import threading
import time
from collections import Counter
from typing import Any

from benchmarks.wire import serve

__all__ = ["BadNetwork"]

COMMIT = b"Q" + (11).to_bytes(4, "big") + b"COMMIT\x00"
#: Out of that many COMMITs one is lost, and one reply.
ONE_IN = 120


class BadNetwork:
    """Listens on a port of its own, and behaves from `do_calm` on."""

    def __init__(self, seed: int, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._dice = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._counts: Counter[str] = Counter()
        self._calm = threading.Event()
        self._away_until = 0.0
        for work in (self._accept, self._trouble):
            threading.Thread(target=work, daemon=True).start()

    def do_where(self) -> Any:
        """Tell the port that leads to the database."""
        return {"port": self._listener.getsockname()[1]}

    def do_calm(self) -> Any:
        """Make no faults any more; tell how many there were."""
        self._calm.set()
        with self._lock:
            return dict(self._counts)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if time.monotonic() < self._away_until and not self._calm.is_set():
                client.close()
                continue
            server = socket.create_connection(self._upstream)
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._relay, args=(client, server), daemon=True).start()

    def _trouble(self) -> None:
        while not self._calm.wait(self._dice.uniform(0.2, 1.4)):
            with self._lock:
                away = self._dice.random() < 0.08
                victims = list(self._pairs) if away else self._pairs and [self._dice.choice(self._pairs)]
                self._counts["away"] += away
                self._counts["cuts"] += len(victims)
                if away:
                    self._away_until = time.monotonic() + self._dice.uniform(0.1, 0.6)
            for pair in victims:
                _cut(*pair)

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        try:
            with selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while all(self._pass_on(key, client, server) for key, _ in selector.select()):
                    pass
        finally:
            with self._lock:
                self._pairs.remove((client, server))
            for end in (client, server):
                end.close()

    def _pass_on(self, key: selectors.SelectorKey, client: socket.socket, server: socket.socket) -> bool:
        data = key.fileobj.recv(65536)  # type: ignore[union-attr]
        fault = self._fault_of_commit() if key.fileobj is client and data == COMMIT else ""
        if fault:
            self._counts[fault] += 1
        if fault == "commit_replies_lost":
            server.sendall(COMMIT)
            server.recv(65536)  # it has been carried out
        if not data or fault:
            return False
        key.data.sendall(data)
        return True

    def _fault_of_commit(self) -> str:
        if self._calm.is_set():
            return ""
        with self._lock:
            return {0: "commits_lost", 1: "commit_replies_lost"}.get(self._dice.randrange(ONE_IN), "")


def _cut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    serve(int(sys.argv[1]), BadNetwork(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
