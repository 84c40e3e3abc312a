"""One message to one SMTP server, in our own steps, because each step's failure proves something else (RFC 5321).

Until the line with the single dot, nothing was accepted. After it, only the server's reply says what became of it; one
that accepted is believed, whatever happens at QUIT.
"""

from __future__ import annotations

import re
import smtplib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn

from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.utils import DNS_NAME

from effects.failures import Declined, Doubt, InvalidRequest, NotNow, NotSent, SendError, Unauthenticated
from effects.states import ExecutionReason

__all__ = ["Refused", "deliver"]

#: Recipient → code and text with which the server refused it.
Refused = dict[str, tuple[int, str]]

#: Seconds that QUIT may take: less than the grace in which the outcome is recorded.
GOODBYE = 1.0
_OK, _FORWARDED, _GO_ON, _CLOSING, _TEMPORARY, _PERMANENT = 250, 251, 354, 421, 400, 500


def deliver(
    backend: EmailBackend, sender: str, to: Sequence[str], content: bytes, remaining: Callable[[], timedelta]
) -> Refused:
    """Hand one message over, to as many of its recipients as the server takes; return those that it refused.

    Args:
        backend: Django's, which knows host, port, user and TLS; its own way of sending is not used.
        sender: the bare address.
        to: bare addresses.
        content: the message, its lines ending in CRLF.
        remaining: the time left to the permit's deadline.

    Raises:
        ProvenNotApplied: nothing was accepted.
        Doubt: the whole message was sent, and no reply says whether it was accepted.
    """
    with _nothing_was_accepted():
        smtp = _connect(backend, _seconds(remaining))
    try:
        with _nothing_was_accepted():
            _greet(smtp, backend, remaining)
            refused = _address(smtp, sender, to, remaining)
            _write(smtp, content, remaining)
            left = _seconds(remaining)
        _finish(smtp, left)
    except BaseException:
        smtp.close()
        raise
    with suppress(smtplib.SMTPException, OSError):  # it is accepted: what QUIT says, or whether it says, is nothing
        if smtp.sock is not None:
            smtp.sock.settimeout(GOODBYE)
        smtp.quit()
    smtp.close()
    return refused


def _connect(backend: EmailBackend, timeout: float) -> smtplib.SMTP:
    options: dict[str, Any] = {"timeout": timeout, "local_hostname": DNS_NAME.get_fqdn()}
    if backend.use_ssl:
        return smtplib.SMTP_SSL(backend.host, backend.port, context=backend.ssl_context, **options)
    return smtplib.SMTP(backend.host, backend.port, **options)


def _greet(smtp: smtplib.SMTP, backend: EmailBackend, remaining: Callable[[], timedelta]) -> None:
    _limit(smtp, remaining)
    smtp.ehlo_or_helo_if_needed()
    if backend.use_tls:
        _limit(smtp, remaining)
        smtp.starttls(context=backend.ssl_context)
        smtp.ehlo_or_helo_if_needed()
    if backend.username and backend.password:
        _limit(smtp, remaining)
        smtp.login(backend.username, backend.password)


def _address(smtp: smtplib.SMTP, sender: str, to: Sequence[str], remaining: Callable[[], timedelta]) -> Refused:
    """Name sender and recipients.

    Raises:
        NotNow, Declined, InvalidRequest: the sender is refused, or every recipient.
    """
    _limit(smtp, remaining)
    code, text = smtp.mail(sender)
    if code != _OK:
        _refuse(code, text, InvalidRequest)
    refused: Refused = {}
    for recipient in to:
        _limit(smtp, remaining)
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


def _write(smtp: smtplib.SMTP, content: bytes, remaining: Callable[[], timedelta]) -> None:
    """Write the message, without the line that ends it."""
    _limit(smtp, remaining)
    code, text = smtp.docmd("DATA")
    if code != _GO_ON:
        _refuse(code, text)
    _limit(smtp, remaining)
    stuffed = re.sub(rb"(?m)^\.", b"..", content)
    smtp.send(stuffed if stuffed.endswith(b"\r\n") else stuffed + b"\r\n")


def _finish(smtp: smtplib.SMTP, left: float) -> None:
    """End the message, and read whether it was accepted.

    Raises:
        Doubt: there is no reply, or one that a proxy may have given in the server's place.
        NotNow, Declined: the server did not take it, and must not deliver it (RFC 5321 §4.2.5).
    """
    try:
        if smtp.sock is not None:
            smtp.sock.settimeout(left)
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


def _limit(smtp: smtplib.SMTP, remaining: Callable[[], timedelta]) -> None:
    if smtp.sock is not None:
        smtp.sock.settimeout(_seconds(remaining))


def _seconds(remaining: Callable[[], timedelta]) -> float:
    left = remaining().total_seconds()
    if left <= 0:
        raise NotSent("the time of the permit was over before the message was ended", code="too_late")
    return left


def _words(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
