"""`SendEmail`: one message through the project's mail server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core import mail
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.locmem import EmailBackend as LocmemBackend
from django.core.mail.backends.smtp import EmailBackend

from effects.contrib.mail.message import Email, address_of, compose, message_id
from effects.contrib.mail.smtp import deliver
from effects.declarations.effect import Effect, register
from effects.vocabulary.failures import Doubt, InvalidRequest, NotSent
from effects.vocabulary.types import Applied, Context, InDoubt, Item, Partial, Permit, Retry, Risk, SendResult, Summary

__all__ = ["SendEmail"]


@register
class SendEmail(Effect[Email]):
    """Send one message through the project's default mailer, with a deadline of its own.

    That is `MAILERS["default"]`, and before Django 6.1, or without `MAILERS`, `EMAIL_HOST` and its neighbours.

    Nobody can ask a mail server what became of a message, and a second one is no repetition, so that doubt ends as
    abandoned: at most once. A subclass with an `operation` of its own may ask a person instead (`InDoubt.ESCALATE`).
    The Message-ID is made of the provider key, the same for all sends of one mail. A backend other than SMTP (in tests,
    or a vendor's) is used as it is, and whatever it raises is doubt.
    """

    operation = "mail.send"
    provider = "smtp/default"
    request_timeout = timedelta(seconds=30)
    risk = Risk.LOW
    in_doubt = InDoubt.ABANDON
    # a server that asks to come back later (greylisting) means minutes
    retry = Retry(attempts=8, first=timedelta(minutes=1), ceiling=timedelta(hours=1))

    def describe(self, context: Context[Email]) -> Summary:
        """Return subject and recipients; approvers of a mail see its text too."""
        email = context.payload
        facts = {"To": ", ".join(email.to), "From": self.sender_of(email), "Text": email.text}
        return Summary(title=email.subject, facts=facts, target=email.to[0])

    def sender_of(self, email: Email) -> str:
        """Return who sends it."""
        return email.sender or str(settings.DEFAULT_FROM_EMAIL)

    def stays_here(self) -> bool:
        """Return whether mails end in `django.core.mail.outbox`, as Django keeps those of tests."""
        return isinstance(_mailer(), LocmemBackend)

    def send(self, context: Context[Email], permit: Permit) -> SendResult:
        """Hand the message over. Several recipients are taken or refused one by one: then it is `Partial`.

        Raises:
            SendError: see `smtp` for what each failure proves.
        """
        email = context.payload
        try:
            sender = self.sender_of(email)
            content = compose(email, sender, permit.provider_key).as_bytes()
            # one address is asked for once, whatever names it stands under
            to = list(dict.fromkeys(address_of(each) for each in email.to))
            envelope, reference = address_of(sender), message_id(permit.provider_key, sender)
        except (ValueError, UnicodeError) as error:
            raise InvalidRequest(str(error), code="message") from error
        backend = _mailer()
        if not isinstance(backend, EmailBackend):
            return _through(backend, email, sender, reference)
        refused = deliver(backend, envelope, to, content, permit.deadline)
        output = {"message_id": reference, "accepted": len(to) - len(refused)}
        if not refused:
            return Applied(output=output, reference=reference)
        return Partial([_item(each, refused.get(each)) for each in to], output=output, reference=reference)


def _mailer() -> Any:
    """Make the backend that the settings name; what is wrong with them is mended while the mail waits."""
    try:
        # Django 6.1 deprecates `get_connection`, and no earlier one has `mailers`
        return mail.mailers.default if hasattr(mail, "mailers") else mail.get_connection()
    except Exception as error:
        raise NotSent(f"the mail settings cannot be used: {error}", code="mailer") from error


def _item(recipient: str, refusal: tuple[int, str] | None) -> Item:
    if refusal is None:
        return Item(recipient, applied=True)
    return Item(recipient, applied=False, code=str(refusal[0]), message=refusal[1])


def _through(backend: Any, email: Email, sender: str, reference: str) -> SendResult:
    """Send through a backend of Django's that is no SMTP: a test's, a file's, a vendor's API."""
    message = EmailMultiAlternatives(
        email.subject, email.text, sender, list(email.to), reply_to=list(email.reply_to),
        headers={**email.headers, "Message-ID": reference},
    )  # fmt: skip
    if email.html:
        message.attach_alternative(email.html, "text/html")
    if not backend.send_messages([message]):
        raise Doubt("the mail backend did not say that it sent the message", code="not_counted")
    return Applied(output={"message_id": reference, "accepted": len(email.to)}, reference=reference)
