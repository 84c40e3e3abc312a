"""Settled hooks that raised, or that could not run when their execution settled."""

from __future__ import annotations

from uuid import UUID

from effects import transitions
from effects.models import Execution
from effects.runtime import consequences
from effects.sweeps._batches import Counts, each, take

__all__ = ["NAME", "run_once"]

NAME = "run_hooks"


def run_once(batch: int | None = None) -> Counts:
    """Run what is due."""
    ids = take(Execution.objects.filter(hook_due_at__isnull=False), "hook_due_at", batch)
    return each(NAME, ids, _run)


def _run(execution_id: UUID) -> str:
    execution = transitions.run_hook(execution_id)
    consequences.after_change(execution)
    return "failed" if execution.hook_due_at else "done"
