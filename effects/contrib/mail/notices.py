"""Notices as mails, each an effect of its own: sent by a worker, at most once for each notice and person."""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from effects.contrib.mail.effects import SendEmail
from effects.contrib.mail.message import Email, address_of
from effects.journal.summaries import predecessors_in
from effects.people.notices import Notice
from effects.runtime.perform import perform_later
from effects.vocabulary.exceptions import PayloadConflictError
from effects.vocabulary.states import NoticeEvent
from effects.vocabulary.types import COMPENSATES, SUPERSEDES

__all__ = ["MailNotices", "notify"]

if not apps.is_installed("effects.contrib.mail"):
    raise ImproperlyConfigured(
        "EFFECTS['NOTIFY'] sends mails: put 'effects.contrib.mail' into INSTALLED_APPS, so that workers know how."
    )

#: Longer subjects are cut.
LONGEST_SUBJECT = 200


class MailNotices:
    """Sends a mail to each person whom a notice concerns; what `EFFECTS["NOTIFY"]` names an instance of.

    Attributes:
        base_url: where the console is, `https://ops.example.com`; without it mails have no link.
        effect: how the mails are sent.
        template: the text; it is given `notice`, `user`, `said`, `title`, `url`, and `derived`: lines that say what it
            undoes or asks for again.
    """

    base_url: ClassVar[str] = ""
    effect: ClassVar[type[SendEmail]] = SendEmail
    template: ClassVar[str] = "effects_mail/notice.txt"

    def __call__(self, notice: Notice) -> None:
        """Record a mail to each person. Repeated, it finds those that were recorded."""
        if notice.execution.operation in (self.effect.operation, *self.effect.aliases):
            return  # a mail about a mail would ask for the next one
        for user in notice.people:
            address = self.address_of(user)
            if not address:
                continue
            try:
                perform_later(
                    self.effect, payload=self.email(notice, user, address), key=f"{notice.key}:{user.pk}",
                    tenant=notice.execution.tenant, requested_by="effects.notices",
                )  # fmt: skip
            except PayloadConflictError:
                continue  # recorded before, in the words of then: how much time is left changes

    def address_of(self, user: Any) -> str:
        """Return where to write to a user; "" where nowhere."""
        address = str(getattr(user, user.get_email_field_name(), "") or "")
        try:
            return address_of(address) if address else ""
        except ValueError:
            return ""

    def url(self, notice: Notice, user: Any) -> str:
        """Return where a person decides; "" where nowhere: the console lets members of staff in alone."""
        if not self.base_url or not getattr(user, "is_staff", True):
            return ""
        try:
            path = reverse("admin:effects_execution_change", args=[notice.execution.id])
        except NoReverseMatch:
            return ""
        return f"{self.base_url.rstrip('/')}{path}"

    def _shuts_out(self, user: Any) -> bool:
        return bool(self.base_url) and not getattr(user, "is_staff", True)

    def subject(self, notice: Notice) -> str:
        """Return the subject."""
        return " ".join(f"{_said(notice.event)}: {_title(notice)}".split())[:LONGEST_SUBJECT]

    def email(self, notice: Notice, user: Any, address: str) -> Email:
        """Return the mail to one person. It has no facts of the summary in it: those are shown where people decide."""
        text = render_to_string(
            self.template,
            {"notice": notice, "user": user, "title": _title(notice), "said": _said(notice.event),
             "derived": _derived(notice), "url": self.url(notice, user), "is_shut_out": self._shuts_out(user)},
        )  # fmt: skip
        return Email(
            to=(address,), subject=self.subject(notice), text=text, headers={"Auto-Submitted": "auto-generated"}
        )


#: The way that most projects need: `EFFECTS = {"NOTIFY": "effects.contrib.mail.notices.notify"}`.
notify = MailNotices()


def _title(notice: Notice) -> str:
    shown = notice.approval.summary if notice.approval is not None else notice.execution.summary
    return _printable(shown.get("title", "")) or notice.execution.operation


def _derived(notice: Notice) -> list[str]:
    """Return what the execution undoes or asks for again, a line each."""
    words = {COMPENSATES: _("It undoes: %(text)s"), SUPERSEDES: _("It asks again for: %(text)s")}
    return [
        _printable(words[before.relation] % {"text": before.text}) + f" ({before.ref})"
        for before in predecessors_in(notice.execution.summary)
    ]


def _printable(text: object) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def _said(event: NoticeEvent) -> str:
    return {
        NoticeEvent.APPROVAL_REQUESTED: _("Please decide"),
        NoticeEvent.APPROVAL_REMINDER: _("Still to decide"),
        NoticeEvent.APPROVAL_GRANTED: _("Approved"),
        NoticeEvent.APPROVAL_DENIED: _("Denied"),
        NoticeEvent.APPROVAL_EXPIRED: _("Expired undecided"),
        NoticeEvent.APPROVAL_WITHDRAWN: _("Withdrawn"),
        NoticeEvent.APPROVAL_LAPSED: _("Approval lapsed"),
        NoticeEvent.NEEDS_PERSON: _("Needs a person"),
    }[event]
