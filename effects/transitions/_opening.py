"""Opening a request or finding the one that holds its key, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from effects.conf import settings
from effects.journal.commits import journal, note_xid
from effects.journal.snapshots import RequestSnapshot, request_snapshot
from effects.models import Receipt, Request
from effects.models.base import new_id
from effects.transitions._limits import over_limits
from effects.transitions._rows import receipt_of
from effects.vocabulary import canonical
from effects.vocabulary.states import RequestState
from effects.vocabulary.types import Actor

__all__ = ["Opened", "Opening", "open_or_find", "renew", "request_binding"]

#: Keeps our advisory locks apart from those of others on the same database ("fx").
LOCK_CLASS = 0x6678
#: How often the statement is repeated when the row that it conflicted with appeared after its snapshot.
LOOKS = 5


@dataclass(frozen=True)
class Opening:
    """What a protected request is opened with."""

    operation: str
    mode: str
    tenant: str
    subject: str
    scope: str
    key: str
    fingerprint: dict[str, str]
    fingerprint_version: int
    declared: Sequence[str] | None
    local_writes: bool
    actor: Actor | None = None


@dataclass(frozen=True)
class Opened:
    """What opening gave.

    `made`: the request is ours to run. Otherwise `request` holds the key, or is None: another transaction is about to
    commit one ("busy"), or the tenant is at a limit (`full`).
    """

    made: bool
    request: RequestSnapshot | None
    row: Request
    now: datetime
    full: bool = False


def request_binding(tenant: str, subject: str, scope: str, key: str) -> str:
    """Return the binding of tenant, subject, scope and key."""
    return canonical.digest("effects.request", tenant, subject, scope, key)


def open_or_find(opening: Opening) -> Opened:
    """Insert the request and its receipt, or return who holds the key. Joins the caller's transaction."""
    binding = request_binding(opening.tenant, opening.subject, opening.scope, opening.key)
    row = _new_row(opening, binding)
    for _ in range(LOOKS):
        made, busy, full, found, now = _execute(row, binding, opening.actor)
        if made:
            _opened_at(row, now)
            return Opened(True, request_snapshot(row), row, now)
        if found is not None:
            return Opened(False, request_snapshot(found), found, now)
        if busy or full:
            return Opened(False, None, row, now, full=not busy)
    # each look lost against another insert that is gone again: as busy as can be
    return Opened(False, None, row, now)


def renew(held: Sequence[tuple[UUID, int]]) -> int:
    """Push the leases of running requests forward, never beyond their handler's limit.

    One that a handler's own transaction holds (`perform_later` in it) waits for nobody here: the leases of all others
    would run out meanwhile. No sweep takes it either while it is held.
    """
    sql = (
        "WITH free AS (SELECT effects_request.id FROM effects_request "
        "JOIN unnest(%s::uuid[], %s::int[]) AS held(id, epoch) USING (id, epoch) "
        "WHERE state = 'running' FOR NO KEY UPDATE OF effects_request SKIP LOCKED) "
        "UPDATE effects_request SET lease_expires_at = LEAST(clock_timestamp() + %s, handler_until) "
        "FROM free WHERE effects_request.id = free.id"
    )
    with journal().cursor() as cursor:
        lease: Any = settings.REQUEST_LEASE
        params: list[Any] = [[str(one) for one, _ in held], [epoch for _, epoch in held], lease]
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def _new_row(opening: Opening, binding: str) -> Request:
    row = Request(
        id=new_id(), operation=opening.operation, mode=opening.mode, tenant=opening.tenant, subject=opening.subject,
        scope=opening.scope, key=opening.key, binding=binding, fingerprint=opening.fingerprint,
        fingerprint_version=opening.fingerprint_version, local_writes=opening.local_writes,
        declared=list(opening.declared) if opening.declared is not None else None,
        state=str(RequestState.RUNNING), receipt_count=1,
    )  # fmt: skip
    _opened_at(row, _SOME_TIME)
    return row


def _opened_at(row: Request, at: datetime) -> None:
    row.created_at = row.locked_at = at
    row.lease_expires_at, row.handler_until = at + settings.REQUEST_LEASE, at + settings.HANDLER_MAX


#: One reading of the clock, so that all these instants are as far from each other as they are in a digest of them.
_CLOCKS = {"created_at": "lock.at", "lease_expires_at": "lock.at + %s", "handler_until": "lock.at + %s"}
#: Stands for it in what is digested before the database was asked.
_SOME_TIME = datetime(2000, 1, 1, tzinfo=timezone.utc)


def _execute(row: Request, binding: str, actor: Actor | None) -> tuple[bool, bool, bool, Request | None, datetime]:
    fields = Request._meta.concrete_fields
    columns = ", ".join(str(field.column) for field in fields)
    selected: list[str] = []
    params: list[Any] = []
    lasting = {"lease_expires_at": settings.REQUEST_LEASE, "handler_until": settings.HANDLER_MAX}
    connection = journal()
    for field in fields:
        selected.append(_CLOCKS.get(field.name, "%s"))
        if field.name in lasting:
            params.append(lasting[field.name])
        elif field.name not in _CLOCKS:
            params.append(field.get_db_prep_save(getattr(row, field.attname), connection))
    receipt_columns, receipt_values, receipt_params = _receipt(row, actor)
    limits, limited, room_params = _room(row.tenant, binding)
    sql = (  # columns and clocks come from the model, values are parameters
        "WITH lock AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtextextended(%s, %s)) AS ok, "  # noqa: S608
        "clock_timestamp() AS at), "
        f"{limits}"
        f"made AS (INSERT INTO effects_request ({columns}) SELECT {', '.join(selected)} FROM lock WHERE ok{limited} "
        "ON CONFLICT (binding) WHERE holds_key DO NOTHING RETURNING id, created_at), "
        f"receipt AS (INSERT INTO effects_receipt ({receipt_columns}) SELECT {receipt_values} FROM made) "
        f"SELECT lock.ok, {'(SELECT full_up FROM room)' if limits else 'false'}, "
        "made.id, COALESCE(made.created_at, clock_timestamp()), pg_current_xact_id_if_assigned()::text, "
        f"{', '.join(f'found.{field.column}' for field in fields)} FROM lock LEFT JOIN made ON true "
        "LEFT JOIN effects_request found ON found.binding = %s AND found.holds_key"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [binding, LOCK_CLASS, *room_params, *params, *receipt_params, binding])
        ok, full, made, now, xid, *values = cursor.fetchone()
    note_xid(xid)
    found = None
    if made is None and values[0] is not None:
        found = _from_db(values)
        found.locked_at = now
    return made is not None, not ok, full, found, now


def _room(tenant: str, binding: str) -> tuple[str, str, list[Any]]:
    """Return the expression, condition and parameters by which a tenant at a limit opens nothing new."""
    condition = over_limits(tenant, requests=True)
    if condition is None:
        return "", "", []
    sql, params = condition
    held = "EXISTS (SELECT 1 FROM effects_request WHERE binding = %s AND holds_key)"
    expression = f"room AS MATERIALIZED (SELECT NOT {held} AND ({sql}) AS full_up), "
    return expression, " AND NOT (SELECT full_up FROM room)", [binding, *params]


def _from_db(values: Sequence[Any]) -> Request:
    """Build a row from a raw cursor's values: those that psycopg leaves to Django are converted here."""
    fields = Request._meta.concrete_fields
    connection = journal()
    converted = []
    for field, value in zip(fields, values, strict=True):
        kept = value
        for converter in (
            *connection.ops.get_db_converters(field.get_col(Request._meta.db_table)),
            *field.get_db_converters(connection),
        ):
            kept = converter(kept, field.get_col(Request._meta.db_table), connection)
        converted.append(kept)
    row: Request = Request.from_db(settings.DATABASE, [field.attname for field in fields], converted)
    return row


def _receipt(row: Request, actor: Actor | None) -> tuple[str, str, list[Any]]:
    """Return columns, SQL values and parameters of the receipt of `open`."""
    receipt = receipt_of(row, "open", None, actor, {"operation": row.operation, "mode": row.mode})
    columns, selected, params = [], [], []
    for field in Receipt._meta.concrete_fields:
        if field.primary_key:
            continue
        columns.append(str(field.column))
        selected.append("created_at" if field.name == "at" else "%s")
        if field.name != "at":
            params.append(field.get_db_prep_save(getattr(receipt, field.attname), journal()))
    return ", ".join(columns), ", ".join(selected), params
