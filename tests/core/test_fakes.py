"""The provider with a memory that ships for tests: what it says in a look-up is what it has done."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

import effects
from effects.declarations.effect import get_effect
from effects.testing import FakeProvider, provider_says, run_due, time_passes
from tests.core import declared
from tests.core.people import PAYLOAD
from tests.core.test_compensations import Transfer

pytestmark = pytest.mark.django_db(transaction=True)

QUIET = timedelta(hours=1)


def test_it_does_what_it_is_sent_and_says_so() -> None:
    """Its ledger holds the payload and the keys, and a function makes its output."""
    bank = FakeProvider(output=lambda order: {"id": order.reference})
    with bank.answers(declared.Order):
        done = effects.perform(declared.Order, payload=PAYLOAD, key="k1")
    assert done.require() == {"id": "fake_1"}
    (order,) = bank.orders
    assert (order.payload, order.key, order.reference) == (PAYLOAD, "k1", done.reference)  # type: ignore[attr-defined]
    assert order.provider_key == effects.get(done.ref).provider_key


@pytest.mark.parametrize(
    ("trouble", "orders_at_once", "state"),
    [
        ("lose_reply", 1, "completed"),
        ("lose_request", 0, "completed"),
        ("decline", 0, "failed"),
        ("accept", 0, "completed"),
    ],
)
def test_whatever_goes_wrong_on_the_way_it_happens_at_most_once(trouble: str, orders_at_once: int, state: str) -> None:
    """The look-up finds what was done, and its absence is believed after the quiet time."""
    bank = FakeProvider()
    with bank.answers(declared.Order):
        getattr(bank, trouble)()
        ref = effects.perform(declared.Order, payload=PAYLOAD, key="k1").ref
        assert len(bank.orders) == orders_at_once
        bank.finish()
        for _ in range(3):
            run_due()
            time_passes(QUIET)
    assert effects.get(ref).state == state
    assert len(bank.orders) == (0 if state == "failed" else 1)


def test_a_delayed_request_that_arrives_before_the_barrier_is_met() -> None:
    """It is found, and not sent again; one that is never delivered is sent again under the same key."""
    bank = FakeProvider()
    with bank.answers(declared.Order):
        bank.delay_request()
        ref = effects.perform(declared.Order, payload=PAYLOAD, key="k1").ref
        run_due()
        bank.deliver()
        time_passes(QUIET)
        run_due()
    assert effects.get(ref).state == "completed"
    assert (bank.sends, len(bank.orders)) == (1, 1)


def test_a_lag_hides_an_order_until_time_has_passed() -> None:
    """A look-up says truthfully what it sees, which may be too little for a while."""
    bank = FakeProvider(lag=timedelta(minutes=3))
    with bank.answers(declared.Order):
        bank.lose_reply()
        ref = effects.perform(declared.Order, payload=PAYLOAD, key="k1").ref
        run_due()
        assert (effects.get(ref).state, bank.look_ups) == ("uncertain", 1)
        time_passes(timedelta(minutes=4))
        run_due()
    assert effects.get(ref).state == "completed"
    assert bank.sends == 1


def test_while_it_is_away_nothing_reaches_it() -> None:
    """Look-ups are unreachable, which is evidence of nothing."""
    bank = FakeProvider()
    with bank.answers(declared.Order):
        bank.away = True
        ref = effects.perform(declared.Order, payload=PAYLOAD, key="k1").ref
        time_passes(QUIET)
        run_due()
        assert (effects.get(ref).state, bank.sends, bank.look_ups) == ("uncertain", 0, 0)
        bank.away = False
        time_passes(QUIET)
        run_due()
    assert (effects.get(ref).state, len(bank.orders)) == ("completed", 1)


def test_a_provider_that_does_not_deduplicate_shows_the_second_send() -> None:
    """The ledger tells a blind resend; where the effect declares that it deduplicates, the first answer comes again."""
    plain, knowing = FakeProvider(), FakeProvider()
    context, permit = _asked(declared.Order)
    for bank, effect in ((plain, declared.Order), (knowing, declared.Deduplicated)):
        with bank.answers(effect):
            instance = get_effect(effect)
            first, second = instance.send(context, permit), instance.send(context, permit)
        assert (first == second) is (bank is knowing)
    assert [len(bank.orders) for bank in (plain, knowing)] == [2, 1]
    with plain.answers(declared.Order):
        assert isinstance(get_effect(declared.Order).verify(context), effects.Conflict)


def test_an_undoing_names_what_it_undoes() -> None:
    """By the reference of the order, which is in the ledger too."""
    bank = FakeProvider()
    with bank.answers(Transfer):
        done = effects.perform(Transfer, payload=PAYLOAD, key="k1")
        effects.compensate(done.ref, requested_by="test")
    assert [order.undoes for order in bank.orders] == ["", bank.orders[0].reference]


def test_threads_share_one() -> None:
    """Twenty callers of one key are one order."""
    bank, start = FakeProvider(), threading.Barrier(4)

    def call(_number: int) -> Any:
        try:
            start.wait(20)
            return effects.perform(declared.Order, payload=PAYLOAD, key="k1")
        finally:
            connection.close()

    with bank.answers(declared.Order), ThreadPoolExecutor(4) as pool:
        refs = {outcome.ref for outcome in pool.map(call, range(4))}
    assert (len(refs), len(bank.orders), bank.sends) == (1, 1, 1)


@pytest.mark.parametrize("several", [False, True])
def test_a_look_up_may_be_a_function(several: bool) -> None:
    """It is called with the context, alone or as one of several; so may be each send."""
    asked: list[str] = []

    def verdict(context: Any) -> Any:
        asked.append(context.provider_key)
        return effects.Found("ch_1")

    look_up: Any = [effects.Inconclusive("later"), verdict] if several else verdict
    with provider_says(declared.Order, TimeoutError, look_up=look_up):
        ref = effects.perform(declared.Order, payload=PAYLOAD, key="k1").ref
        for _ in range(2):
            run_due()
            time_passes(timedelta(minutes=2))
    assert effects.get(ref).state == "completed"
    assert asked == [effects.get(ref).provider_key]


def _asked(effect: type[Any]) -> tuple[Any, Any]:
    with provider_says(effect, effects.Applied()) as said:
        effects.perform(effect, payload=PAYLOAD, key="asked")
    return said.sends[0]
