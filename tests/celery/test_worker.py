"""A real worker and a real beat on a real Redis: a message is a hint, the row is the truth."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from celery import Celery, current_app
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.db.models.functions import Now

import effects
from effects import tasks
from effects.celery import publish
from effects.models import Execution, Heartbeat, Receipt
from effects.sweeps import _batches
from effects.testing import run_due
from project.services.processes import Process, Processes
from tests.celery.effects import LEDGER, Push, provider

PATIENCE = timedelta(seconds=20)


@pytest.fixture
def ledger(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The provider, with an empty ledger."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    with provider() as client:
        client.delete(LEDGER)
        yield client
        client.delete(LEDGER)


@pytest.fixture
def queue(redis_url: str, settings: Any) -> Iterator[str]:
    """Publish to a queue of this test's own in the real Redis; its prefix."""
    yield from _publishing(redis_url, settings, prefix=f"tests:{os.getpid()}:")


@pytest.fixture
def no_broker(settings: Any) -> Iterator[str]:
    """Publish to a port that nobody listens on."""
    yield from _publishing("redis://127.0.0.1:1/0", settings, prefix="")


def _publishing(url: str, settings: Any, prefix: str) -> Iterator[str]:
    settings.EFFECTS = {"DISPATCH": "celery"}
    before = current_app._get_current_object()
    app = Celery("publisher", broker=url)
    app.conf.broker_transport_options = {"global_keyprefix": prefix}
    app.set_current()
    yield prefix
    app.close()
    before.set_current()


@pytest.fixture
def worker(transactional_db: None, queue: str, redis_url: str, processes: Processes) -> Iterator[Process]:
    """A worker and a beat, as a project runs them."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    environ = {
        "DATABASE_URL": url, "REDIS_URL": redis_url, "CELERY_KEY_PREFIX": queue,
        "DJANGO_SETTINGS_MODULE": "tests.celery.settings",
    }  # fmt: skip
    celery = [sys.executable, "-m", "celery", "-A", "tests.celery.app"]
    where = {"env": environ, "cwd": Path(django_settings.BASE_DIR)}
    schedule = processes.make_directory("effects-beat-") / "schedule"
    beat = processes.start("beat", [*celery, "beat", "-l", "info", "-s", str(schedule)], **where)
    started = processes.start(
        "worker",
        [*celery, "worker", "-l", "info", "-c", "2", "--without-gossip", "--without-mingle"],
        polite=signal.SIGQUIT,  # it is idle by then
        **where,
    )
    started.wait_until(lambda: started.logged("ready."), within=60)
    yield started
    processes.stop_one(beat)
    processes.stop_one(started)


def later(key: str, *, lost: bool = False) -> Execution:
    """Record a push that a worker is to send."""
    with transaction.atomic():
        outcome = effects.perform_later(Push, payload={"lost": lost}, key=key)
    return Execution.objects.get(pk=outcome.ref)


def sends(ledger: Any, row: Execution) -> int:
    """Return how often a push reached the provider."""
    return int(ledger.lrange(LEDGER, 0, -1).count(row.provider_key))


def test_a_worker_and_a_beat_finish_what_is_due(worker: Process, ledger: Any, settings: Any) -> None:
    """Hints, doubled and late messages, rows without a hint, doubt: each push reaches the provider once."""
    hinted = later("hinted")
    for _ in range(5):
        publish(str(hinted.pk))
    assert isinstance(effects.wait(hinted.pk, PATIENCE), effects.Completed)
    handled = worker.log.read_text().count("effects.run_execution")
    for _ in range(3):
        publish(str(hinted.pk))  # late
    publish("00000000-0000-0000-0000-000000000000")  # of a row that is gone

    settings.EFFECTS = {"DISPATCH": "none"}
    lost, unhinted = later("lost", lost=True), later("unhinted")
    for row, reason in ((unhinted, "sent"), (lost, "found")):
        assert isinstance(effects.wait(row.pk, PATIENCE), effects.Completed)
        assert effects.get(row.pk).reason == reason
    # each message is logged when it is received and when it is done
    worker.wait_until(lambda: worker.log.read_text().count("effects.run_execution") >= handled + 8)
    assert "Task effects.sweep" not in worker.log.read_text()  # it runs all the time, and is not said
    assert [sends(ledger, row) for row in (hinted, lost, unhinted)] == [1, 1, 1]
    assert Receipt.objects.filter(event="permit").count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_message_holds_nothing_but_an_id(queue: str, ledger: Any) -> None:
    """Whatever the payload is, a broker that others read learns the execution's ref alone."""
    with transaction.atomic():
        outcome = effects.perform_later(Push, payload={"lost": False, "note": "canary-4111"}, key="canary-key")
    values = [
        str(ledger.lrange(name, 0, -1))
        for name in ledger.scan_iter(f"{queue}*")
        if ledger.type(name) in (b"list", "list")
    ]
    assert [value for value in values if outcome.ref in value]
    bodies = [base64.b64decode(body).decode() for value in values for body in re.findall(r'"body": ?"([^"]+)"', value)]
    assert bodies
    for body in [*values, *bodies]:
        assert "canary" not in body


@pytest.mark.django_db(transaction=True)
def test_while_the_broker_is_away_work_is_recorded_and_a_sweep_finds_it(no_broker: str, ledger: Any) -> None:
    """The commit is not undone by a hint that fails, and does not wait for long."""
    began = time.monotonic()
    rows = [later(f"k{number}") for number in range(3)]
    assert time.monotonic() - began < 4  # a publisher left to itself waits that long for each
    assert {row.state for row in rows} == {"pending"}
    run_due()
    for row in rows:
        row.refresh_from_db()
        assert (row.state, sends(ledger, row)) == ("completed", 1)


@pytest.mark.django_db
def test_a_sweep_whose_broker_goes_away_leaves_its_rows_for_the_next(no_broker: str, ledger: Any) -> None:
    """They were marked, not sent: half a minute later they come again."""
    row = later("k1")
    tasks.run_due()
    row.refresh_from_db()
    assert (row.state, sends(ledger, row)) == ("pending", 0)
    assert row.swept_until is not None


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(set(tasks.__all__) - {"run_execution", "look_up", "sweep"}))
def test_every_sweep_task_runs_without_arguments(name: str) -> None:
    """That is how `effects.sweep` and schedules of a project call it."""
    getattr(tasks, name)()


@pytest.mark.django_db(transaction=True)
def test_one_task_sweeps_for_all_and_hands_out_what_takes_long(
    queue: str, ledger: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep that fails stops no other; one that runs the project's code is published where it has something to do."""
    monkeypatch.setattr(_batches, "_last_done", {})
    row = later("due")
    ledger.delete(f"{queue}celery")
    monkeypatch.setattr("effects.sweeps.expire_leases.run_once", lambda: 1 / 0)
    tasks.sweep(["expire_leases", "run_hooks", "a_later_sweep", "run_due"])
    assert [record.message.split()[0] for record in caplog.records] == ["expire_leases", "a_later_sweep"]
    (message,) = ledger.lrange(f"{queue}celery", 0, -1)
    assert str(row.pk) in json.loads(message)["headers"]["argsrepr"]

    ledger.delete(f"{queue}celery")
    Execution.objects.update(
        hook_due_at=Now(),
        due_at=None,
        state="failed",
        reason="declined",
        settled_at=Now(),
        ages_from=Now(),
        swept_until=None,
    )
    tasks.sweep(["run_hooks", "run_due"])
    (message,) = ledger.lrange(f"{queue}celery", 0, -1)
    assert json.loads(message)["headers"]["task"] == "effects.run_hooks"
    assert set(Heartbeat.objects.values_list("sweep", flat=True)) == {"run_hooks", "run_due"}
    tasks.sweep(["run_hooks"])
    assert Execution.objects.get().hook_due_at is None


@pytest.mark.django_db
def test_a_time_limit_ends_the_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's time is up: what is left comes with the next run."""

    def too_long() -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr("effects.sweeps.expire_leases.run_once", too_long)
    with pytest.raises(SoftTimeLimitExceeded):
        tasks.sweep(["expire_leases", "run_due"])
    assert not Heartbeat.objects.exists()
