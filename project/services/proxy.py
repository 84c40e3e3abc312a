"""A bad network before a provider, and the ledger of what went over it.

Run as `python -m project.services.proxy --upstream URL --port N`. Its own addresses, JSON in and out:

- `POST /__faults__` with `{"match": {"method", "path", "contains"}, "fault", "times", "seconds", "status",
  "forward"}`, of which `fault` alone has to be there; `DELETE` forgets all.
- `GET /__sends__?method=&path=&contains=`: the requests seen; `DELETE` forgets them.
- `POST /__wait__` with `{"match", "count", "stage", "seconds"}`: answers when so many requests have come to a
  stage (`arrived`, `forwarded`, `done`), or 408.
- `POST /__release__`: lets go what hangs.

The faults: `lose_request` closes the connection, and the provider hears nothing. `lose_reply` closes it after
the provider answered. `delay` waits and then forwards, whether or not the client is still there.
`delay_reply` forwards and then waits. `hang` waits until it is released, the client goes, or its seconds are
over, before the provider hears of it, or afterwards with `forward`; a request whose client went before is
never forwarded. `duplicate` forwards twice and gives the first answer. `cut` gives half of the answer.
`status` gives that status, with `forward` after the provider had the request.
"""

import argparse
import http.client
import json
import select
import socket
import sys
import time
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from .ledger import Ledger, Match, Rule, Send
from .processes import Processes, Service

ROOT = Path(__file__).resolve().parent.parent.parent
UPSTREAM_TIMEOUT = 60.0
# Headers of one connection, not of the message.
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length"}
)

Reply = tuple[int, list[tuple[str, str]], bytes]


def start(processes: Processes, upstream: str) -> Service:
    """Return a proxy before a provider; `Faults(service.url)` controls it.

    Args:
        processes: What it belongs to.
        upstream: The provider's URL.
    """
    process, port = processes.start_on_port(
        "proxy",
        lambda port: [sys.executable, "-m", __name__, "--upstream", upstream, "--port", str(port)],
        cwd=ROOT,
    )
    return Service(f"http://127.0.0.1:{port}", process, processes)


class Server(ThreadingHTTPServer):
    """The proxy's server."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, upstream: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.upstream = urlsplit(upstream)
        self.ledger = Ledger()


class ClientGoneError(Exception):
    """The client closed its connection while its request was waiting."""


class Handler(BaseHTTPRequestHandler):
    """One client's connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_any(self) -> None:
        """Answer a request of whatever method: one for ourselves or one for the provider."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/__"):
            self.control(body)
        else:
            self.relay(body)

    def __getattr__(self, name: str) -> Any:
        """Give the one method that the base class looks for under a name for each HTTP method."""
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Write nothing: the ledger has it all."""

    def relay(self, body: bytes) -> None:
        """Write a request down, do to it what it is in for, and close its entry."""
        parts = urlsplit(self.path)
        key = self.headers.get("Idempotency-Key")
        send, rule = self.server.ledger.record(self.command, parts.path, parts.query, body, key)
        try:
            reply = self.suffer(send, rule, body)
            if reply is None:
                self.hang_up()
            else:
                self.write(reply, cut=rule is not None and rule.fault == "cut")
                self.server.ledger.note(send, _mark_replied)
        except (OSError, ClientGoneError):
            self.hang_up()
        finally:
            self.server.ledger.note(send, _mark_done)

    def suffer(self, send: Send, rule: Rule | None, body: bytes) -> Reply | None:
        """Return the answer for a request after its fault; none when the client gets no answer."""
        fault = rule.fault if rule else None
        if rule is None or fault == "lose_request":
            return None if rule else self.forward(send, body)
        if fault == "status":
            return self.refuse(send, rule, body)
        if fault == "hang":
            return self.hang(send, rule, body)
        if fault == "delay":
            time.sleep(rule.seconds)
        reply = self.forward(send, body)
        if fault == "duplicate":
            self.forward(send, body)
        elif fault == "delay_reply":
            time.sleep(rule.seconds)
        return None if fault == "lose_reply" else reply

    def refuse(self, send: Send, rule: Rule, body: bytes) -> Reply:
        """Answer with the status that was ordered."""
        if rule.forward:
            self.forward(send, body)
        message = json.dumps({"error": {"type": "api_error", "message": "ordered by a fault"}}).encode()
        return rule.status, [("Content-Type", "application/json")], message

    def hang(self, send: Send, rule: Rule, body: bytes) -> Reply | None:
        """Hold a request, or its answer, until it is released."""
        since = self.server.ledger.releases
        reply = self.forward(send, body) if rule.forward else None
        deadline = time.monotonic() + rule.seconds
        while not self.server.ledger.wait_release(since, 0.05):
            if self.is_client_gone():
                raise ClientGoneError
            if time.monotonic() > deadline:
                return None
        return reply or self.forward(send, body)

    def forward(self, send: Send, body: bytes) -> Reply:
        """Give a request to the provider, write its answer down and return it."""
        upstream = self.server.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=UPSTREAM_TIMEOUT)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        try:
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            message = json.dumps({"error": {"message": f"the provider is not there: {error}"}}).encode()
            return HTTPStatus.BAD_GATEWAY, [("Content-Type", "application/json")], message
        finally:
            connection.close()
        self.server.ledger.note(send, lambda each: _mark_forwarded(each, response.status, content))
        kept = [(name, value) for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP]
        return response.status, kept, content

    def write(self, reply: Reply, *, cut: bool = False) -> None:
        """Write an answer in one piece, or its first half."""
        status, headers, content = reply
        lines = [
            f"HTTP/1.1 {status} {http.client.responses.get(status, '')}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        head = "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode("latin-1")
        part = content[: len(content) // 2] if cut else content
        self.wfile.write(head if self.command == "HEAD" else head + part)
        if cut:
            raise ClientGoneError

    def hang_up(self) -> None:
        """Close the connection without another byte."""
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the client was faster

    def is_client_gone(self) -> bool:
        """Tell whether the client has closed its side."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def control(self, body: bytes) -> None:
        """Answer a request for ourselves."""
        parts = urlsplit(self.path)
        try:
            status, content = self.decide(f"{self.command} {parts.path}", dict(parse_qsl(parts.query)), body)
        except (TypeError, ValueError) as error:
            status, content = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        self.write((status, [("Content-Type", "application/json")], json.dumps(content).encode()))

    def decide(self, call: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        """Carry out one call of the control API."""
        ledger = self.server.ledger
        data = json.loads(body) if body else {}
        if call == "POST /__faults__":
            return HTTPStatus.CREATED, {"id": ledger.add_rule(data)}
        if call == "GET /__sends__":
            return HTTPStatus.OK, [asdict(each) for each in ledger.sends(Match.of(query))]
        if call == "POST /__wait__":
            sends = ledger.wait(
                Match.of(data.get("match", {})),
                count=int(data.get("count", 1)),
                stage=str(data.get("stage", "arrived")),
                seconds=float(data.get("seconds", 10)),
            )
            status = HTTPStatus.OK if sends is not None else HTTPStatus.REQUEST_TIMEOUT
            return status, [asdict(each) for each in sends or []]
        actions = {
            "DELETE /__faults__": ledger.clear_rules,
            "DELETE /__sends__": ledger.clear_sends,
            "POST /__release__": ledger.release,
        }
        if call not in actions:
            return HTTPStatus.NOT_FOUND, {"error": f"there is no {call}"}
        actions[call]()
        return HTTPStatus.OK, {}


def _mark_replied(send: Send) -> None:
    send.replied = True


def _mark_done(send: Send) -> None:
    send.open = False


def _mark_forwarded(send: Send, status: int, content: bytes) -> None:
    send.forwarded += 1
    if send.status is None:
        send.status = status
        try:
            answer = json.loads(content)
        except ValueError:
            return
        send.object = answer.get("id") if isinstance(answer, dict) else None


def main() -> None:
    """Serve until the end."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    with Server(arguments.port, arguments.upstream) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
