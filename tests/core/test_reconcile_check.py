"""`RECONCILE_CHECK`: the project may say that something in doubt is not worked on now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

import effects
from effects import transitions
from effects.journal.snapshots import ExecutionSnapshot
from effects.models import Execution, Receipt
from effects.runtime import background, operators
from effects.sweeps import look_up_due
from effects.testing import provider_says, time_passes
from effects.transitions import deferrals
from effects.transitions.lookups import REFUSED_DELAY
from tests.core.counting import counted
from tests.core.declared import Conditional, Deduplicated, Order
from tests.core.people import PAYLOAD

pytestmark = pytest.mark.django_db
FOUND = effects.Found("ch_1")


def in_doubt(effect: Any = Order, **options: Any) -> Execution:
    """Return an execution that is due for a look-up, or for another send."""
    with provider_says(effect, TimeoutError("no answer")):
        outcome = effects.perform(effect, payload=PAYLOAD, key="k1", **options)
    time_passes(timedelta(seconds=1))
    return Execution.objects.get(pk=outcome.ref)


def refuse(settings: Any, answer: Any = False) -> list[ExecutionSnapshot]:
    """Let the project answer so; return what it is asked about."""
    asked_about: list[ExecutionSnapshot] = []

    def check(execution: ExecutionSnapshot) -> Any:
        asked_about.append(execution)
        if isinstance(answer, Exception):
            raise answer
        return answer

    settings.EFFECTS = {"RECONCILE_CHECK": check}
    return asked_about


@pytest.mark.parametrize("effect", [Order, Deduplicated])
def test_what_is_refused_rests_and_is_asked_about_again(settings: Any, effect: Any) -> None:
    """Neither looked up nor sent again; it spends no budget, stays in doubt, and goes on once that is allowed."""
    row = in_doubt(effect, tenant="shop-17")
    asked_about = refuse(settings)
    with provider_says(effect, effects.Applied(), look_up=FOUND) as said:
        assert look_up_due.run_once() == {"uncertain": 1}
        assert look_up_due.run_once() == {}
        row.refresh_from_db()
        assert (row.state, row.lookups_spent, row.epoch, row.attempts) == ("uncertain", 0, 1, 1)
        assert (said.sends, said.look_ups) == ([], [])
        assert Receipt.objects.filter(event="postpone").latest("sequence").evidence == {
            "why": "RECONCILE_CHECK refused it for now"
        }
        time_passes(REFUSED_DELAY)
        settings.EFFECTS = {}
        assert look_up_due.run_once() == {"completed": 1}
    assert [(one.ref, one.tenant) for one in asked_about] == [(str(row.pk), "shop-17")]


@pytest.mark.parametrize("answer", [None, True, "yes", 0])
def test_only_false_refuses(settings: Any, answer: Any) -> None:
    """A check that forgets to return anything stops nothing."""
    in_doubt()
    asked_about = refuse(settings, answer)
    with provider_says(Order, look_up=FOUND):
        assert look_up_due.run_once() == {"completed": 1}
    assert len(asked_about) == 1


def test_a_check_that_raises_is_kept_with_the_row_and_stops_no_other(settings: Any) -> None:
    """It backs off and shows; nothing was asked."""
    row = in_doubt()
    refuse(settings, ZeroDivisionError("bug"))
    with provider_says(Order, look_up=FOUND) as said:
        assert look_up_due.run_once() == {"errors": 1}
    row.refresh_from_db()
    assert (row.trouble_count, said.look_ups) == (1, [])
    assert "ZeroDivisionError" in row.trouble


@contextmanager
def swallowing(tenant: str) -> Iterator[None]:
    """A TENANT_CONTEXT that goes on as if nothing had happened."""
    with suppress(Exception):
        yield


def test_a_check_whose_error_is_swallowed_is_said_and_passes_for_no_answer(settings: Any) -> None:
    """Nobody knows what it would have said; the row says who kept it from saying so."""
    row = in_doubt()
    refuse(settings, ZeroDivisionError("bug"))
    settings.EFFECTS = {**settings.EFFECTS, "TENANT_CONTEXT": swallowing}
    with provider_says(Order, look_up=FOUND) as said:
        assert look_up_due.run_once() == {"errors": 1}
    row.refresh_from_db()
    assert "TENANT_CONTEXT swallowed what RECONCILE_CHECK raised" in row.trouble
    assert said.look_ups == []


def test_a_person_is_not_asked_about(settings: Any) -> None:
    """They have a permission of their own, and somebody on the phone."""
    row = in_doubt()
    asked_about = refuse(settings)
    with provider_says(Order, look_up=FOUND):
        assert operators.look_up_now(row.pk).state == "completed"
    assert asked_about == []


def test_what_is_not_due_is_not_asked_about(settings: Any) -> None:
    """An early hint is left alone, and so is what somebody moved on meanwhile."""
    row = in_doubt()
    asked_about = refuse(settings)
    transitions.claim(row.pk)
    background.look_up(row.pk)
    assert asked_about == []
    assert transitions.postpone_look_up(row.pk).epoch == 2
    row.refresh_from_db()
    assert row.lease_expires_at is not None


def test_it_costs_one_query_and_none_where_it_is_off(settings: Any) -> None:
    """The row that it is asked about."""
    row = in_doubt()

    def cost() -> int:
        with provider_says(Order, look_up=effects.Unreachable("away")), counted() as asked:
            background.look_up(row.pk)
        time_passes(timedelta(hours=1))
        return asked.queries

    off = cost()
    refuse(settings, True)
    assert cost() == off + 1


def test_refusals_are_no_words_of_the_precondition(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A precondition that says "later" is heard as often as ever, however long the project had refused."""
    monkeypatch.setattr(deferrals, "MOST_POSTPONED", 1)
    row = in_doubt(Conditional)
    monkeypatch.setattr(Conditional, "precondition", lambda self, context: effects.Later(timedelta(minutes=1)))
    refuse(settings)
    background.look_up(row.pk)
    settings.EFFECTS = {}
    for state in ("uncertain", "needs_intervention"):
        time_passes(REFUSED_DELAY)
        assert background.look_up(row.pk).state == state
