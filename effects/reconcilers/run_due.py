"""Pending executions that are due to be sent."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from effects import runner
from effects.models import Execution
from effects.reconcilers._batches import Counts, each, take
from effects.states import ExecutionState

__all__ = ["NAME", "run_once"]

NAME = "run_due"


def run_once(batch: int | None = None, publish: Callable[[str], object] | None = None) -> Counts:
    """Send what is due, here or, with `publish`, by the workers that get the ids."""
    ids = take(Execution.objects.filter(state=str(ExecutionState.PENDING)), "due_at", batch)

    def hand_out(execution_id: UUID) -> str:
        if publish is not None:
            publish(str(execution_id))
            return "published"
        return str(runner.run(execution_id).state)

    return each(NAME, ids, hand_out)
