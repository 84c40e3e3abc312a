"""Assertions about what was performed."""

from __future__ import annotations

from typing import Any

from effects.declarations.effect import Effect, get_effect
from effects.journal.redaction import seal
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.models import Execution
from effects.vocabulary.states import ExecutionState

__all__ = ["assert_performed"]


def assert_performed(
    effect: type[Effect[Any]] | str,
    *,
    times: int = 1,
    state: ExecutionState | str = ExecutionState.COMPLETED,
    key: str | None = None,
    payload: Any = None,
) -> list[ExecutionSnapshot]:
    """Assert how often an effect stands in the journal, and return those executions.

    Args:
        effect: the class or its operation.
        times: how many executions there must be.
        state: the state that they must be in.
        key: only the one with this key.
        payload: only those with exactly this payload.

    Raises:
        AssertionError: naming all executions of the effect that there are.
    """
    operation = get_effect(effect).operation
    rows = list(Execution.objects.filter(operation=operation).order_by("created_at"))
    wanted = [
        row
        for row in rows
        if row.state == str(state)
        and (key is None or row.key == key)
        and (payload is None or row.payload == seal(payload, row.binding)[0])
    ]
    if len(wanted) != times:
        known = "\n".join(f"  {row.key}: {row.state} ({row.reason}) {row.payload}" for row in rows) or "  none"
        raise AssertionError(
            f"expected {times} times {operation} {state}, found {len(wanted)}; the journal has:\n{known}"
        )
    return [snapshot(row) for row in wanted]
