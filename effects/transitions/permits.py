"""Permits: the licence for one send, written and committed before the provider is called."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from effects import _current
from effects._commits import commits
from effects._locks import lock_execution, lock_request
from effects.effect import Effect
from effects.exceptions import RequestEndedError
from effects.models import Approval, Attempt, Execution
from effects.snapshots import ExecutionSnapshot, snapshot
from effects.states import (
    ApprovalPurpose,
    ApprovalState,
    AttemptOutcome,
    ExecutionReason,
    ExecutionState,
    RequestState,
)
from effects.transitions import _licences
from effects.transitions._rows import advance, effect_of, end_state, grace
from effects.types import Permit

__all__ = ["PermitDecision", "may_resend", "permit"]

_S = ExecutionState


@dataclass(frozen=True)
class PermitDecision:
    """The permit, or None; and the execution as it stands after the decision."""

    permit: Permit | None
    execution: ExecutionSnapshot


def permit(
    execution_id: UUID,
    *,
    attempt: UUID,
    started: float,
    summary_digest: str,
    handle: _current.RequestHandle | None = None,
) -> PermitDecision:
    """*Commits.* License one send of a due execution, spending its approval in the same commit.

    Locked: the request (of a handler's own `perform`), the execution, its approval. A racing caller sees `executing`
    and gets no permit. No spendable licence on a due row requests an approval, or ends the row where one lapsed.

    Args:
        execution_id: which.
        attempt: the attempt's id, made by the sender.
        started: a `monotonic()` reading taken before this call; the permit's deadline runs from it.
        summary_digest: of `describe` computed again just now; another one than the row's voids its approval.
        handle: the running request, where its handler sends.

    Raises:
        RequestEndedError: the request ended or was taken over.
        PolicyChangedError: recorded under another safety version.
    """
    with commits("sending an effect"):
        if handle is not None:
            request = lock_request(handle.id)
            if request.state != RequestState.RUNNING or request.epoch != handle.epoch:
                raise RequestEndedError
        row = lock_execution(execution_id)
        already = _permit_again(row, attempt, started)
        if already is not None:
            return PermitDecision(already, snapshot(row))
        if not _may_be_sent(row, effect_of(row) if row.state in {_S.PENDING, _S.UNCERTAIN} else None):
            return PermitDecision(None, snapshot(row))
        licence = _license(row, summary_digest)
        if licence is _REFUSED:
            return PermitDecision(None, snapshot(row))
        return PermitDecision(_open_attempt(row, attempt, started, licence), snapshot(row))


_REFUSED: Any = object()


def _permit_again(row: Execution, attempt: UUID, started: float) -> Permit | None:
    """Return the permit of a call that is repeated because its COMMIT was in question."""
    if row.state != _S.EXECUTING:
        return None
    mine = row.attempt_rows.filter(pk=attempt, outcome=str(AttemptOutcome.OPEN), epoch=row.epoch).first()
    return _permit_of(row, attempt, mine.number, started) if mine else None


def _permit_of(row: Execution, attempt: UUID, number: int, started: float) -> Permit:
    timeout: float = row.contract["request_timeout"]
    return Permit(
        attempt=attempt, number=number, epoch=row.epoch, provider_key=row.provider_key, deadline=started + timeout
    )


def _may_be_sent(row: Execution, effect: Effect[Any] | None) -> bool:
    """Return whether the row itself allows a send now: due, holding its key, no lease, no proof of success."""
    if effect is None or not row.holds_key or row.applied_evidence is not None:
        return False
    if row.due_at is None or row.due_at > row.locked_at:
        return False
    if row.lease_expires_at is not None and row.lease_expires_at > row.locked_at:
        return False
    if row.state == _S.UNCERTAIN:
        return may_resend(row)
    return row.state == _S.PENDING


def may_resend(row: Execution) -> bool:
    """Return whether an uncertain execution may be sent again on its own.

    Only where the provider cannot be asked and repeating is safe: `repeatable`, or deduplicated by the provider with
    the key's lifetime outlasting this attempt's deadline and the quiet time.
    """
    contract = row.contract
    rule = _licences.rule_of(row)
    if contract["lookup"] is not None or row.attempts >= contract["retry"]["attempts"]:
        return False
    if rule is not None and not rule.covers_retries:
        return False
    if contract["repeatable"]:
        return True
    if contract["deduplicated_for"] is None or row.first_sent_at is None:
        return False
    key_ends = row.first_sent_at + timedelta(seconds=contract["deduplicated_for"] - contract["quiet"])
    return key_ends > row.locked_at + timedelta(seconds=contract["request_timeout"])


def _license(row: Execution, summary_digest: str) -> Approval | None:
    """Return the approval that licenses this send, spent; None where none is demanded; `_REFUSED`, having moved the row."""
    rule = _licences.rule_of(row)
    if rule is None:
        return None
    approval = _licences.newest(row, ApprovalPurpose.SEND)
    if row.state == _S.UNCERTAIN:
        return approval
    if approval is None or approval.state != ApprovalState.GRANTED:
        if approval is not None and _licences.covers_another_send(approval):
            return approval
        _ask(row, "request_approval", ExecutionReason.APPROVAL_REQUIRED)
        return _refused()
    if summary_digest != row.summary_digest or approval.digest != _licences.digest_of(row, ApprovalPurpose.SEND):
        _licences.close(approval, ApprovalState.LAPSED, row.locked_at)
        _ask(row, "void", ExecutionReason.CONTENTS_CHANGED)
        return _refused()
    if approval.not_before and approval.not_before > row.locked_at:
        advance(row, "postpone_send", revises=False, due_at=approval.not_before)
        return _refused()
    expired = approval.use_by is not None and approval.use_by <= row.locked_at
    if expired or not _licences.voters_still_entitled(approval):
        _licences.close(approval, ApprovalState.LAPSED, row.locked_at)
        why = "not used in time" if expired else "an approver is no longer entitled"
        advance(row, "lapse", end_state(row), reason=ExecutionReason.LAPSED, evidence={"why": why})
        return _refused()
    _licences.spend(approval, row.locked_at)
    return approval


def _refused() -> Approval:
    refused: Approval = _REFUSED
    return refused


def _ask(row: Execution, verb: str, reason: ExecutionReason) -> None:
    rule = _licences.rule_of(row)
    if rule is None:
        return
    approval = _licences.request(row, rule)
    advance(
        row, verb, _S.AWAITING_APPROVAL, reason=reason, evidence={"digest": approval.digest}, due_at=None
    )  # fmt: skip


def _open_attempt(row: Execution, attempt: UUID, started: float, licence: Approval | None) -> Permit:
    timeout = timedelta(seconds=row.contract["request_timeout"])
    deadline, number = row.locked_at + timeout, row.attempts + 1
    verb = "resend" if row.state == _S.UNCERTAIN else "permit"
    evidence: dict[str, Any] = {"attempt": number}
    if licence is not None:
        evidence.update(approval=str(licence.pk), digest=licence.digest)
    advance(
        row, verb, _S.EXECUTING, evidence=evidence, epoch=row.epoch + 1, attempts=number, open_attempts=1,
        due_at=None, lease_expires_at=deadline + grace(), first_sent_at=row.first_sent_at or row.locked_at,
        exposed_until=max(row.exposed_until or deadline, deadline),
    )  # fmt: skip
    Attempt.objects.bulk_create(
        [
            Attempt(
                id=attempt, execution_id=row.pk, number=number, epoch=row.epoch, provider_key=row.provider_key,
                payload_digest=row.payload_digest, approval=licence, permitted_at=row.locked_at, deadline=deadline,
                outcome=str(AttemptOutcome.OPEN),
            )
        ]
    )  # fmt: skip
    return _permit_of(row, attempt, number, started)
