"""Staff whom a rule entitles reach what they may decide, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import effects
from effects.contrib.mail.notices import MailNotices
from effects.models import Approval, Execution, PendingNotice
from effects.people.notices import read_notice
from effects_admin import ballots
from tests.console.pages import page_of, send, text_of, verb_of

pytestmark = pytest.mark.django_db
LISTS = ["effects_execution_changelist", "effects_approval_changelist", "effects_needs_a_person"]
CLOSED = ["effects_request_changelist", "effects_receipt_changelist", "effects_overview"]


@effects.register
class Ruled(effects.Effect[dict]):  # type: ignore[type-arg]
    """Its payload says whom to ask."""

    operation = "ballots.ruled"
    provider = "ballots/main"

    def send(self, context: Any, permit: Any) -> effects.Applied:
        return effects.Applied({"id": "x"}, "x")

    def approval(self, context: Any) -> effects.ApprovalRule | None:
        approvers = context.payload["approvers"]
        return effects.ApprovalRule(approvers, quorum=context.payload.get("quorum", 1)) if approvers else None

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary(f"Pay {context.key}", {"To": "Meridian"}, 7100, "eur")


def named(context: Any) -> list[User]:
    """What a project's function is: names those called carl."""
    return list(User.objects.filter(username__startswith="carl"))


class OfObjects(BaseBackend):
    """Permissions for one object: who is called as it is."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return perm == "auth.delete_group" and isinstance(obj, Group) and obj.name == user_obj.username


RULES = {
    "permission": "auth.change_group",
    "group": "group:Finance",
    "function": "call:tests.console.test_ballots.named",
    "object": "auth.delete_group",
    "both": "group:Finance & auth.change_group",
}


@pytest.fixture
def staff(settings: Any) -> Callable[..., User]:
    """Make a member of staff whom a kind of rule entitles, and who holds nothing else."""
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", f"{__name__}.OfObjects"]

    def make(kind: str, name: str = "carl") -> User:
        user = User.objects.create_user(name, is_staff=True)
        if kind in ("permission", "both"):
            user.user_permissions.add(Permission.objects.get(codename="change_group"))
        if kind in ("group", "both"):
            user.groups.add(Group.objects.get_or_create(name="Finance")[0])
        return User.objects.get(pk=user.pk)

    return make


def asked(kind: str, key: str = "k1", **more: Any) -> Execution:
    """Ask for something under a kind of rule."""
    about = Group.objects.get_or_create(name="carl")[0] if kind == "object" else None
    payload = {"approvers": RULES.get(kind, kind), "secret": "IBAN-DE89", **more}
    outcome = effects.perform(Ruled, payload=payload, key=key, requested_by="clerk", about=about)
    return Execution.objects.get(pk=outcome.ref)


@pytest.mark.parametrize("kind", RULES)
def test_who_is_entitled_finds_it_and_decides_it(kind: str, staff: Any, browser: Callable[[User], Client]) -> None:
    """From the admin's first page over the queue and the lists to the vote; payload and history stay closed."""
    user = staff(kind)
    row, client = asked(kind), browser(user)
    assert reverse("admin:app_list", args=["effects"]) in client.get(reverse("admin:index")).content.decode()
    assert "Pay k1" in text_of(client.get(reverse("admin:app_list", args=["effects"])))
    for name in LISTS:
        assert "Pay k1" in text_of(client.get(reverse(f"admin:{name}"))), name
    for name in CLOSED:
        assert client.get(reverse(f"admin:{name}")).status_code == 403, name
    page = text_of(client.get(page_of(row.pk)))
    assert "71.00 EUR" in page
    for hidden in ("IBAN-DE89", "Timeline", row.provider_key, "Recorded"):
        assert hidden not in page, hidden
    approval = Approval.objects.get(execution=row)
    assert client.get(page_of(approval.pk, "approval")).status_code == 200
    assert client.get(page_of(row.pk) + "history/").status_code == 404
    for verb in ("resolve", "cancel", "look-up", "compensate", "withdraw"):
        assert client.get(verb_of(row.pk, verb)).status_code == 403, verb
    assert send(client, verb_of(row.pk, "approve")).status_code == 302
    assert Execution.objects.get(pk=row.pk).state == "pending"
    # what they decided they may see through
    assert client.get(page_of(row.pk)).status_code == 200


@pytest.mark.parametrize("kind", RULES)
def test_rows_that_nobody_asked_them_about_are_closed(kind: str, staff: Any, browser: Any) -> None:
    """By guessing the address, by search, in lists and on the bulk page: other rules, no rule, other models."""
    user = staff(kind)
    asked(kind)
    User.objects.create_user("root", is_superuser=True)
    others = [asked("auth.add_user", "k2")]
    if kind != "object":
        others.append(asked("", "k3"))
    client = browser(user)
    for other in others:
        for address in (page_of(other.pk), verb_of(other.pk, "approve"), verb_of(other.pk, "deny")):
            assert client.get(address).status_code == 403, address
        for name in LISTS:
            text = text_of(client.get(reverse(f"admin:{name}") + f"?q={other.pk}"))
            assert f"Pay {other.key}" not in text, name
        bulk = text_of(client.get(reverse("admin:effects_bulk_approve") + f"?ref={other.pk}"))
        assert f"Pay {other.key}" not in bulk
    assert "Pay k2" not in text_of(client.get(reverse("admin:effects_execution_changelist")))


def test_staff_without_anything_see_nothing(staff: Any, browser: Any) -> None:
    """No entry, no list, no page, whatever waits for others."""
    staff("permission", "anna")
    row, client = asked("permission"), browser(staff("nothing", "bert"))
    assert "/admin/effects/" not in client.get(reverse("admin:index")).content.decode()
    assert client.get(reverse("admin:app_list", args=["effects"])).status_code == 404
    for name in (*LISTS, *CLOSED):
        assert client.get(reverse(f"admin:{name}")).status_code == 403, name
    for address in (page_of(row.pk), verb_of(row.pk, "approve")):
        assert client.get(address).status_code == 403
    assert client.get(reverse("admin:effects_bulk_approve") + f"?ref={row.pk}").status_code == 403


def test_a_quorum_is_given_by_people_who_view_nothing_else(staff: Any, browser: Any) -> None:
    """The first sees after their vote what is missing; the last one sends it; the console stays open to both."""
    first, second = staff("permission", "anna"), staff("permission", "bert")
    row = asked("permission", quorum=2)
    assert send(browser(first), verb_of(row.pk, "approve")).status_code == 302
    assert "You decided it" in text_of(browser(first).get(page_of(row.pk)))
    assert send(browser(second), verb_of(row.pk, "approve")).status_code == 302
    assert Execution.objects.get(pk=row.pk).state == "pending"
    for user in (first, second):
        text = text_of(browser(user).get(reverse("admin:effects_needs_a_person")))
        assert "Pay k1" not in text


def test_many_rows_of_other_people_hide_none(staff: Any, browser: Any, monkeypatch: Any) -> None:
    """Only rules that they could meet are looked through, in a bounded batch and a constant number of queries."""
    monkeypatch.setattr(ballots, "LOOKED_THROUGH", 3)
    user = staff("group")
    User.objects.create_user("root", is_superuser=True)
    for number in range(6):
        asked("auth.add_user", f"other{number}")
    asked("group")
    client, address = browser(user), reverse("admin:effects_needs_a_person")

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            text = text_of(client.get(address))
        assert "Pay k1" in text
        assert "Pay other" not in text
        return len(queries)

    count()
    before = count()
    for number in range(4):
        asked("group", f"more{number}")
    assert count() == before
    assert "Only the oldest" in text_of(client.get(address))


def test_a_mail_links_staff_there_and_tells_others_that_they_cannot_log_in(settings: Any, staff: Any) -> None:
    """The console lets members of staff in alone; whoever is none reads that, instead of a link to a log-in."""
    settings.EFFECTS = {"NOTIFY": "effects.contrib.mail.notices.notify"}
    user = staff("permission")
    row = asked("permission")
    notice: Any = read_notice(PendingNotice.objects.filter(execution=row).earliest("pk").pk)
    notices = MailNotices()
    MailNotices.base_url, before = "https://ops.example.com", MailNotices.base_url
    try:
        assert f"https://ops.example.com{page_of(row.pk)}" in notices.email(notice, user, "a@example.com").text
        user.is_staff = False
        text = notices.email(notice, user, "a@example.com").text
    finally:
        MailNotices.base_url = before
    assert "https://" not in text
    assert "not one of staff" in text
