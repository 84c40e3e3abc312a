"""The whole of the runtime against one that remembers everything."""

from __future__ import annotations

from collections import Counter

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from effects.journal.locks import now
from tests.machine.conftest import SEED
from tests.machine.declared import (
    EFFECTS,
    Approved,
    Authoritative,
    Blind,
    Covered,
    Deduplicated,
    Lagging,
    Machine,
    Repeatable,
)
from tests.machine.machine import EffectsMachine
from tests.machine.oracle import audit_journal

Pair = tuple[type[Machine], type[Machine]]
PAIRS: list[Pair] = list(zip(EFFECTS, (*EFFECTS[1:], EFFECTS[0]), strict=True))
#: Those whose provider also sends events.
TOLD: list[Pair] = [(Authoritative, Covered), (Lagging, Repeatable), (Deduplicated, Lagging), (Approved, Blind)]
#: What the short run always comes by; which rarer verbs it meets too depends on the timing of the day.
MAIN_ROADS = frozenset(
    {"open", "record", "join", "permit", "complete", "doubt", "expire_lease", "claim", "lose", "release", "resolve"}
)


def run(pair: Pair, among: list[Pair], profile: hypothesis.settings, reached: Counter[str], *, hears: bool) -> None:
    """Run the machine of one pair, with a seed of its own; then let the operations' own audit look."""
    attributes = {"effects": pair, "reached": reached, "hears": hears}
    machine: type[EffectsMachine] = type(f"{pair[0].__name__}Machine", (EffectsMachine,), attributes)
    hypothesis.seed(SEED * len(among) + among.index(pair))(machine)  # each another part of the world
    run_state_machine_as_test(machine, settings=profile)
    audit_journal(now())


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_no_order_of_events_breaks_a_promise(pair: Pair, profile: hypothesis.settings, reached: Counter[str]) -> None:
    """Whatever programs, workers, people, the provider and time do, in whatever order, the promises hold."""
    run(pair, PAIRS, profile, reached, hears=False)


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("pair", TOLD, ids=lambda pair: pair[0].__name__)
def test_nor_does_what_the_provider_tells_by_itself(
    pair: Pair, profile: hypothesis.settings, reached: Counter[str]
) -> None:
    """Signed events, late, twice and out of order, beside all that."""
    run(pair, TOLD, profile, reached, hears=True)


@pytest.mark.short
@pytest.mark.usefixtures("journal")  # or it would run before the machines
def test_the_machines_get_somewhere(reached: Counter[str]) -> None:
    """Machines that never take a verb would prove nothing about it; the long run demands every one of them."""
    assert not MAIN_ROADS - set(reached), f"never taken, of {reached}"
