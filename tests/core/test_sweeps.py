"""Sweeps: bounded batches, oldest first, each row handed out once, and one bad row stops no other."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, models
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import effects
from effects import sweeps, transitions
from effects.journal.commits import journal_place
from effects.models import Execution, Heartbeat, Receipt
from effects.sweeps import SWEEPS, _batches
from effects.testing import provider_says, time_passes
from tests.core.declared import Charge, Order
from tests.core.people import PAYLOAD
from tests.core.racing import PATIENCE, held, in_thread, second_connection, together

pytestmark = pytest.mark.django_db


def pending(count: int) -> list[str]:
    """Record executions that are due, the first one longest; return their keys."""
    for number in range(count):
        effects.perform_later(Charge, payload=PAYLOAD, key=f"k{number}")
        time_passes(timedelta(seconds=1))
    return [f"k{number}" for number in range(count)]


def keys(ids: list[str]) -> list[str]:
    """Return the keys of executions, in the same order."""
    by_id = {str(row.pk): row.key for row in Execution.objects.all()}
    return [by_id[each] for each in ids]


def test_a_batch_is_bounded_and_begins_with_the_oldest() -> None:
    """Five thousand rows due after an outage are no stampede."""
    pending(5)
    published: list[str] = []
    sweeps.run_due.run_once(2, published.append)
    assert keys(published) == ["k0", "k1"]
    sweeps.run_due.run_once(2, published.append)
    assert keys(published) == ["k0", "k1", "k2", "k3"]


def test_a_row_that_was_handed_out_is_left_alone_for_a_while_and_comes_again() -> None:
    """A lost message costs half a minute; a slow one is not doubled."""
    pending(1)
    published: list[str] = []
    for _ in range(3):
        sweeps.run_due.run_once(publish=published.append)
    assert len(published) == 1
    time_passes(_batches.AGAIN)
    sweeps.run_due.run_once(publish=published.append)
    assert len(published) == 2


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_with_nothing_due_only_asks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each kind of row, no lock, no write, no transaction."""
    done = [(what, journal_place()) for what in (name, "orphans")]
    monkeypatch.setattr(_batches, "_last_done", dict.fromkeys(done, time.monotonic()))
    with CaptureQueriesContext(connection) as asked:
        assert not +SWEEPS[name].run_once()
    assert len(asked) <= 2
    for query in asked:
        assert query["sql"].startswith("SELECT ")
        assert "FOR " not in query["sql"]


@pytest.mark.parametrize("publish", [False, True])
def test_one_row_that_always_raises_stops_no_other_and_comes_again(
    monkeypatch: pytest.MonkeyPatch, publish: bool
) -> None:
    """Whether it is handled here or the broker refuses it."""
    pending(3)
    handled: list[str] = []

    def handle(execution_id: Any) -> Any:
        handled.append(str(execution_id))
        if len(set(handled)) == 2 and str(execution_id) == handled[1]:
            raise ZeroDivisionError("bug")
        return Execution.objects.get(pk=execution_id)

    monkeypatch.setattr("effects.runtime.background.run", handle)
    counts = sweeps.run_due.run_once(publish=handle if publish else None)
    assert keys(handled) == ["k0", "k1", "k2"]
    assert counts["errors"] == 1
    time_passes(_batches.AGAIN)
    sweeps.run_due.run_once(publish=handle if publish else None)
    assert keys(handled).count("k1") == 2


def test_an_effect_that_is_gone_stops_no_other() -> None:
    """A deploy forgot it: its row stays, is logged each time, and the others are sent."""
    pending(2)
    Execution.objects.filter(key="k0").update(operation="bank.gone")
    with provider_says(Charge, effects.Applied()):
        counts = sweeps.run_due.run_once()
    assert counts == {"errors": 1, "completed": 1}
    assert Execution.objects.get(key="k0").state == "pending"


def test_expired_leases_and_lost_look_ups_are_found() -> None:
    """A look-up's lease just ends: the row is due again when it does."""
    with provider_says(Order, TimeoutError()):
        effects.perform(Order, payload=PAYLOAD, key="k1")
    row = Execution.objects.get()
    transitions.claim(row.pk)
    with provider_says(Order, look_up=effects.Found("ch_1")) as said:
        sweeps.look_up_due.run_once()
        assert said.look_ups == []
        time_passes(timedelta(minutes=1))
        sweeps.look_up_due.run_once()
    row.refresh_from_db()
    assert row.state == "completed"


def test_a_sweep_says_that_it_is_alive_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row a sweep; a sweep that stopped shows by its age."""
    monkeypatch.setattr(_batches, "_last_done", {})
    for _ in range(2):
        for sweep in SWEEPS.values():
            sweep.run_once()
    assert set(Heartbeat.objects.values_list("sweep", flat=True)) == set(SWEEPS)
    beat = Heartbeat.objects.get(sweep="run_due")
    assert timezone.now() - beat.at < timedelta(minutes=1)
    pending(1)
    sweeps.run_due.run_once(publish=lambda execution_id: None)
    assert Heartbeat.objects.get(sweep="run_due").at == beat.at - timedelta(seconds=1)
    monkeypatch.setattr(_batches, "_last_done", {})
    time_passes(_batches.AGAIN)
    sweeps.run_due.run_once(publish=lambda execution_id: None)
    assert Heartbeat.objects.get(sweep="run_due").counts == {"published": 1}


def test_the_command_does_one_pass_of_all_sweeps() -> None:
    """For cron; it prints what it did, and nothing where nothing was due."""
    pending(2)
    with provider_says(Charge, effects.Applied()):
        output = StringIO()
        call_command("effects_sweep", batch=1, stdout=output)
        assert "run_due: {'completed': 1}" in output.getvalue()
        call_command("effects_sweep", stdout=output)
    assert set(Execution.objects.values_list("state", flat=True)) == {"completed"}
    output = StringIO()
    call_command("effects_sweep", stdout=output)
    assert output.getvalue() == ""
    call_command("effects_sweep", stdout=output, verbosity=2)
    assert "look_up_due: nothing due" in output.getvalue()


# -- races ---------------------------------------------------------------------------------------------------------


def race() -> list[str]:
    """Let three sweeps take the same three rows at one instant; return all that they published."""
    published: list[str] = []
    results = together(*[lambda: sweeps.run_due.run_once(publish=published.append)] * 3)
    assert not [result for result in results if isinstance(result, Exception)]
    return published


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_one_instant_hand_each_row_out_once() -> None:
    """Two beats, a beat and a cron job: SKIP LOCKED and the mark in one commit."""
    everything = pending(3)
    assert sorted(keys(race())) == everything


@pytest.mark.django_db(transaction=True)
def test_without_skip_locked_rows_are_handed_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: sweeps that read without a lock, and then mark, take the same rows."""
    everybody_has_read = threading.Barrier(3)

    def unlocked(due: models.QuerySet[Any], limit: int, push: Any) -> list[Any]:
        ids = list(due.values_list("pk", flat=True)[:limit])
        everybody_has_read.wait(PATIENCE)
        push(ids)
        return ids

    monkeypatch.setattr(_batches, "skip_locked", unlocked)
    everything = pending(3)
    assert sorted(keys(race())) == sorted(everything * 3)


@pytest.mark.django_db(transaction=True)
def test_a_sweep_does_not_wait_for_a_row_that_somebody_works_on() -> None:
    """It is skipped, and comes with the next sweep."""
    pending(2)
    busy = Execution.objects.get(key="k0")
    published: list[str] = []
    with held("effects_execution", busy.pk):
        sweeps.run_due.run_once(publish=published.append)
    assert keys(published) == ["k1"]
    sweeps.run_due.run_once(publish=published.append)
    assert keys(published) == ["k1", "k0"]


@pytest.mark.django_db(transaction=True)
def test_a_sweep_overtaken_by_the_next_sends_nothing_twice() -> None:
    """The first one is stuck in a provider's call when the second comes: each row is sent once."""
    pending(3)
    in_call, go_on = threading.Event(), threading.Event()

    def slow(context: Any, permit: Any) -> Any:
        if context.key == "k0":
            in_call.set()
            assert go_on.wait(PATIENCE)
        return effects.Applied()

    with provider_says(Charge, slow) as said:
        thread, result = in_thread(sweeps.run_due.run_once)
        assert in_call.wait(PATIENCE)
        Execution.objects.update(swept_until=None)
        assert sweeps.run_due.run_once() == {"completed": 2}
        go_on.set()
        thread.join(PATIENCE)
    assert result[0]["completed"] == 3
    assert sorted(context.key for context, _ in said.sends) == ["k0", "k1", "k2"]
    assert Receipt.objects.filter(event="permit").count() == 3


@pytest.mark.django_db(transaction=True)
def test_the_command_outlives_a_broken_connection(caplog: pytest.LogCaptureFixture) -> None:
    """With `--every` it goes on: the database's restart ends no sweeping for ever."""
    pending(1)
    time_passes(timedelta(seconds=1))

    def stop(context: Any, permit: Any) -> Any:
        raise KeyboardInterrupt

    connection.ensure_connection()
    with second_connection() as second:
        second.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    with provider_says(Charge, stop), pytest.raises(KeyboardInterrupt):
        call_command("effects_sweep", every=0.01)
    assert "the next pass tries again" in caplog.text
    assert Execution.objects.get().reason == "interrupted"
