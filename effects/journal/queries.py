"""Reads that return frozen values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.db import models

from effects.declarations.effect import Effect, get_effect
from effects.journal.commits import reaching
from effects.journal.current import current
from effects.journal.snapshots import (
    ExecutionSnapshot,
    RequestSnapshot,
    outcome_of,
    request_snapshot,
    snapshot,
    snapshots,
)
from effects.models import Execution, Request
from effects.vocabulary.exceptions import EffectDefinitionError, ExecutionNotFoundError
from effects.vocabulary.names import about_of, check_name
from effects.vocabulary.outcomes import Outcome

__all__ = ["await_", "find", "get", "get_request", "is_key_held", "list_held_outcomes", "read_ref", "wait"]

#: The longest pause between two looks of `wait`.
LONGEST_PAUSE = 0.5
#: The most executions that one `find` returns.
MOST_FOUND = 1000


def get(ref: str | UUID) -> ExecutionSnapshot:
    """Return the execution of that ref as it stands.

    Raises:
        ExecutionNotFoundError: there is none.
    """
    with reaching("reading an execution"):
        row = Execution.objects.filter(pk=read_ref(ref)).first()
    if row is None:
        raise ExecutionNotFoundError(f"There is no execution {ref}")
    return snapshot(row)


def read_ref(ref: str | UUID) -> UUID:
    """Return the id that a ref is.

    Raises:
        ExecutionNotFoundError: it is none, so that nothing can be there.
    """
    if isinstance(ref, UUID):
        return ref
    try:
        return UUID(ref)
    except (ValueError, AttributeError, TypeError) as error:
        raise ExecutionNotFoundError(f"There is no execution {ref!r:.80}") from error


def find(
    *,
    about: models.Model | tuple[str, str] | None = None,
    operation: type[Effect[Any]] | str | None = None,
    key: str | None = None,
    tenant: str | None = None,
    limit: int = 100,
) -> list[ExecutionSnapshot]:
    """Return executions as they stand, the newest first: those about an object, under a key, or both.

    An effect's earlier names are found with it; so are executions whose key a successor took over.

    Args:
        about: your own object that was named by `about=`, or what a snapshot's `about` says.
        operation: of this effect alone. It narrows; by itself it could be the whole journal.
        key: under this key.
        tenant: of this tenant, as for `perform`: the request's, or "" outside of one. Nothing of others is returned.
        limit: at most so many, up to 1000.

    Raises:
        TypeError: neither `about` nor `key` was said.
        ValueError: `limit` is none.
        NameUnusableError: `about`, `key` or `tenant` can name nothing in the journal.
    """
    if about is None and key is None:
        raise TypeError("effects.find takes about=, an object of yours, or key=; operation= only narrows it")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_FOUND:
        raise ValueError(f"limit= is a number from 1 to {MOST_FOUND}, not {limit!r}")
    if tenant is None:
        handle = current()
        tenant = handle.tenant if handle is not None else ""
    check_name("tenant=", tenant, least=0)
    rows = Execution.objects.filter(tenant=tenant)
    if about is not None:
        about_type, about_id = about_of(about)
        rows = rows.filter(about_type=about_type, about_id=about_id)
    if key is not None:
        check_name("key=", key)
        rows = rows.filter(key=key)
    if operation is not None:
        rows = rows.filter(operation__in=_names_of(operation))
    # ids are made in the order of time, and both indexes end with them
    with reaching("finding executions"):
        return snapshots(rows.order_by("-id")[:limit])


def _names_of(operation: type[Effect[Any]] | str) -> list[str]:
    """Return the names under which an effect's rows stand; of a text that no effect claims any more, itself."""
    try:
        effect = get_effect(operation)
    except EffectDefinitionError:
        if not isinstance(operation, str):
            raise
        return [operation]
    return [effect.operation, *effect.aliases]


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
    """Return the outcome once it is settled, or as it stands after `timeout`, settled or not.

    Raises:
        TypeError: `timeout` is no timedelta; nothing was asked.
    """
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
    if not isinstance(timeout, timedelta):
        raise TypeError(f"timeout= is a timedelta, as in timedelta(seconds=5), not {timeout!r:.80}")
    deadline, pause = time.monotonic() + timeout.total_seconds(), 0.02
    while True:
        yield max(min(pause, deadline - time.monotonic()), 0.0)
        pause = min(pause * 1.5, LONGEST_PAUSE)
