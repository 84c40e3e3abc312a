"""`MAX_CALLS_PER_PROVIDER`: what is due after an outage is no stampede, and nobody who waits is held back."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import effects
from effects import transitions
from effects.models import Execution, Receipt
from effects.models.base import new_id
from effects.runtime import background, operators
from effects.sweeps import look_up_due
from effects.testing import provider_says, time_passes
from effects.transitions import _limits, _rows
from effects.vocabulary.types import monotonic
from tests.core.counting import counted
from tests.core.declared import Approved, Charge, Deduplicated, Noted, Order
from tests.core.people import PAYLOAD, approve, asked, live, person
from tests.core.racing import PATIENCE, in_thread, together

pytestmark = pytest.mark.django_db
BANK = "bank/acct_test"
FOUND = effects.Found("ch_1")
#: Longer than what found its provider busy waits, and shorter than a lease.
MOMENT = timedelta(seconds=3)


@pytest.fixture(autouse=True)
def one_call_at_a_time(settings: Any) -> None:
    """Let background work have one call under way at the bank."""
    settings.EFFECTS = {"MAX_CALLS_PER_PROVIDER": {BANK: 1}}


def doubtful(count: int, effect: Any = Order) -> list[Execution]:
    """Return executions in doubt, due for a look-up."""
    with provider_says(effect, TimeoutError("no answer")):
        refs = [effects.perform(effect, payload=PAYLOAD, key=f"{effect.__name__}{n}").ref for n in range(count)]
    time_passes(timedelta(minutes=10))
    return list(Execution.objects.filter(pk__in=refs).order_by("created_at"))


def again(row: Execution) -> Execution:
    return Execution.objects.get(pk=row.pk)


def is_later(row: Execution) -> bool:
    """Whether a row was left as it was, but for a due time that is later than before and no receipt."""
    now = again(row)
    assert (now.state, now.revision, now.epoch, now.receipt_count) == (
        row.state, row.revision, row.epoch, row.receipt_count,
    )  # fmt: skip
    assert now.due_at is not None
    assert row.due_at is not None
    return bool(now.due_at > row.due_at) and now.swept_until is None


# -- look-ups ------------------------------------------------------------------------------------------------------


def test_a_look_up_waits_while_its_provider_is_busy_and_comes_again() -> None:
    """It steps back without a receipt, is due again in a moment, and then goes through."""
    first, second = doubtful(2)

    def meanwhile(_context: Any) -> effects.Found:
        background.look_up(second.pk)
        assert is_later(second)
        return FOUND

    with provider_says(Order, look_up=meanwhile) as said:
        background.look_up(first.pk)
        assert len(said.look_ups) == 1
    assert again(first).state == "completed"
    with provider_says(Order, look_up=FOUND):
        time_passes(MOMENT)
        assert look_up_due.run_once() == {"completed": 1}


def test_a_sweep_hands_on_what_it_can_and_leaves_the_rest_due() -> None:
    """Two of three step back while the first one's look-up is under way; later passes take them."""
    rows = doubtful(3)
    transitions.claim(rows[0].pk)
    with provider_says(Order, look_up=FOUND) as said:
        assert look_up_due.run_once() == {"uncertain": 2}
        assert said.look_ups == []
        time_passes(timedelta(minutes=1))
        assert look_up_due.run_once() == {"completed": 3}


def test_a_person_who_asks_is_not_held_back() -> None:
    """Somebody waits for the answer, with the customer on the phone."""
    first, second = doubtful(2)
    transitions.claim(first.pk)
    with provider_says(Order, look_up=FOUND):
        assert operators.look_up_now(second.pk).state == "completed"


# -- sends ---------------------------------------------------------------------------------------------------------


def test_a_worker_sends_later_and_spends_no_approval_meanwhile() -> None:
    """The permit steps back before it spends anything; afterwards it is sent as approved."""
    ben = person("ben")
    row = asked(Approved, by="ann")
    (busy,) = doubtful(1)
    approve(row, ben)
    time_passes(timedelta(seconds=1))
    row = again(row)
    transitions.claim(busy.pk)
    with provider_says(Approved, effects.Applied()) as said:
        background.run(row.pk)
        assert said.sends == []
        assert is_later(row)
        assert live(row).state == "granted"
        time_passes(timedelta(minutes=1))
        assert background.run(row.pk).state == "completed"


def test_whoever_performs_is_counted_and_not_held_back() -> None:
    """A handler's customer waits; background work waits for the handler."""
    (doubted,) = doubtful(1)
    effects.perform_later(Charge, payload=PAYLOAD, key="later")

    def meanwhile(_context: Any, _permit: Any) -> effects.Applied:
        with provider_says(Order, look_up=FOUND) as said, provider_says(Charge, effects.Applied()):
            background.look_up(doubted.pk)
            assert said.look_ups == []
            assert effects.perform(Charge, payload=PAYLOAD, key="another").state == "completed"
        return effects.Applied()

    with provider_says(Charge, meanwhile):
        assert effects.perform(Charge, payload=PAYLOAD, key="first").state == "completed"


def test_an_automatic_resend_steps_back_and_calls_nobody() -> None:
    """A busy provider is no reason to hand something to a person that can be sent again safely."""
    (row,) = doubtful(1, Deduplicated)
    (busy,) = doubtful(1)
    transitions.claim(busy.pk)
    row = again(row)
    with provider_says(Deduplicated, effects.Applied()) as said:
        background.look_up(row.pk)
        assert said.sends == []
        assert is_later(row)
        time_passes(timedelta(minutes=1))
        assert background.look_up(row.pk).state == "completed"


def test_what_stepped_back_is_no_persons_however_slow_its_worker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is due again before the worker asks whether a person must see it: it was only busy there."""
    monkeypatch.setattr(_rows, "BUSY_WAIT", timedelta(0))
    (row,) = doubtful(1, Deduplicated)
    (busy,) = doubtful(1)
    transitions.claim(busy.pk)
    background.look_up(row.pk)
    assert again(row).state == "uncertain"


# -- what counts ---------------------------------------------------------------------------------------------------


def test_a_call_whose_process_died_counts_until_its_lease_is_past() -> None:
    """Nobody knows whether the provider still works on it; the clock of the lease says when to stop waiting."""
    first, second = doubtful(2)
    transitions.claim(first.pk)
    assert transitions.claim(second.pk) is None
    time_passes(timedelta(minutes=1))
    assert transitions.claim(second.pk) is not None


@pytest.mark.parametrize(
    ("limits", "claimed"), [({"bank/other": 1}, 2), ({"*": 1}, 1), (1, 1), ({"*": 1, BANK: 2}, 2), (None, 2)]
)
def test_a_limit_is_that_of_the_provider_or_else_of_all(settings: Any, limits: Any, claimed: int) -> None:
    """A name beats the star, and where neither says anything nothing is limited."""
    settings.EFFECTS = {"MAX_CALLS_PER_PROVIDER": limits}
    assert len([row for row in doubtful(2) if transitions.claim(row.pk)]) == claimed


def test_providers_do_not_wait_for_each_other() -> None:
    """One that is slow holds up nothing at another."""
    first, second = doubtful(2)
    transitions.claim(first.pk)
    Execution.objects.filter(pk=first.pk).update(provider="bank/slow")
    assert transitions.claim(second.pk) is not None


def test_a_limit_costs_two_queries_and_none_where_it_is_off(settings: Any) -> None:
    """The lock, and the count over an index of what is under way alone."""
    first, second = doubtful(2)
    with counted() as limited:
        transitions.claim(first.pk)
    settings.EFFECTS = {}
    with counted() as free:
        transitions.claim(second.pk)
    assert limited.queries - free.queries == 2, limited.statements


def test_counting_reads_what_is_under_way_alone() -> None:
    """An index that holds leased rows only: ten million settled ones cost nothing."""
    (row,) = doubtful(1)
    with CaptureQueriesContext(connection) as asked_for:
        transitions.claim(row.pk)
    (count,) = [query["sql"] for query in asked_for if "AS counted" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN {count}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("SET enable_seqscan = on")
    assert "effects_execution_calls" in plan, plan


# -- races ---------------------------------------------------------------------------------------------------------


def claims_at_one_instant(rows: list[Execution]) -> int:
    """Claim all rows at one instant; return how many got their lease."""
    results = together(*[lambda row=row: transitions.claim(row.pk) for row in rows])
    assert not [result for result in results if isinstance(result, Exception)], results
    return len([result for result in results if result is not None])


@pytest.mark.django_db(transaction=True)
def test_at_one_instant_no_more_than_the_limit_start(settings: Any) -> None:
    """Five workers, two may call: those who count see what those before them committed."""
    settings.EFFECTS = {"MAX_CALLS_PER_PROVIDER": 2}
    assert claims_at_one_instant(doubtful(5)) == 2
    assert Receipt.objects.filter(event="claim").count() == 2


@pytest.mark.django_db(transaction=True)
def test_without_the_lock_more_than_the_limit_start(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: workers that count before any of the others has committed all find room."""
    settings.EFFECTS = {"MAX_CALLS_PER_PROVIDER": 2}
    everybody_is_here = threading.Barrier(5)
    counted_room = _limits.is_provider_busy

    def unlocked(row: Execution) -> bool:
        busy = counted_room(row)
        everybody_is_here.wait(PATIENCE)
        return busy

    monkeypatch.setattr(_limits, "lock_provider", lambda provider: None)
    monkeypatch.setattr("effects.transitions.lookups.is_provider_busy", unlocked)
    assert claims_at_one_instant(doubtful(5)) == 5


@pytest.mark.django_db(transaction=True)
def test_a_licence_that_lapses_holds_up_nobody_at_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hook is the project's code and may wait for another row, whose worker must not wait for the provider."""
    rule = effects.ApprovalRule(approvers="effects.approve_execution", use_within=timedelta(minutes=5))
    monkeypatch.setattr(Noted, "approval", lambda self, context: rule)
    ben = person("ben")
    row = asked(Noted, by="ann")
    approve(row, ben)
    other = Execution.objects.get(pk=effects.perform_later(Charge, payload=PAYLOAD, key="other").ref)
    time_passes(timedelta(minutes=10))
    started: list[Any] = []

    def permit() -> Any:
        return transitions.permit(
            other.pk, attempt=new_id(), started=monotonic(), summary=other.summary, background=True
        )

    def then(context: Any, outcome: Any) -> None:
        thread, permitted = in_thread(permit)
        started.append(permitted)
        thread.join(PATIENCE / 10)  # it gets its permit, or waits for what this transaction holds
        effects.perform_later(Charge, payload=PAYLOAD, key="other")

    monkeypatch.setattr(Noted, "then", staticmethod(then))
    assert background.run(row.pk).state == "rejected"
    assert again(row).hook_error == ""
    ((decision,),) = started
    assert decision.permit is not None
