"""Journals for the audit: one of everything, damaged ones, and what the command says of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management import call_command
from django.db import connection, transaction

import effects
from effects import transitions
from effects.declarations.operations import ProtectedOperation, StoredAnswer
from effects.journal.current import RequestHandle, in_request
from effects.models import Execution
from effects.testing import provider_says, run_due, time_passes
from effects.transitions import Opening
from tests.core.declared import Charge, ChargePayload, Order, Plain, Ruled
from tests.core.people import approve, asked, person

PAYLOAD = ChargePayload("c1", 1000)
VIEW = ProtectedOperation(name="charges.create", mode="journaled", performs=("bank.charge", "bank.order"))
OPENING = Opening(
    operation=VIEW.name, mode="journaled", tenant="", subject="user:1", scope="", key="k", fingerprint={},
    fingerprint_version=1, declared=list(VIEW.performs or ()), local_writes=False,
)  # fmt: skip


@dataclass(frozen=True)
class Stories:
    """The executions and requests that `everything` made, by what became of them."""

    completed: UUID
    found: UUID
    failed: UUID
    elder: UUID
    successor: UUID
    pending: UUID
    uncertain: UUID
    awaiting: UUID
    approved: UUID
    answered: UUID
    released: UUID
    waiting: UUID


def opened(key: str) -> RequestHandle:
    """Open a journaled request."""
    row = transitions.open_request(replace(OPENING, key=key)).row
    return RequestHandle(id=row.pk, epoch=row.epoch, operation=VIEW, tenant="", subject="user:1", actor=None)


def perform(effect: Any, key: str, *answers: Any, **options: Any) -> UUID:
    """Perform once; return the execution's id."""
    with provider_says(effect, *answers):
        return UUID(effects.perform(effect, payload=PAYLOAD, key=key, **options).ref)


def everything() -> Stories:
    """Write one of everything by the verbs."""
    applied = effects.Applied({"id": "ch"}, "ch_1")
    completed = perform(Charge, "completed", applied)
    with provider_says(Charge, TimeoutError, look_up=effects.Found("ch_2")):
        found = UUID(effects.perform(Charge, payload=PAYLOAD, key="found").ref)
        run_due()
    failed = perform(Plain, "failed", effects.Declined("no"))
    elder = perform(Plain, "superseded", effects.Declined("no"))
    successor = perform(Plain, "superseded", applied, supersede=elder)
    approved = _approved("approved")
    answered = _answered(applied)
    released = opened("released")
    transitions.release(released.id, epoch=released.epoch, asked=False)
    uncertain = perform(Charge, "uncertain", TimeoutError)
    pending = UUID(effects.perform_later(Order, payload=PAYLOAD, key="pending").ref)
    awaiting = asked(Ruled, by=person("clerk"), key="awaiting").pk
    waiting = opened("waiting")
    with in_request(waiting):
        perform(Charge, "waited for", TimeoutError)
    transitions.conclude(waiting.id, epoch=waiting.epoch, answer=StoredAnswer(202, (), b"{}"))
    return Stories(
        completed, found, failed, elder, successor, pending, uncertain, awaiting, approved, answered, released.id,
        waiting.id,
    )  # fmt: skip


def _approved(key: str) -> UUID:
    """Ask, approve, send, be told to try later, and ask again: two licences, one of them spent."""
    first, second = person("first approver"), person("second approver")
    row = asked(Ruled, by=person("asker", approver=False), key=key)
    with provider_says(Ruled, effects.NotNow("later"), effects.Applied(1, "ch_3")):
        approve(row, first)
        run_due()
        time_passes(timedelta(minutes=1))
        run_due()
        approve(Execution.objects.get(pk=row.pk), second)
        run_due()
    assert effects.get(row.pk).attempts == 2
    return row.pk


def _answered(applied: Any) -> UUID:
    handle = opened("answered")
    with in_request(handle):
        perform(Charge, "in a request", applied)
    transitions.conclude(handle.id, epoch=handle.epoch, answer=StoredAnswer(201, (), b"{}"))
    return handle.id


@contextmanager
def damaged(sql: str, *params: Any, without: str = "") -> Iterator[None]:
    """Write to the journal past its rules, in a transaction that is rolled back with the rules that it dropped.

    Args:
        sql: the statement.
        params: its parameters.
        without: a constraint or a unique index that would refuse it.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE effects_receipt DISABLE TRIGGER effects_receipt_append_only")
        if without:
            cursor.execute(f"DROP INDEX {without}")
        cursor.execute(sql, [str(one) if isinstance(one, UUID) else one for one in params])
        assert cursor.rowcount > 0, "the damage hit nothing"
        yield
        transaction.set_rollback(True)


def audited(*arguments: str) -> dict[str, Any]:
    """Run the command with --json; return its object, the exit code with it."""
    out, code = io.StringIO(), 0
    try:
        call_command("effects_audit", "--json", *arguments, stdout=out)
    except SystemExit as left:
        code = int(left.code or 0)
    report: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return {**report, "exit": code}


def codes(report: dict[str, Any]) -> set[str]:
    """Return the codes of what was found."""
    return set(report["found"])
