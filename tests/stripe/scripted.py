"""A Stripe that answers what a test wrote down, for what localstripe never says. Real HTTP on a real socket."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


class Scripted:
    """Answers in the order in which they were added; `seen` has what was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer | Callable[[Any], None]] = []
        self.seen: list[tuple[str, str, dict[str, str], str]] = []
        self.url = ""

    def says(self, status: int, body: Any, **headers: str) -> None:
        """Add an answer; what is not bytes goes out as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, {"Content-Type": "application/json", **named}, content))

    def does(self, answer: Callable[[Any], None]) -> None:
        """Add something that writes to the connection itself."""
        self.answers.append(answer)


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Let a server answer in a thread until the block ends. Yields its URL."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serve() -> Iterator[Scripted]:
    """Serve a script on a free port."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            script.seen.append((self.command, self.path, dict(self.headers), body))
            answer = script.answers.pop(0)
            if not isinstance(answer, tuple):
                self.close_connection = True
                answer(self.wfile)
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - as above

        def log_message(self, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: Any) -> None:
            pass  # the client hung up at its deadline

    server = Server(("127.0.0.1", 0), Handler)
    with serving(server) as script.url:
        yield script
