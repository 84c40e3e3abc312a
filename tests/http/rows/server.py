"""A web server in processes of its own, on the test database, and a client that knows of broken connections."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections

from project.services.processes import Process, Processes, port_is_open
from tests.http.rows.asked import ATOMIC

__all__ = ["PASSWORD", "Answer", "Server", "start", "start_async"]

WORKERS, THREADS = 4, 6
PATIENCE = 30.0
PASSWORD = "lovelace"


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def code(self) -> str:
        return str(self.body.get("code", "")) if self.status >= 400 else ""

    @property
    def replayed(self) -> bool:
        return self.headers.get("idempotent-replayed") == "true"


@dataclass
class Server:
    """A web server with its workers; every request is a connection of its own."""

    process: Process
    port: int
    user: str = "ada"
    headers: dict[str, str] = field(default_factory=dict)

    def with_setting(self, atomic_requests: bool) -> Server:
        """Return the server as a client sees it that asks for a value of ATOMIC_REQUESTS."""
        return replace(self, headers={ATOMIC: str(int(atomic_requests))})

    def send(
        self, url: str, key: str = "k", *, method: str = "POST", headers: dict[str, str] | None = None,
        timeout: float = PATIENCE, **data: Any,
    ) -> Answer | None:  # fmt: skip
        """Send a request; None: the connection broke before the answer was there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, url, json.dumps(data), self._headers(key) | (headers or {}))
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        except (ConnectionError, TimeoutError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def get(self, url: str, key: str = "k", **options: Any) -> Answer:
        """Send a request that is answered."""
        answer = self.send(url, key, **options)
        assert answer is not None, self.process.tail()
        return answer

    def insist(self, url: str, key: str = "k", *, until: Callable[[Answer], bool], **options: Any) -> list[Answer]:
        """Send the same request again until an answer is as wanted; return all answers."""
        found: list[Answer] = []
        self.process.wait_until(lambda: bool(found.append(self.get(url, key, **options)) or until(found[-1])))
        return found

    def open(self, url: str, key: str = "k", *, cut: int | None = None, **data: Any) -> socket.socket:
        """Send a request, or its first bytes and no more; return its connection, the answer not read."""
        body = json.dumps(data).encode()
        lines = [f"POST {url} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self._headers(key).items()]
        wire = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        wire.sendall("\r\n".join([*lines, "", ""]).encode() + body[:cut])
        return wire

    def _headers(self, key: str) -> dict[str, str]:
        who = base64.b64encode(f"{self.user}:{PASSWORD}".encode()).decode()
        return {
            "Idempotency-Key": key, "Content-Type": "application/json", "Authorization": f"Basic {who}",
            "Connection": "close", **self.headers,
        }  # fmt: skip


def start(processes: Processes, *, workers: int = WORKERS, **environ: str) -> Server:
    """Start a gunicorn on this worker's test database."""
    return _start(
        processes, "tests.http.rows.wsgi:application", "--workers", str(workers), "--threads", str(THREADS),
        "--timeout", "2", **environ,
    )  # fmt: skip


def start_async(processes: Processes) -> Server:
    """Start one whose workers are uvicorns: forked, they are replaced in no time when they are killed."""
    kind = ("--worker-class", "uvicorn.workers.UvicornWorker")
    return _start(processes, "tests.http.rows.asgi:application", "--workers", str(WORKERS), *kind)


def _start(processes: Processes, application: str, *options: str, **environ: str) -> Server:
    name = connections["default"].settings_dict["NAME"]
    env = {
        "DATABASE_URL": urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl(),
        "DJANGO_SETTINGS_MODULE": "tests.http.rows.settings",
        **environ,
    }
    arguments = [
        *(sys.executable, "-m", "gunicorn", application, "--preload", *options),
        # the socket would lie in the home directory, one for all servers of a user
        *("--no-control-socket", "--graceful-timeout", "10"),
    ]
    process, port = processes.start_on_port(
        "web", lambda port: [*arguments, "--bind", f"127.0.0.1:{port}"], ready=port_is_open, env=env,
        cwd=Path(settings.BASE_DIR), within=60,
    )  # fmt: skip
    return Server(process, port)
