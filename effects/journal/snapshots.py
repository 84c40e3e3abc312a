"""Frozen values of rows: what verbs return and what callers keep. Rows stay at home."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, QuerySet, prefetch_related_objects

from effects.declarations.effect import get_effect
from effects.journal.logs import get_logger
from effects.journal.summaries import predecessors_in
from effects.models import Approval, Execution, Request
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError
from effects.vocabulary.foreign import hold_interrupt
from effects.vocabulary.outcomes import (
    Abandoned,
    Accepted,
    AwaitingApproval,
    Completed,
    Executing,
    Failed,
    MissingOutput,
    NeedsIntervention,
    Outcome,
    PartiallyCompleted,
    Pending,
    Rejected,
    Uncertain,
)
from effects.vocabulary.states import (
    APPROVAL_LIVE,
    EXECUTION_SETTLED,
    REQUEST_ENDED,
    ExecutionState,
    RequestState,
    values,
)
from effects.vocabulary.types import Actor, Context, Item

__all__ = [
    "WORD_OF",
    "ExecutionSnapshot",
    "RequestSnapshot",
    "actor_from_json",
    "barrier",
    "context_of",
    "outcome_of",
    "snapshot",
    "snapshots",
]

log = get_logger("effects.snapshots")

#: In the proof on file: whose word it is, where a person said it and no program has checked it.
WORD_OF = "unchecked_word_of"
_EXPIRED = "its output is no longer kept: retention dropped it at {at}"
_UNREADABLE = (
    "its output, stored under output_version {version}, cannot be read by this code ({why}); mend upgrade_output() or "
    "output_type"
)


def actor_from_json(data: dict[str, str] | None) -> Actor | None:
    """Return the actor that a row keeps."""
    return Actor(data["id"], data.get("label", "")) if data else None


def outcome_of(row: Execution) -> Outcome:
    """Return the outcome that a row stands for; one that waits for people costs a query, for their time."""
    common: dict[str, Any] = {
        "ref": str(row.pk),
        "operation": row.operation,
        "may_have_applied": row.may_have_happened,
    }
    output = _output_of(row)
    match ExecutionState(row.state):
        case ExecutionState.COMPLETED:
            word = str((row.applied_evidence or {}).get(WORD_OF, ""))
            return Completed(**common, output=output, reference=row.reference, unchecked_word_of=word)
        case ExecutionState.PARTIALLY_COMPLETED:
            items = tuple(Item(**item) for item in row.items or ())
            return PartiallyCompleted(**common, items=items, output=output, reference=row.reference)
        case ExecutionState.FAILED:
            code = row.failure_code or str(row.reason)
            return Failed(**common, code=code, message=row.failure_message)
        case ExecutionState.REJECTED:
            return Rejected(**common, reason=str(row.reason), message=row.failure_message)
        case ExecutionState.ABANDONED:
            return Abandoned(**common, reason=str(row.reason))
        case ExecutionState.PENDING:
            return Pending(**common, due_at=row.due_at)
        case ExecutionState.AWAITING_APPROVAL:
            return AwaitingApproval(**common, decide_by=_decide_by(row))
        case ExecutionState.EXECUTING:
            return Executing(**common)
        case ExecutionState.ACCEPTED:
            return Accepted(**common, expect_by=row.expect_by, reference=row.reference)
        case ExecutionState.UNCERTAIN:
            return Uncertain(**common, reason=str(row.reason), message=row.failure_message)
        case _:
            return NeedsIntervention(**common, reason=str(row.reason), message=row.failure_message)


def _decide_by(row: Execution) -> datetime | None:
    live: Any = row.__dict__.get("live_approvals")  # where `snapshots` read them for all rows at once
    if live is None:
        live = _live_approvals().filter(execution_id=row.pk)
    return next((approval.decide_by for approval in live), None)


def _live_approvals() -> QuerySet[Approval]:
    return Approval.objects.filter(state__in=values(APPROVAL_LIVE)).only("execution_id", "decide_by")


def _output_of(row: Execution) -> Any:
    """Return the stored output as this code reads it, or a `MissingOutput`: a row is read whatever its output is."""
    if row.output is None:
        return MissingOutput("expired", _EXPIRED.format(at=row.pruned_at)) if row.pruned_at else None
    try:
        effect = get_effect(row.operation)
    except EffectDefinitionError:  # the effect is gone, and its rows are still read, as they were stored
        effect = None
    try:
        if effect is None:
            return canonical.load(row.output, floats=True)
        return effect.load_output(row.output, row.output_version)
    except BaseException as error:  # noqa: BLE001 - `upgrade_output` and the output's class are the project's code
        hold_interrupt(error)
        why = canonical.clean_error(error, 300)
        log.warning(
            "The output of %s %s, version %s, cannot be read: %s", row.operation, row.pk, row.output_version, why
        )
        return MissingOutput("unreadable", _UNREADABLE.format(version=row.output_version, why=why))


def barrier(row: Execution) -> datetime | None:
    """Return from when on an absence can be evidence; None where nothing was ever permitted."""
    if row.exposed_until is None:
        return None
    return row.exposed_until + timedelta(seconds=row.contract["quiet"])


def context_of(row: Execution, payload: Any, *, previous: Outcome | None = None, token: Any = None) -> Context[Any]:
    """Return what an effect's methods are told of a row."""
    return Context(
        ref=str(row.pk),
        operation=row.operation,
        payload=payload,
        tenant=row.tenant,
        key=row.key,
        provider_key=row.provider_key,
        requested_by=actor_from_json(row.requested_by),
        on_behalf_of=actor_from_json(row.on_behalf_of),
        attempt=row.attempts,
        reference=row.reference,
        about=(row.about_type, row.about_id) if row.about_type else None,
        previous=previous,
        token=token,
        compensates=str(row.compensates_id) if row.compensates_id else None,
        derived_from=predecessors_in(row.summary),
    )


@dataclass(frozen=True)
class ExecutionSnapshot:
    """One execution as it stood at one moment."""

    id: UUID
    operation: str
    tenant: str
    key: str
    provider: str
    provider_key: str
    state: ExecutionState
    reason: str
    revision: int
    epoch: int
    may_have_applied: bool
    attempts: int
    receipt_count: int
    due_at: datetime | None
    expect_by: datetime | None
    barrier_at: datetime | None
    reference: str
    requested_by: Actor | None
    about: tuple[str, str] | None
    supersedes: str | None
    compensates: str | None
    summary: dict[str, Any]
    created_at: datetime
    settled_at: datetime | None
    hook_due_at: datetime | None
    outcome: Outcome

    @property
    def ref(self) -> str:
        """The execution's public reference."""
        return str(self.id)

    @property
    def settled(self) -> bool:
        """Whether the outside world's answer is known, or given up."""
        return self.state in EXECUTION_SETTLED


@dataclass(frozen=True)
class RequestSnapshot:
    """One protected request as it stood at one moment."""

    id: UUID
    operation: str
    mode: str
    tenant: str
    subject: str
    state: RequestState
    reason: str
    revision: int
    epoch: int
    holds_key: bool
    is_opaque: bool
    local_writes: bool
    handler_returned: bool
    fingerprint: dict[str, str]
    fingerprint_version: int
    lease_expires_at: datetime | None
    due_at: datetime | None
    ended_at: datetime | None
    answer: tuple[int, list[Any], bytes] | None
    answer_missing: str

    @property
    def ended(self) -> bool:
        """Whether it is answered, released or resolved."""
        return self.state in REQUEST_ENDED

    @property
    def ref(self) -> str:
        """The public operation_ref."""
        return str(self.id)


def snapshot(row: Execution) -> ExecutionSnapshot:
    """Return the frozen value of an execution's row."""
    return ExecutionSnapshot(
        id=row.pk,
        operation=row.operation,
        tenant=row.tenant,
        key=row.key,
        provider=row.provider,
        provider_key=row.provider_key,
        state=ExecutionState(row.state),
        reason=str(row.reason),
        revision=row.revision,
        epoch=row.epoch,
        may_have_applied=row.may_have_happened,
        attempts=row.attempts,
        receipt_count=row.receipt_count,
        due_at=row.due_at,
        expect_by=row.expect_by,
        barrier_at=barrier(row),
        reference=row.reference,
        requested_by=actor_from_json(row.requested_by),
        about=(row.about_type, row.about_id) if row.about_type else None,
        supersedes=str(row.supersedes_id) if row.supersedes_id else None,
        compensates=str(row.compensates_id) if row.compensates_id else None,
        summary=row.summary,
        created_at=row.created_at,
        settled_at=row.settled_at,
        hook_due_at=row.hook_due_at,
        outcome=outcome_of(row),
    )


def snapshots(rows: QuerySet[Execution]) -> list[ExecutionSnapshot]:
    """Return the frozen values of several rows, with one query more for all that wait for people."""
    found = list(rows)
    waiting = [row for row in found if row.state == ExecutionState.AWAITING_APPROVAL]
    prefetch_related_objects(waiting, Prefetch("approvals", _live_approvals(), to_attr="live_approvals"))
    return [snapshot(row) for row in found]


def request_snapshot(row: Request) -> RequestSnapshot:
    """Return the frozen value of a request's row."""
    return RequestSnapshot(
        id=row.pk,
        operation=row.operation,
        mode=row.mode,
        tenant=row.tenant,
        subject=row.subject,
        state=RequestState(row.state),
        reason=str(row.reason),
        revision=row.revision,
        epoch=row.epoch,
        holds_key=row.holds_key,
        is_opaque=row.is_opaque,
        local_writes=row.local_writes,
        handler_returned=row.handler_returned,
        fingerprint=row.fingerprint,
        fingerprint_version=row.fingerprint_version,
        lease_expires_at=row.lease_expires_at,
        due_at=row.due_at,
        ended_at=row.ended_at,
        answer=row.answer,
        answer_missing=row.answer_missing,
    )
