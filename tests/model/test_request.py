"""The rules for one idempotency key, explored; and three of them left out."""

from __future__ import annotations

import pytest

from effects.vocabulary.states import REQUEST_EDGES, RequestState
from tests.model.explorer import Move, moves_of
from tests.model.request import Config, check

VIEWS = {
    "declared": Config(),
    "declared, approved": Config(approval=True),
    "declared, without answer=": Config(builds=False),
    "local writes": Config(local_writes=True),
    "opaque": Config(opaque=True),
    "opaque, approved": Config(opaque=True, approval=True),
}
WITHOUT = {
    "the epoch's fence": (Config(fenced=False), "applied twice"),
    "waiting for the execution": (Config(waits=False), "applied twice"),
    "waiting for people": (Config(waits=False, approval=True), "applied twice"),
    "keeping back what was not frozen": (Config(keeps=False), "the replay differs from the first answer"),
}
#: A request in doubt that stays in doubt leaves no receipt.
NEVER = {Move("settle", RequestState.IN_DOUBT, RequestState.IN_DOUBT)}


@pytest.mark.parametrize("config", VIEWS.values(), ids=VIEWS)
def test_a_key_is_never_free_while_something_was_or_can_be_sent(config: Config) -> None:
    """Applied at most once, rows once, one answer's bytes, and a way out of every state."""
    assert check(config).wrong == {}


@pytest.mark.parametrize(("config", "breaks"), WITHOUT.values(), ids=WITHOUT)
def test_no_rule_can_be_left_out(config: Config, breaks: str) -> None:
    """Without the rule an order of events breaks the promise that it keeps."""
    assert breaks in check(config).wrong


def test_the_model_takes_every_edge_of_the_table() -> None:
    """What the code may do with a request, the model does."""
    taken = set().union(*(check(config).moves for config in VIEWS.values()))
    assert moves_of(REQUEST_EDGES) - taken == NEVER
