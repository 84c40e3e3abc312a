"""Celery's tasks: shells around `background` and the sweeps. A message is a hint, the row is the truth.

No ETA, no result backend, no named lock: lost, doubled, late and reordered messages, and two beats, change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from celery import shared_task

from effects import sweeps
from effects.celery import EXPIRES, quieten
from effects.journal.logs import get_logger
from effects.runtime import background
from effects.vocabulary.failures import is_interrupt

__all__ = [
    "expire_approvals",
    "expire_leases",
    "look_up",
    "look_up_due",
    "prune",
    "run_due",
    "run_execution",
    "run_hooks",
    "send_notices",
    "settle_requests",
    "sweep",
]

log = get_logger("effects.reconcilers")


@shared_task(name="effects.run_execution", ignore_result=True)
def run_execution(execution_id: str) -> None:
    """Send one execution if it is pending, due and licensed."""
    background.run(UUID(execution_id))


@shared_task(name="effects.look_up", ignore_result=True)
def look_up(execution_id: str) -> None:
    """Look up one execution in doubt if it is due."""
    background.look_up(UUID(execution_id))


@shared_task(name="effects.sweep", ignore_result=True)
def sweep(names: Sequence[str]) -> None:
    """Run several sweeps, one after the other; what one of them raises stops no other.

    Those that run the project's code are handed to a task of their own, and only where they have something to do: so
    none holds up another, and an idle system has one task for all of them.
    """
    for name in names:
        _sweep(name, alone=len(names) == 1)


def _sweep(name: str, *, alone: bool) -> None:
    try:
        task = _TASKS[name]
        if alone or name not in sweeps.LONG:
            task()
        elif sweeps.LONG[name]():
            task.apply_async(expires=EXPIRES.total_seconds())
    except Exception as error:  # the database is away, say: the next pass may find it again
        if is_interrupt(error):
            raise
        log.exception("%s failed; the next pass tries again.", name)


@shared_task(name="effects.expire_leases", ignore_result=True)
def expire_leases() -> None:
    """Put the sends of dead processes in doubt, close the requests of lost handlers."""
    sweeps.expire_leases.run_once()


@shared_task(name="effects.run_due", ignore_result=True)
def run_due() -> None:
    """Hand out pending executions that are due."""
    sweeps.run_due.run_once(publish=run_execution.delay)


@shared_task(name="effects.look_up_due", ignore_result=True)
def look_up_due() -> None:
    """Hand out executions in doubt that are due for a look-up."""
    sweeps.look_up_due.run_once(publish=look_up.delay)


@shared_task(name="effects.expire_approvals", ignore_result=True)
def expire_approvals() -> None:
    """End approvals that nobody decided or used in time."""
    sweeps.expire_approvals.run_once()


@shared_task(name="effects.settle_requests", ignore_result=True)
def settle_requests() -> None:
    """Answer requests whose executions have settled."""
    sweeps.settle_requests.run_once()


@shared_task(name="effects.run_hooks", ignore_result=True)
def run_hooks() -> None:
    """Run settled hooks that stayed due."""
    sweeps.run_hooks.run_once()


@shared_task(name="effects.send_notices", ignore_result=True)
def send_notices() -> None:
    """Tell people what they have to decide or to know."""
    sweeps.send_notices.run_once()


@shared_task(name="effects.prune", ignore_result=True)
def prune() -> None:
    """Drop what is past its retention."""
    sweeps.prune.run_once()


_TASKS = {name: globals()[name] for name in sweeps.SWEEPS}
quieten(sweep.name)
