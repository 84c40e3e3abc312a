"""What is sent: an e-mail as plain data, and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import localtime, parseaddr

__all__ = ["Email", "address_of", "compose", "message_id"]

#: Pure ASCII on the wire, so that no server along the way needs an extension.
POLICY = SMTP.clone(cte_type="7bit")
#: What the effect writes itself.
OURS = frozenset({"from", "to", "subject", "date", "message-id", "reply-to", "mime-version"})


@dataclass(frozen=True, kw_only=True)
class Email:
    """One message to send. Everybody in `to` sees everybody else: send one each where they should not.

    Args:
        to: the recipients: `ann@example.com` or `Ann <ann@example.com>`.
        subject: one line.
        text: the body.
        html: the same for those who like it better, or "".
        sender: as `to`; `DEFAULT_FROM_EMAIL` where it is "".
        reply_to: where answers go.
        headers: others, such as `Auto-Submitted`.
    """

    to: tuple[str, ...]
    subject: str
    text: str
    html: str = ""
    sender: str = ""
    reply_to: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        addresses = [address_of(each) for each in self.to]
        if not addresses or len(set(addresses)) < len(addresses):
            raise ValueError("to= names at least one recipient, each once")
        for each in (*self.reply_to, *([self.sender] if self.sender else [])):
            address_of(each)
        for name, value in {"Subject": self.subject, **self.headers}.items():
            if not (value + name).replace("\t", " ").isprintable():
                raise ValueError(f"{name} is one line of printable characters")
        taken = sorted(name for name in self.headers if name.lower() in OURS)
        if taken:
            raise ValueError(f"headers= may not hold {', '.join(taken)}")


def address_of(text: str) -> str:
    """Return the bare address of `ann@example.com` or `Ann <ann@example.com>`, its domain as DNS has it.

    Raises:
        ValueError: it is none, or its local part is not ASCII, which few servers take.
    """
    address = parseaddr(text)[1] if text.isprintable() else ""
    local, at, domain = address.rpartition("@")
    if not (at and local and domain and local.isascii()) or " " in address:
        raise ValueError(f"{text!r:.80} is no e-mail address that can be sent to")
    return f"{local}@{domain.encode('idna').decode()}"


def message_id(provider_key: str, sender: str) -> str:
    """Return the Message-ID of all sends under one provider key: whoever receives two can tell that they are one."""
    return f"<{provider_key}@{address_of(sender).rpartition('@')[2]}>"


def compose(email: Email, sender: str, provider_key: str) -> EmailMessage:
    """Return the message.

    Raises:
        ValueError: it cannot be written as a mail.
    """
    message = EmailMessage(policy=POLICY)
    message["From"] = _header([sender])
    message["To"] = _header(email.to)
    message["Subject"] = email.subject
    message["Date"] = localtime()
    message["Message-ID"] = message_id(provider_key, sender)
    if email.reply_to:
        message["Reply-To"] = _header(email.reply_to)
    for name, value in email.headers.items():
        message[name] = value
    message.set_content(email.text)
    if email.html:
        message.add_alternative(email.html, subtype="html")
    return message


def _header(people: Sequence[str]) -> tuple[Address, ...]:
    return tuple(Address(display_name=parseaddr(each)[0], addr_spec=address_of(each)) for each in people)
