"""The inline of a project's own ModelAdmin: the executions about one object, on that object's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core import checks
from django.test import Client
from django.urls import path, reverse

import effects
from effects.models import Approval, Execution, Receipt, Request
from effects.testing import provider_says
from effects_admin.admin import ApprovalAdmin, ExecutionAdmin, ReceiptAdmin, RequestAdmin
from effects_admin.inlines import ExecutionInline
from tests.console.declared import PayOut, Payout

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


class GroupAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The project's own page of a group, with what was done outside about it."""

    fields = ("name",)
    inlines = (ExecutionInline,)


class NarrowAdmin(ExecutionAdmin):
    """Shows executions of one tenant alone, as a project's own would."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(tenant="")


#: A site that is not called "admin".
desk = admin.AdminSite("desk")
desk.register(Group, GroupAdmin)
desk.register(Execution, NarrowAdmin)
for model, console in ((Approval, ApprovalAdmin), (Receipt, ReceiptAdmin), (Request, RequestAdmin)):
    desk.register(model, console)
urlpatterns = [path("desk/", desk.urls)]


@pytest.fixture
def group() -> Group:
    """An object of the project."""
    return Group.objects.create(name="Orsini")


@pytest.fixture
def clerk(person: Callable[..., User]) -> Callable[..., Client]:
    """Log somebody in who edits groups, and has the permissions named."""

    def make(*codenames: str, views: bool = True) -> Client:
        user = person(f"clerk-{'-'.join(codenames)}-{views}", *codenames, views=views)
        user.user_permissions.add(*Permission.objects.filter(codename__endswith="_group"))
        client = Client()
        client.force_login(user)
        return client

    return make


def pay(key: str, answer: Any = None, **options: Any) -> str:
    """Pay out; return the ref."""
    approvals = options.pop("approvals", 0)
    with provider_says(PayOut, answer or effects.Applied()):
        return effects.perform(
            PayOut, payload=Payout(f"DE{key}", 5000, approvals=approvals), key=key, requested_by="shop", **options
        ).ref


def link(ref: str) -> str:
    """Return the address of an execution's page on the desk."""
    return reverse("admin:effects_execution_change", args=[ref], current_app="desk")


def body(client: Client, group: Group | None) -> str:
    """Return the page of a group, or of a new one."""
    address = reverse("desk:auth_group_change", args=[group.pk]) if group else reverse("desk:auth_group_add")
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_shows_the_executions_about_the_object_with_state_and_link(group: Group, clerk: Any) -> None:
    """Those about this object alone, the newest first, as the console names them."""
    done, doubtful = pay("1", about=group), pay("2", TimeoutError(), about=group)
    other = pay("3", about=Group.objects.create(name="other"))
    hidden = pay("4", about=group, tenant="elsewhere")
    shown = body(clerk(), group)
    assert 0 < shown.index(link(doubtful)) < shown.index(link(done))
    assert "fx-uncertain" in shown or "uncertain" in shown.lower()
    assert "Pay out to DE1" in shown
    assert "50.00 EUR" in shown
    assert link(other) not in shown
    assert link(hidden) not in shown
    assert clerk("view_payload").get(link(done)).status_code == 200


def test_nobody_sees_there_what_the_console_would_not_show(group: Group, clerk: Any) -> None:
    """Without the permission nothing is shown, not even that there is something; an approver sees their own."""
    done = pay("1", about=group)
    boss = User.objects.create_user("boss")
    boss.user_permissions.add(Permission.objects.get(codename="approve_execution"))
    waiting = pay("2", about=group, approvals=1)
    stranger = body(clerk(views=False), group)
    assert "Outside effects" not in stranger
    assert link(done) not in stranger
    approver = body(clerk("approve_execution", views=False), group)
    assert link(done) not in approver
    assert link(waiting) in approver


@pytest.mark.parametrize("forged", [{}, {"effects-TOTAL_FORMS": "3", "effects-0-state": "completed"}])
def test_saving_the_page_writes_the_object_and_no_execution(group: Group, clerk: Any, forged: dict[str, str]) -> None:
    """The page needs no field of ours, and reads none that somebody made up."""
    ref = pay("1", TimeoutError(), about=group)
    before = effects.get(ref)
    client = clerk()
    answer = client.post(reverse("desk:auth_group_change", args=[group.pk]), {"name": "renamed", **forged})
    assert answer.status_code == 302
    group.refresh_from_db()
    assert group.name == "renamed"
    assert effects.get(ref) == before
    invalid = client.post(reverse("desk:auth_group_change", args=[group.pk]), {"name": ""})
    assert invalid.status_code == 200
    assert link(ref) in invalid.content.decode()


def test_a_page_without_executions_is_as_it_was(group: Group, clerk: Any) -> None:
    """Nothing is shown where there is nothing, on the page of a new object too; and it can be added."""
    client = clerk()
    for page in (body(client, group), body(client, None)):
        assert "Outside effects" not in page
    assert client.post(reverse("desk:auth_group_add"), {"name": "new"}).status_code == 302
    assert Group.objects.filter(name="new").exists()


def test_it_shows_no_more_than_it_says(group: Group, clerk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of them."""
    refs = [pay(str(number), about=group) for number in range(4)]
    monkeypatch.setattr(ExecutionInline, "most", 3)
    shown = body(clerk(), group)
    assert [link(ref) in shown for ref in refs] == [False, True, True, True]


def test_markup_in_a_title_is_text(group: Group, clerk: Any) -> None:
    """What a summary says is foreign text."""
    pay("<script>x</script>", about=group)
    shown = body(clerk(), group)
    assert "<script>x" not in shown
    assert "&lt;script&gt;x" in shown


@pytest.mark.parametrize("missing", ["app", "site", "nothing"])
def test_an_inline_without_the_console_is_found_at_start_up(missing: str, settings: Any) -> None:
    """E026 names what is missing and where; with the console there Django's own checks have nothing to say."""
    site = desk if missing != "site" else admin.AdminSite("bare")
    if missing == "app":
        settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "effects_admin"]
    found: list[checks.CheckMessage] = GroupAdmin(Group, site).check()
    assert [each.id for each in found] == ([] if missing == "nothing" else ["effects.E026"])
    assert missing == "nothing" or ("INSTALLED_APPS" if missing == "app" else "'bare'") in found[0].msg
