"""Observers hear of each change after its commit, whoever made it, and cannot stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

import effects
from effects.models import Execution, Receipt
from effects.signals import announce, execution_changed
from effects.testing import provider_says, run_due, time_passes
from effects.testing.faults import Interrupted, interrupt_at
from tests.core.declared import Approved, Charge, Order, Plain, hook_calls
from tests.core.people import PAYLOAD, approve, asked, person

pytestmark = pytest.mark.django_db(transaction=True)
Heard = list[tuple[str, str | None, str]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What an observer was told, and was in trouble with: verb, state before, state after."""
    told: Heard = []

    def hear(sender: Any, execution: Any, verb: str, previous: Any, **options: Any) -> None:
        assert not connection.in_atomic_block, "an observer hears of what is committed"
        assert effects.get(execution.ref).revision >= execution.revision
        told.append((verb, previous and str(previous), str(execution.state)))
        raise RuntimeError("an observer's own trouble")

    execution_changed.connect(hear)
    yield told
    execution_changed.disconnect(hear)


@pytest.mark.django_db(transaction=False)
def test_an_observer_hears_of_its_own_effect_and_stops_nothing() -> None:
    """The sender is the effect's class, and what a receiver raises changes nothing, in a `TestCase` too."""
    told: list[tuple[type, str]] = []

    def hear(sender: Any, execution: Any, **options: Any) -> None:
        told.append((sender, str(execution.state)))
        raise RuntimeError("an observer's own trouble")

    execution_changed.connect(hear, sender=Charge)
    try:
        with provider_says(Charge, effects.Applied(1)), provider_says(Plain, effects.Applied(2)):
            effects.perform(Plain, payload=PAYLOAD, key="order-17")
            assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1
    finally:
        execution_changed.disconnect(hear, sender=Charge)
    assert told == [(Charge, "executing"), (Charge, "completed")]


def _granted() -> None:
    ann, ben = person("ann"), person("ben")
    row = asked(Approved, by=ann)
    approve(row, ben)


def _denied() -> None:
    ann, ben = person("ann"), person("ben")
    row = asked(Approved, by=ann)
    effects.deny(row.pk, by=ben, digest=row.approvals.get().digest)


def _expired() -> None:
    person("ben")
    asked(Approved, by=person("ann"), key="late")
    time_passes(timedelta(days=8))
    run_due()


def _lost_process() -> None:
    with provider_says(Plain, effects.Applied()), pytest.raises(Interrupted), interrupt_at("send.before_call"):
        effects.perform(Plain, payload=PAYLOAD, key="killed")
    time_passes(timedelta(minutes=2))
    run_due()


def _found_later() -> None:
    with provider_says(Order, TimeoutError(), look_up=effects.Found("ch_1")):
        effects.perform(Order, payload=PAYLOAD, key="lost")
        run_due()


def _sent_later() -> None:
    with provider_says(Plain, effects.Applied()):
        with transaction.atomic():
            effects.perform_later(Plain, payload=PAYLOAD, key="later")
        run_due()


@pytest.mark.parametrize(
    ("story", "hears"),
    [
        (_granted, [("record", None, "awaiting_approval"), ("grant", "awaiting_approval", "pending")]),
        (_denied, [("record", None, "awaiting_approval"), ("deny", "awaiting_approval", "rejected")]),
        (_expired, [("record", None, "awaiting_approval"), ("expire", "awaiting_approval", "rejected")]),
        (
            _lost_process,
            [
                ("record", None, "executing"),
                ("expire_lease", "executing", "uncertain"),
                ("escalate", "uncertain", "needs_intervention"),
            ],
        ),
        (
            _found_later,
            [
                ("record", None, "executing"),
                ("doubt", "executing", "uncertain"),
                ("confirm", "uncertain", "completed"),
            ],
        ),
        (
            _sent_later,
            [
                ("record", None, "pending"),
                ("permit", "pending", "executing"),
                ("complete", "executing", "completed"),
            ],
        ),
    ],
)
def test_each_change_is_announced_whoever_makes_it(story: Callable[[], None], hears: Heard, heard: Heard) -> None:
    """A request, a person, a worker and the sweeps: one announcement for each change, in their order."""
    person("somebody")
    story()
    assert heard == hears
    events = {verb for verb, _, _ in heard}
    assert events <= set(Receipt.objects.values_list("event", flat=True))


def test_what_is_rolled_back_is_announced_to_nobody(heard: Heard) -> None:
    """`perform_later` joins a transaction; with it, or with a savepoint of it, its announcement goes."""
    with transaction.atomic():
        for key in ("kept", "dropped"):
            with transaction.atomic():
                effects.perform_later(Plain, payload=PAYLOAD, key=key)
                transaction.set_rollback(key == "dropped")
        assert heard == []
    assert heard == [("record", None, "pending")]
    with transaction.atomic():
        effects.perform_later(Plain, payload=PAYLOAD, key="gone")
        transaction.set_rollback(True)
    assert len(heard) == 1


def test_an_observer_may_perform_another_effect() -> None:
    """What it does is a write of its own: its hooks run as anywhere."""

    def follow(sender: Any, execution: Any, **options: Any) -> None:
        if execution.settled:
            effects.perform(Charge, payload=PAYLOAD, key=f"after-{execution.key}")

    execution_changed.connect(follow, sender=Order)
    try:
        with provider_says(Order, effects.Applied()), provider_says(Charge, effects.Applied()):
            effects.perform(Order, payload=PAYLOAD, key="first")
    finally:
        execution_changed.disconnect(follow, sender=Order)
    (follower,) = effects.find(key="after-first")
    assert (follower.state, follower.hook_due_at) == ("completed", None)
    assert hook_calls == [(follower.ref, "completed")]


def test_without_an_observer_nothing_is_read_for_one(django_assert_num_queries: Any) -> None:
    """A signal to which nobody listens costs no statement, and neither does one to which somebody does."""
    with provider_says(Plain, effects.Applied()):
        ref = effects.perform(Plain, payload=PAYLOAD, key="k").ref
    row = Execution.objects.get(pk=ref)
    told: list[Any] = []

    def hear(execution: Any, **options: Any) -> None:
        told.append(execution.ref)

    with django_assert_num_queries(0):
        announce(row, "complete", None)
        execution_changed.connect(hear)
        try:
            announce(row, "complete", None)
        finally:
            execution_changed.disconnect(hear)
    assert told == [ref]
