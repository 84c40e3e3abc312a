"""Ordered resends: a named person has something in doubt sent again, under the same provider key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.journal.summaries import of_purpose
from effects.models import Approval, Execution
from effects.people.approvers import somebody_can_decide
from effects.people.eligibility import context_for, requester_ids
from effects.transitions import _decisions, _licences, digests
from effects.transitions._rows import advance, effect_of
from effects.transitions.evidence import DISPUTED
from effects.transitions.permits import why_not_resendable
from effects.vocabulary.exceptions import NobodyEntitledError, NotEntitledError, WrongStateError
from effects.vocabulary.states import ApprovalPurpose, ApprovalState, ExecutionState, values
from effects.vocabulary.types import Actor

__all__ = ["needs_confirming", "order_resend", "what_confirms"]

#: How long an order that needs no approval stays good: a sweep that is stuck for longer must not surprise anybody.
USE_WITHIN = timedelta(hours=1)
_CONFIRMING = {False: "its amount in minor units", True: "its key"}


def order_resend(
    execution_id: UUID, *, revision: int, decision_id: str, actor: Actor, reason: str, confirm: str | int = ""
) -> ExecutionSnapshot:
    """*Commits.* Order another send of an execution that waits for a person, whatever may have become of the first.

    Writes a resend approval, granted by the orderer where the frozen rule demands none; otherwise others must vote.
    The send keeps the provider key. Locked: the execution. A repeated `decision_id` returns the present snapshot.

    Args:
        execution_id: which.
        revision: what the person saw.
        decision_id: made by their page or program.
        actor: who.
        reason: why, in their words; required.
        confirm: after a conflict, where no rule has a second person look: its amount in minor units, or its key where
            it has no amount. What was found there may be this very thing, so that nobody orders it in passing.

    Raises:
        StaleRevisionError: it changed since they looked.
        WrongStateError: it does not wait for a person, proof of success is on file, its key has passed on, its payload
            is not kept, a resend is ordered already, or `confirm` is missing or another one.
        NobodyEntitledError: the rule demands an approval that nobody can give.
        NotEntitledError: there is no reason.
    """
    if not reason.strip():
        raise NotEntitledError("A resend is ordered with a reason.")
    with commits("ordering a resend"):
        row = lock_execution(execution_id)
        if _decisions.is_taken(row, decision_id):
            return snapshot(row)
        _check(row, revision)
        if needs_confirming(row) and str(confirm) != what_confirms(row):
            raise WrongStateError(
                f"What was found of {row.operation} {row.pk} contradicts what was asked for, so it may have happened. "
                f"To have it sent again all the same confirm it: confirm= is {_CONFIRMING[row.amount is None]}."
            )
        effect_of(row)
        approval = _request(row, actor)
        granted = approval.state == ApprovalState.GRANTED
        _decisions.keep(row, "resend", revision=revision, decision_id=decision_id, actor=actor, reason=reason)
        advance(
            row,
            "order_resend",
            actor=actor,
            evidence={"reason": reason, "approval": str(approval.pk), "digest": approval.digest},
            requesters=_with(row, actor),
            due_at=row.locked_at if granted else None,
        )
        return snapshot(row)


def needs_confirming(row: Execution) -> bool:
    """Return whether somebody who orders a resend has to confirm it: evidence was at odds, and no rule asks others.

    Once in conflict is enough, whatever its reason is called since: a reopening that found nothing clears nothing up.
    """
    if _licences.rule_of(row) is not None:
        return False
    return row.reason in DISPUTED or row.receipts.filter(reason__in=values(DISPUTED)).exists()


def what_confirms(row: Execution) -> str:
    """Return what has to be confirmed: the amount, or the key of what has none."""
    return row.key if row.amount is None else str(row.amount)


def _check(row: Execution, revision: int) -> None:
    _decisions.check_revision(row, revision)
    if row.state != ExecutionState.NEEDS_INTERVENTION or not row.holds_key:
        raise WrongStateError(
            f"{row.operation} {row.pk} is {row.state}; a resend is ordered of what waits for a person."
        )
    if row.applied_evidence is not None:
        raise WrongStateError("Proof that it applied is on file; sending it again would do it twice.")
    if why := why_not_resendable(row):
        raise WrongStateError(f"{row.operation} {row.pk} cannot be sent again: {why}.")
    if _licences.lock_live(row) is not None:
        raise WrongStateError("A resend is ordered already.")


def _request(row: Execution, actor: Actor) -> Approval:
    """Ask those whom the rule names, not the orderer; without a rule the order is the licence."""
    rule = _licences.rule_of(row)
    if rule is not None:
        if not somebody_can_decide(rule, requester_ids(row) | {actor.id}, context_for(row, rule)):
            raise NobodyEntitledError(
                f"A resend needs {rule.quorum} approval(s) by {rule.approvers!r} who did not ask for it, and there are "
                "not that many active ones."
            )
        return _licences.request(row, rule, ApprovalPurpose.RESEND)
    ordered = Approval.objects.create(
        execution_id=row.pk,
        purpose=str(ApprovalPurpose.RESEND),
        digest=_licences.digest_of(row, ApprovalPurpose.RESEND),
        summary=of_purpose(row.summary, ApprovalPurpose.RESEND),
        quorum=1,
        decide_by=row.locked_at + USE_WITHIN,
        use_within=USE_WITHIN,
        use_by=row.locked_at + USE_WITHIN,
        state=str(ApprovalState.GRANTED),
        created_at=row.locked_at,
        decided_at=row.locked_at,
    )
    digests.tell_row(row, ordered)
    return ordered


def _with(row: Execution, actor: Actor) -> list[dict[str, Any]]:
    """Return the requesters with the orderer among them: nobody approves what they ordered."""
    if any(person["id"] == actor.id for person in row.requesters):
        return list(row.requesters)
    return [*row.requesters, actor.as_json()]
