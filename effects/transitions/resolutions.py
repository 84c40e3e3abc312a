"""Operators' decisions about executions in doubt."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import WORD_OF, ExecutionSnapshot, barrier, snapshot
from effects.models import Execution
from effects.transitions import _decisions, _licences
from effects.transitions._rows import advance, is_leased, settles
from effects.transitions.attempts import complete_row, references_on_file
from effects.transitions.evidence import is_only_word
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import TooSoonError, WrongStateError
from effects.vocabulary.states import EXECUTION_IN_DOUBT, ExecutionReason, ExecutionState
from effects.vocabulary.types import Actor, Applied

__all__ = ["DECISIONS", "reopen", "resolve"]

#: What an operator may decide, and what it means.
DECISIONS = {
    "applied": "It happened.",
    "undone": "It happened and was undone at the provider.",
    "not_applied": "It did not happen, and no request for it is under way any more.",
    "unknown": "Nobody will know. The key stays taken.",
}
_S, _R = ExecutionState, ExecutionReason


@settles
def resolve(
    execution_id: UUID,
    *,
    decision: str,
    revision: int,
    decision_id: str,
    actor: Actor,
    reason: str,
    evidence: dict[str, Any] | None = None,
    output: Any = None,
    reference: str = "",
) -> ExecutionSnapshot:
    """*Commits.* Settle an execution in doubt by a person's decision.

    Locked: the execution. A repeated `decision_id` returns the present snapshot.

    Args:
        execution_id: which.
        decision: a key of `DECISIONS`.
        revision: what the person saw.
        decision_id: made by their page or program.
        actor: who.
        reason: why, in their words; required.
        evidence: what they base it on.
        output: what the effect gave, where it applied.
        reference: the provider's id, where it applied; empty: the one that is on file, if there is one alone.

    Raises:
        StaleRevisionError: it changed since they looked.
        WrongStateError: it is not in doubt, a look-up is under way, or proof of success is on file.
        TooSoonError: "not applied" before the barrier.
    """
    if decision not in DECISIONS:
        raise WrongStateError(f"decision is one of {', '.join(DECISIONS)}, not {decision!r}")
    if not reason.strip():
        raise WrongStateError("A resolution needs a reason.")
    with commits("resolving an effect"):
        row = lock_execution(execution_id)
        if _decisions.is_taken(row, decision_id):
            return snapshot(row)
        _check(row, revision)
        _decisions.keep(
            row, decision, revision=revision, decision_id=decision_id, actor=actor, reason=reason, evidence=evidence
        )
        kept = {**(evidence or {}), "decision": decision, "reason": reason}
        if decision in ("applied", "undone"):
            _resolve_applied(row, actor, decision, Applied(output=output, reference=reference), kept)
        elif decision == "not_applied":
            _resolve_not_applied(row, actor, reason, kept)
        else:
            _licences.lapse_live(row)
            advance(
                row, "resolve", _S.ABANDONED, reason=_R.OPERATOR, actor=actor, evidence=kept, lease_expires_at=None
            )  # fmt: skip
    return snapshot(row)


def reopen(execution_id: UUID, *, revision: int, decision_id: str, actor: Actor, reason: str) -> ExecutionSnapshot:
    """*Commits.* Give an execution that waits for a person a new budget of look-ups; never sends.

    Raises:
        StaleRevisionError, WrongStateError: as `resolve`; or it has no look-up, or no payload for one any more.
    """
    with commits("reopening an effect"):
        row = lock_execution(execution_id)
        if _decisions.is_taken(row, decision_id):
            return snapshot(row)
        _check(row, revision)
        if row.contract["lookup"] is None:
            raise WrongStateError(f"{row.operation} has no look-up; it can only be resolved.")
        if row.pruned_at is not None:
            raise WrongStateError("Retention dropped its payload, which a look-up needs; it can only be resolved.")
        _licences.lapse_live(row)
        _decisions.keep(row, "reopen", revision=revision, decision_id=decision_id, actor=actor, reason=reason)
        advance(
            row, "reopen", _S.UNCERTAIN, reason=_R.REOPENED, actor=actor, evidence={"reason": reason},
            lookups_spent=0, lookups_unreachable=0, due_at=row.locked_at,
        )  # fmt: skip
        return snapshot(row)


def _check(row: Execution, revision: int) -> None:
    _decisions.check_revision(row, revision)
    if row.state not in EXECUTION_IN_DOUBT:
        raise WrongStateError(f"{row.operation} {row.pk} is {row.state}; only what is in doubt is resolved.")
    if is_leased(row):
        raise WrongStateError("A look-up is under way; wait for its answer, a few seconds.")


def _resolve_applied(row: Execution, actor: Actor, decision: str, report: Applied, evidence: dict[str, Any]) -> None:
    """Complete it by a person's word, which no program has checked: where there is no more, the file says so."""
    known = references_on_file(row)
    reference = canonical.clean_reference(report.reference) or row.reference or (known.pop() if len(known) == 1 else "")
    word = {"reference": reference, WORD_OF: str(actor)}
    undone = {"undone": True} if decision == "undone" else {}
    complete_row(
        row, "resolve", _R.OPERATOR if decision == "applied" else _R.UNDONE,
        Applied(output=report.output, reference=reference), {**evidence, WORD_OF: str(actor)},
        on_file={**word, **undone} if is_only_word(row) else None, actor=actor,
    )  # fmt: skip


def _resolve_not_applied(row: Execution, actor: Actor, reason: str, evidence: dict[str, Any]) -> None:
    believed_from = barrier(row)
    if row.applied_evidence is not None:
        word = row.applied_evidence.get(WORD_OF)
        whose = f", by the word of {word}: bring evidence that says otherwise first" if word else ""
        raise WrongStateError(f"Proof that it applied is on file{whose}; it cannot be resolved as not applied.")
    if believed_from is not None and believed_from >= row.locked_at:
        raise TooSoonError(f"A request may still land until {believed_from:%H:%M:%S %Z}; decide after that.")
    _licences.lapse_live(row)
    advance(
        row, "resolve", _S.FAILED, reason=_R.OPERATOR, actor=actor, evidence=evidence, may_have_applied=False,
        lease_expires_at=None, failure_code=str(_R.OPERATOR), failure_message=canonical.clean_text(reason),
    )  # fmt: skip
