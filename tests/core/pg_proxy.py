"""A TCP proxy between Django and PostgreSQL that loses one COMMIT, or its reply, or everything for a while."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from enum import Enum

COMMIT = b"Q" + (11).to_bytes(4, "big") + b"COMMIT\x00"


class Fault(Enum):
    """What happens to the next COMMIT."""

    LOSE_COMMIT = "the server never sees it"
    LOSE_REPLY = "the server carries it out, and nobody hears"
    HOLD = "the client loses its connection, and the server gets it when it is released"
    HOLD_AND_LOSE = "the client loses its connection, and the server loses its own when it is released"


class PgProxy:
    """Listens on a port of its own; `url_host`, `url_port` lead to it.

    Args:
        host: of the real server.
        port: of the real server.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._threads: list[threading.Thread] = []
        self._held = threading.Event()
        self._release = threading.Event()
        self._away = False
        self._away_after_fault = False
        #: Connections that were turned away, for tests that wait until somebody tried.
        self.refused = threading.Semaphore(0)
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def on_commit(self, *faults: Fault, then_away: bool = False) -> None:
        """Let the next COMMITs meet these faults, one each; with `then_away`, nobody gets through after the first."""
        with self._lock:
            self._faults = list(faults)
            self._away_after_fault = then_away

    def go_away(self) -> None:
        """Cut all connections and turn new ones away."""
        with self._lock:
            self._away = True
            pairs = list(self._pairs)
        for pair in pairs:
            _cut(*pair)

    def come_back(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._away = False

    def release(self) -> None:
        """Let go of the COMMIT that is held."""
        assert self._held.wait(10), "no COMMIT was held"
        self._release.set()

    def close(self) -> None:
        """End the proxy and its threads."""
        self._release.set()
        # shutdown wakes the accepting thread, which close alone does not
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.go_away()
        for thread in [self._acceptor, *self._threads]:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                away = self._away
            if away:
                client.close()
                self.refused.release()
                continue
            server = socket.create_connection(self._upstream)
            with self._lock:
                self._pairs.add((client, server))
            thread = threading.Thread(target=self._relay, args=(client, server), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        try:
            with selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while self._pass_on(selector.select(), client, server):
                    pass
        finally:
            with self._lock:
                self._pairs.discard((client, server))
            for end in (client, server):
                end.close()

    def _pass_on(
        self, ready: list[tuple[selectors.SelectorKey, int]], client: socket.socket, server: socket.socket
    ) -> bool:
        for key, _ in ready:
            data = key.fileobj.recv(65536)  # type: ignore[union-attr]
            if not data:
                return False
            fault = self._next_fault() if key.fileobj is client and data == COMMIT else None
            if fault is not None:
                self._commit_badly(fault, client, server)
                return False
            key.data.sendall(data)
        return True

    def _next_fault(self) -> Fault | None:
        with self._lock:
            fault = self._faults.pop(0) if self._faults else None
            self._away = self._away or (fault is not None and self._away_after_fault)
            return fault

    def _commit_badly(self, fault: Fault, client: socket.socket, server: socket.socket) -> None:
        if fault in (Fault.HOLD, Fault.HOLD_AND_LOSE):
            _cut(client)
            self._held.set()
            self._release.wait(30)
        if fault in (Fault.HOLD, Fault.LOSE_REPLY):
            server.sendall(COMMIT)
            server.recv(65536)  # it has been carried out


def _cut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
