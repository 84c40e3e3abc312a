"""What every sweep shares: its batch, its care for one bad row, its heartbeat."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from effects.conf import settings
from effects.journal.commits import commits, journal_place
from effects.journal.locks import ClockTimestamp, skip_locked
from effects.journal.logs import get_logger
from effects.models import Heartbeat
from effects.runtime.orphans import list_orphans
from effects.vocabulary.exceptions import EffectsError
from effects.vocabulary.failures import is_interrupt

__all__ = ["AGAIN", "Counts", "each", "is_anything_due", "take"]

log = get_logger("effects.reconcilers")
M = TypeVar("M", bound=models.Model)
Counts = Counter[str]

#: How long a row that was handed out is left alone: a lost message costs this long, a slow one is not doubled.
AGAIN = timedelta(seconds=30)
#: And at most, where nothing came of handing it out: half as long as it has been due, so that what kills each process
#: that touches it does so ever more rarely.
LONGEST_AGAIN = timedelta(minutes=10)
#: How often a process says which rows it cannot go on with: at its first sweep, and later, since older code may go on
#: recording some.
TELL_EVERY = timedelta(hours=1)
#: A heartbeat is one row a sweep, written at most this often.
BEAT_EVERY = timedelta(minutes=1)


def take(rows: models.QuerySet[M], due: str, batch: int | None = None) -> list[UUID]:
    """Take a batch of rows whose `due` column is past, oldest first, and mark them as handed out, in one commit.

    With nothing due this is one query and no commit.

    Args:
        rows: the candidates; a partial index serves their condition.
        due: the column that says when.
        batch: how many at most; `SWEEP_BATCH` by default.
    """
    tell_orphans()
    found = _due(rows, due)
    # in order, as the index has them: `exists()` may scan the whole table for what is not there
    if found.values_list("pk").first() is None:
        return []
    manager = rows.model._default_manager
    with commits("sweeping"):
        return skip_locked(
            found,
            batch or settings.SWEEP_BATCH,
            lambda ids: manager.filter(pk__in=ids).update(swept_until=_next_hand_out(due)),
        )


def is_anything_due(name: str, rows: models.QuerySet[M], due: str) -> bool:
    """Return whether a sweep of these rows would find one; where it would not, this is the sweep's heartbeat."""
    found = _due(rows, due).values_list("pk").first() is not None
    if not found:
        beat(name, Counter())
    return found


def _due(rows: models.QuerySet[M], due: str) -> models.QuerySet[M]:
    # the statement's start: an index cannot serve clock_timestamp(), which may differ from row to row
    now = Now()
    free = Q(swept_until__isnull=True) | Q(swept_until__lte=now)
    return rows.filter(free, **{f"{due}__lte": now}).order_by(due)


def _next_hand_out(due: str) -> RawSQL:
    """Return when a row is handed out again if nothing comes of it now; whatever is done with it forgets this.

    From the second time on at random: those that share a batch with a deadly one are not handed out beside it for ever.
    """
    return RawSQL(  # noqa: S611 - the name of a column of ours
        "now() + CASE WHEN swept_until IS NULL THEN %s "
        f'ELSE LEAST(GREATEST((now() - "{due}") / 2, %s), %s) * (0.5 + random()) END',
        [AGAIN, AGAIN, LONGEST_AGAIN],
    )


def each(name: str, ids: Iterable[Any], handle: Callable[[Any], str], *, before: Counts | None = None) -> Counts:
    """Hand each row to `handle` and count what it answers; one bad row stops no other. Then write the heartbeat.

    Args:
        name: the sweep's.
        ids: of the rows.
        handle: does what is due with one row, and says in a word what that was.
        before: what the sweep did already.
    """
    counts: Counts = Counter(before)
    counts.update(_careful(name, row_id, handle) for row_id in ids)
    beat(name, counts)
    return counts


def _careful(name: str, row_id: Any, handle: Callable[[Any], str]) -> str:
    try:
        return handle(row_id)
    except Exception as error:  # whatever one row raises, the others go on; it was marked, so it comes again later
        if is_interrupt(error):
            raise  # the process's time is up; the others come again as after any crash
        log.exception("%s: %s failed; it comes again later.", name, row_id)
        return "errors"


#: By what was done, and in which journal: one process may sweep a journal for each tenant.
_last_done: dict[tuple[str, tuple[str, str]], float] = {}


def beat(name: str, counts: Counts) -> None:
    """Say that the sweep is alive: one row, written at most once a minute by each process, as well as it can."""
    if not _is_time(name, BEAT_EVERY):
        return
    try:
        with commits("writing a heartbeat"):
            Heartbeat.objects.update_or_create(sweep=name, defaults={"at": ClockTimestamp(), "counts": dict(counts)})
    except (EffectsError, DatabaseError):
        log.exception("%s could not write its heartbeat; its work is done.", name)


def tell_orphans() -> None:
    """Log which rows this code cannot go on with, as an error each; they stop no other row, and neither does this."""
    if not _is_time("orphans", TELL_EVERY):
        return
    try:
        for found in list_orphans():
            log.error("%s %s %s", found.message, found.hint, found.error)
    except (EffectsError, DatabaseError):
        log.exception("It could not be told which rows this code cannot go on with.")


def _is_time(name: str, every: timedelta) -> bool:
    """Return whether this process did it in this journal longer ago than that, and remember that it does it now."""
    done = name, journal_place()
    if time.monotonic() - _last_done.get(done, float("-inf")) < every.total_seconds():
        return False
    _last_done[done] = time.monotonic()
    return True
