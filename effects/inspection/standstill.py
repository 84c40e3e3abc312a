"""What is due and nobody does: sweeps that never ran or stopped, and workers that take up nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.timezone import is_aware, localtime, make_aware

from effects.inspection.audit.promptness import SWEPT
from effects.journal.locks import now
from effects.models import Execution, Heartbeat

__all__ = ["LATE", "Standstill", "oldest_due", "standstill_of", "standstills"]

#: How long something may be due before people are told that nobody does it. Sweeps run every few seconds.
LATE = timedelta(minutes=5)
#: What does the work, for whoever has to start it.
START = (
    "Start `manage.py effects_sweep`, or Celery's beat and a worker for its queues; see the guide “Run the workers”. "
    "Nothing is lost meanwhile."
)


@dataclass(frozen=True)
class Standstill:
    """One sweep whose work has been due for longer than `LATE`.

    Attributes:
        sweep: its name.
        due_since: since when the oldest of it has been due.
        seen: the sweep's last sign of life; None: it never ran.
        at: when this was read, by the database's clock.
    """

    sweep: str
    due_since: datetime
    seen: datetime | None
    at: datetime

    @property
    def why(self) -> str:
        """What is known of the sweep, in a sentence."""
        if self.seen is None:
            return f"The sweep {self.sweep} has never run."
        if self.at - self.seen > LATE:
            return f"The sweep {self.sweep} has not run to its end since {_moment(self.seen)}."
        return (
            f"The sweep {self.sweep} runs, and what it finds is not done: no worker takes it, they are too few, or a "
            "process dies of it each time."
        )

    def __str__(self) -> str:
        return f"Something has been due since {_moment(self.due_since)}, and nobody does it. {self.why}"


def standstills() -> list[Standstill]:
    """Return the sweeps whose work waits for longer than `LATE`; none where nothing is due."""
    at = now()
    found = [(sweep, due) for sweep, due in oldest_due() if due is not None and due < at - LATE]
    if not found:
        return []
    seen = dict(Heartbeat.objects.values_list("sweep", "at"))
    return [Standstill(sweep, due, seen.get(sweep), at) for sweep, due in found]


def standstill_of(row: Any, at: datetime) -> Standstill | None:
    """Return what nobody does about one row, an execution or a request; no query while nothing of it is late.

    Args:
        row: as it was read.
        at: the database's clock then.
    """
    for sweep, watched in SWEPT.items():
        for _, rows, column in watched:
            due = getattr(row, column, None)
            if due is None or due >= at - LATE or not isinstance(row, rows().model):
                continue
            if _untroubled(rows()).filter(pk=row.pk).exists():
                seen = Heartbeat.objects.filter(sweep=sweep).values_list("at", flat=True).first()
                return Standstill(sweep, due, seen, at)
    return None


def oldest_due() -> Iterator[tuple[str, datetime | None]]:
    """Yield each sweep that must be prompt with the instant since when the oldest of its work waits, or is to come."""
    for sweep, watched in SWEPT.items():
        oldest = [
            _untroubled(rows()).exclude(**{column: None}).order_by(column).values_list(column, flat=True).first()
            for _, rows, column in watched
        ]
        yield sweep, min((due for due in oldest if due is not None), default=None)


def _untroubled(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Leave out what was worked on and failed: it backs off, and shows elsewhere."""
    return rows.filter(trouble_count=0) if rows.model is Execution else rows


def _moment(at: datetime) -> str:
    aware = at if is_aware(at) else make_aware(at)  # naive: USE_TZ is off
    return f"{localtime(aware):%Y-%m-%d %H:%M:%S %Z}"
