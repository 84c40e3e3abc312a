"""Approvals: people's votes, and how a licence ends without being used."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_approval, lock_execution
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.models import Approval, ApprovalVote, Execution
from effects.people.actors import is_user
from effects.people.eligibility import eligibility, entitlement, is_by_login, valid_voters
from effects.transitions import _decisions, _licences, digests
from effects.transitions._rows import advance, end_state, settles
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import (
    ApprovalError,
    ExecutionNotFoundError,
    NotEntitledError,
    StaleRevisionError,
    WrongStateError,
)
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.states import ApprovalPurpose, ApprovalState, ExecutionReason, ExecutionState
from effects.vocabulary.types import Actor

__all__ = ["cancel", "deny", "expire_approval", "grant", "why_not", "withdraw"]

_S, _R, _A = ExecutionState, ExecutionReason, ApprovalState
APPROVE, DENY = "approve", "deny"


def grant(
    approval_id: UUID, *, user: Any, digest: str, comment: str = "", revision: int | None = None
) -> ExecutionSnapshot:
    """*Commits.* Vote for an approval; with the last vote that the quorum needs it is granted and the send is due.

    Locked: the execution, then the approval. A second click of the same person returns the present snapshot.

    Args:
        approval_id: which.
        user: the person, as the project's user object.
        digest: of the page that they decided on.
        comment: their words.
        revision: the execution's that they saw: who else had voted, and who asks; None: whatever it is now.

    Raises:
        NotEntitledError: they lack the permission, asked for it themselves, or somebody unknown asked.
        StaleRevisionError: the contents, or the execution, changed since their page was made.
        ApprovalError: it was decided already, or expired.
    """
    with commits("approving an effect"):
        row, approval = _lock(approval_id)
        actor = _actor(user)
        if _voted(approval, actor, APPROVE):
            return snapshot(row)
        _check(row, approval, user, digest, revision)
        _add_vote(row, approval, actor, APPROVE, digest, comment, by_login=is_by_login(row, approval, user))
        votes = _count_votes(row, approval)
        evidence = {"digest": digest, "votes": votes, "quorum": approval.quorum, "comment": comment}
        if votes < approval.quorum:
            advance(row, "vote", actor=actor, evidence=evidence)
            return snapshot(row)
        _licences.close(row, approval, _A.GRANTED)
        due = max(row.locked_at, approval.not_before or row.locked_at)
        if approval.purpose == ApprovalPurpose.SEND:
            advance(row, "grant", _S.PENDING, reason=_R.APPROVED, actor=actor, evidence=evidence, due_at=due)
        else:
            advance(row, "grant", actor=actor, evidence=evidence, due_at=due)
        return snapshot(row)


@settles
def deny(
    approval_id: UUID, *, user: Any, digest: str, comment: str = "", revision: int | None = None
) -> ExecutionSnapshot:
    """*Commits.* Refuse an approval: what was never sent is rejected. Args, locks and errors as `grant`."""
    with commits("denying an effect"):
        row, approval = _lock(approval_id)
        actor = _actor(user)
        if _voted(approval, actor, DENY):
            return snapshot(row)
        _check(row, approval, user, digest, revision)
        _add_vote(row, approval, actor, DENY, digest, comment)
        _end(row, approval, "deny", _A.DENIED, _R.DENIED, actor, {"digest": digest, "comment": comment})
        return snapshot(row)


@settles
def withdraw(approval_id: UUID, *, actor: Actor, reason: str = "", revision: int | None = None) -> ExecutionSnapshot:
    """*Commits.* Take back a request for approval, or a grant that was not used; the row decides a race with permit.

    Args:
        approval_id: which.
        actor: who.
        reason: their words.
        revision: the execution's that they saw; None: whatever it is now.

    Raises:
        ApprovalError: it is spent or over.
        StaleRevisionError: the execution changed since they looked.
    """
    with commits("withdrawing an approval"):
        row, approval = _lock(approval_id)
        _decisions.check_revision(row, revision)
        if approval.state not in (_A.REQUESTED, _A.GRANTED):
            raise ApprovalError(f"This approval is {approval.state}; there is nothing to take back.")
        _end(row, approval, "withdraw", _A.WITHDRAWN, _R.WITHDRAWN, actor, {"reason": reason})
        return snapshot(row)


@settles
def expire_approval(approval_id: UUID) -> ExecutionSnapshot:
    """*Commits.* End an approval undecided after its decide-by, or unused after its use-by. Too early: no change."""
    with commits("expiring an approval"):
        row, approval = _lock(approval_id)
        if approval.state == _A.REQUESTED and approval.decide_by <= row.locked_at:
            _end(row, approval, "expire", _A.EXPIRED, _R.APPROVAL_EXPIRED, None, {"decide_by": str(approval.decide_by)})
        elif approval.state == _A.GRANTED and approval.use_by is not None and approval.use_by <= row.locked_at:
            _end(row, approval, "lapse", _A.LAPSED, _R.LAPSED, None, {"use_by": str(approval.use_by)})
        return snapshot(row)


@settles
def cancel(execution_id: UUID, *, actor: Actor, reason: str, revision: int | None = None) -> ExecutionSnapshot:
    """*Commits.* End an execution that was not sent: it waits for people, or is pending.

    Args:
        execution_id: which.
        actor: who.
        reason: their words.
        revision: what they saw; None: whatever it is now.

    Raises:
        WrongStateError: it is being sent, or was.
        StaleRevisionError: it changed since they looked.
    """
    with commits("cancelling an effect"):
        row = lock_execution(execution_id)
        _decisions.check_revision(row, revision)
        approval = _licences.lock_live(row)
        evidence = {"reason": reason}
        if row.state == _S.AWAITING_APPROVAL and approval is not None:
            _end(row, approval, "withdraw", _A.WITHDRAWN, _R.CANCELLED, actor, evidence)
        elif row.state == _S.PENDING:
            if approval is not None:
                _licences.close(row, approval, _A.WITHDRAWN)
            advance(row, "refuse", end_state(row), reason=_R.CANCELLED, actor=actor, evidence=evidence)
        else:
            raise WrongStateError(f"{row.operation} {row.pk} is {row.state}; only what was not sent can be cancelled.")
        return snapshot(row)


def why_not(row: Execution, approval: Approval, user: Any) -> str:
    """Return in words why `user` is not entitled to decide this approval; empty if they are. As at every vote."""
    return entitlement(row, approval, user).text


def _lock(approval_id: UUID) -> tuple[Execution, Approval]:
    found = Approval.objects.filter(pk=approval_id).only("execution_id").first()
    if found is None:
        raise ExecutionNotFoundError(f"There is no approval {approval_id}")
    row = lock_execution(found.execution_id)
    approval = lock_approval(approval_id)
    row.locked_at = approval.locked_at
    return row, approval


def _count_votes(row: Execution, approval: Approval) -> int:
    """Count the approvals that count now: of people who are entitled still, and did not ask for it since they voted."""
    rule = rule_from_json(approval.rule)
    return len(valid_voters(row, approval, rule)) if rule is not None else 0


def _actor(user: Any) -> Actor:
    actor = Actor.of(user) if is_user(user) else None
    if actor is None:
        raise NotEntitledError("An approval is decided by a person who is logged in.")
    return actor


def _voted(approval: Approval, actor: Actor, decision: str) -> bool:
    """Return whether this is a second click; one on a page whose approval ended unused since is none."""
    vote = approval.votes.filter(actor_id=actor.id).first()
    if vote is None:
        return False
    if vote.decision != decision:
        raise ApprovalError(f"You decided this one before: {vote.decision}.")
    return approval.state not in (_A.LAPSED, _A.EXPIRED, _A.WITHDRAWN)


def _check(row: Execution, approval: Approval, user: Any, digest: str, revision: int | None) -> None:
    found = eligibility(row, approval, user, at=row.locked_at)
    if not found.can_decide:
        raise NotEntitledError(found.text) if found.is_personal else ApprovalError(found.text)
    _decisions.check_revision(row, revision)
    if digest != approval.digest or approval.digest != _licences.digest_of(row, ApprovalPurpose(approval.purpose)):
        raise StaleRevisionError("The contents changed since this page was made; look at them again.")


def _add_vote(
    row: Execution,
    approval: Approval,
    actor: Actor,
    decision: str,
    digest: str,
    comment: str,
    *,
    by_login: bool = False,
) -> None:
    vote = ApprovalVote.objects.create(
        approval=approval, actor_id=actor.id, actor_label=actor.label, decision=decision,
        comment=canonical.clean_text(comment), digest_seen=digest, by_login=by_login, at=row.locked_at,
    )  # fmt: skip
    digests.tell_row(row, vote)


def _end(
    row: Execution,
    approval: Approval,
    verb: str,
    state: ApprovalState,
    reason: ExecutionReason,
    actor: Actor | None,
    evidence: dict[str, Any],
) -> None:
    """End an approval; what waited for it ends with it, except something in doubt that a resend was asked for."""
    _licences.close(row, approval, state)
    if approval.purpose == ApprovalPurpose.RESEND:
        advance(row, verb, actor=actor, evidence=evidence, due_at=None)
        return
    advance(
        row, verb, end_state(row), reason=reason, actor=actor, evidence=evidence, failure_code=str(reason),
        failure_message=canonical.clean_text(evidence.get("comment") or evidence.get("reason") or ""),
    )  # fmt: skip
