"""The beat schedule, and how hints reach Celery's workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

__all__ = ["beat_schedule", "publish"]

#: How often each sweep runs where nothing else is asked for.
EVERY = {
    "expire_leases": timedelta(seconds=5),
    "look_up_due": timedelta(seconds=5),
    "run_due": timedelta(seconds=5),
    "settle_requests": timedelta(seconds=10),
    "run_hooks": timedelta(seconds=10),
    "expire_approvals": timedelta(seconds=30),
    "send_notices": timedelta(seconds=10),
    "prune": timedelta(minutes=1),
}
#: Bounds what piles up while no worker runs. The worker compares beat's clock with its own, so it exceeds any skew.
EXPIRES = timedelta(hours=1)
#: How long a caller waits for a broker; the sweep finds the row anyway.
PATIENCE = timedelta(seconds=1)


def beat_schedule(**every: timedelta) -> dict[str, dict[str, Any]]:
    """Return the entries for `app.conf.beat_schedule`.

    Args:
        every: another period for a sweep, by its name: `beat_schedule(look_up_due=timedelta(seconds=1))`.

    Raises:
        TypeError: a name that is no sweep.
    """
    unknown = sorted(set(every) - set(EVERY))
    if unknown:
        raise TypeError(f"beat_schedule() knows {', '.join(EVERY)}; not {', '.join(unknown)}")
    return {
        f"effects-{name.replace('_', '-')}": {
            "task": f"effects.{name}",
            "schedule": period,
            "options": {"expires": EXPIRES.total_seconds()},
        }
        for name, period in {**EVERY, **every}.items()
    }


def publish(execution_id: str) -> None:
    """Publish the hint that an execution is due to be sent; what the broker raises is the caller's."""
    from effects.tasks import run_execution  # noqa: PLC0415 - the schedule is read before apps are loaded

    with run_execution.app.producer_or_acquire() as producer:
        # publishing alone waits some seconds for a broker that is away, whatever `retry` says
        producer.connection.ensure_connection(max_retries=1, interval_start=0, timeout=PATIENCE.total_seconds())
        run_execution.apply_async((execution_id,), producer=producer, retry=False)
