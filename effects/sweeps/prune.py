"""Answers, keys and executions past their retention. What is in doubt is never touched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

from effects import transitions
from effects.conf import settings
from effects.sweeps._batches import Counts, beat, log
from effects.vocabulary.failures import is_interrupt

__all__ = ["BUDGET", "NAME", "run_once"]

NAME = "prune"
#: How long one run goes on while something is due: it shares a worker with what is urgent, and comes again.
BUDGET = timedelta(seconds=10)


def run_once(
    batch: int | None = None, *, budget: timedelta = BUDGET, clock: Callable[[], float] = time.monotonic
) -> Counts:
    """Drop the bytes of old answers, free the keys of older requests, turn old executions into tombstones.

    Batch after batch, each in a short transaction of its own, of the three kinds in turn, until nothing is due or the
    budget is spent. Two runs at once, or one that is killed, cost nothing but their work.

    Args:
        batch: rows of a batch; `SWEEP_BATCH` by default.
        budget: no batch begins later than that; the first one of each kind does in any case.
        clock: seconds that only grow.
    """
    limit = batch or settings.SWEEP_BATCH
    until, counts = clock() + budget.total_seconds(), Counts()
    kinds = [
        _until_none("answers", transitions.drop_answers, limit),
        _until_none("keys", transitions.free_keys, limit),
        _executions(limit),
    ]
    while kinds:
        for kind in tuple(kinds):
            done = next(kind, None)
            if done is None:
                kinds.remove(kind)
            else:
                counts.update(done)
        if clock() >= until:
            break
    beat(NAME, counts)
    return counts


def _until_none(name: str, drop: Callable[[int], int], limit: int) -> Iterator[Counts]:
    while count := drop(limit):
        yield Counts({name: count})
        if count < limit:
            return


def _executions(limit: int) -> Iterator[Counts]:
    """Prune batch by batch; one that fails is halved, until the row that is to blame is alone, and left."""
    after: transitions.Aged | None = None
    halves: list[list[UUID]] = []
    while True:
        if halves:
            ids = halves.pop()
        elif found := transitions.list_prunable(limit, after):
            after, ids = found[-1], [one.id for one in found]
        else:
            return
        try:
            pruned = transitions.prune_executions(ids)
        except Exception as error:  # whatever one row raises, the others go on
            if is_interrupt(error):
                raise  # the process's time is up; what is left comes again
            middle = len(ids) // 2
            if middle:
                halves += [ids[middle:], ids[:middle]]
            else:
                log.exception("%s: %s failed; it comes again later.", NAME, ids[0])
            yield Counts(errors=0 if middle else 1)
        else:
            yield Counts(executions=pruned, kept=len(ids) - pruned)
