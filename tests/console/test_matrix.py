"""Role by verb, by GET and POST, sent once and twice, fresh and stale: what is answered, and what is done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.test import Client

import effects
from effects.models import Approval, Execution, Receipt, Request
from effects.testing import provider_says
from tests.console.declared import Charge, PayOut, Payout
from tests.console.pages import form_of, text_of, verb_of
from tests.console.scene import make_request

pytestmark = pytest.mark.django_db
CHARGE = {"order": "A-1", "amount": 900}


@dataclass(frozen=True)
class Case:
    """A verb, a row that it is possible on, and what it leaves.

    Attributes:
        permission: what it takes.
        row: makes the row.
        typed: what a person fills in.
        event: the receipt of the decision.
        model: of the row.
        is_versioned: whether a page of an earlier revision is refused; asking the provider decides nothing.
    """

    permission: str
    row: Callable[[], Any]
    typed: dict[str, str]
    event: str
    model: str = "execution"
    is_versioned: bool = True


def _waiting() -> str:
    payload = Payout("DE89", 500, approvals=1)
    return effects.perform(PayOut, payload=payload, key="w", requested_by="clerk").ref


def _doubtful() -> str:
    with provider_says(PayOut, TimeoutError()):
        return effects.perform(PayOut, payload=Payout("DE89", 500), key="d", requested_by="clerk").ref


def _hopeless() -> str:
    ref = _doubtful()
    Execution.objects.filter(pk=ref).update(state="needs_intervention", reason="budget_spent", due_at=None)
    return ref


def _pending() -> str:
    with transaction.atomic():
        return effects.perform_later(PayOut, payload=Payout("DE89", 500), key="p", requested_by="clerk").ref


def _completed() -> str:
    return effects.perform(Charge, payload=CHARGE, key="c", requested_by="clerk").ref


def _declined() -> str:
    with provider_says(Charge, effects.Declined("no")):
        return effects.perform(Charge, payload=CHARGE, key="c", requested_by="clerk").ref


REASON = {"reason": "I have looked"}
CASES = {
    "approve": Case("approve_execution", _waiting, {}, "grant"),
    "deny": Case("approve_execution", _waiting, {"comment": "no"}, "deny"),
    "look-up": Case("look_up_execution", _doubtful, {}, "confirm", is_versioned=False),
    "resolve": Case("resolve_execution", _doubtful, {"decision": "unknown", **REASON}, "resolve"),
    "reopen": Case("reopen_execution", _hopeless, REASON, "reopen"),
    "order-resend": Case("order_resend_execution", _hopeless, REASON, "order_resend"),
    "evidence": Case(
        "observe_execution", _declined, {"statement": "applied", "reference": "ch_9", **REASON}, "contradict"
    ),
    "withdraw": Case("cancel_execution", _waiting, REASON, "withdraw"),
    "cancel": Case("cancel_execution", _pending, REASON, "refuse"),
    "compensate": Case("compensate_execution", _completed, REASON, "complete"),
    "supersede": Case("supersede_execution", _declined, REASON, "supersede"),
    "resolve request": Case(
        "resolve_execution", lambda: make_request("r").pk, {"decision": "unknown", **REASON}, "resolve", "request"
    ),
}
#: Who, with which permissions beside what the verb takes, and what they are answered.
ROLES = {"stranger": 302, "clerk": 403, "viewer": 403, "entitled": 200, "superuser": 200}


@pytest.fixture
def approvers(ann: User, ben: User) -> None:
    """Somebody is there to be asked."""


@pytest.fixture
def client_of(person: Callable[..., User], approvers: None) -> Callable[[str, Case], Client]:
    """Log a role in."""

    def make(role: str, case: Case) -> Client:
        client = Client()
        match role:
            case "stranger":
                return client
            case "clerk":
                # whom an approval's rule names reaches its page: tests/console/test_ballots.py
                is_vote = case.permission == "approve_execution"
                user = person("cleo", "view_payload" if is_vote else case.permission, views=False)
            case "viewer":
                user = person("vic")
            case "entitled":
                user = person("eve", case.permission)
            case _:
                user = User.objects.create_superuser("root", password="x")
        client.force_login(user)
        return client

    return make


def decisions(case: Case) -> int:
    """Count the decisions that were recorded, wherever."""
    undoings = Receipt.objects.filter(event=case.event)
    return undoings.filter(execution__compensates__isnull=case.event != "complete").count()


def everything() -> list[Any]:
    """Return every row that a verb could change."""
    return [list(model.objects.order_by("pk").values()) for model in (Execution, Request, Approval, Receipt)]


def address_of(name: str, ref: Any) -> str:
    return verb_of(ref, name.removesuffix(" request"), CASES[name].model)


def form_that_passes(name: str, ref: Any, browser: Callable[[User], Client]) -> dict[str, str]:
    """Return what the page of somebody entitled holds: what an attacker would have to guess."""
    chief = User.objects.create_superuser("somebody", password="x")
    form = form_of(browser(chief).get(address_of(name, ref)))
    chief.delete()
    return {**form, **CASES[name].typed}


def make_stale(case: Case, ref: Any) -> None:
    """Let the row change after the page was made."""
    model: Any = Request if case.model == "request" else Execution
    model.objects.filter(pk=ref).update(revision=F("revision") + 1)
    Approval.objects.update(digest="f" * 64)


@pytest.mark.parametrize("name", CASES)
def test_get_shows_and_decides_nothing(name: str, client_of: Any) -> None:
    """By GET and HEAD whoever is entitled is shown the page, the others are refused, and nothing is decided."""
    case = CASES[name]
    address = address_of(name, case.row())
    before = everything()
    for role, status in ROLES.items():
        client = client_of(role, case)
        assert [client.get(address).status_code, client.head(address).status_code] == [status] * 2, role
    assert everything() == before


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("role", [role for role, status in ROLES.items() if status != 200])
def test_post_of_the_others_decides_nothing(role: str, name: str, client_of: Any, browser: Any) -> None:
    """Who may not is refused, with the form of somebody who may: once, twice, fresh and stale."""
    case = CASES[name]
    ref = case.row()
    form, client = form_that_passes(name, ref, browser), client_of(role, case)
    before = everything()
    assert [client.post(address_of(name, ref), form).status_code for _ in range(2)] == [ROLES[role]] * 2
    assert everything() == before
    make_stale(case, ref)
    before = everything()
    assert client.post(address_of(name, ref), form).status_code == ROLES[role]
    assert everything() == before


@pytest.mark.parametrize(
    ("role", "page", "submits"),
    [("entitled", "fresh", 1), ("entitled", "fresh", 2), ("entitled", "stale", 1), ("entitled", "stale", 2),
     ("superuser", "fresh", 2), ("superuser", "stale", 2)],
)  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_post_of_the_entitled_decides_once(
    name: str, role: str, page: str, submits: int, client_of: Any, browser: Any
) -> None:
    """A fresh page decides once, however often it is sent; a stale one decides nothing, and says so."""
    case = CASES[name]
    ref = case.row()
    form, client = form_that_passes(name, ref, browser), client_of(role, case)
    if page == "stale":
        make_stale(case, ref)
    before = everything()
    with provider_says(PayOut, look_up=effects.Found("po_1")):
        answers = [client.post(address_of(name, ref), form) for _ in range(submits)]
    statuses = [answer.status_code for answer in answers]
    if page == "stale" and case.is_versioned:
        assert statuses == [409] * submits
        assert "look at" in text_of(answers[0])
        assert everything() == before
    else:
        assert statuses == [302] * submits
        assert decisions(case) == 1
