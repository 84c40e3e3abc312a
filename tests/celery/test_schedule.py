"""The beat schedule and the tasks that it names."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import current_app

from effects import tasks
from effects.celery import EVERY, beat_schedule
from effects.sweeps import SWEEPS


def test_every_sweep_is_scheduled_and_every_entry_is_a_task() -> None:
    """Names are what workers know tasks by, so they never change."""
    assert set(EVERY) == set(SWEEPS)
    entries = beat_schedule()
    assert {entry["task"] for entry in entries.values()} == {f"effects.{name}" for name in SWEEPS}
    assert {entry["task"] for entry in entries.values()} < set(current_app.tasks)
    assert {f"effects.{name}" for name in tasks.__all__} <= set(current_app.tasks)


def test_periods_can_be_said() -> None:
    """By the sweep's name."""
    entries = beat_schedule(look_up_due=timedelta(seconds=1))
    assert entries["effects-look-up-due"]["schedule"] == timedelta(seconds=1)
    assert entries["effects-run-due"]["schedule"] == EVERY["run_due"]


def test_a_sweep_that_does_not_exist_is_an_error() -> None:
    """It would never run."""
    with pytest.raises(TypeError, match="look_ups_due"):
        beat_schedule(look_ups_due=timedelta(seconds=1))


def test_a_worker_whose_clock_is_ten_minutes_off_still_sweeps() -> None:
    """The worker compares an entry's expiry, by beat's clock, with its own clock."""
    assert all(entry["options"]["expires"] > 600 for entry in beat_schedule().values())
