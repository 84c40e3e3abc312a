"""Late and outside evidence: what arrives about an execution from elsewhere than its own open attempt."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effects import canonical
from effects._commits import commits
from effects._locks import lock_execution
from effects.models import Execution
from effects.snapshots import ExecutionSnapshot, snapshot
from effects.states import EXECUTION_IN_DOUBT, AttemptOutcome, ExecutionReason, ExecutionState
from effects.transitions import _licences
from effects.transitions._rows import advance
from effects.transitions.attempts import Report, complete_row
from effects.types import Applied, Partial, Submitted

__all__ = ["late_outcome", "observe", "observe_row"]

_S, _R = ExecutionState, ExecutionReason
_HAPPENED = (_S.COMPLETED, _S.PARTIALLY_COMPLETED)


def late_outcome(execution_id: UUID, *, attempt: UUID, report: Report) -> ExecutionSnapshot:
    """*Commits.* Keep the news of an attempt whose lease was taken over.

    Its own success settles the execution if no later attempt was permitted and it is in doubt; otherwise it is evidence
    that a look-up or a person weighs. A late failure changes nothing: it proves nothing about other attempts.
    """
    with commits("recording a late outcome"):
        row = lock_execution(execution_id)
        known = row.attempt_rows.filter(pk=attempt).first()
        if known is None or not isinstance(report, (Applied, Partial, Submitted)):
            advance(row, "observe", revises=False, evidence={"late": type(report).__name__, "attempt": str(attempt)})
            return snapshot(row)
        evidence = {"late": type(report).__name__, "attempt": known.number, "reference": report.reference}
        if isinstance(report, Submitted):
            advance(row, "observe", evidence=evidence, revises=False)
            return snapshot(row)
        row.attempt_rows.filter(pk=attempt).update(
            outcome=str(AttemptOutcome.APPLIED), reference=canonical.clean_text(report.reference, 255)
        )
        newest = known.number == row.attempts
        if newest and row.state in EXECUTION_IN_DOUBT and row.reason != _R.CONFLICT:
            complete_row(row, "confirm", _R.LATE_REPLY, report, evidence)
        else:
            observe_row(row, reference=report.reference, evidence=evidence)
        return snapshot(row)


def observe(execution_id: UUID, *, reference: str, evidence: dict[str, Any]) -> ExecutionSnapshot:
    """*Commits.* Keep outside evidence of success: a webhook, a statement.

    In doubt or executing: it may have applied, and a look-up is due now. In states that say that nothing happened, or
    with another reference on file: a person is needed.
    """
    with commits("recording evidence"):
        row = lock_execution(execution_id)
        observe_row(row, reference=reference, evidence=evidence)
        return snapshot(row)


def observe_row(row: Execution, *, reference: str, evidence: dict[str, Any]) -> None:
    """Weigh evidence of success against a locked row."""
    reference = canonical.clean_text(reference, 255)
    on_file = {**canonical.clean_json(evidence), "reference": reference}
    if row.state in _HAPPENED:
        if reference and row.reference and reference != row.reference:
            _contradict(row, {**on_file, "why": "two references for one execution"}, on_file)
        else:
            advance(row, "observe", evidence=on_file, revises=False)
    elif row.state == _S.EXECUTING:
        advance(row, "observe", evidence=on_file, may_have_applied=True, applied_evidence=on_file)
    elif row.state in EXECUTION_IN_DOUBT:
        due = None if row.state == _S.NEEDS_INTERVENTION else row.locked_at
        advance(row, "observe", evidence=on_file, may_have_applied=True, applied_evidence=on_file, due_at=due)
    else:
        _contradict(row, {**on_file, "why": f"{row.state}, but it happened"}, on_file)


def _contradict(row: Execution, evidence: dict[str, Any], on_file: dict[str, Any]) -> None:
    _licences.lapse_live(row)
    advance(
        row, "contradict", _S.NEEDS_INTERVENTION, reason=_R.CONTRADICTED, evidence=evidence, may_have_applied=True,
        applied_evidence=on_file, due_at=None, hook_due_at=None,
    )  # fmt: skip
