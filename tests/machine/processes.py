"""The processes of a world that are in the middle of something, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import connection, models, transaction

import effects
from effects.declarations.effect import Effect
from effects.declarations.operations import ProtectedOperation, StoredAnswer, find_operation
from effects.journal.current import RequestHandle
from effects.journal.summaries import digest_of_summary, summary_of
from effects.transitions import Report
from effects.vocabulary.types import Context, Permit
from tests.machine.declared import Payload

__all__ = [
    "Handler", "Looker", "Sender", "answer_of", "get_operation", "payload_of", "shift_at_once", "shown_by",
]  # fmt: skip


@dataclass
class Sender:
    """A process that holds a permit; then a report."""

    effect: Effect[Any]
    execution: UUID
    permit: Permit
    context: Context[Any]
    deadline: float
    shown: str
    handler: Handler | None = None
    report: Report | None = None


@dataclass
class Looker:
    """A process that has claimed a look-up; then its verdict."""

    execution: UUID
    epoch: int
    provider_key: str
    verdict: Any = None


@dataclass
class Handler:
    """A process that runs the handler of a protected request."""

    request: UUID
    epoch: int
    handle: RequestHandle


def get_operation(name: str) -> ProtectedOperation:
    """Return one of the machine's views."""
    found = find_operation(name)
    assert found is not None
    return found


def payload_of(key: str | None) -> Payload:
    """Return what is sent under a key: always the same."""
    return Payload(len(key or "") * 100)


def shown_by(effect: Effect[Any], context: Context[Any]) -> str:
    """Return what people would be shown just now."""
    return digest_of_summary(summary_of(effect, context))


def answer_of(outcomes: Any) -> StoredAnswer:
    """Build the answer of the declared view."""
    states = " ".join(str(outcome.state) for outcome in outcomes)
    good = all(isinstance(outcome, effects.Completed) for outcome in outcomes)
    return StoredAnswer(201 if good else 409, (), states.encode())


def shift_at_once(delta: timedelta) -> None:
    """Move the journal's instants as `time_passes` does, in one round trip: it is done after every few steps.

    Given back, time moves what has happened no further than to now: in what order things happened must not change.
    """
    moves = ["SET LOCAL effects.retention = 'on'"]
    for model in apps.get_app_config("effects").get_models():
        instants = [each.column for each in model._meta.concrete_fields if isinstance(each, models.DateTimeField)]
        if instants:
            moves.append(f"UPDATE {model._meta.db_table} SET " + ", ".join(map(_moved, instants)))
    with transaction.atomic(), connection.cursor() as cursor:
        took: Any = delta
        cursor.execute("; ".join(moves), {"delta": took})


def _moved(name: str) -> str:
    return f"{name} = CASE WHEN {name} <= now() THEN LEAST({name} - %(delta)s, now()) ELSE {name} - %(delta)s END"
