"""One message to one SMTP server, in our own steps, because each step's failure proves something else (RFC 5321).

Until the line with the single dot, nothing was accepted. After it, only the server's reply says what became of it; one
that accepted is believed, whatever happens at QUIT.
"""

from __future__ import annotations

import io
import re
import smtplib
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.utils import DNS_NAME

from effects.contrib.connections import Incoming, dial, send_all, time_left
from effects.vocabulary.failures import Declined, Doubt, InvalidRequest, NotNow, NotSent, SendError, Unauthenticated
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import monotonic

__all__ = ["Refused", "deliver"]

#: Recipient → code and text with which the server refused it.
Refused = dict[str, tuple[int, str]]

#: Seconds that QUIT may take: less than the grace in which the outcome is recorded.
GOODBYE = 1.0
#: Most bytes of all replies of one conversation; a server's greeting and extensions have some hundreds.
MAX_REPLIES = 256_000
_OK, _FORWARDED, _GO_ON, _CLOSING, _TEMPORARY, _PERMANENT = 250, 251, 354, 421, 400, 500


class _Conversation:
    """The time and the room that one conversation with a server has, from the first address to its last word."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._replies: Incoming | None = None

    def dial(self, host: str, port: int) -> socket.socket:
        """Connect."""
        return dial(host, port, self.deadline)

    def replies_of(self, sock: socket.socket) -> io.BufferedReader:
        """Return what the server says; TLS begins anew on the same connection, and has what was left."""
        limit = MAX_REPLIES if self._replies is None else self._replies.left
        self._replies = Incoming(sock, self.deadline, limit)
        return io.BufferedReader(self._replies)

    def say_goodbye(self) -> None:
        """Leave a moment for QUIT: the message is accepted, and what became of it is still to be recorded."""
        self.deadline = min(self.deadline, monotonic() + GOODBYE)
        if self._replies is not None:
            self._replies.deadline = self.deadline


class _Bounded(smtplib.SMTP):
    """Python's SMTP, each step of it bounded by one deadline and one size: its own timeout begins anew at each read."""

    def __init__(self, conversation: _Conversation, backend: EmailBackend) -> None:
        self._conversation, self._tls = conversation, backend.ssl_context if backend.use_ssl else None
        super().__init__(backend.host, backend.port, local_hostname=DNS_NAME.get_fqdn())

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:  # noqa: ARG002 - the deadline bounds it
        sock = self._conversation.dial(host, port)
        if self._tls is None:
            return sock
        sock.settimeout(time_left(self._conversation.deadline))
        return self._tls.wrap_socket(sock, server_hostname=host)

    def getreply(self) -> tuple[int, bytes]:
        """Read one reply, of one line or many."""
        if self.file is None and self.sock is not None:
            self.file = self._conversation.replies_of(self.sock)
        try:
            found = super().getreply()
            if self.sock is not None:  # a handshake of TLS that follows is bounded by what is left now
                self.sock.settimeout(max(self._conversation.deadline - monotonic(), 0.001))
            return found
        except smtplib.SMTPResponseException as error:
            # the one that it makes up itself, of a line too long: no word of the server's
            raise smtplib.SMTPException(str(error.smtp_error)) from error

    def send(self, s: Any) -> None:
        """Send bytes, or text in ASCII."""
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("the connection is closed")
        send_all(self.sock, s.encode("ascii") if isinstance(s, str) else s, self._conversation.deadline)


def deliver(backend: EmailBackend, sender: str, to: Sequence[str], content: bytes, deadline: float) -> Refused:
    """Hand one message over, to as many of its recipients as the server takes; return those that it refused.

    Args:
        backend: Django's, which knows host, port, user and TLS; its own way of sending is not used.
        sender: the bare address.
        to: bare addresses.
        content: the message, its lines ending in CRLF.
        deadline: of the permit; one for the whole conversation, however slowly the server speaks.

    Raises:
        ProvenNotApplied: nothing was accepted.
        Doubt: the whole message was sent, and no reply says whether it was accepted.
    """
    conversation = _Conversation(deadline)
    with _nothing_was_accepted():
        smtp = _Bounded(conversation, backend)
    try:
        with _nothing_was_accepted():
            _greet(smtp, backend)
            refused = _address(smtp, sender, to)
            _write(smtp, content)
            time_left(deadline)
        _finish(smtp)
    except BaseException:
        smtp.close()
        raise
    with suppress(smtplib.SMTPException, OSError):  # it is accepted: what QUIT says, or whether it says, is nothing
        conversation.say_goodbye()
        smtp.quit()
    smtp.close()
    return refused


def _greet(smtp: smtplib.SMTP, backend: EmailBackend) -> None:
    smtp.ehlo_or_helo_if_needed()
    if backend.use_tls:
        smtp.starttls(context=backend.ssl_context)
        smtp.ehlo_or_helo_if_needed()
    if backend.username and backend.password:
        smtp.login(backend.username, backend.password)


def _address(smtp: smtplib.SMTP, sender: str, to: Sequence[str]) -> Refused:
    """Name sender and recipients.

    Raises:
        NotNow, Declined, InvalidRequest: the sender is refused, or every recipient.
    """
    code, text = smtp.mail(sender)
    if code != _OK:
        _refuse(code, text, InvalidRequest)
    refused: Refused = {}
    for recipient in to:
        code, text = smtp.rcpt(recipient)
        if code == _CLOSING:
            _refuse(code, text)
        if code not in (_OK, _FORWARDED):
            refused[recipient] = code, _words(text)
    if len(refused) == len(to):
        # one that may be taken later is worth another try, also for the others
        code, said = min(refused.values())
        _refuse(code, said.encode())
    return refused


def _write(smtp: smtplib.SMTP, content: bytes) -> None:
    """Write the message, without the line that ends it."""
    code, text = smtp.docmd("DATA")
    if code != _GO_ON:
        _refuse(code, text)
    stuffed = re.sub(rb"(?m)^\.", b"..", content)
    smtp.send(stuffed if stuffed.endswith(b"\r\n") else stuffed + b"\r\n")


def _finish(smtp: smtplib.SMTP) -> None:
    """End the message, and read whether it was accepted.

    Raises:
        Doubt: there is no reply, or one that a proxy may have given in the server's place.
        NotNow, Declined: the server did not take it, and must not deliver it (RFC 5321 §4.2.5).
    """
    try:
        smtp.send(b".\r\n")
        code, text = smtp.getreply()
    except (smtplib.SMTPException, OSError) as error:
        raise Doubt(
            f"the message was sent, and the server did not say whether it took it: {error}",
            code=type(error).__name__, reason=ExecutionReason.NO_REPLY,
        ) from error  # fmt: skip
    if code == _OK:
        return
    if code == _CLOSING or not _TEMPORARY <= code < _PERMANENT + 100:
        raise Doubt(f"the message was sent, and the server answered {code} {_words(text)}", code=str(code))
    _refuse(code, text)


@contextmanager
def _nothing_was_accepted() -> Iterator[None]:
    """Say of every failure before the end of the message that nothing was accepted."""
    try:
        yield
    except SendError:
        raise
    except smtplib.SMTPAuthenticationError as error:
        _refuse(error.smtp_code, error.smtp_error, Unauthenticated)
    except smtplib.SMTPResponseException as error:
        _refuse(error.smtp_code, error.smtp_error, InvalidRequest)
    except smtplib.SMTPNotSupportedError as error:
        raise InvalidRequest(str(error), code="not_supported") from error
    except (smtplib.SMTPException, OSError) as error:  # DNS, connect, TLS, a connection that broke
        raise NotSent(f"{type(error).__name__}: {error}", code=type(error).__name__) from error


def _refuse(code: int, text: bytes | str, permanently: type[SendError] = Declined) -> NoReturn:
    message = f"{code} {_words(text)}"
    if _TEMPORARY <= code < _PERMANENT:
        raise NotNow(message, code=str(code))
    raise permanently(message, code=str(code))


def _words(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
