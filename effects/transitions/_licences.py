"""Licences: the approvals of a locked execution, as the verbs that send or end it need them. All join its commit."""

from __future__ import annotations

from datetime import datetime

from effects._locks import lock_approval
from effects.approvers import still_entitled
from effects.effect import rule_as_json, rule_from_json
from effects.intents import approval_digest
from effects.models import Approval, Attempt, Execution
from effects.states import APPROVAL_LIVE, ApprovalPurpose, ApprovalState, AttemptOutcome, values
from effects.types import ApprovalRule

__all__ = [
    "close",
    "covers_another_send",
    "digest_of",
    "lapse_live",
    "lock_live",
    "newest",
    "request",
    "rule_of",
    "spend",
    "voters_still_entitled",
]

_UNPROVEN = values({AttemptOutcome.OPEN, AttemptOutcome.UNKNOWN, AttemptOutcome.APPLIED, AttemptOutcome.SUBMITTED})


def rule_of(row: Execution) -> ApprovalRule | None:
    """Return the rule that the row froze."""
    return rule_from_json(row.contract.get("approval"))


def digest_of(row: Execution, purpose: ApprovalPurpose) -> str:
    """Return the digest of all that an approver decides about, from the row as it stands."""
    return approval_digest(
        operation=row.operation,
        provider=row.provider,
        tenant=row.tenant,
        key=row.key,
        payload_digest=row.payload_digest,
        summary_digest=row.summary_digest,
        rule=row.contract.get("approval"),
        purpose=str(purpose),
    )


def request(row: Execution, rule: ApprovalRule, purpose: ApprovalPurpose = ApprovalPurpose.SEND) -> Approval:
    """Insert the request for an approval; the caller moves the execution."""
    return Approval.objects.create(
        execution_id=row.pk,
        purpose=str(purpose),
        digest=digest_of(row, purpose),
        summary=row.summary,
        rule=rule_as_json(rule) or {},
        approvers=rule.approvers,
        quorum=rule.quorum,
        covers_retries=rule.covers_retries,
        decide_by=row.locked_at + rule.decide_within,
        not_before=rule.not_before,
        use_within=rule.use_within,
        state=str(ApprovalState.REQUESTED),
        created_at=row.locked_at,
    )


def lock_live(row: Execution) -> Approval | None:
    """Lock the live approval of a locked execution, if there is one."""
    live = Approval.objects.filter(execution_id=row.pk, state__in=values(APPROVAL_LIVE)).only("pk").first()
    if live is None:
        return None
    approval = lock_approval(live.pk)
    return approval if approval.state in APPROVAL_LIVE else None


def newest(row: Execution, purpose: ApprovalPurpose) -> Approval | None:
    """Lock and return the newest approval of that purpose."""
    found = Approval.objects.filter(execution_id=row.pk, purpose=str(purpose)).order_by("-created_at", "-pk")
    first = found.only("pk").first()
    return lock_approval(first.pk) if first else None


def close(approval: Approval, state: ApprovalState, at: datetime) -> None:
    """Write how a locked live approval ended, or that it was granted."""
    approval.state, approval.decided_at = str(state), at
    changes: dict[str, object] = {"state": str(state), "decided_at": at}
    if state is ApprovalState.GRANTED:
        approval.use_by = max(at, approval.not_before or at) + approval.use_within
        changes["use_by"] = approval.use_by
    Approval.objects.filter(pk=approval.pk).update(**changes)


def lapse_live(row: Execution) -> None:
    """End the live approval of an execution that leaves by another edge."""
    approval = lock_live(row)
    if approval is not None:
        close(approval, ApprovalState.LAPSED, row.locked_at)


def spend(approval: Approval, at: datetime) -> None:
    """Consume a granted approval, in the transaction that opens the attempt."""
    approval.state, approval.spent_at = str(ApprovalState.SPENT), at
    Approval.objects.filter(pk=approval.pk).update(state=approval.state, spent_at=at)


def covers_another_send(approval: Approval) -> bool:
    """Return whether a spent licence is worth another send: its rule says so and none of its sends is unproven."""
    if approval.state != ApprovalState.SPENT or not approval.covers_retries:
        return False
    return not Attempt.objects.filter(approval_id=approval.pk, outcome__in=_UNPROVEN).exists()


def voters_still_entitled(approval: Approval) -> bool:
    """Return whether all who approved are still entitled to."""
    rule = rule_from_json(approval.rule)
    voters = approval.votes.filter(decision="approve").values_list("actor_id", flat=True)
    return rule is not None and still_entitled(list(voters), rule)
