"""Explicit-state exploration: every state that some order of events can reach, and the shortest way to a wrong one.

A model's steps are functions of a frozen state. A step that moves a row says which verb it is, and the verb is looked
up in the table that the code itself obeys: what the table does not allow is an error of the model, and what the model
never does is reported, so that the two cannot part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from effects.vocabulary.states import Edge, Word, allows

__all__ = ["Explored", "Move", "NotInTable", "Step", "explore", "moves_of"]

S = TypeVar("S", bound=tuple[Any, ...])
#: More states than a test can visit in its time.
LIMIT = 400_000


class NotInTable(AssertionError):  # noqa: N818 - said of the model's step
    """A model took a step that the code's table of edges does not have."""


class Move(NamedTuple):
    """A verb taken from a state to a state; no source: it made the row."""

    verb: str
    source: Word | None
    target: Word


class Step(NamedTuple, Generic[S]):
    """One event: its name for people, the state after it, the moves that it made."""

    name: str
    state: S
    moves: tuple[Move, ...] = ()


@dataclass
class Explored(Generic[S]):
    """What exploring found: wrong states with the shortest way to each, states that nothing leads out of, moves."""

    states: int = 0
    wrong: dict[str, tuple[str, ...]] = field(default_factory=dict)
    moves: set[Move] = field(default_factory=set)


def explore(
    first: S,
    steps: Callable[[S], Iterator[Step[S]]],
    *,
    wrong: Callable[[S], Iterator[str]],
    is_done: Callable[[S], bool],
    edges: Mapping[str, Edge],
) -> Explored[S]:
    """Visit every state that is reachable from `first`.

    Args:
        first: where it begins.
        steps: what can happen in a state.
        wrong: which promises a state breaks, in words.
        is_done: whether it has come to its end, or to a person; each state must be able to reach such a one.
        edges: the table.

    Raises:
        NotInTable: a step's move is not an edge.
    """
    found, queue = Explored[S](), deque([first])
    came: dict[S, tuple[S, str] | None] = {first: None}
    back: dict[S, list[S]] = {}
    while queue:
        state = queue.popleft()
        for what in wrong(state):
            found.wrong.setdefault(what, _way(came, state))
        for step in steps(state):
            _check(step, edges)
            found.moves.update(step.moves)
            back.setdefault(step.state, []).append(state)
            if step.state not in came:
                came[step.state] = (state, step.name)
                queue.append(step.state)
        assert len(came) < LIMIT, f"more than {LIMIT} states"
    stuck = _stuck(came, back, is_done)
    if stuck is not None:
        found.wrong["stuck"] = _way(came, stuck)
    found.states = len(came)
    return found


def moves_of(edges: Mapping[str, Edge]) -> set[Move]:
    """Return all moves that a table allows."""
    return {
        Move(verb, source, target)
        for verb, edge in edges.items()
        for source in (edge.sources or {None})
        for target in (edge.targets if source is None else edge.leads(source))
    }


def _check(step: Step[Any], edges: Mapping[str, Edge]) -> None:
    for verb, source, target in step.moves:
        edge = edges.get(verb)
        if edge is None:
            raise NotInTable(f"{step.name}: the table has no verb {verb!r}")
        fits = target in edge.targets if source is None else allows(edge, source, target)
        if not fits or (source is None) != (not edge.sources):
            raise NotInTable(f"{step.name}: the table has no edge {verb}: {source or 'nothing'} → {target}")


def _stuck(came: Mapping[S, Any], back: Mapping[S, list[S]], is_done: Callable[[S], bool]) -> S | None:
    """Return the first state from which no end can be reached."""
    good = [state for state in came if is_done(state)]
    reached, queue = set(good), deque(good)
    while queue:
        for earlier in back.get(queue.popleft(), ()):
            if earlier not in reached:
                reached.add(earlier)
                queue.append(earlier)
    return next((state for state in came if state not in reached), None)


def _way(came: Mapping[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    names: list[str] = []
    while (step := came[state]) is not None:
        state, name = step
        names.append(name)
    return tuple(reversed(names))
