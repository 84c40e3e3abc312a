"""Trouble: working on a row raised. It backs off, and shows, so that it reaches a person and stops nobody else."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.models import Execution
from effects.vocabulary import canonical
from effects.vocabulary.failures import is_interrupt
from effects.vocabulary.states import ExecutionReason

__all__ = ["TROUBLED_FROM", "note_trouble", "pause_after"]

#: From so many times in a row on, it is a person's matter: the console lists it.
TROUBLED_FROM = 3
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=30), timedelta(hours=1)


def pause_after(count: int) -> timedelta:
    """Return how long a row is left alone that was worked on in vain that often in a row."""
    pause: timedelta = min(FIRST_PAUSE * 2 ** min(max(count - 1, 0), 10), LONGEST_PAUSE)
    return pause


def note_trouble(execution_id: UUID, error: BaseException, *, epoch: int | None = None) -> None:
    """*Commits.* Keep what working on an execution raised, and leave it alone for 30 s, doubling to 1 h.

    No change of state and no receipt: nothing is known that was not known before. The next step forward clears it.

    Args:
        execution_id: which.
        error: what was raised.
        epoch: of the look-up that raised it, whose claim is over with that: its process has not died.
    """
    with commits("noting trouble"):
        row = lock_execution(execution_id)
        in_send = row.reason == ExecutionReason.INTERRUPTED and row.lease_expires_at is None
        in_hook = row.hook_due_at is not None
        if is_interrupt(error) and (in_send or in_hook):
            return  # and that is on record already
        ended = {"lease_expires_at": None} if row.epoch == epoch else {}
        Execution.objects.filter(pk=row.pk).update(
            trouble_count=row.trouble_count + 1,
            trouble=canonical.clean_error(error),
            swept_until=row.locked_at + pause_after(row.trouble_count + 1),
            **ended,
        )
