"""Notices as mails: each an effect of its own, recorded once for each person."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured

import effects
from effects.conf import problems
from effects.contrib.mail.effects import SendEmail
from effects.contrib.mail.notices import MailNotices, notify
from effects.models import Execution, PendingNotice
from effects.people.notices import Notice, read_notice
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Approved
from tests.core.people import approve, asked, person
from tests.mail.mailers import SMTP, set_mailer
from tests.mail.server import SmtpServer, smtp_server

pytestmark = pytest.mark.django_db(transaction=True)


class WithLinks(MailNotices):
    """A project's own."""

    base_url = "https://ops.example.com/"


with_links = WithLinks()


@pytest.fixture(autouse=True)
def notified(settings: Any) -> None:
    """People are told by mail."""
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": "effects.contrib.mail.notices.notify"}


@pytest.fixture
def server(settings: Any) -> Iterator[SmtpServer]:
    """A mail server that takes everything."""
    with smtp_server() as found:
        set_mailer(settings, SMTP, host="127.0.0.1", port=found.port)
        yield found


def addressed(name: str) -> Any:
    """Return a person who may approve and has an address."""
    user = person(name)
    user.email, user.is_staff = f"{name}@example.com", True
    user.save()
    return user


def test_each_approver_gets_one_mail(server: SmtpServer) -> None:
    """As an execution of its own; who has no address gets none, and the requester hears how it ended."""
    ann, bob = addressed("ann"), addressed("bob")
    person("carl")
    row = asked(Approved, by=ann)
    run_due()
    (sent,) = Execution.objects.filter(operation="mail.send")
    assert (sent.state, sent.target) == ("completed", "bob@example.com")
    assert b"Subject: Please decide: Charge" in server.messages[0]
    assert b"It needs one more from" in server.messages[0]
    assert b"http" not in server.messages[0]
    approve(row, bob)
    with provider_says(Approved, effects.Applied()):
        run_due()
    assert b"Subject: Approved: Charge" in server.messages[1]
    assert b"To: ann@example.com" in server.messages[1]


def test_told_twice_is_one_mail(server: SmtpServer) -> None:
    """Also when the text would be another one by now."""
    ann = addressed("ann")
    addressed("bob")
    asked(Approved, by=ann)
    notice = read_notice(PendingNotice.objects.get(event="approval_requested").pk)
    assert notice is not None
    notify(notice)
    time_passes(timedelta(days=2))
    later = read_notice(PendingNotice.objects.get(event="approval_requested").pk)
    assert later is not None
    assert later.approval.outlook != notice.approval.outlook
    notify(later)
    run_due()
    assert len([message for message in server.messages if b"Please decide" in message]) == 1


def test_a_mail_server_that_is_away_stops_nothing(settings: Any, server: SmtpServer) -> None:
    """The mail waits; the approval goes on."""
    ann, bob = addressed("ann"), addressed("bob")
    row = asked(Approved, by=ann)
    server.answers["greeting"] = "421 not today"
    run_due()
    assert Execution.objects.get(operation="mail.send").state == "pending"
    assert approve(row, bob).state == "pending"


def test_a_mail_that_needs_an_approval_asks_for_none_by_mail(settings: Any) -> None:
    """A project's rule for low risk would have mails about mails without end."""
    settings.EFFECTS = {
        **settings.EFFECTS,
        "RISK_RULES": {"low": effects.ApprovalRule("effects.approve_execution")},
    }
    ann = addressed("ann")
    addressed("bob")
    asked(Approved, by=ann)
    run_due()
    time_passes(timedelta(minutes=1))
    run_due()
    assert Execution.objects.filter(operation="mail.send").count() == 1
    assert Execution.objects.get(operation="mail.send").state == "awaiting_approval"


def test_a_project_says_where_the_console_is(settings: Any) -> None:
    """Then mails lead to the page where people decide."""
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": f"{__name__}.with_links"}
    ann, bob = addressed("ann"), addressed("bob")
    row = asked(Approved, by=ann)
    approve(row, bob)
    with provider_says(Approved, effects.Applied()):
        run_due()
    assert mail.outbox
    assert f"https://ops.example.com/admin/effects/execution/{row.pk}/" in mail.outbox[0].body


def test_a_title_of_several_lines_is_one_subject() -> None:
    """What an effect describes cannot break a header."""
    person("bob")
    row = asked(Approved, by=addressed("ann"))
    row.approvals.update(summary={"title": "Charge\r\nBcc: all@example.com"})
    notice: Notice | None = read_notice(PendingNotice.objects.get(event="approval_requested").pk)
    assert notice is not None
    assert notify.subject(notice) == "Please decide: Charge Bcc: all@example.com"


def test_without_the_app_the_setting_is_refused(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers would not know how to send what was recorded."""
    module = sys.modules["effects.contrib.mail.notices"]
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "effects.contrib.mail"]
    with pytest.raises(ImproperlyConfigured, match="INSTALLED_APPS"):
        importlib.reload(module)
    monkeypatch.delitem(sys.modules, "effects.contrib.mail.notices")
    assert any("INSTALLED_APPS" in problem.message for problem in problems())


def test_the_mail_effect_is_low_risk() -> None:
    """What nobody can ask is given up, which only low risk may be."""
    assert (SendEmail.risk, SendEmail.in_doubt) == (effects.Risk.LOW, effects.InDoubt.ABANDON)
