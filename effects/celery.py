"""The beat schedule, and how hints reach Celery's workers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

__all__ = ["beat_schedule", "publish", "quieten"]

#: How often each sweep runs where nothing else is asked for: an index answers what is due.
EVERY = {
    "expire_leases": timedelta(seconds=5),
    "expire_approvals": timedelta(seconds=5),
    "look_up_due": timedelta(seconds=5),
    "run_due": timedelta(seconds=5),
    "run_hooks": timedelta(seconds=5),
    "settle_requests": timedelta(seconds=5),
    "send_notices": timedelta(seconds=5),
    "prune": timedelta(minutes=1),
}
#: Bounds what piles up while no worker runs. The worker compares beat's clock with its own, so it exceeds any skew.
EXPIRES = timedelta(hours=1)
#: How long a caller waits for a broker; the sweep finds the row anyway.
PATIENCE = timedelta(seconds=1)


def beat_schedule(**every: timedelta) -> dict[str, dict[str, Any]]:
    """Return the entries for `app.conf.beat_schedule`: one for all sweeps of one period.

    Args:
        every: another period for a sweep, by its name: `beat_schedule(look_up_due=timedelta(seconds=1))`.

    Raises:
        TypeError: a name that is no sweep.
    """
    unknown = sorted(set(every) - set(EVERY))
    if unknown:
        raise TypeError(f"beat_schedule() knows {', '.join(EVERY)}; not {', '.join(unknown)}")
    together: dict[timedelta, list[str]] = {}
    for name, period in {**EVERY, **every}.items():
        together.setdefault(period, []).append(name)
    return {
        f"effects-{names[0].replace('_', '-')}" if len(names) == 1 else f"effects-sweep-{period.total_seconds():g}s": {
            "task": "effects.sweep",
            "schedule": period,
            "args": (names,),
            "options": {"expires": EXPIRES.total_seconds()},
        }
        for period, names in together.items()
    }


class _Quiet(logging.Filter):
    """Drops what Celery says at INFO of each run of a task; at DEBUG it is said."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self._task = task

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        said = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
        return self._task not in said


def quieten(task: str) -> None:
    """Let Celery's beat and workers say nothing of a task that is sent, received and done all the time."""
    for name in ("celery.beat", "celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).addFilter(_Quiet(task))


def publish(execution_id: str) -> None:
    """Publish the hint that an execution is due to be sent; what the broker raises is the caller's."""
    from effects.tasks import run_execution  # noqa: PLC0415 - the schedule is read before apps are loaded

    with run_execution.app.producer_or_acquire() as producer:
        # publishing alone waits some seconds for a broker that is away, whatever `retry` says
        producer.connection.ensure_connection(max_retries=1, interval_start=0, timeout=PATIENCE.total_seconds())
        run_execution.apply_async((execution_id,), producer=producer, retry=False)
