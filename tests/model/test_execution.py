"""The rules for one execution, explored: what they keep within the assumptions, and what breaks outside of them."""

from __future__ import annotations

from typing import Any

import pytest

from effects.vocabulary.states import EXECUTION_EDGES, ExecutionState
from tests.model.execution import Config, check
from tests.model.explorer import Move, NotInTable, moves_of

_S = ExecutionState

#: Every kind of provider, of rule, and of people.
WITHIN = [
    *(
        Config(look_up=look_up, approval=approval, deduplicates=deduplicates)
        for look_up in ("authoritative", "eventual", "")
        for approval in ("", "once", "covers")
        for deduplicates in (False, True)
    ),
    Config(attempts=3),
    Config(orders=True),
    Config(look_up="eventual", orders=True),
    Config(look_up="", orders=True, people=True),
    Config(orders=True, partial=True),
    Config(orders=True, abandons=True),
    Config(look_up="", partial=True, abandons=True),
    Config(people=True),
    Config(people=True, approval="once"),
    Config(look_up="", people=True),
    Config(look_up="", people=True, approval="once"),
    Config(look_ups=2),
    Config(look_ups=2, look_up="eventual", attempts=1, orders=True),
    Config(gossip=True),
    Config(gossip=True, approval="once"),
    Config(gossip=True, look_up="", people=True),
    Config(forgets=True, doubts=True),
    Config(forgets=True, doubts=True, look_up="", approval="once"),
    Config(forgets=True, doubts=True, look_up="eventual", orders=True),
]
#: One assumption each that does not hold. The last one leaves the row as it was before the permit.
OUTSIDE = {
    "stalls": Config(stalls=True),
    "lands_late": Config(lands_late=True),
    "misses": Config(misses=True),
    "forgets": Config(forgets=True),
}
#: Moves that the table allows and no order of events makes.
NEVER = {
    # a granted approval is withdrawn or lapses; only a requested one is denied or expires
    *(Move(verb, _S.PENDING, target) for verb in ("deny", "expire") for target in (_S.FAILED, _S.REJECTED)),
    *(Move("lapse", _S.AWAITING_APPROVAL, target) for target in (_S.FAILED, _S.REJECTED)),
    # contents are compared when something is about to be sent
    Move("void", _S.AWAITING_APPROVAL, _S.AWAITING_APPROVAL),
    # of what was never sent there is no late news
    Move("observe", _S.REJECTED, _S.REJECTED),
}  # fmt: skip


def name(config: Config) -> str:
    """Return what sets a configuration apart."""
    default = Config()
    return " ".join(
        f"{key}={value}" for key, value in vars(config).items() if value != getattr(default, key)
    ) or "default"  # fmt: skip


@pytest.fixture(scope="module")
def explored() -> dict[Config, Any]:
    """What was explored so far in this module."""
    return {}


@pytest.mark.parametrize("config", WITHIN, ids=name)
def test_within_the_assumptions_nothing_breaks(config: Config, explored: dict[Config, Any]) -> None:
    """Applied at most once unless a person ordered more, every state true, and a way out of each."""
    explored[config] = check(config)
    assert explored[config].wrong == {}


@pytest.mark.parametrize("config", OUTSIDE.values(), ids=OUTSIDE)
def test_outside_of_each_assumption_it_is_applied_twice(config: Config, explored: dict[Config, Any]) -> None:
    """None of the four can be left out: without it there is an order of events that sends a second one."""
    explored[config] = check(config)
    assert "applied twice" in explored[config].wrong


@pytest.mark.parametrize("config", OUTSIDE.values(), ids=OUTSIDE)
def test_outside_of_the_assumptions_the_provider_s_deduplication_helps(config: Config) -> None:
    """The provider key stays the same, so that a provider that deduplicates applies one of the two."""
    deduplicated = check(Config(**{**vars(config), "deduplicates": True}))
    assert "applied twice" not in deduplicated.wrong


def test_the_model_takes_every_edge_of_the_table(explored: dict[Config, Any]) -> None:
    """What the code may do, the model does; the exceptions are named, each with its reason."""
    for config in (*WITHIN, *OUTSIDE.values(), Config(misses=True, approval="once")):
        if config not in explored:
            explored[config] = check(config)
    taken = set().union(*(found.moves for found in explored.values()))
    assert moves_of(EXECUTION_EDGES) - taken == NEVER


@pytest.mark.parametrize("verb", ["expire_lease", "confirm_absence"])
def test_a_model_that_leaves_the_table_is_an_error(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the table lost an edge that the model takes, exploring would say so."""
    lost = {name: edge for name, edge in EXECUTION_EDGES.items() if name != verb}
    monkeypatch.setattr("tests.model.execution.EXECUTION_EDGES", lost)
    with pytest.raises(NotInTable, match=verb):
        check(Config())
