"""Row locks, advisory locks and the one clock. Nothing else in the project locks.

Lock order: request, execution, approval, provider. Every lock of a row reads the database's clock *over* the locked row
(a materialised CTE), so that "now" is never older than the lock; the other three ways that were measured accept an
expired row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import DateTimeField, Func

from effects.conf import settings
from effects.journal.commits import journal, note_xid, tell
from effects.models import Approval, Execution, PendingNotice, Request
from effects.vocabulary.exceptions import ExecutionNotFoundError, RequestEndedError
from effects.vocabulary.states import RequestState

__all__ = [
    "ClockTimestamp",
    "lock_approval",
    "lock_execution",
    "lock_execution_by_binding",
    "lock_free_executions",
    "lock_notice",
    "lock_provider",
    "lock_request",
    "lock_running_request",
    "now",
    "skip_locked",
]

M = TypeVar("M", bound=models.Model)

#: Keeps the advisory locks of providers apart from those of keys, and of others on the same database ("fxp").
PROVIDERS = 0x667870


class ClockTimestamp(Func):
    """`clock_timestamp()`: the database's clock at this moment; Django's `Now()` is the statement's start."""

    function = "clock_timestamp"
    template = "%(function)s()"
    arity = 0
    output_field = DateTimeField()


def now() -> datetime:
    """Return the database's clock."""
    with journal().cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant


def lock_request(request_id: UUID | str) -> Request:
    """Lock a request; `locked_at` on the row is the database's clock after the lock was obtained."""
    return _lock(Request, "id", request_id)


def lock_running_request(request_id: UUID | str, epoch: int) -> Request:
    """Lock a request for its own handler.

    Raises:
        RequestEndedError: it ended, or its lease was taken over; the handler may do nothing more.
    """
    request = lock_request(request_id)
    if request.state != RequestState.RUNNING or request.epoch != epoch:
        raise RequestEndedError(
            f"Request {request.pk} is {request.state} under epoch {request.epoch}; this handler holds {epoch} and does "
            "nothing more."
        )
    return request


def lock_execution(execution_id: UUID | str) -> Execution:
    """Lock an execution; `locked_at` on the row is the database's clock after the lock was obtained."""
    return _told_of(_lock(Execution, "id", execution_id))


def lock_execution_by_binding(binding: str) -> Execution:
    """Lock the execution that holds the key."""
    return _told_of(_lock(Execution, "binding", binding, "AND holds_key"))


def lock_free_executions(ids: Sequence[UUID]) -> tuple[list[UUID], datetime]:
    """Lock those of the executions that nobody else holds; return their ids, and the clock after that.

    It waits for nobody, so that whoever holds several rows at once is in nobody's way, nor in a circle of waits.
    """
    sql = (
        "WITH locked AS MATERIALIZED ("
        "SELECT id FROM effects_execution WHERE id = ANY(%s) FOR NO KEY UPDATE SKIP LOCKED) "
        "SELECT array_agg(id), clock_timestamp(), pg_current_xact_id()::text FROM locked"
    )
    with journal().cursor() as cursor:
        cursor.execute(sql, [list(ids)])
        locked, at, xid = cursor.fetchone()
    note_xid(xid)
    return locked or [], at


def _told_of(row: Execution) -> Execution:
    tell(row.may_have_happened)
    return row


def lock_approval(approval_id: UUID | str) -> Approval:
    """Lock an approval, after its execution."""
    return _lock(Approval, "id", approval_id)


def lock_notice(notice_id: int) -> PendingNotice:
    """Lock a pending notice; nothing else is locked beside it."""
    return _lock(PendingNotice, "id", notice_id)


def lock_provider(provider: str) -> None:
    """Let those who count a provider's calls go one after the other, each until its transaction ends.

    Taken last, after the execution and its approval: whoever holds it waits for nobody.
    """
    with journal().cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", [provider, PROVIDERS])


def skip_locked(due: models.QuerySet[M], limit: int, push: Callable[[list[Any]], object]) -> list[Any]:
    """Return ids of at most `limit` due rows that nobody else holds, after `push` moved their due times forward.

    Runs in the caller's transaction, so that two sweeps at once, or one overtaken by the next, publish each row once.
    """
    ids = list(due.select_for_update(skip_locked=True, no_key=True, of=("self",)).values_list("pk", flat=True)[:limit])
    if ids:
        push(ids)
        with journal().cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            note_xid(cursor.fetchone()[0])
    return ids


def _lock(model: type[M], column: str, value: object, also: str = "") -> M:
    table = model._meta.db_table
    sql = (
        f"WITH locked AS MATERIALIZED (SELECT * FROM {table} WHERE {column} = %s {also} FOR NO KEY UPDATE) "  # noqa: S608
        "SELECT locked.*, clock_timestamp() AS locked_at, pg_current_xact_id()::text AS xid FROM locked"
    )
    rows: list[Any] = list(model._default_manager.raw(sql, [str(value)], using=settings.DATABASE))
    if not rows:
        raise ExecutionNotFoundError(f"There is no {model._meta.verbose_name} {value}")
    note_xid(rows[0].xid)
    row: M = rows[0]
    return row
