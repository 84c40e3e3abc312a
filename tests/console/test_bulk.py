"""Several at once: only what was ticked and read, each row by its own rules, and every row told."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

import effects
from effects.models import Approval, Execution, Receipt
from effects.testing import provider_says
from effects_admin import bulk
from tests.console.declared import PayOut
from tests.console.pages import text_of

pytestmark = pytest.mark.django_db
LIST = "/admin/effects/execution/"


def address(name: str, *refs: Any) -> str:
    return reverse(f"admin:effects_bulk_{name}") + "?" + "&".join(f"ref={ref}" for ref in refs)


def items_of(response: Any) -> list[str]:
    return [row.item for row in response.context["ready"]]


def states(refs: list[str]) -> list[str]:
    return [str(Execution.objects.get(pk=ref).state) for ref in refs]


@pytest.fixture
def three(waiting: Callable[..., effects.Outcome]) -> list[str]:
    """Three payouts that wait for people."""
    return [waiting(f"p{n}", account=f"DE{n}", amount=n * 100_00).ref for n in (1, 2, 3)]


def test_page_names_every_row_and_totals_by_currency(three: list[str], browser: Any, ann: User) -> None:
    """The page lists what would be approved with amounts and digests, adds up each currency, and decides nothing."""
    Execution.objects.filter(pk=three[2]).update(currency="JPY")
    response = browser(ann).get(address("approve", *three))
    text = text_of(response)
    assert "You approve the 3 rows below, worth 300.00 EUR, 30,000 JPY" in text
    for approval in Approval.objects.all():
        assert f"{approval.digest[:12]}…" in text
        assert any(approval.digest in item for item in items_of(response))
    assert states(three) == ["awaiting_approval"] * 3


def test_each_row_is_decided_by_its_own_rules(three: list[str], browser: Any, ann: User, ben: User) -> None:
    """What changed meanwhile and what is not theirs is left out and told by name; the others are approved once."""
    client = browser(ann)
    items = items_of(client.get(address("approve", *three)))
    effects.deny(three[0], by=ben, digest=Approval.objects.get(execution_id=three[0]).digest, comment="no")
    Execution.objects.filter(pk=three[1]).update(requesters=[{"id": f"user:{ann.pk}", "label": "ann"}])
    for said in ("1 done, 1 changed meanwhile, 1 refused.", "0 done, 1 done before, 1 changed meanwhile, 1 refused."):
        text = text_of(client.post(address("approve"), {"item": items, "comment": "all read"}))
        assert said in text
        assert "Already denied by ben" in text
        assert "You joined it from another request" in text
    assert states(three) == ["rejected", "awaiting_approval", "pending"]
    assert Approval.objects.get(execution_id=three[2]).votes.get().comment == "all read"
    assert Receipt.objects.filter(event="grant").count() == 1


def test_stale_digests_are_left(three: list[str], browser: Any, ann: User) -> None:
    """A row whose contents changed after the page was made is not approved."""
    client = browser(ann)
    items = items_of(client.get(address("approve", *three)))
    Approval.objects.filter(execution_id=three[1]).update(digest="f" * 64)
    text = text_of(client.post(address("approve"), {"item": items}))
    assert "2 done, 1 changed meanwhile." in text
    assert "The contents changed since this page was made" in text
    assert states(three) == ["pending", "awaiting_approval", "pending"]


def test_without_rights_every_row_is_refused(three: list[str], browser: Any, person: Any, ann: User) -> None:
    """Somebody who may only view is offered nothing; with a stolen form every row is refused, and told why."""
    items = items_of(browser(ann).get(address("approve", *three)))
    eves = browser(person("eve"))
    opened = eves.get(address("approve", *three))
    assert items_of(opened) == []
    assert "None of them can be decided by you now." in text_of(opened)
    assert "0 done, 3 refused." in text_of(eves.post(address("approve"), {"item": items}))
    assert browser(person("out", "resolve_execution", views=False)).post(
        address("approve"), {"item": items}
    ).status_code == 403  # fmt: skip
    assert states(three) == ["awaiting_approval"] * 3


@pytest.mark.parametrize("item", ["", "nonsense", "a:b:c:d", "00000000-0000-7000-8000-000000000000:x::"])
def test_incomplete_pages_decide_nothing(item: str, three: list[str], browser: Any, ann: User) -> None:
    """A form that no page of ours made is refused as a whole, rows that could be read included."""
    client = browser(ann)
    items = items_of(client.get(address("approve", *three)))
    response = client.post(address("approve"), {"item": [*items, item] if item else []})
    assert response.status_code == 400
    assert "This page is incomplete, so nothing was done." in text_of(response)
    assert states(three) == ["awaiting_approval"] * 3


def test_rows_of_others_are_not_told_apart_from_none(three: list[str], browser: Any, ann: User) -> None:
    """A ref that does not exist is left out by number, and refused when it is posted."""
    nowhere = "00000000-0000-7000-8000-000000000000"
    client = browser(ann)
    assert "1 that is not among the rows you may see." in text_of(client.get(address("approve", three[0], nowhere)))
    text = text_of(client.post(address("approve"), {"item": f"{nowhere}:1:{nowhere}:0"}))
    assert "0 done, 1 refused." in text
    assert "There is no such row among those you may see." in text


def test_list_leads_to_the_page(three: list[str], browser: Any, ann: User) -> None:
    """The list's action decides nothing: it leads to the page of the ticked rows, filtered away meanwhile or not."""
    client = browser(ann)
    ticked = {"action": "approve_together", "_selected_action": three[:2], "index": "0"}
    filtered = client.post(f"{LIST}?state=completed", ticked)
    assert filtered.status_code == 302
    assert [ref in filtered["Location"] for ref in three] == [True, True, False]
    approvals = list(Approval.objects.order_by("pk").values_list("pk", flat=True))
    of_approvals = client.post(
        "/admin/effects/approval/", {"action": "approve_together", "_selected_action": approvals[2:], "index": "0"}
    )
    assert [ref in of_approvals["Location"] for ref in three] == [False, False, True]
    assert states(three) == ["awaiting_approval"] * 3


def test_all_across_pages_is_refused(three: list[str], browser: Any, ann: User) -> None:
    """“Select all across pages” is not offered, and a request that says so reaches nothing."""
    client = browser(ann)
    assert "across all pages" not in client.get(LIST).content.decode()
    response = client.post(
        LIST,
        {"action": "approve_together", "select_across": "1", "index": "0", "_selected_action": three[:1]},
        follow=True,
    )
    assert "reaches rows that nobody has looked at" in text_of(response)
    assert states(three) == ["awaiting_approval"] * 3


def test_too_many_and_none_are_refused(three: list[str], browser: Any, ann: User) -> None:
    """More rows than a person can read, and none, are refused before anything is shown."""
    client = browser(ann)
    many = [f"00000000-0000-7000-8000-{n:012}" for n in range(bulk.MOST + 1)]
    assert client.get(address("approve", *many)).status_code == 400
    assert client.get(address("approve")).status_code == 400
    response = client.post(LIST, {"action": "approve_together", "index": "0", "_selected_action": many}, follow=True)
    assert f"At most {bulk.MOST} rows are decided together" in text_of(response)
    assert client.post(address("approve"), {"item": [f"{ref}:1::" for ref in many]}).status_code == 400


def test_providers_are_asked_about_several(doubtful: Any, browser: Any, olga: User) -> None:
    """Looking up asks about each row that can be asked about, tells what each said, and leaves what changed."""
    refs = [doubtful(f"d{n}").ref for n in range(3)]
    client = browser(olga)
    opened = client.get(address("look_up", *refs))
    assert "The providers are asked what became of the 3 rows below, worth 150.00 EUR" in text_of(opened)
    assert "That sends nothing." in text_of(opened)
    effects.observe(refs[2], reference="po_9", evidence={"from": "a statement"})
    with provider_says(PayOut, look_up=[effects.Found("po_1", {"id": 1}), effects.Inconclusive("?")]) as said:
        text = text_of(client.post(address("look_up"), {"item": items_of(opened)}))
    assert "2 done, 1 changed meanwhile." in text
    assert "found, it happened" in text
    assert "it could not decide" in text
    assert len(said.look_ups) == 2
    assert states(refs) == ["completed", "uncertain", "uncertain"]


def test_what_is_not_reached_in_time_is_offered_again(
    doubtful: Any, browser: Any, olga: User, monkeypatch: Any
) -> None:
    """A page asks for as long as it may; the rest is told and offered again, never silently dropped."""
    refs = [doubtful(f"d{n}").ref for n in range(2)]
    client = browser(olga)
    items = items_of(client.get(address("look_up", *refs)))
    monkeypatch.setattr(bulk, "ASKING", -bulk.ASKING)
    response = client.post(address("look_up"), {"item": items})
    assert "0 done, 2 not reached in time." in text_of(response)
    assert "Go on with the other 2" in response.content.decode()
    assert [str(ref) for ref in response.context["again"]] == refs


def test_looking_up_several_takes_its_permission(doubtful: Any, browser: Any, ann: User) -> None:
    """The action is not offered without the permission, and its page refuses each row."""
    ref, client = doubtful().ref, browser(ann)
    assert "look_up_together" not in client.get(LIST).content.decode()
    text = text_of(client.get(address("look_up", ref)))
    assert "It takes the permission “effects.look_up_execution”" in text


@pytest.mark.parametrize("name", ["approve", "look_up"])
def test_pages_know_get_and_post_alone(name: str, browser: Any, ann: User) -> None:
    """Other methods, and people who are not logged in, are refused."""
    assert browser(ann).put(address(name)).status_code == 405
    assert Client().post(address(name)).status_code == 302


def test_nothing_else_is_done_in_bulk() -> None:
    """There is no bulk resolve, no bulk deny, no "retry all"."""
    assert set(bulk.BULK_VERBS) == {"approve", "look-up"}
