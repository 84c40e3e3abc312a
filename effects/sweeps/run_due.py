"""Executions that are due to be sent: pending ones, and ordered resends."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from effects.models import Execution
from effects.runtime import background
from effects.sweeps._batches import Counts, each, take
from effects.vocabulary.states import ExecutionState, values

__all__ = ["NAME", "run_once"]

NAME = "run_due"
#: What was never sent, is to be sent again, or was ordered to be.
SENDABLE = values({ExecutionState.PENDING, ExecutionState.NEEDS_INTERVENTION})


def run_once(batch: int | None = None, publish: Callable[[str], object] | None = None) -> Counts:
    """Send what is due, here or, with `publish`, by the workers that get the ids."""
    ids = take(Execution.objects.filter(state__in=SENDABLE), "due_at", batch)

    def hand_out(execution_id: UUID) -> str:
        if publish is not None:
            publish(str(execution_id))
            return "published"
        return str(background.run(execution_id).state)

    return each(NAME, ids, hand_out)
