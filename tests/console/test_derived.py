"""Undoings, successors and second sends, as the console, its bulk page, the API and mails show them to who decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

import effects
from effects.contrib.mail.notices import MailNotices
from effects.http.api.callers import Caller, find_execution
from effects.http.api.serializers import ApprovalSerializer, ProposalSerializer, approval_data, proposal_data
from effects.models import Approval, Execution, PendingNotice
from effects.people.notices import read_notice
from effects.testing import provider_says
from effects.vocabulary.types import Actor
from tests.console.declared import Charge, PayOut, Payout
from tests.console.pages import page_of, send, text_of, verb_of

pytestmark = pytest.mark.django_db


def charged(answer: Any = None, key: str = "order-17") -> Any:
    """Return a charge as it came out."""
    with provider_says(Charge, answer or effects.Applied({"id": "ch_1"}, "ch_1")):
        return effects.perform(Charge, payload={"order": "17", "amount": 5000}, key=key, requested_by="clerk").ref


def undoing() -> tuple[str, str]:
    """Return a charge, and its undoing, which waits for people."""
    ref = charged()
    return ref, effects.compensate(ref, requested_by="zoe", require_approval=True).ref


def successor() -> tuple[str, str]:
    """Return a payout that somebody denied, and its successor, which waits for people."""
    payload = Payout(account="DE89", amount=5000, approvals=1)
    ref = effects.perform(PayOut, payload=payload, key="p-17", requested_by="clerk").ref
    approval = Approval.objects.get(execution_id=ref)
    effects.deny(ref, by=User.objects.get(username="ben"), digest=approval.digest, comment="no")
    return ref, effects.supersede(ref, requested_by="zoe", reason="they called").ref


def second_send() -> tuple[str, str]:
    """Return a payout in doubt whose second send waits for people, twice."""
    payload = Payout(account="DE89", amount=5000, approvals=1)
    ref = effects.perform(PayOut, payload=payload, key="p-18", requested_by="clerk").ref
    Execution.objects.filter(pk=ref).update(
        state="needs_intervention", reason="no_plan", may_have_applied=True, due_at=None
    )
    Approval.objects.filter(execution_id=ref).update(state="lapsed")
    row = Execution.objects.get(pk=ref)
    effects.order_resend(ref, by=User.objects.get(username="chief"), reason="lost", revision=row.revision)
    return ref, ref


CASES = [(undoing, "Undo: Charge for 17"), (successor, "Again: Pay out to DE89"),
         (second_send, "Send again: Pay out to DE89")]  # fmt: skip
Make = Callable[[], tuple[str, str]]


@pytest.mark.parametrize(("make", "title"), CASES)
def test_every_page_where_it_is_decided_says_what_it_is(
    make: Make, title: str, browser: Callable[[User], Client], ann: User, ben: User, chief: User
) -> None:
    """The queue, the lists, the row's page, the vote's pages, the bulk page and what it answers."""
    other, ref = make()
    client, approval = browser(ann), Approval.objects.get(execution_id=ref, state="requested")
    for address in (
        reverse("admin:effects_needs_a_person"),
        reverse("admin:effects_approval_changelist"),
        page_of(ref),
        page_of(approval.pk, "approval"),
        verb_of(ref, "approve"),
        verb_of(ref, "deny"),
        reverse("admin:effects_bulk_approve") + f"?ref={ref}",
    ):
        assert title in text_of(client.get(address)), address
    page = text_of(client.get(verb_of(ref, "approve")))
    if other != ref:
        assert other in page
        assert title in text_of(client.get(reverse("admin:effects_execution_changelist")))
    item = f"{ref}:{Execution.objects.get(pk=ref).revision}:{approval.pk}:{approval.digest}"
    assert title in text_of(client.post(reverse("admin:effects_bulk_approve"), {"item": item}))


def test_the_consequence_of_an_approval_is_the_undoing(browser: Any, ann: User) -> None:
    """The approve page says in a sentence what is taken back, by ref and title; a refusal leaves it as it is."""
    other, ref = undoing()
    client = browser(ann)
    text = text_of(client.get(verb_of(ref, "approve")))
    assert "is asked for “Undo: Charge for 17”, 50.00 EUR" in text
    assert f"It undoes “Charge for 17” ({other}), which happened: what was done there is taken back." in text
    assert "It is not undone; one refusal is enough" in text_of(client.get(verb_of(ref, "deny")))
    assert "Recorded, to undo another execution" in text_of(client.get(page_of(ref)))
    assert send(client, verb_of(ref, "approve")).status_code == 302


def test_a_deed_and_its_undoing_are_not_added_up(browser: Any, ann: User, ben: User) -> None:
    """The bulk page totals what is undone apart."""
    _other, ref = undoing()
    payload = Payout(account="DE89", amount=5000, approvals=1)
    deed = effects.perform(PayOut, payload=payload, key="p-19", requested_by="clerk").ref
    text = text_of(browser(ann).get(reverse("admin:effects_bulk_approve") + f"?ref={ref}&ref={deed}"))
    assert "50.00 EUR, undoing 50.00 EUR" in text
    assert "100.00 EUR" not in text


@pytest.mark.parametrize(("make", "title"), CASES)
def test_the_api_says_what_it_is_derived_from(make: Make, title: str, ann: User, ben: User, chief: User) -> None:
    """A proposal and its approval have `compensates` and `supersedes`, and the title that people decide by."""
    other, ref = make()
    row = Execution.objects.get(pk=ref)
    seen = find_execution(Caller(ann, Actor.of(ann), row.tenant, None), row.pk)  # type: ignore[arg-type]
    proposal = ProposalSerializer(proposal_data(seen)).data
    approval = ApprovalSerializer(approval_data(seen)).data
    expected = (other if make is undoing else None, other if make is successor else None)
    for data in (proposal, approval):
        assert (data["compensates"], data["supersedes"]) == expected
    assert approval["summary"]["title"] == title


@pytest.mark.parametrize(("make", "title"), CASES)
def test_mails_say_what_it_is(make: Make, title: str, settings: Any, ann: User, ben: User, chief: User) -> None:
    """Subject and text of a request and of its reminders, with the ref of the other execution."""
    settings.EFFECTS = {"NOTIFY": "effects.contrib.mail.notices.notify"}
    other, ref = make()
    pending = PendingNotice.objects.filter(execution_id=ref, approval__state="requested")
    assert pending.count() == 3
    for each in pending:
        notice: Any = read_notice(each.pk)
        mail = MailNotices().email(notice, ann, "ann@example.com")
        assert title in mail.subject
        assert title in mail.text
        assert other in mail.text
    assert notice.execution.compensates == (other if make is undoing else None)
    assert notice.execution.supersedes == (other if make is successor else None)
