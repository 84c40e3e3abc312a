"""Answers and keys past their retention. What is in doubt is never touched."""

from __future__ import annotations

from effects import transitions
from effects.conf import settings
from effects.reconcilers._batches import Counts, beat

__all__ = ["NAME", "run_once"]

NAME = "prune"


def run_once(batch: int | None = None) -> Counts:
    """Drop the bytes of old answers (the key stays taken), and free the keys of older requests."""
    limit = batch or settings.SWEEP_BATCH
    counts = Counts(answers=transitions.drop_answers(limit), keys=transitions.free_keys(limit))
    beat(NAME, counts)
    return counts
