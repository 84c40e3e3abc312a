"""Permits: the licence for one send, written and committed before the provider is called."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from effects.journal import current
from effects.journal.commits import commits
from effects.journal.locks import lock_execution, lock_running_request
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.models import Approval, Attempt, Execution
from effects.transitions import _licences, digests
from effects.transitions._limits import is_provider_busy
from effects.transitions._rows import (
    advance,
    can_be_undone,
    effect_of,
    end_state,
    grace,
    is_due,
    is_leased,
    settles,
    step_back,
)
from effects.vocabulary.states import AttemptOutcome, ExecutionReason, ExecutionState
from effects.vocabulary.types import Permit

__all__ = ["PermitDecision", "may_resend", "permit", "why_not_resendable"]

_S = ExecutionState
#: From these a send can start: the first and repeated ones, automatic resends, ordered resends.
_SENDABLE = frozenset({_S.PENDING, _S.UNCERTAIN, _S.NEEDS_INTERVENTION})


@dataclass(frozen=True)
class PermitDecision:
    """The permit, or None; and the execution as it stands after the decision."""

    permit: Permit | None
    execution: ExecutionSnapshot


@settles
def permit(
    execution_id: UUID,
    *,
    attempt: UUID,
    started: float,
    summary: dict[str, Any],
    handle: current.RequestHandle | None = None,
    background: bool = False,
) -> PermitDecision:
    """*Commits.* License one send of a due execution, spending its approval in the same commit.

    Locked: the request (of a handler's own `perform`), what it supersedes or undoes, the execution, its approval. A
    racing caller sees `executing` and gets no permit. No spendable licence on a due row requests an approval, or ends
    the row where one lapsed.

    Args:
        execution_id: which.
        attempt: the attempt's id, made by the sender.
        started: a `monotonic()` reading taken before this call; the permit's deadline runs from it.
        summary: what `describe` says just now; if it is not what the row keeps, the approval is void.
        handle: the running request, where its handler sends.
        background: nobody waits for it, so that it steps back while its provider is busy.

    Raises:
        RequestEndedError: the request ended or was taken over.
        PolicyChangedError: recorded under another safety version.
    """
    with commits("sending an effect"):
        if handle is not None:
            lock_running_request(handle.id, handle.epoch)
        stands = _lock_elder(execution_id)
        row = lock_execution(execution_id)
        again = _permit_again(row, attempt, started)
        if again is not None or not _may_be_sent(row):
            return PermitDecision(again, snapshot(row))
        effect_of(row)
        if not stands:
            _licences.lapse_live(row)
            why = "what it stands on has changed: look at the execution that it supersedes or undoes"
            advance(row, "refuse", end_state(row), reason=ExecutionReason.PRECONDITION, evidence={"why": why})
            return PermitDecision(None, snapshot(row))
        licensed, licence = _license(row, summary)
        if not licensed:
            return PermitDecision(None, snapshot(row))
        # last: whoever counts holds up the provider's others, and asks nobody's code and no other row meanwhile
        if background and is_provider_busy(row):
            step_back(row)
            return PermitDecision(None, snapshot(row))
        return PermitDecision(_open_attempt(row, attempt, started, licence), snapshot(row))


def may_resend(row: Execution) -> bool:
    """Return whether an uncertain execution may be sent again on its own.

    Only where the provider cannot be asked and repeating is safe: `repeatable`, or deduplicated by the provider with
    the key's lifetime outlasting this attempt's deadline and the quiet time. Never under an approval rule: a licence is
    worth nothing more once one of its sends is not proven absent.
    """
    contract = row.contract
    if contract["lookup"] is not None or row.attempts >= contract["retry"]["attempts"]:
        return False
    if _licences.rule_of(row) is not None:
        return False
    if contract["repeatable"]:
        return True
    if contract["deduplicated_for"] is None or row.first_sent_at is None:
        return False
    key_ends = row.first_sent_at + timedelta(seconds=contract["deduplicated_for"] - contract["quiet"])
    return key_ends > row.locked_at + timedelta(seconds=contract["request_timeout"])


def why_not_resendable(row: Execution) -> str:
    """Return why nobody can send an execution from its row; empty if its payload is there, whole."""
    if row.contract.get("secrets"):
        return "its payload held a secret, which was never kept: only the call that brought it could send it"
    if not row.payload:
        return "retention dropped its payload"
    return ""


def _lock_elder(execution_id: UUID) -> bool:
    """Lock what this execution supersedes or undoes, before it; return whether that still allows it.

    What is superseded must still be failed or rejected, what is undone must still be completed: late evidence may have
    contradicted it since.
    """
    elders = Execution.objects.filter(pk=execution_id).values_list("supersedes_id", "compensates_id").first()
    superseded, undone = elders or (None, None)
    if superseded is not None and lock_execution(superseded).state not in (_S.FAILED, _S.REJECTED):
        return False
    return undone is None or can_be_undone(lock_execution(undone))


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


def _may_be_sent(row: Execution) -> bool:
    """Return whether the row itself allows a send now: due, whole, holding its key, no lease, no proof of success."""
    if row.state not in _SENDABLE or not row.holds_key or row.applied_evidence is not None:
        return False
    if why_not_resendable(row):
        return False
    if not is_due(row):
        return False
    if is_leased(row):
        return False
    return row.state != _S.UNCERTAIN or may_resend(row)


def _license(row: Execution, summary: dict[str, Any]) -> tuple[bool, Approval | None]:
    """Return whether this send is licensed, and by which approval; if not, the row was moved."""
    if row.state == _S.NEEDS_INTERVENTION:
        return _license_ordered_resend(row, summary)
    if _licences.rule_of(row) is None:
        return True, None
    approval = _licences.newest_for_send(row)
    granted = approval is not None and approval.state == _licences.GRANTED
    if approval is None or not (granted or _licences.covers_another_send(approval)):
        _licences.ask(row, "request_approval", ExecutionReason.APPROVAL_REQUIRED, summary=summary)
    elif _licences.is_void(row, approval, summary):
        replaced = approval if granted else None
        _licences.ask(row, "void", ExecutionReason.CONTENTS_CHANGED, replaces=replaced, summary=summary)
    elif approval.not_before is not None and approval.not_before > approval.locked_at:
        advance(row, "postpone_send", revises=False, due_at=approval.not_before)
    elif why := _licences.why_lapsed(row, approval):
        if granted:
            _licences.lapse(row, approval, why)
        else:  # spent before: nothing of it is left to lapse
            _licences.ask(row, "request_approval", ExecutionReason.APPROVAL_REQUIRED, summary=summary)
    else:
        return True, approval
    return False, None


def _license_ordered_resend(row: Execution, summary: dict[str, Any]) -> tuple[bool, Approval | None]:
    """An ordered resend needs a granted approval of its own, for the very contents that were sent before."""
    approval = _licences.newest_for_resend(row)
    if approval is None or approval.state != _licences.GRANTED:
        advance(row, "order_resend", revises=False, due_at=None)
        return False, None
    why = _licences.why_lapsed(row, approval)
    if not why and _licences.is_void(row, approval, summary):
        why = "what would be sent is not what was ordered"
    if why:
        _licences.lapse(row, approval, why)
        return False, None
    return True, approval


def _open_attempt(row: Execution, attempt: UUID, started: float, licence: Approval | None) -> Permit:
    if licence is not None and licence.state == _licences.GRANTED:
        _licences.spend(row, licence)
    timeout = timedelta(seconds=row.contract["request_timeout"])
    now = licence.locked_at if licence is not None else row.locked_at
    deadline, number = now + timeout, row.attempts + 1
    evidence: dict[str, Any] = {"attempt": number}
    if licence is not None:
        evidence.update(approval=str(licence.pk), digest=licence.digest)
    opened = Attempt.objects.create(
        id=attempt,
        execution_id=row.pk,
        number=number,
        epoch=row.epoch + 1,
        provider_key=row.provider_key,
        payload_digest=row.payload_digest,
        approval=licence,
        permitted_at=now,
        deadline=deadline,
        outcome=str(AttemptOutcome.OPEN),
    )
    digests.tell_row(row, opened)
    advance(
        row,
        "permit" if row.state == _S.PENDING else "resend",
        _S.EXECUTING,
        evidence=evidence,
        epoch=row.epoch + 1,
        attempts=number,
        open_attempts=1,
        due_at=None,
        lease_expires_at=deadline + grace(),
        first_sent_at=row.first_sent_at or now,
        exposed_until=max(row.exposed_until or deadline, deadline),
    )
    return _permit_of(row, attempt, number, started)
