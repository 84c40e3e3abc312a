"""Settled hooks that raised, or that could not run when their execution settled."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from effects import transitions
from effects.models import Execution
from effects.runtime import consequences
from effects.sweeps._batches import Counts, each, is_anything_due, take

__all__ = ["NAME", "is_due", "run_once"]

NAME = "run_hooks"


def run_once(batch: int | None = None) -> Counts:
    """Run what is due."""
    return each(NAME, take(_rows(), "hook_due_at", batch), _run)


def is_due() -> bool:
    """Return whether there is anything to run."""
    return is_anything_due(NAME, _rows(), "hook_due_at")


def _rows() -> QuerySet[Execution]:
    return Execution.objects.filter(hook_due_at__isnull=False)


def _run(execution_id: UUID) -> str:
    execution = transitions.run_hook(execution_id)
    consequences.after_change(execution)
    return "failed" if execution.hook_due_at else "done"
