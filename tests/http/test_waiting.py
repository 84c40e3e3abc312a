"""Row 10 of the HTTP contract with `wait=`: a bounded wait, a few looks, no transaction held meanwhile."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.http.replay import Decision, InProgress, Replay, begin
from effects.transitions import Opened, Opening
from tests.http import does
from tests.http.conftest import Sender

pytestmark = pytest.mark.django_db(transaction=True)
OPENING = Opening(
    operation="waiting", mode="journaled", tenant="", subject="user:1", scope="", key="k", fingerprint={"body": "d"},
    fingerprint_version=1, declared=None, local_writes=False,
)  # fmt: skip


class Waiter:
    """A duplicate that waits, and tells when it has looked."""

    def __init__(self, wait: timedelta) -> None:
        self.wait, self.looks, self.looked_thrice = wait, 0, threading.Event()

    def __call__(self) -> Decision:
        return begin(OPENING, compare=lambda version, stored: [], wait=self.wait, open_request=self._look)

    def _look(self, opening: Opening) -> Opened:
        opened = transitions.open_request(opening)
        self.looks += 1
        if self.looks == 3:
            self.looked_thrice.set()
        return opened


def test_a_duplicate_waits_and_replays(in_thread: Any) -> None:
    """It looks again until the answer is there; between two looks its connection is idle, in no transaction."""
    first = transitions.open_request(OPENING)
    waiter = Waiter(timedelta(seconds=20))
    decision = in_thread(waiter)
    assert waiter.looked_thrice.wait(10)
    deadline = time.monotonic() + 10
    while _others() != {"idle"}:  # a look may be under way at this instant
        assert time.monotonic() < deadline
    transitions.conclude(first.row.pk, epoch=1, answer=StoredAnswer(201, (), b"{}"))
    found = decision()
    assert isinstance(found, Replay)
    assert (found.status, found.body) == (201, b"{}")


def _others() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        return {state for (state,) in cursor.fetchall()}


def test_the_wait_is_bounded_and_looks_seldom() -> None:
    """It ends with 409 at its time by the monotonic clock, after looks whose pauses grow: no storm of queries."""
    transitions.open_request(OPENING)
    waiter, began = Waiter(timedelta(seconds=1)), time.monotonic()
    assert isinstance(waiter(), InProgress)
    assert 1.0 <= time.monotonic() - began < 5
    assert waiter.looks <= 10


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_through_a_view(send: Sender, in_thread: Any, method: str) -> None:
    """Both modes: the duplicate gets the first one's bytes, and the handler runs once."""
    first = in_thread(send, "/patient/", method=method, do="hold")
    assert does.gate.entered.wait(10)
    second = in_thread(send, "/patient/", method=method, do="hold")
    does.gate.opened.set()
    assert second().content == first().content
    assert len(does.calls) == 1
