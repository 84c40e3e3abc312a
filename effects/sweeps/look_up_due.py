"""Executions in doubt that are due for a look-up."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from effects.models import Execution
from effects.runtime import background
from effects.sweeps._batches import Counts, each, take
from effects.vocabulary.states import ExecutionState, values

__all__ = ["NAME", "run_once"]

NAME = "look_up_due"
IN_DOUBT = values({ExecutionState.ACCEPTED, ExecutionState.UNCERTAIN})


def run_once(batch: int | None = None, publish: Callable[[str], object] | None = None) -> Counts:
    """Look up what is due, here or, with `publish`, by the workers that get the ids."""
    ids = take(Execution.objects.filter(state__in=IN_DOUBT), "due_at", batch)

    def hand_out(execution_id: UUID) -> str:
        if publish is not None:
            publish(str(execution_id))
            return "published"
        return str(background.look_up(execution_id).state)

    return each(NAME, ids, hand_out)
