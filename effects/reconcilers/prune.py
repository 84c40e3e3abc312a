"""Answers, keys and executions past their retention. What is in doubt is never touched."""

from __future__ import annotations

from uuid import UUID

from effects import transitions
from effects.conf import settings
from effects.reconcilers._batches import Counts, each

__all__ = ["NAME", "run_once"]

NAME = "prune"


def run_once(batch: int | None = None) -> Counts:
    """Drop the bytes of old answers, free the keys of older requests, turn old executions into tombstones."""
    limit = batch or settings.SWEEP_BATCH
    counts = Counts(answers=transitions.drop_answers(limit), keys=transitions.free_keys(limit))
    return each(NAME, transitions.list_prunable(limit), _prune, before=counts)


def _prune(execution_id: UUID) -> str:
    return "executions" if transitions.prune_execution(execution_id) else "kept"
