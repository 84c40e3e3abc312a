"""The console in other surroundings: effects that are gone, tenants, other languages, a project without time zones."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.urls import clear_url_caches, path, reverse
from django.utils.http import urlencode

import effects
from effects.declarations.effect import _registry
from effects.models import Approval, Execution, Receipt, Request
from effects.testing import provider_says
from effects_admin.admin import ApprovalAdmin, ExecutionAdmin, ReceiptAdmin, RequestAdmin
from tests.console.declared import Charge, PayOut
from tests.console.pages import form_of, page_of, send, text_of, verb_of
from tests.console.scene import Scene, make_request, pages

pytestmark = pytest.mark.django_db
#: A site that is not called "admin", the only one of a project.
desk = admin.AdminSite("desk")
for model, console in (
    (Execution, ExecutionAdmin), (Request, RequestAdmin), (Approval, ApprovalAdmin), (Receipt, ReceiptAdmin),
):  # fmt: skip
    desk.register(model, console)
urlpatterns = [path("desk/", desk.urls)]
LISTED = "admin:effects_execution_changelist"
tenant_here: ContextVar[str] = ContextVar("tenant_here", default="nobody's")

_RESOLVED = {"decision": "applied", "reason": "x", "no_reference": "on"}


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> Scene:
    """A scene whose effects are not installed any more."""
    for effect in (PayOut, Charge):
        monkeypatch.delitem(_registry, effect.operation)
    return scene


def test_what_is_not_installed_any_more_is_found(gone: Scene, chief: User, browser: Any) -> None:
    """Lists and queue are narrowed to operations and providers that no code declares, and their rows lead there."""
    client, operation = browser(chief), PayOut.operation
    address = f"{reverse(LISTED)}?{urlencode({'operation': operation})}"
    assert f'href="{address}"' in client.get(page_of(gone.uncertain)).content.decode()
    found = client.get(address)
    assert found.context["cl"].result_count == Execution.objects.filter(operation=operation).count() == 5
    assert f"{operation} (not declared any more)" in text_of(found)
    assert client.get(reverse(LISTED), {"provider": "nobody"}).context["cl"].result_count == 0
    assert client.get(reverse(LISTED), {"operation": "a\x00b"}).status_code == 200
    make_request("r2")
    Request.objects.filter(key="r2").update(operation="gone.view")
    requests = reverse("admin:effects_request_changelist")
    assert client.get(requests, {"operation": "gone.view"}).context["cl"].result_count == 1
    for query, shown in (({"operation": operation}, True), ({"operation": Charge.operation}, False)):
        body = client.get(reverse("admin:effects_needs_a_person"), query).content.decode()
        assert (f'href="{page_of(gone.hopeless)}"' in body) is shown


def test_what_is_not_installed_any_more_is_shown_and_decided(gone: Scene, chief: User, browser: Any) -> None:
    """Every page works without the code; what needs none is decided, what needs it has no form, and says why."""
    client = browser(chief)
    for name, address in pages(gone).items():
        assert client.get(address).status_code in (200, 400), name
    done = {
        verb: send(client, verb_of(ref, verb), reason="it is over", decision="applied", no_reference="on")
        for verb, ref in (
            ("resolve", gone.hopeless), ("withdraw", gone.waiting[1]), ("cancel", gone.pending),
            ("look-up", gone.uncertain), ("compensate", gone.completed[1]), ("supersede", gone.declined[0]),
        )
    }  # fmt: skip
    assert [answer.status_code for answer in done.values()] == [302, 302, 302, 409, 409, 409]
    for verb in ("look-up", "compensate", "supersede"):
        assert "Nothing was done" in text_of(done[verb])


@pytest.mark.parametrize(
    ("verb", "case"),
    [
        ("look-up", "uncertain"), ("reopen", "hopeless"), ("order-resend", "hopeless"), ("compensate", "completed"),
        ("supersede", "declined"),
    ],
)  # fmt: skip
def test_what_needs_code_that_is_gone_is_not_offered(
    scene: Scene, chief: User, browser: Any, monkeypatch: pytest.MonkeyPatch, verb: str, case: str
) -> None:
    """The page says why in place of the button; a page that was opened before is refused in the same words."""
    client, found = browser(chief), getattr(scene, case)
    ref = found if isinstance(found, str) else found[0 if case == "declined" else 1]
    link = f'href="{verb_of(ref, verb)}"'
    assert link in client.get(page_of(ref)).content.decode()
    form = form_of(client.get(verb_of(ref, verb)))
    for effect in (PayOut, Charge):
        monkeypatch.delitem(_registry, effect.operation)
    shown = client.get(page_of(ref))
    assert link not in shown.content.decode()
    assert "does not declare" in text_of(shown)
    if verb not in ("reopen", "order-resend"):  # these are decisions, which other code than this site's carries out
        refused = client.post(verb_of(ref, verb), {**form, "reason": "it is over"})
        assert refused.status_code == 409
        assert "does not declare" in text_of(refused)


def test_what_was_renamed_is_not_gone(scene: Scene, chief: User, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that knows an operation by an earlier name may work on it: every verb is offered."""
    client = browser(chief)
    refs = {
        "look-up": scene.uncertain, "reopen": scene.hopeless, "compensate": scene.completed[1],
        "supersede": scene.declined[0],
    }  # fmt: skip
    for effect in (PayOut, Charge):
        monkeypatch.setitem(_registry, f"{effect.operation}.once", _registry[effect.operation])
        Execution.objects.filter(operation=effect.operation).update(operation=f"{effect.operation}.once")
    for verb, ref in refs.items():
        assert f'href="{verb_of(ref, verb)}"' in client.get(page_of(ref)).content.decode(), verb


def test_what_other_code_recorded_is_not_looked_up(
    scene: Scene, chief: User, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed safety version may not touch it; the page says so before anybody clicks."""
    monkeypatch.setattr(Charge, "safety_version", 2)
    monkeypatch.setattr(PayOut, "safety_version", 2)
    shown = browser(chief).get(page_of(scene.uncertain))
    assert f'href="{verb_of(scene.uncertain, "look-up")}"' not in shown.content.decode()
    assert "recorded under safety_version 1" in text_of(shown)


@contextmanager
def within(tenant: str) -> Iterator[None]:
    """Be in a tenant."""
    token = tenant_here.set(tenant)
    try:
        yield
    finally:
        tenant_here.reset(token)


@pytest.mark.parametrize(
    ("verb", "state"), [("look-up", "uncertain"), ("compensate", "completed"), ("supersede", "failed")]
)
def test_providers_are_called_within_the_rows_tenant(
    verb: str, state: str, chief: User, browser: Any, settings: Any, monkeypatch: Any
) -> None:
    """An operator is in no tenant: what the verb asks, describes and sends is within the row's own."""
    settings.EFFECTS = {"DISPATCH": "none", "TENANT_CONTEXT": within}
    seen: set[str] = set()

    def noting(self: Any, *args: Any) -> Any:
        seen.add(tenant_here.get())
        return effects.Inconclusive("x") if verb == "look-up" else effects.Applied({"id": "1"}, "1")

    first = {"uncertain": TimeoutError("?"), "failed": effects.Declined("no"), "completed": effects.Applied({}, "c")}
    with provider_says(Charge, first[state]):
        made = effects.perform(
            Charge, payload={"order": "A", "amount": 1}, key="k", tenant="shop-7", requested_by="clerk"
        )
    assert made.state == state
    describe = Charge.describe
    monkeypatch.setattr(Charge, "describe", lambda *args: (seen.add(tenant_here.get()), describe(*args))[1])
    for name in ("verify", "compensate", "send"):
        monkeypatch.setattr(Charge, name, noting)
    assert send(browser(chief), verb_of(made.ref, verb), reason="r").status_code == 302
    assert seen == {"shop-7"}
    assert tenant_here.get() == "nobody's"


def test_forms_hold_numbers_as_they_are(scene: Scene, chief: User, browser: Any, settings: Any) -> None:
    """In a language that groups digits a page's revision is still the row's, in verbs and in bulk."""
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True
    Execution.objects.update(revision=1_234_567)
    client = browser(chief)
    assert send(client, verb_of(scene.hopeless, "resolve"), **_RESOLVED).status_code == 302
    several = reverse("admin:effects_bulk_approve") + f"?ref={scene.waiting[1]}&ref={scene.waiting[2]}"
    items = re.findall(r'name="item" value="([^"]+)"', client.get(several).content.decode())
    assert "2 done" in text_of(client.post(several, {"item": items}))
    one = verb_of(scene.waiting[0], "withdraw")
    assert form_of(client.get(one))["revision"] == "1234567"


def test_pages_work_without_time_zones(scene: Scene, chief: User, browser: Any, settings: Any) -> None:
    """With USE_TZ off instants are shown in the project's time zone, which they name."""
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    client = browser(chief)
    for name, address in pages(scene).items():
        shown = client.get(address)
        assert shown.status_code in (200, 400), name
        if name == "execution":
            assert re.search(r"\d\d:\d\d:\d\d CES?T", text_of(shown))


@pytest.fixture
def at_the_desk(settings: Any) -> Iterator[None]:
    """A project whose only admin site has another name and another address."""
    settings.ROOT_URLCONF = __name__
    clear_url_caches()
    yield
    clear_url_caches()


@pytest.mark.usefixtures("at_the_desk")
def test_pages_stay_on_the_projects_own_site(scene: Scene, chief: User, browser: Any) -> None:
    """Every link, form and redirect leads to the site that the page is on."""
    client = browser(chief)
    for name, address in {**pages(scene), "app": "/desk/effects/"}.items():
        shown = client.get(address)
        assert shown.status_code in (200, 400), name
        assert 'href="/admin/' not in shown.content.decode(), name
    done = send(client, verb_of(scene.hopeless, "resolve"), **_RESOLVED)
    assert done.headers["Location"] == page_of(scene.hopeless)
    assert page_of(scene.hopeless).startswith("/desk/")
