"""Requests that race for one key."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import transaction

from effects import transitions
from effects.models import Request
from effects.transitions import _opening
from tests.core.racing import PATIENCE, in_thread, together, wait_until_blocked
from tests.core.test_requests import OK, again, opened, opening

pytestmark = pytest.mark.django_db(transaction=True)


class Uncommitted:
    """A transactional request that is opened in another thread and not committed before the test says so."""

    def __init__(self) -> None:
        self.opened, self.go_on = threading.Event(), threading.Event()
        self.thread, self.result = in_thread(self.run)
        assert self.opened.wait(PATIENCE)

    def run(self) -> None:
        with transaction.atomic():
            first = transitions.open_request(opening(mode="transactional"), joins=True)
            self.opened.set()
            self.go_on.wait(PATIENCE)
            transitions.freeze(first, OK)

    def commit(self) -> None:
        self.go_on.set()
        self.thread.join(PATIENCE)


@pytest.fixture
def uncommitted() -> Any:
    """The first request, on its way."""
    first = Uncommitted()
    yield first
    first.commit()


@pytest.mark.parametrize("joins", [False, True])
def test_a_duplicate_of_what_is_not_committed_learns_busy_at_once(uncommitted: Uncommitted, joins: bool) -> None:
    """The advisory lock is tried, never waited for; after the commit the duplicate finds the answer."""
    with transaction.atomic() if joins else threading.Lock():
        duplicate = transitions.open_request(opening(), joins=joins)
    assert (duplicate.made, duplicate.request) == (False, None)
    uncommitted.commit()
    found = transitions.open_request(opening())
    assert found.request is not None
    assert found.request.state == "answered"


def test_without_the_advisory_lock_a_duplicate_would_wait(
    uncommitted: Uncommitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: with a lock of its own it is stopped by the unique key alone, for as long as the first one takes."""
    monkeypatch.setattr(_opening, "LOCK_CLASS", 1)
    thread, result = in_thread(lambda: transitions.open_request(opening()))
    wait_until_blocked()
    assert result == []
    uncommitted.commit()
    thread.join(PATIENCE)
    assert result[0].request.state == "answered"


def test_twenty_at_once_make_one_request() -> None:
    """The others find it or learn that it is busy."""
    results = together(*[lambda: transitions.open_request(opening())] * 20)
    assert [result.made for result in results].count(True) == 1
    assert Request.objects.count() == 1


def test_a_sweep_and_a_retry_close_a_lost_request_once() -> None:
    """Both find the lease past at one instant."""
    request = opened()
    Request.objects.update(lease_expires_at=request.created_at)
    together(*[lambda: transitions.abort(request.pk, epoch=None)] * 2)
    assert again(request).state == "released"
    assert [receipt.event for receipt in request.receipts.order_by("sequence")] == ["open", "release"]
