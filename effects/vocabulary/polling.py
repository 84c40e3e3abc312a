"""When asking again makes sense: what `Retry-After` and `poll_after_seconds` say of what is not settled."""

from __future__ import annotations

from datetime import timedelta

from effects.vocabulary.states import ExecutionState

__all__ = ["DOUBT_HINT", "LONGEST_HINT", "PEOPLE_HINT", "PROVIDER_HINT", "RUNNING_HINT", "hint"]

#: The shortest wait that is told, by what is waited for. In doubt, look-ups back off and people take their time.
RUNNING_HINT, PROVIDER_HINT = timedelta(seconds=1), timedelta(seconds=5)
PEOPLE_HINT, DOUBT_HINT = timedelta(seconds=30), timedelta(seconds=30)
#: The longest: what is due in a week may be cancelled or looked up today.
LONGEST_HINT = timedelta(hours=1)

_S = ExecutionState
_SHORTEST = {
    _S.PENDING: RUNNING_HINT,
    _S.EXECUTING: RUNNING_HINT,
    _S.ACCEPTED: PROVIDER_HINT,
    _S.AWAITING_APPROVAL: PEOPLE_HINT,
    _S.UNCERTAIN: DOUBT_HINT,
    _S.NEEDS_INTERVENTION: DOUBT_HINT,
}
#: Nothing but the machine moves these before they are due. A person may decide at any time.
_MOVES_WHEN_DUE = frozenset({_S.PENDING, _S.ACCEPTED, _S.UNCERTAIN})


def hint(state: ExecutionState | None, due_in: timedelta | None) -> timedelta | None:
    """Return how long to wait before asking again; None for what is settled.

    Args:
        state: of the execution that is waited for; None: the machine has only its own work left to do.
        due_in: how long until the row is due; None: at no set time.
    """
    shortest = RUNNING_HINT if state is None else _SHORTEST.get(state)
    if shortest is None or due_in is None or not (state is None or state in _MOVES_WHEN_DUE):
        return shortest
    return min(max(shortest, due_in), LONGEST_HINT)
