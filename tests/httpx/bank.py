"""A bank with a plain HTTP API and a ledger, whose replies can be lost. Real HTTP on a real socket."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.stripe.scripted import serving


class Bank:
    """What was booked, under which key, and what was asked; `faults` are what happens to the next transfers."""

    def __init__(self) -> None:
        self.booked: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        #: "lose_request", "lose_reply", or a status to refuse with.
        self.faults: list[str | int] = []
        self.url = ""

    def posts(self) -> int:
        """Return how many requests to change something came."""
        return sum(method == "POST" for method, _ in self.asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bank: Bank

    def do_POST(self) -> None:
        """Book a transfer, or undo one."""
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bank.asked.append(("POST", self.path))
        fault = self.bank.faults.pop(0) if self.bank.faults else ""
        if fault == "lose_request":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.answer(fault, {"code": "no", "message": "refused as ordered"})
            return
        key = self.headers["Idempotency-Key"]
        entry = {"id": f"t-{len(self.bank.booked) + 1}", "path": self.path, "key": key, **said}
        entry = self.bank.booked.setdefault(key, entry)
        if fault == "lose_reply":
            self.close_connection = True
            return
        self.answer(201, entry)

    def do_GET(self) -> None:
        """Answer with the transfers under a key."""
        self.bank.asked.append(("GET", self.path))
        (key,) = parse_qs(urlsplit(self.path).query)["key"]
        self.answer(200, {"data": [self.bank.booked[key]] if key in self.bank.booked else []})

    def answer(self, status: int, said: Any) -> None:
        """Write an answer in JSON."""
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve() -> Iterator[Bank]:
    """Serve a bank on a free port."""
    bank = Bank()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"bank": bank}))
    with serving(server) as bank.url:
        yield bank
