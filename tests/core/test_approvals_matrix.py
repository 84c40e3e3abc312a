"""The same rules on every path: who, verb, state, through the functions that pages, APIs and shells call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import F

import effects
from effects.models import Approval, ApprovalVote, Execution, Receipt
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import ApprovalError, EffectsError, NotEntitledError, WrongStateError
from effects.vocabulary.types import Actor
from tests.core.declared import Ruled
from tests.core.people import approve, asked, live, person

pytestmark = pytest.mark.django_db

#: Who asked in one way or another; who holds the approver's permission; who may end what is not theirs.
ASKED = {"asker", "principal", "joiner"}
MAY_VOTE = {"approver"}
MAY_END = ASKED | {"canceller", "program", "actor"}
EVERYBODY = [*sorted(ASKED), "approver", "voter", "canceller", "stranger", "left", "nobody", "program", "actor"]


def people() -> dict[str, Any]:
    """Everybody of the matrix: all but the stranger and the canceller hold the approver's permission."""
    found = {name: person(name) for name in ("asker", "principal", "joiner", "approver", "voter", "left")}
    found["left"].is_active = False
    found["left"].save()
    found["stranger"] = person("stranger", approver=False)
    found["canceller"] = person("canceller", approver=False)
    found["canceller"].user_permissions.add(Permission.objects.get(codename="cancel_execution"))
    return {**found, "nobody": None, "program": "billing", "actor": Actor("service:999", "somebody")}


def awaiting(everybody: dict[str, Any]) -> Execution:
    row = asked(Ruled, by=everybody["asker"], on_behalf_of=everybody["principal"])
    asked(Ruled, by=everybody["joiner"])
    return row


def voted(everybody: dict[str, Any]) -> Execution:
    row = awaiting(everybody)
    Approval.objects.update(quorum=2)
    approve(row, everybody["voter"])
    return row


def granted(everybody: dict[str, Any]) -> Execution:
    row = awaiting(everybody)
    approve(row, everybody["voter"])
    return row


def overdue(everybody: dict[str, Any]) -> Execution:
    row = awaiting(everybody)
    Approval.objects.update(decide_by=F("created_at"))
    return row


def expired(everybody: dict[str, Any]) -> Execution:
    row = overdue(everybody)
    run_due()
    return row


def denied(everybody: dict[str, Any]) -> Execution:
    row = awaiting(everybody)
    effects.deny(row.pk, by=everybody["voter"], digest=live(row).digest)
    return row


def sent(everybody: dict[str, Any]) -> Execution:
    row = granted(everybody)
    with provider_says(Ruled, effects.Applied()):
        background.run(row.pk)
    return row


def in_doubt(everybody: dict[str, Any]) -> Execution:
    row = granted(everybody)
    with provider_says(Ruled, TimeoutError("t")):
        background.run(row.pk)
    return row


def resend_asked(everybody: dict[str, Any]) -> Execution:
    """Another send is ordered by who asked, and waits for people."""
    row = granted(everybody)
    with provider_says(Ruled, TimeoutError("t"), look_up=effects.Conflict("two of them")):
        background.run(row.pk)
        time_passes(timedelta(minutes=10))
        run_due()
    row.refresh_from_db()
    effects.order_resend(row.pk, revision=row.revision, by=everybody["asker"], reason="lost")
    return row


#: What may be done at all in each state, by whoever may.
STATES: dict[Callable[[dict[str, Any]], Execution], set[str]] = {
    awaiting: {"grant", "deny", "withdraw", "cancel"},
    voted: {"grant", "deny", "withdraw", "cancel"},
    granted: {"withdraw", "cancel"},
    overdue: {"withdraw", "cancel"},
    expired: set(),
    denied: set(),
    sent: set(),
    in_doubt: set(),
    resend_asked: {"grant", "deny", "withdraw"},
}
VERBS: dict[str, Callable[[Execution, Any, str], Any]] = {
    "grant": lambda row, who, digest: effects.grant(row.pk, by=who, digest=digest),
    "deny": lambda row, who, digest: effects.deny(row.pk, by=who, digest=digest),
    "withdraw": lambda row, who, digest: effects.withdraw(row.pk, by=who, reason="r"),
    "cancel": lambda row, who, digest: effects.cancel(row.pk, by=who, reason="r"),
}


def expected(verb: str, who: str, state: Any) -> type[EffectsError] | None:
    """Return what is raised, by the rules as the guide has them."""
    if verb in ("grant", "deny"):
        voted_before = who == "voter" and state in (voted, granted, sent, in_doubt, denied)
        if who not in MAY_VOTE | {"voter"}:
            return NotEntitledError
        if voted_before:
            return None if (verb == "deny") is (state is denied) else ApprovalError
        return None if verb in STATES[state] else ApprovalError
    if who == "nobody":
        return ApprovalError
    own = who == "voter" and state in (voted, granted)
    if who not in MAY_END and not own:
        return NotEntitledError
    if verb in STATES[state]:
        return None
    return WrongStateError if verb == "cancel" else ApprovalError


@contextmanager
def undone() -> Iterator[None]:
    """Run the block, and undo it; to the library it is the test case's own transaction."""
    block = transaction.atomic()
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True)


def stands(row: Execution) -> tuple[Any, ...]:
    """Return all that a refusal must leave alone."""
    return (
        *Execution.objects.filter(pk=row.pk).values_list("state", "reason", "revision", "receipt_count"),
        *Approval.objects.order_by("pk").values_list("state", "decided_at"),
        ApprovalVote.objects.count(),
        Receipt.objects.count(),
    )


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_everybody_tries_everything(state: Callable[[dict[str, Any]], Execution]) -> None:
    """Each is done or refused as the rules say, and a refusal changes nothing."""
    everybody = people()
    row = state(everybody)
    digest = Approval.objects.latest("created_at").digest
    before, wrong = stands(row), []
    for verb, call in VERBS.items():
        for who in EVERYBODY:
            with undone():
                raised: type[Exception] | None = None
                try:
                    call(row, everybody[who], digest)
                except EffectsError as error:
                    raised = type(error)
                if raised is not expected(verb, who, state):
                    wrong.append((who, verb, raised, expected(verb, who, state)))
                if raised is not None and stands(row) != before:
                    wrong.append((who, verb, "changed something"))
    assert not wrong
