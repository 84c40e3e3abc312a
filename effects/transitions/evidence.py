"""Late and outside evidence: what arrives about an execution from elsewhere than its own open attempt."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import WORD_OF, ExecutionSnapshot, snapshot
from effects.models import Attempt, Execution
from effects.transitions import _licences, digests
from effects.transitions._rows import advance, settles
from effects.transitions.attempts import (
    Report,
    complete_row,
    is_undone,
    proof_of_undoing,
    references_on_file,
    without_word,
)
from effects.vocabulary import canonical
from effects.vocabulary.states import EXECUTION_IN_DOUBT, AttemptOutcome, ExecutionReason, ExecutionState
from effects.vocabulary.types import Actor, Applied, Partial, Submitted

__all__ = [
    "DISPUTED",
    "HAPPENED",
    "TWO_REFERENCES",
    "contradict_row",
    "is_only_word",
    "kept_beside",
    "late_outcome",
    "observe",
    "observe_row",
    "undo_row",
    "weighed",
]

_S, _R = ExecutionState, ExecutionReason
HAPPENED = (_S.COMPLETED, _S.PARTIALLY_COMPLETED)
#: What a person has to weigh, so that a late reply does not settle it over their head.
DISPUTED = frozenset({_R.CONFLICT, _R.CONTRADICTED})
TWO_REFERENCES = "two references for one execution"


@settles
def late_outcome(execution_id: UUID, *, attempt: UUID, report: Report) -> ExecutionSnapshot:
    """*Commits.* Keep the news of an attempt whose lease was taken over.

    Its own success settles the execution if no later attempt was permitted and it is in doubt; otherwise it is evidence
    that a look-up or a person weighs. That the provider took the order is looked into, and contradicts a state that
    says that nothing happened. A late failure changes nothing: it proves nothing about other attempts.
    """
    with commits("recording a late outcome"):
        row = lock_execution(execution_id)
        known = row.attempt_rows.filter(pk=attempt).first()
        if known is None and isinstance(report, (Applied, Partial)):
            # an attempt that a restored journal has forgotten: its news is as good as a webhook's
            observe_row(row, reference=report.reference, evidence={"late": "forgotten", "attempt": str(attempt)})
        elif known is None or not isinstance(report, (Applied, Partial, Submitted)):
            advance(row, "observe", revises=False, evidence={"late": type(report).__name__, "attempt": str(attempt)})
        elif isinstance(report, Submitted):
            _late_order(row, known, report)
        else:
            _late_success(row, known, report)
    return snapshot(row)


def observe(execution_id: UUID, *, reference: str, evidence: dict[str, Any], undone: bool = False) -> ExecutionSnapshot:
    """*Commits.* Keep outside evidence of success: a webhook, a statement.

    In doubt or executing: it may have applied, and a look-up is due now. In states that say that nothing happened, or
    with another reference on file: a person is needed.

    Args:
        execution_id: which.
        reference: the provider's id of what happened.
        evidence: what is kept; cleaned here.
        undone: it happened and was undone at the provider (a bank returned it), so that `completed` is not all.
    """
    with commits("recording evidence"):
        row = lock_execution(execution_id)
        (undo_row if undone else observe_row)(row, reference=reference, evidence=evidence)
        return snapshot(row)


def observe_row(row: Execution, *, reference: str, evidence: dict[str, Any], by: Actor | None = None) -> None:
    """Weigh evidence of success against a locked row; a person's (`by`) is their word until a program finds it too."""
    on_file, second = weighed(row, reference, evidence)
    kept = kept_beside(row, on_file, second=second, by=by)
    if row.state in HAPPENED:
        if second:
            contradict_row(row, {**on_file, "why": TWO_REFERENCES}, kept, by=by)
        elif by is None and row.applied_evidence is not None and is_only_word(row):
            advance(row, "observe", evidence=on_file, applied_evidence=kept)
        else:
            advance(row, "observe", evidence=on_file, revises=False, actor=by)
    elif row.state == _S.EXECUTING:
        _observe_unsettled(row, on_file, kept, second=second, due_at=None, by=by)
    elif row.state in (_S.UNCERTAIN, _S.ACCEPTED) and second:
        advance(
            row, "escalate", _S.NEEDS_INTERVENTION, reason=_R.CONFLICT, evidence={**on_file, "why": TWO_REFERENCES},
            may_have_applied=True, applied_evidence=kept, lease_expires_at=None, due_at=None, actor=by,
        )  # fmt: skip
    elif row.state in EXECUTION_IN_DOUBT:
        # a person's: nothing is sent again beside proof that it applied, whoever ordered it
        due = None if row.state == _S.NEEDS_INTERVENTION else row.locked_at
        if row.state == _S.NEEDS_INTERVENTION:
            _licences.lapse_live(row)
        _observe_unsettled(row, on_file, kept, second=second, due_at=due, by=by)
    else:
        contradict_row(row, {**on_file, "why": f"{row.state}, but it happened"}, kept, by=by)


def undo_row(row: Execution, *, reference: str, evidence: dict[str, Any]) -> None:
    """Weigh evidence against a locked row that it happened and was undone at the provider."""
    evidence = {**evidence, "undone": True}
    if row.state not in HAPPENED:
        observe_row(row, reference=reference, evidence=evidence)
        return
    on_file, second = weighed(row, reference, evidence)
    why = f"{row.state}, and undone at the provider"
    contradict_row(row, {**on_file, "why": why}, kept_beside(row, on_file, second=second))


def _late_success(row: Execution, known: Attempt, report: Applied | Partial) -> None:
    reference = canonical.clean_reference(report.reference)
    evidence = {"late": type(report).__name__, "attempt": known.number, "reference": reference}
    _hear_late(row, known, AttemptOutcome.APPLIED, reference)
    settles = known.number == row.attempts and row.state in EXECUTION_IN_DOUBT and row.reason not in DISPUTED
    if settles and references_on_file(row) <= {reference} and not proof_of_undoing(row, reference):
        complete_row(row, "confirm", _R.LATE_REPLY, report, evidence)
    else:
        observe_row(row, reference=reference, evidence=evidence)


def _late_order(row: Execution, known: Attempt, report: Submitted) -> None:
    """The provider took the order of an attempt that was given up: no proof of success, and no "nothing happened"."""
    reference = canonical.clean_reference(report.reference)
    evidence = {"late": "Submitted", "attempt": known.number, "reference": reference}
    _hear_late(row, known, AttemptOutcome.SUBMITTED, reference)
    if row.state in HAPPENED:
        advance(row, "observe", evidence=evidence, revises=False)
    elif row.state == _S.NEEDS_INTERVENTION:
        # whoever ordered a resend did not know of this
        _licences.lapse_live(row)
        advance(row, "observe", evidence=evidence, due_at=None)
    elif row.state == _S.EXECUTING:
        advance(row, "observe", evidence=evidence, may_have_applied=True)
    elif row.state in EXECUTION_IN_DOUBT:
        advance(row, "observe", evidence=evidence, due_at=row.locked_at)
    else:
        contradict_row(row, {**evidence, "why": f"{row.state}, but the provider took the order"}, None)


def _hear_late(row: Execution, known: Attempt, outcome: AttemptOutcome, reference: str) -> None:
    row.attempt_rows.filter(pk=known.pk).update(outcome=str(outcome), reference=reference)
    digests.tell(row, f"outcome {known.number}", [str(outcome), reference])


def weighed(row: Execution, reference: str, evidence: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return evidence as it is kept, and whether it names another reference than those that we hold."""
    cleaned = canonical.clean_json(without_word(evidence))
    on_file = {**cleaned, "reference": canonical.clean_reference(reference)}
    return on_file, bool(on_file["reference"]) and not references_on_file(row) <= {on_file["reference"]}


def is_only_word(row: Execution) -> bool:
    """Return whether nothing but people's words stands behind what is said to have happened, if anything is."""
    if row.applied_evidence is not None:
        return WORD_OF in row.applied_evidence
    return row.state not in HAPPENED or row.reason in (_R.OPERATOR, _R.UNDONE)


def kept_beside(row: Execution, on_file: dict[str, Any], *, second: bool, by: Actor | None = None) -> dict[str, Any]:
    """Return what is on file from now on: a second reference beside the first, never over it; undone stays undone.

    A person's word stands beside a program's proof, not over it, and is marked as theirs where it is all there is.
    """
    if by is not None and is_only_word(row):
        named = {**on_file, WORD_OF: str(by)}
        both = {**named, **(row.applied_evidence or {}), "other_reference": on_file["reference"], WORD_OF: str(by)}
        return both if second else named
    earlier = without_word(row.applied_evidence or on_file)
    kept = {**earlier, "other_reference": on_file["reference"]} if second else on_file if by is None else earlier
    return {**kept, "undone": True} if is_undone(row) or on_file.get("undone") else kept


def _observe_unsettled(
    row: Execution,
    on_file: dict[str, Any],
    kept: dict[str, Any],
    *,
    second: bool,
    due_at: datetime | None,
    by: Actor | None,
) -> None:
    """Put proof on file beside an unsettled row; two references are a conflict."""
    conflict = second and row.state == _S.NEEDS_INTERVENTION
    advance(
        row, "observe", reason=_R.CONFLICT if conflict else None, actor=by,
        evidence={**on_file, "why": TWO_REFERENCES} if second else on_file, may_have_applied=True,
        applied_evidence=kept, due_at=due_at,
    )  # fmt: skip


def contradict_row(
    row: Execution, evidence: dict[str, Any], on_file: dict[str, Any] | None, *, by: Actor | None = None
) -> None:
    """Hand a locked row to a person whose state evidence contradicts; `on_file` is proof that it happened, if any."""
    _licences.lapse_live(row)
    advance(
        row, "contradict", _S.NEEDS_INTERVENTION, reason=_R.CONTRADICTED, evidence=evidence, may_have_applied=True,
        applied_evidence=on_file or row.applied_evidence, due_at=None, actor=by,
    )  # fmt: skip
