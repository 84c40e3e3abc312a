"""What each answer of a mail server, and each silence, proves of a message: on a real server that misbehaves."""

from __future__ import annotations

import email
import email.policy
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail

import effects
from effects.contrib.mail.effects import SendEmail
from effects.contrib.mail.message import Email, compose
from effects.models import Attempt, Execution
from effects.testing import run_due, time_passes
from effects.vocabulary.exceptions import PayloadError
from tests.mail.mailers import LOCMEM, SMTP, set_mailer
from tests.mail.server import DRIP, DRIP_LETTERS, DROP, FLOOD, FLOOD_LINE, HANG, SmtpServer, free_port, smtp_server

pytestmark = pytest.mark.django_db(transaction=True)
MAIL = Email(
    to=("ann@example.com",),
    subject="Your refund",
    text="It is on its way.\n.\n..and dots",
    sender="Shop <shop@example.com>",
)


@pytest.fixture
def server(settings: Any) -> Iterator[SmtpServer]:
    """A mail server that takes everything."""
    with smtp_server() as found:
        set_mailer(settings, SMTP, host="127.0.0.1", port=found.port)
        yield found


def send(message: Email = MAIL, key: str = "k1") -> Any:
    """Send a mail; return the outcome."""
    return effects.perform(SendEmail, payload=message, key=key)


def test_an_accepted_message_is_completed(server: SmtpServer) -> None:
    """Once, under a Message-ID made of the provider key, with its dots as they were."""
    outcome = send()
    (taken,) = server.messages
    found = email.message_from_bytes(taken, policy=email.policy.default)
    assert outcome.require() == {"message_id": found["Message-ID"], "accepted": 1}
    assert found["Message-ID"] == f"<{Execution.objects.get().provider_key}@example.com>"
    assert found.get_content().splitlines() == MAIL.text.splitlines()
    assert (found["From"], found["To"], found["Subject"]) == (
        "Shop <shop@example.com>",
        "ann@example.com",
        "Your refund",
    )
    said = [command.lower() for command in server.commands]  # smtplib's case is not the same in every Python
    assert said[1:3] == ["mail from:<shop@example.com>", "rcpt to:<ann@example.com>"]
    assert server.sessions == 1


@pytest.mark.parametrize(
    ("asked", "answer", "state", "reason"),
    [
        # nothing was accepted, and may be later
        ("greeting", DROP, "pending", "not_sent"),
        ("greeting", "421 too busy", "pending", "retry"),
        ("EHLO", DROP, "pending", "not_sent"),
        ("MAIL", DROP, "pending", "not_sent"),
        ("MAIL", "451 later", "pending", "retry"),
        ("RCPT", DROP, "pending", "not_sent"),
        ("RCPT", "450 greylisted", "pending", "retry"),
        ("RCPT", "421 closing", "pending", "retry"),
        ("DATA", DROP, "pending", "not_sent"),
        ("DATA", "451 later", "pending", "retry"),
        ("content", "452 full", "pending", "retry"),
        # nothing was accepted, and never will be
        ("greeting", "554 go away", "failed", "invalid_request"),
        ("MAIL", "550 not from you", "failed", "invalid_request"),
        ("RCPT", "550 no such user", "failed", "declined"),
        ("DATA", "554 no", "failed", "declined"),
        ("content", "554 spam", "failed", "declined"),
        # the whole message was sent, and nobody says what became of it
        ("content", DROP, "uncertain", "no_reply"),
        ("content", "421 shutting down", "uncertain", "provider_error"),
        ("content", "299 what", "uncertain", "provider_error"),
        ("content", "nonsense", "uncertain", "provider_error"),
        # accepted is accepted
        ("QUIT", DROP, "completed", "sent"),
        ("QUIT", "421 no", "completed", "sent"),
        ("QUIT", HANG, "completed", "sent"),
    ],
)
def test_what_each_answer_proves(server: SmtpServer, asked: str, answer: str, state: str, reason: str) -> None:
    """Before the single dot nothing was accepted; after it only a reply says."""
    server.answers[asked] = answer
    outcome = send()
    assert (outcome.state, Execution.objects.get().reason) == (state, reason), outcome


def test_a_connection_that_breaks_while_the_message_is_written_delivered_nothing(server: SmtpServer) -> None:
    """A message without its end is none: it is sent again, not in doubt."""
    server.answers["while writing"] = DROP
    long = Email(to=MAIL.to, subject="Long", text="x" * 70 + "\n" * 10 + "word " * 2_000_000, sender="shop@example.com")
    outcome = send(long)
    assert (outcome.state, Execution.objects.get().reason, server.messages) == ("pending", "not_sent", [])


def test_silence_until_the_deadline_after_the_message_is_doubt(
    server: SmtpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends as abandoned: nobody can ask, and a second mail would be a second mail."""
    monkeypatch.setattr(SendEmail, "request_timeout", timedelta(seconds=1))
    server.answers["content"] = HANG
    assert send().state == "uncertain"
    time_passes(timedelta(hours=1))
    run_due()
    row = Execution.objects.get()
    assert (row.state, row.attempts, server.sessions) == ("abandoned", 1, 1)


def test_silence_before_the_message_is_no_doubt(server: SmtpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The permit's deadline ends it with nothing accepted."""
    monkeypatch.setattr(SendEmail, "request_timeout", timedelta(seconds=1))
    server.answers["EHLO"] = HANG
    outcome = send()
    assert (outcome.state, Execution.objects.get().reason) == ("pending", "not_sent")


@pytest.mark.parametrize("endless", [DRIP, DRIP_LETTERS, FLOOD, FLOOD_LINE])
@pytest.mark.parametrize(
    ("asked", "state"),
    [
        ("greeting", "pending"), ("EHLO", "pending"), ("AUTH", "pending"), ("MAIL", "pending"), ("RCPT", "pending"),
        ("DATA", "pending"), ("content", "uncertain"), ("QUIT", "completed"),
    ],
)  # fmt: skip
def test_a_reply_without_end_ends_with_the_conversation(
    server: SmtpServer, settings: Any, monkeypatch: pytest.MonkeyPatch, asked: str, state: str, endless: str
) -> None:
    """One deadline and one size hold for it all; a step that never ends proves what a silent one does."""
    set_mailer(settings, SMTP, host="127.0.0.1", port=server.port, username="shop", password="secret")
    server.offers = {"EHLO": "250-here\r\n250 AUTH PLAIN", "AUTH": "235 welcome"}
    monkeypatch.setattr(SendEmail, "request_timeout", timedelta(seconds=0.8))
    server.answers[asked] = endless
    begun = time.monotonic()
    assert send().state == state
    assert time.monotonic() - begun < 10
    assert server.sessions == 1


def test_a_slow_reader_ends_with_the_conversation(server: SmtpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the message byte by byte holds nobody longer than the permit: nothing was accepted."""
    monkeypatch.setattr(SendEmail, "request_timeout", timedelta(seconds=1))
    server.answers["while writing"] = DRIP
    long = Email(to=MAIL.to, subject="Long", text="word " * 4_000_000, sender="shop@example.com")
    begun = time.monotonic()
    assert (send(long).state, server.messages) == ("pending", [])
    assert time.monotonic() - begun < 10


def test_a_handshake_that_never_ends_ends_with_the_conversation(
    server: SmtpServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that says yes to TLS and then talks for ever without it got nothing."""
    set_mailer(settings, SMTP, host="127.0.0.1", port=server.port, use_tls=True)
    monkeypatch.setattr(SendEmail, "request_timeout", timedelta(seconds=0.8))
    server.offers = {"EHLO": "250-here\r\n250 STARTTLS"}
    server.answers["STARTTLS"] = ["220 go on"]
    server.silent_after = "STARTTLS"
    begun = time.monotonic()
    assert (send().state, server.messages) == ("pending", [])
    assert time.monotonic() - begun < 10


def test_many_short_replies_share_one_deadline(server: SmtpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reply comes in time, and all together they do not."""
    monkeypatch.setattr(SendEmail, "request_timeout", timedelta(seconds=1))
    server.pause = 0.2
    many = Email(to=tuple(f"p{n}@example.com" for n in range(20)), subject="s", text="t", sender="shop@example.com")
    assert (send(many).state, server.messages) == ("pending", [])
    assert len(server.commands) < 10


def test_nobody_listens(server: SmtpServer, settings: Any) -> None:
    """Refused connections are tried again, under the same Message-ID."""
    set_mailer(settings, SMTP, host="127.0.0.1", port=free_port())
    assert send().state == "pending"
    set_mailer(settings, SMTP, host="127.0.0.1", port=server.port)
    time_passes(timedelta(minutes=2))
    run_due()
    row = Execution.objects.get()
    assert (row.state, row.attempts, row.reference) == ("completed", 2, f"<{row.provider_key}@example.com>")


def test_a_server_that_asks_to_come_back_gets_hours(server: SmtpServer) -> None:
    """Greylisting takes minutes: the second attempt waits as long."""
    server.answers["RCPT"] = ["450 greylisted"]
    assert send().state == "pending"
    run_due()
    assert server.sessions == 1
    time_passes(timedelta(minutes=2))
    run_due()
    assert Execution.objects.get().state == "completed"


def test_some_recipients_are_refused(server: SmtpServer) -> None:
    """It is partially completed, and says who got it."""
    server.answers["RCPT"] = ["250 ok", "550 no such user"]
    outcome = send(Email(to=("ann@example.com", "bob@example.com"), subject="s", text="t", sender="shop@example.com"))
    assert isinstance(outcome, effects.PartiallyCompleted)
    assert [(item.key, item.applied, item.code) for item in outcome.items] == [
        ("ann@example.com", True, ""), ("bob@example.com", False, "550"),
    ]  # fmt: skip
    assert len(server.messages) == 1


def test_all_refused_and_one_only_for_now_is_tried_again(server: SmtpServer) -> None:
    """Nothing was sent, so nothing is lost by waiting."""
    server.answers["RCPT"] = ["550 no such user", "450 later"]
    both = Email(to=("ann@example.com", "bob@example.com"), subject="s", text="t", sender="shop@example.com")
    assert send(both).state == "pending"


@pytest.mark.parametrize(
    ("answers", "state", "reason"),
    [
        ({"AUTH": "535 who are you"}, "failed", "unauthenticated"),
        ({"AUTH": "454 later"}, "pending", "retry"),
        ({}, "completed", "sent"),
    ],
)
def test_logging_in(server: SmtpServer, settings: Any, answers: Any, state: str, reason: str) -> None:
    """A wrong password is said to be one; a server that cannot check it now is asked later."""
    set_mailer(settings, SMTP, host="127.0.0.1", port=server.port, username="shop", password="secret")
    server.offers = {"EHLO": "250-here\r\n250 AUTH PLAIN", "AUTH": "235 welcome"}
    server.answers.update(answers)
    outcome = send()
    assert (outcome.state, Execution.objects.get().reason) == (state, reason)
    assert not Attempt.objects.filter(message__contains="secret").exists()


@pytest.mark.parametrize(("offers", "state"), [("250 here", "failed"), ("250-here\r\n250 STARTTLS", "pending")])
def test_no_tls_no_mail(server: SmtpServer, settings: Any, offers: str, state: str) -> None:
    """A server that does not offer what the settings demand gets nothing in the clear."""
    set_mailer(settings, SMTP, host="127.0.0.1", port=server.port, use_tls=True)
    server.offers = {"EHLO": offers}
    server.answers["STARTTLS"] = "220 go on"
    assert send().state == state
    assert not [command for command in server.commands if command.startswith("mail")]
    assert server.messages == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"to": ()}, "at least one"),
        ({"to": ("ann@example.com", "Ann <ann@example.com>")}, "each once"),
        ({"to": ("ann",)}, "no e-mail address"),
        ({"to": ("ann@example.com\nBcc: bob@example.com",)}, "no e-mail address"),
        ({"to": ("änn@example.com",)}, "no e-mail address"),
        ({"subject": "a\r\nBcc: bob@example.com"}, "one line"),
        ({"headers": {"X-Shop": "a\nb"}}, "one line"),
        ({"headers": {"message-id": "<mine>"}}, "may not hold"),
        ({"sender": "nobody"}, "no e-mail address"),
    ],
)
def test_what_is_no_mail_is_refused_when_it_is_asked_for(words: Any, says: str) -> None:
    """Nothing is recorded, and nobody's header is smuggled in."""
    payload = {"to": ("ann@example.com",), "subject": "s", "text": "t", **words}
    with pytest.raises(PayloadError, match=says):
        effects.perform(SendEmail, payload=payload, key="k1")
    assert not Execution.objects.exists()


def test_a_message_is_ascii_on_the_wire() -> None:
    """Subjects, names and domains in other letters are encoded; no server needs an extension for them."""
    message = Email(
        to=("Jürgen <j@bücher.example>",), subject="Rückzahlung €", text="Grüße\n" + "ü" * 3000, html="<p>ü</p>",
        sender="shop@example.com", reply_to=("help@example.com",), headers={"X-Shop": "17"},
    )  # fmt: skip
    written = compose(message, message.sender, "fx_1").as_bytes()
    assert written.isascii()
    assert max(map(len, written.splitlines())) < 998
    assert b"j@xn--bcher-kva.example" in written


def test_another_backend_is_used_as_it_is(settings: Any) -> None:
    """In a project's tests mails end in the outbox, with the same Message-ID."""
    set_mailer(settings, LOCMEM)
    outcome = send(Email(to=("ann@example.com",), subject="s", text="t", html="<p>t</p>", sender="shop@example.com"))
    (sent,) = mail.outbox
    assert sent.extra_headers["Message-ID"] == outcome.require()["message_id"]
    assert sent.alternatives


def test_a_backend_that_says_nothing_is_doubt(settings: Any) -> None:
    """Zero messages sent is no proof that none was."""
    set_mailer(settings, f"{__name__}.Silent")
    assert send().state == "uncertain"


def test_a_mailer_that_cannot_be_made_waits_for_its_settings(server: SmtpServer, settings: Any) -> None:
    """Nothing was sent, so that the mail goes out once the settings are right."""
    set_mailer(settings, "shop.mails.Gone")
    waiting = send()
    assert (waiting.state, Attempt.objects.get().outcome) == ("pending", "not_sent")
    assert "the mail settings cannot be used" in Attempt.objects.get().message
    set_mailer(settings, SMTP, host="127.0.0.1", port=server.port)
    time_passes(timedelta(minutes=2))
    run_due()
    assert effects.get(waiting.ref).state == "completed"


class Silent:
    """A backend that does not count."""

    def __init__(self, **options: Any) -> None:
        pass

    def send_messages(self, messages: Any) -> int:
        return 0
