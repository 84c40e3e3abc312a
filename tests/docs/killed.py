"""Play the table "Killed at this point" of `docs/explanation/the-way-of-one-refund.md`, with SIGKILL.

Called from the page, in the tutorial's project.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import connections
from django.test import Client

from effects.journal import faults
from effects.testing import run_due, time_passes

__all__ = ["check", "check_note", "kill"]

#: Order → where its process is killed, whether the bank has paid then, what a retry is told at once, after the leases.
KILLS = {
    "1": ("opening_a_request.before_commit", 0, 201, 201),
    "2": ("performing_an_effect.before_commit", 0, "operation_in_progress", 201),
    "3": ("send.before_call", 0, "operation_in_progress", "operation_uncertain"),
    "4": ("send.replied", 1, "operation_in_progress", 201),
    "5": ("answering_a_request.before_commit", 1, "operation_in_progress", 201),
    "6": ("answering_a_request.after_commit", 1, 201, 201),
}


def check() -> None:
    """Kill a process at each point, then retry: at once, after the leases have run out, after the barrier."""
    from shop import bank
    from shop.models import Refund

    for order, (point, paid, *_) in KILLS.items():
        _killed(order, point)
        assert len(_booked(bank, order)) == paid, point
    for order, (point, _, told, _) in KILLS.items():
        assert _told(_post(order)) == told, point
    time_passes(timedelta(minutes=2))
    run_due()
    for order, (point, _, _, told) in KILLS.items():
        assert _told(_post(order)) == told, point
    time_passes(timedelta(minutes=10))
    run_due()
    for order in KILLS:
        assert _told(_post(order)) == 201, order
        (booking,) = _booked(bank, order)
        assert Refund.objects.get(order=order).bank_id == booking["id"]


def check_note() -> None:
    """Kill the guide's noted refund before its rows are committed: a retry is answered, the note is there once."""
    from shop.models import Note

    before = Note.objects.count()
    _killed("9", "handler.returned", "noted")
    assert Note.objects.count() == before
    time_passes(timedelta(minutes=2))
    run_due()
    assert [_told(_post("9", "noted")) for _ in range(2)] == [201, 201]
    assert Note.objects.count() == before + 1


def _killed(order: str, point: str, kind: str = "refunds") -> None:
    kill(point, lambda: _post(order, kind))


def kill(point: str, work: Callable[[], Any]) -> None:
    """Do some work in a process that is killed at a fault point."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        faults.arm(faults._kill_at(point))
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"nobody came to {point}"
    assert os.WTERMSIG(status) == signal.SIGKILL


def _post(order: str, kind: str = "refunds") -> Any:
    client = Client(SERVER_NAME="localhost", headers={"Authorization": "Basic Y2Fyb2w6Y2Fyb2wtc2VjcmV0"})
    return client.post(f"/orders/{order}/{kind}/", {"amount": 500}, headers={"Idempotency-Key": f"key-{order}"})


def _told(answer: Any) -> int | str:
    return answer.json()["code"] if answer.status_code >= 400 else int(answer.status_code)


def _booked(bank: Any, order: str) -> list[dict[str, Any]]:
    return [booking for booking in bank.bookings() if booking["order"] == order]
