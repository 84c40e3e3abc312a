"""What a person knows that says otherwise than a row does: brought as evidence, and never the last word."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import WORD_OF, ExecutionSnapshot, snapshot
from effects.models import Execution
from effects.transitions import _decisions, _licences
from effects.transitions._rows import advance
from effects.transitions.attempts import is_undone, references_on_file
from effects.transitions.evidence import (
    HAPPENED,
    TWO_REFERENCES,
    contradict_row,
    is_only_word,
    kept_beside,
    observe_row,
    weighed,
)
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import WrongStateError
from effects.vocabulary.states import EXECUTION_IN_DOUBT, NOTHING_HAPPENED, ExecutionReason, ExecutionState
from effects.vocabulary.types import Actor

__all__ = ["STATEMENTS", "bring_evidence", "why_not_said"]

#: What evidence may say, in the words of a resolution.
STATEMENTS = ("applied", "undone", "not_applied")
_S, _R = ExecutionState, ExecutionReason
_LOOK_AGAIN = "It says that already, so there is nothing to contradict."


def bring_evidence(
    execution_id: UUID,
    *,
    statement: str,
    actor: Actor,
    reason: str,
    reference: str = "",
    revision: int | None = None,
    decision_id: str,
    evidence: dict[str, Any] | None = None,
) -> ExecutionSnapshot:
    """*Commits.* Take a person's evidence that an execution stands otherwise than its row says.

    What is settled or not sent becomes a person's to resolve; in doubt, proof goes on file and a look-up is due. It
    decides nothing by itself and sends nothing. That something did *not* happen is heard against people's words alone:
    a provider's answer beats any absence. Locked: the execution. A repeated `decision_id` returns the present snapshot.

    Args:
        execution_id: which.
        statement: one of `STATEMENTS`.
        actor: who.
        reason: what they have seen, in their words; required.
        reference: the provider's id of what happened.
        revision: what they saw; None: whatever it is now.
        decision_id: made by their page or program.
        evidence: what they base it on.

    Raises:
        StaleRevisionError: it changed since they looked.
        WrongStateError: there is no reason, or nothing that the statement contradicts.
    """
    if statement not in STATEMENTS:
        raise WrongStateError(f"Evidence says one of {', '.join(STATEMENTS)}, not {statement!r}")
    if not reason.strip():
        raise WrongStateError("Evidence needs a reason: what was seen, and where.")
    with commits("recording evidence"):
        row = lock_execution(execution_id)
        if _decisions.is_taken(row, decision_id):
            return snapshot(row)
        _decisions.check_revision(row, revision)
        why = why_not_said(row, statement, reference)
        if why:
            raise WrongStateError(f"{row.operation} {row.pk} is {row.state}. {why}")
        _decisions.keep(
            row, "evidence", revision=row.revision, decision_id=decision_id, actor=actor, reason=reason,
            evidence=evidence,
        )  # fmt: skip
        said = {"decision": statement, "reason": canonical.clean_text(reason), **(evidence or {})}
        if statement == "not_applied":
            _take_word_back(row, said, actor)
        else:
            _happened(row, reference, {**said, "undone": True} if statement == "undone" else said, actor)
        return snapshot(row)


def why_not_said(row: Execution, statement: str, reference: str = "") -> str:
    """Return in words why a person's evidence says nothing new of an execution; empty if it contradicts the row."""
    if row.state == _S.EXECUTING and statement == "not_applied":
        return "It is being sent just now; wait until that has ended."
    if statement == "not_applied":
        return _why_not_denied(row)
    if row.state not in HAPPENED:
        return ""
    undone = row.reason == _R.UNDONE or is_undone(row)
    is_new = bool(reference) and canonical.clean_reference(reference) not in references_on_file(row)
    return "" if is_new or undone != (statement == "undone") else _LOOK_AGAIN


def _why_not_denied(row: Execution) -> str:
    if row.state in NOTHING_HAPPENED:
        return _LOOK_AGAIN
    if not is_only_word(row):
        return (
            "The provider's own proof that it happened is on file, and that something cannot be found is no evidence "
            "against it. If it was taken back at the provider, say that it was undone."
        )
    if row.state in EXECUTION_IN_DOUBT and row.applied_evidence is None:
        return "Nothing on file says that it happened: resolve it as not applied."
    return ""


def _happened(row: Execution, reference: str, said: dict[str, Any], actor: Actor) -> None:
    if row.state not in HAPPENED:
        observe_row(row, reference=reference, evidence=said, by=actor)
        return
    on_file, second = weighed(row, reference, said)
    why = TWO_REFERENCES if second else f"{row.state}, and a person has evidence that says otherwise"
    contradict_row(row, {**on_file, "why": why}, kept_beside(row, on_file, second=second, by=actor), by=actor)


def _take_word_back(row: Execution, said: dict[str, Any], actor: Actor) -> None:
    """Take people's word that it happened off file: a person decides anew, also that it did not happen."""
    word = row.applied_evidence or {}
    evidence = {**said, "was": word.get(WORD_OF) or "a person's decision", "reference": word.get("reference", "")}
    changes: dict[str, Any] = {"may_have_applied": True, "applied_evidence": None, "due_at": None, "actor": actor}
    if row.reference and row.reference == word.get("reference"):
        # a reference of what did not happen would pass for a second one later
        changes["reference"] = ""
    if row.state == _S.NEEDS_INTERVENTION:
        _licences.lapse_live(row)
        advance(row, "observe", reason=_R.CONFLICT, evidence=evidence, **changes)
    elif row.state in EXECUTION_IN_DOUBT:
        advance(
            row, "escalate", _S.NEEDS_INTERVENTION, reason=_R.CONFLICT, evidence=evidence, lease_expires_at=None,
            **changes,
        )  # fmt: skip
    else:
        advance(row, "contradict", _S.NEEDS_INTERVENTION, reason=_R.CONTRADICTED, evidence=evidence, **changes)
