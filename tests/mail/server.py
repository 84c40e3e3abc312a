"""A real SMTP server on a socket, that answers, hangs or hangs up where a test says."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["DRIP", "DRIP_LETTERS", "DROP", "FLOOD", "FLOOD_LINE", "HANG", "SmtpServer", "smtp_server"]

#: Hang up without a word; say nothing more until the client has gone.
DROP, HANG = "drop", "hang"
#: Go on with a reply that never ends, until the client has gone: line by line or letter by letter, slowly or at once.
DRIP, DRIP_LETTERS, FLOOD, FLOOD_LINE = "drip", "drip letters", "flood", "flood line"
#: What is said again and again, and the seconds between.
_ENDLESS = {
    DRIP: (b"%s-more\r\n", 0.05),
    DRIP_LETTERS: (b"x", 0.05),
    FLOOD: (b"%s-more\r\n" * 1000, 0.0),
    FLOOD_LINE: (b"x" * 10_000, 0.0),
}


class _Session(socketserver.StreamRequestHandler):
    """One client. What is asked is one of: greeting, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, content, QUIT."""

    server: SmtpServer

    def handle(self) -> None:
        """Answer until somebody hangs up."""
        self.server.sessions += 1
        try:
            self._say("greeting", "220 here")
            while line := self.rfile.readline():
                words = line.decode("ascii").strip()
                self.server.commands.append(words)
                verb = words.partition(" ")[0].upper()
                self._say(verb, {"DATA": "354 go on", "QUIT": "221 bye", **self.server.offers}.get(verb, "250 ok"))
                if verb == self.server.silent_after:
                    while self.connection.recv(1000):  # until the client hangs up
                        pass
                if verb == "DATA" and self._goes_on:
                    self._content()
                if verb == "QUIT":
                    return
        except (_HangUpError, ConnectionError):
            return

    _goes_on = False

    def _content(self) -> None:
        if self.server.answers.get("while writing") == DROP:
            raise _HangUpError
        while self.server.answers.get("while writing") == DRIP and self.connection.recv(1):
            time.sleep(0.05)  # a slow reader, until the client hangs up
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b".") else line)
        if not line:
            raise _HangUpError
        self.server.messages.append(b"".join(lines))
        self._say("content", "250 taken")

    def _say(self, asked: str, usual: str) -> None:
        answer = self.server.answers.get(asked, usual)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else usual
        if answer == HANG:
            self.connection.recv(1)  # returns when the client hangs up
            raise _HangUpError
        if answer == DROP:
            raise _HangUpError
        if answer in _ENDLESS:
            self._go_on(*_ENDLESS[answer], usual.encode()[:3])
        time.sleep(self.server.pause)
        self._goes_on = answer.startswith("354")
        self.wfile.write(answer.encode() + b"\r\n")

    def _go_on(self, words: bytes, pause: float, code: bytes) -> None:
        said = words.replace(b"%s", code)
        while True:  # ends with the client's connection
            self.wfile.write(said)
            time.sleep(pause)


class _HangUpError(Exception):
    pass


class SmtpServer(socketserver.ThreadingTCPServer):
    """What it was told and what it took; `answers` says what it says in place of "250 ok"."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.answers: dict[str, Any] = {}
        self.offers = {"EHLO": "250 here"}
        self.commands: list[str] = []
        self.messages: list[bytes] = []
        self.sessions = 0
        self.pause = 0.0  # seconds before each reply
        self.silent_after = ""  # what is asked last

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


@contextmanager
def smtp_server() -> Iterator[SmtpServer]:
    """Run a server for the length of the block."""
    with SmtpServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
