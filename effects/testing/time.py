"""Time in tests: the journal's instants move into the past, and due work is done here."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from django.apps import apps
from django.db import connections, models, transaction
from django.db.models import F

from effects.conf import settings
from effects.sweeps import SWEEPS

__all__ = ["passed", "run_due", "time_passes"]

#: More passes than any chain of hook, look-up, send and settle needs.
PASSES = 10
_passed = timedelta(0)


def time_passes(delta: timedelta) -> None:
    """Let `delta` pass for everything in the journal: leases, due times, windows, barriers, expiries.

    The one clock is the database's and cannot be turned, so every instant in the journal moves into the past instead;
    other processes and threads see it too.
    """
    with transaction.atomic(using=settings.DATABASE):
        with connections[settings.DATABASE].cursor() as cursor:
            # receipts are append-only; this is the door that retention uses
            cursor.execute("SET LOCAL effects.retention = 'on'")
        for model in apps.get_app_config("effects").get_models():
            instants = [field.name for field in model._meta.concrete_fields if isinstance(field, models.DateTimeField)]
            if instants:
                model._default_manager.update(**{name: F(name) - delta for name in instants})
        with connections[settings.DATABASE].cursor() as cursor:
            cursor.execute("SET LOCAL effects.retention = 'off'")
    global _passed  # noqa: PLW0603 - one clock for one process, as the journal is one
    _passed += delta


def passed() -> timedelta:
    """Return how much time has passed by `time_passes` in this process: what a fake provider reckons by."""
    return _passed


def run_due() -> dict[str, int]:
    """Do all that is due, as beat and the workers would, until nothing is; return what was done, by sweep and state."""
    done: Counter[str] = Counter()
    for _ in range(PASSES):
        found = {
            f"{name}.{what}": count
            for name, sweep in SWEEPS.items()
            for what, count in sweep.run_once().items()
            if count
        }
        if not found:
            break
        done.update(found)
    return dict(done)
