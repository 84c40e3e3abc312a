"""Writes around a call: what must be committed before it, and what is known after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from effects._commits import journal
from effects._logs import get_logger
from effects.exceptions import CommitLostError, JournalUnavailableError

__all__ = ["write_before_send", "write_until_done"]

log = get_logger("effects.writes")
T = TypeVar("T")

#: Waits between two tries to write an outcome while the database is away; the last one repeats.
WRITE_WAITS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


def write_before_send(write: Callable[[], T]) -> T:
    """Write what must be committed before the call: once more if the database says that nothing was committed."""
    try:
        return write()
    except CommitLostError:
        return write()


def write_until_done(write: Callable[[], T]) -> T:
    """Write what is known after the call, on fresh connections, for as long as this process lives.

    The call is never repeated. Inside a test case's transaction there is no fresh connection to hope for.
    """
    waits = iter(WRITE_WAITS)
    wait = 0.0
    while True:
        try:
            return write()
        except JournalUnavailableError:  # noqa: PERF203 - away, or too busy: a lock timeout, a full disk
            if journal().in_atomic_block:
                raise
            wait = next(waits, wait)
            log.exception("The outcome cannot be recorded yet; trying again in %s s.", wait)
            journal().close()
            # the database is away and nothing announces its return
            time.sleep(wait)
