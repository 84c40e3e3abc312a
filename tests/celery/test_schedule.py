"""The beat schedule and the tasks that it names."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import current_app

from effects import tasks
from effects.celery import EVERY, beat_schedule
from effects.sweeps import SWEEPS


def test_every_sweep_is_scheduled_once_and_every_entry_is_a_task() -> None:
    """Names are what workers know tasks by, so they never change."""
    assert set(EVERY) == set(SWEEPS)
    entries = beat_schedule()
    assert sorted(name for entry in entries.values() for name in entry["args"][0]) == sorted(SWEEPS)
    assert {entry["task"] for entry in entries.values()} == {"effects.sweep"}
    assert {f"effects.{name}" for name in tasks.__all__} <= set(current_app.tasks)


def test_an_idle_system_has_less_than_one_task_in_four_seconds() -> None:
    """Every task of an idle system comes from beat: what runs the project's code is handed out where it is due."""
    assert sum(1 / entry["schedule"].total_seconds() for entry in beat_schedule().values()) < 0.25


def test_periods_can_be_said() -> None:
    """By the sweep's name; those of one period share a task."""
    second = timedelta(seconds=1)
    entries = beat_schedule(look_up_due=second)
    assert entries["effects-look-up-due"]["schedule"] == second
    assert "look_up_due" not in entries["effects-sweep-5s"]["args"][0]
    assert set(beat_schedule(**dict.fromkeys(SWEEPS, second))) == {"effects-sweep-1s"}
    assert beat_schedule(look_up_due=second, run_due=second)["effects-sweep-1s"]["args"] == (
        ["look_up_due", "run_due"],
    )


def test_a_sweep_that_does_not_exist_is_an_error() -> None:
    """It would never run."""
    with pytest.raises(TypeError, match="look_ups_due"):
        beat_schedule(look_ups_due=timedelta(seconds=1))


def test_a_worker_whose_clock_is_ten_minutes_off_still_sweeps() -> None:
    """The worker compares an entry's expiry, by beat's clock, with its own clock."""
    assert all(entry["options"]["expires"] > 600 for entry in beat_schedule().values())
