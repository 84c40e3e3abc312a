"""A real ASGI server on the test database, in a thread of this process, so that tests can hold its handlers."""

from __future__ import annotations

import http.client
import json
import threading
from types import TracebackType
from typing import Any

import uvicorn
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIHandler
from django.test import Client

__all__ = ["Exchange", "Server"]


class Exchange:
    """One request on a connection of its own."""

    def __init__(self, port: int, url: str, headers: dict[str, str], data: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request("POST", url, json.dumps(data), headers)

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Wait for the answer; return its status and body."""
        response = self._connection.getresponse()
        content = response.read()
        self._connection.close()
        return response.status, dict(json.loads(content)) if content[:1] == b"{" else {}

    def hang_up(self) -> None:
        """Close the connection without waiting for the answer."""
        self._connection.close()


class Server:
    """A uvicorn; requests come from one user."""

    def __init__(self, user: User) -> None:
        client = Client()
        client.force_login(user)
        self._cookie = client.cookies["sessionid"].value
        config = uvicorn.Config(
            ASGIHandler(), host="127.0.0.1", port=0, lifespan="off", log_config=None, ws="none", http="h11",
            timeout_graceful_shutdown=10,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="uvicorn")
        self._started = threading.Event()

    def __enter__(self) -> Server:  # noqa: PYI034 - Self is in the standard library from 3.11 on
        started, startup = self._started, self._server.startup

        async def announced(*args: Any, **kwargs: Any) -> None:
            await startup(*args, **kwargs)
            started.set()

        self._server.startup = announced  # type: ignore[method-assign]
        self._thread.start()
        assert self._started.wait(20)
        self._port = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop as on SIGTERM: running requests have ten seconds."""
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def begin(self, url: str, key: str = "k", **data: Any) -> Exchange:
        """Send a request; its answer is not waited for."""
        headers = {"Idempotency-Key": key, "Content-Type": "application/json", "Cookie": f"sessionid={self._cookie}"}
        return Exchange(self._port, url, headers, data)

    def send(self, url: str, key: str = "k", **data: Any) -> tuple[int, dict[str, Any]]:
        """Send a request; return status and body of its answer."""
        return self.begin(url, key, **data).answer()
