"""A mistake in an effect's own code is doubt, for the money's sake, and an error in the log, for the developer's."""

from __future__ import annotations

import http.client
import json
import logging
import smtplib
import socket
import ssl
from contextlib import suppress
from typing import Any

import pytest

import effects
from effects.models import Execution
from effects.testing import provider_says
from tests.core.declared import Plain
from tests.core.people import PAYLOAD

pytestmark = pytest.mark.django_db


class RefundRefusedError(Exception):
    """A project's own, with a code as many libraries have."""

    code = "E42"


def perform(answer: Any) -> effects.Outcome:
    with provider_says(Plain, answer):
        return effects.perform(Plain, payload=PAYLOAD, key="k1")


def send_in_a_block(answer: Any) -> effects.Outcome:
    """The same in a `sending()` block, whose exception goes on."""
    with suppress(type(answer)), effects.sending(Plain, payload=PAYLOAD, key="k1"):
        raise answer
    return effects.get(Execution.objects.get().pk).outcome


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [
        record for record in caplog.records if record.name.startswith("effects") and record.levelno >= logging.ERROR
    ]


BUGS = [
    TypeError("unsupported operand"), AttributeError("no attribute 'amuont'"), KeyError("id"), AssertionError("never"),
    ZeroDivisionError("division by zero"), FileNotFoundError(2, "no such file"), RefundRefusedError("not possible"),
    NotImplementedError(),
]  # fmt: skip


@pytest.mark.parametrize("send", [perform, send_in_a_block])
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: type(bug).__name__)
def test_a_bug_is_doubt_an_error_with_its_traceback_and_words(send: Any, bug: Exception, caplog: Any) -> None:
    """It may have been sent; the log has the traceback, as error trackers read it, and the outcome its words."""
    outcome = send(bug)
    assert isinstance(outcome, effects.Uncertain)
    (record,) = errors(caplog)
    assert record.exc_info is not None
    assert record.exc_info[1] is bug
    assert outcome.message.startswith(f"{type(bug).__name__}")
    assert str(bug)[:60] in outcome.message
    assert outcome.message in outcome.describe()
    assert effects.get(outcome.ref).outcome == outcome


@pytest.mark.parametrize("answer", [None, {"id": "n1"}, "n1", 17, effects.Applied, effects.Partial([])], ids=repr)
def test_a_wrong_return_value_is_doubt_and_an_error(answer: Any, caplog: Any) -> None:
    """The log and the outcome name what was returned by its type."""
    outcome = perform(lambda context, permit: answer)
    assert isinstance(outcome, effects.Uncertain)
    (record,) = errors(caplog)
    assert "TypeError" in record.getMessage()
    assert "send() returned" in outcome.message


NETWORK = [
    TimeoutError("read"), ConnectionResetError("peer"), socket.gaierror(-2, "unknown"), ssl.SSLError("handshake"),
    http.client.RemoteDisconnected("closed"), http.client.IncompleteRead(b""), smtplib.SMTPServerDisconnected("gone"),
    OSError(113, "No route to host"), json.JSONDecodeError("no JSON", "<html>", 0), effects.Doubt("status 500"),
    effects.Declined("no"), effects.NotSent("connect"),
]  # fmt: skip


@pytest.mark.parametrize("error", NETWORK, ids=lambda error: type(error).__name__)
def test_what_providers_and_networks_do_is_no_error_of_ours(error: Exception, caplog: Any) -> None:
    """A time-out is a day's work: no traceback, no alarm."""
    perform(error)
    assert errors(caplog) == []


@pytest.mark.parametrize("package", ["requests", "urllib3", "httpx", "stripe", "aiohttp", "botocore"])
def test_the_usual_clients_are_known_by_their_package(package: str, caplog: Any) -> None:
    """None of them is imported for that."""
    base = {"requests": "RequestException", "urllib3": "HTTPError", "httpx": "HTTPError", "stripe": "StripeError",
            "aiohttp": "ClientError", "botocore": "BotoCoreError"}[package]  # fmt: skip
    kind = type(base, (Exception,), {"__module__": f"{package}.exceptions"})
    outcome = perform(kind("the provider's words"))
    assert isinstance(outcome, effects.Uncertain)
    assert errors(caplog) == []


def test_where_texts_are_redacted_the_traceback_is_text_and_redacted(settings: Any, caplog: Any) -> None:
    """No local variable goes along: an error tracker would show the payload."""
    settings.EFFECTS = {"DISPATCH": "none", "REDACTOR": lambda text, place: text.replace("tok_9", "•••")}
    outcome = perform(KeyError("tok_9"))
    (record,) = errors(caplog)
    assert record.exc_info is None
    assert "tok_9" not in (record.exc_text or "") + record.getMessage()
    assert "KeyError" in (record.exc_text or "")
    assert "tok_9" not in outcome.message  # type: ignore[attr-defined]


def test_what_was_raised_is_forgotten_once_it_is_known() -> None:
    """A completed execution says nothing of an older mistake."""
    outcome = perform(TypeError("bug"))
    row = Execution.objects.get(pk=outcome.ref)
    effects.resolve(row.pk, decision="applied", revision=row.revision, by="olga", reason="seen")
    row.refresh_from_db()
    assert (row.failure_code, row.failure_message) == ("", "")
