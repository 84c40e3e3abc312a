"""Reads that return frozen values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError

from effects._commits import reaching
from effects.exceptions import ExecutionNotFoundError
from effects.models import Execution, Request
from effects.outcomes import Outcome
from effects.snapshots import ExecutionSnapshot, RequestSnapshot, outcome_of, request_snapshot, snapshot

__all__ = ["await_", "get", "get_request", "is_key_held", "list_held_outcomes", "wait"]

#: The longest pause between two looks of `wait`.
LONGEST_PAUSE = 0.5


def get(ref: str | UUID) -> ExecutionSnapshot:
    """Return the execution of that ref as it stands.

    Raises:
        ExecutionNotFoundError: there is none.
    """
    try:
        return snapshot(Execution.objects.get(pk=ref))
    except (Execution.DoesNotExist, ValidationError) as error:
        raise ExecutionNotFoundError(f"There is no execution {ref}") from error


def get_request(ref: str | UUID) -> RequestSnapshot:
    """Return the protected request of that operation_ref as it stands.

    Raises:
        ExecutionNotFoundError: there is none.
    """
    try:
        return request_snapshot(Request.objects.get(pk=ref))
    except (Request.DoesNotExist, ValidationError) as error:
        raise ExecutionNotFoundError(f"There is no request {ref}") from error


def is_key_held(binding: str) -> bool:
    """Return whether a protected request holds this key: asked again it is replayed or refused, not executed.

    Raises:
        JournalUnavailableError: it cannot be read now.
    """
    with reaching("reading a request"):
        return Request.objects.filter(binding=binding, holds_key=True).exists()


def list_held_outcomes(request_id: UUID) -> list[Outcome]:
    """Return the outcomes of the executions that hold a request's answer, in the order in which they were performed."""
    held = Execution.objects.filter(links__request=request_id, links__holds=True).order_by(
        "links__position", "links__id"
    )
    return [outcome_of(row) for row in held]


def wait(ref: str | UUID, timeout: timedelta) -> Outcome:
    """Return the outcome once it is settled, or as it stands after `timeout`, settled or not."""
    for pause in _pauses(timeout):
        execution = get(ref)
        if execution.settled or not pause:
            break
        time.sleep(pause)
    return execution.outcome


async def await_(ref: str | UUID, timeout: timedelta) -> Outcome:
    """Return what `wait` returns, without holding a thread while nothing happens."""
    look = sync_to_async(get, thread_sensitive=True)
    for pause in _pauses(timeout):
        execution = await look(ref)
        if execution.settled or not pause:
            break
        await asyncio.sleep(pause)
    return execution.outcome


def _pauses(timeout: timedelta) -> Iterator[float]:
    """Yield how long to pause after each look, in seconds; 0 after the last one.

    The journal is polled: PostgreSQL's NOTIFY does not pass transaction poolers.
    """
    deadline, pause = time.monotonic() + timeout.total_seconds(), 0.02
    while True:
        yield max(min(pause, deadline - time.monotonic()), 0.0)
        pause = min(pause * 1.5, LONGEST_PAUSE)
