"""Renewal of the leases of running requests."""

from __future__ import annotations

import os
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest

from effects.http import leases
from effects.http.leases import Renewer
from effects.models import Request
from effects.testing import time_passes
from tests.core import racing
from tests.core.racing import held
from tests.http import does
from tests.http.conftest import Sender

pytestmark = pytest.mark.django_db(transaction=True)


def lease() -> Any:
    return Request.objects.get().lease_expires_at


def test_row_39_a_slow_handler_keeps_its_lease(send: Sender, in_thread: Any, settings: Any) -> None:
    """The thread renews what is held, and nothing that is not ours."""
    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    row = Request.objects.get()
    time_passes(timedelta(seconds=59))
    before = lease()
    settings.EFFECTS = {"REQUEST_LEASE": timedelta(seconds=60)}
    renewer = Renewer()
    renewer._held[row.pk] = row.epoch, ""
    assert renewer.renew() == 1
    assert lease() - before > timedelta(seconds=50)
    renewer._held[row.pk] = row.epoch + 1, ""
    assert renewer.renew() == 0
    does.gate.opened.set()
    assert first().status_code == 200


def test_row_39_renewal_ends_at_the_limit(send: Sender, in_thread: Any) -> None:
    """Past `HANDLER_MAX` a lease is not pushed further, so another can take over."""
    first = in_thread(send, "/declared/api/", do="hold")
    assert does.gate.entered.wait(10)
    row = Request.objects.get()
    time_passes(timedelta(minutes=11))
    renewer = Renewer()
    renewer._held[row.pk] = row.epoch, ""
    renewer.renew()
    assert send("/declared/api/", do="hold").status_code == 200
    does.gate.opened.set()
    assert first().status_code == 503
    assert len(does.calls) == 2


def test_the_thread_renews_by_itself(send: Sender, in_thread: Any, settings: Any) -> None:
    """Every third of the lease, until it is stopped."""
    settings.EFFECTS = {"REQUEST_LEASE": timedelta(milliseconds=150)}
    renewed = threading.Event()

    class Watching(Renewer):
        def renew(self) -> int:
            count = super().renew()
            if count:
                renewed.set()
            return count

    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    row = Request.objects.get()
    renewer = Watching()
    renewer.hold(row.pk, row.epoch)
    assert renewed.wait(10)
    renewer.let_go(row.pk)
    renewer.stop()
    assert renewer._thread is not None
    assert not renewer._thread.is_alive()
    does.gate.opened.set()
    first()


def test_a_handler_that_holds_its_own_request_costs_no_other_its_lease(send: Sender, in_thread: Any) -> None:
    """`perform_later` in a long transaction locks the request; the renewal of all the others does not wait for it."""
    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    row = Request.objects.get()
    other = Request.objects.get(pk=row.pk)
    other.pk, other.binding, other.key = uuid.uuid4(), "b" * 64, "other"
    other.save(force_insert=True)
    renewer = Renewer()
    renewer._held.update({row.pk: (row.epoch, ""), other.pk: (other.epoch, "")})
    with held("effects_request", row.pk):
        thread, renewed = racing.in_thread(renewer.renew)
        thread.join(racing.PATIENCE)
        assert renewed == [1]
    does.gate.opened.set()
    assert first().status_code == 200


def test_a_failed_renewal_is_logged_and_goes_on(caplog: pytest.LogCaptureFixture, settings: Any) -> None:
    """The next round may succeed."""
    from django.db import connection

    renewer = Renewer()
    renewer._held[uuid.uuid4()] = 1, ""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE effects_request RENAME TO elsewhere")
    try:
        assert renewer.renew() == 0
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO effects_request")
    assert "could not be renewed" in caplog.text


class Counting(Renewer):
    """Says when its thread runs; the first one ends at once where a test says so."""

    def __init__(self, *, dies: bool = False) -> None:
        super().__init__()
        self.runs = threading.Semaphore(0)
        self._dies = dies

    def _run(self) -> None:
        self.runs.release()
        if self._dies:
            self._dies = False
            return
        super()._run()


def test_a_thread_that_died_is_replaced_with_the_next_request() -> None:
    """Whatever ended it, the requests that come are renewed."""
    renewer = Counting(dies=True)
    renewer.hold(uuid.uuid4(), 1)
    assert renewer._thread is not None
    renewer._thread.join(10)
    renewer.hold(uuid.uuid4(), 1)
    assert renewer.runs.acquire(timeout=10)
    assert renewer.runs.acquire(timeout=10)
    assert renewer._thread.is_alive()
    renewer.hold(uuid.uuid4(), 1)
    renewer.stop()
    assert not renewer.runs.acquire(blocking=False)


def test_a_process_that_may_start_no_thread_serves_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the next request tries again."""

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    renewer = Counting()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        renewer.hold(uuid.uuid4(), 1)
    assert "leases are not renewed" in caplog.text
    renewer.hold(uuid.uuid4(), 1)
    assert renewer.runs.acquire(timeout=10)
    renewer.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_worker_has_a_thread_of_its_own() -> None:
    """What the parent held, and its lock, stay with the parent."""
    parent = leases._renewer
    parent._held[uuid.uuid4()] = 1, ""
    read, write = os.pipe()
    with parent._lock:
        pid = os.fork()
        if pid == 0:
            fresh = leases._renewer
            ok = fresh is not parent and not fresh._held and fresh._lock.acquire(timeout=1)
            os.write(write, b"1" if ok else b"0")
            os._exit(0)
    os.waitpid(pid, 0)
    parent._held.clear()
    assert os.read(read, 1) == b"1"
    os.close(read)
    os.close(write)
