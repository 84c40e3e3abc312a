"""Licences: the approvals of a locked execution, as the verbs that send or end it need them. All join its commit."""

from __future__ import annotations

from typing import Any

from effects.journal.locks import lock_approval
from effects.journal.summaries import digest_of_summary, of_purpose
from effects.models import Approval, Attempt, Execution
from effects.people.approvers import somebody_can_decide
from effects.people.eligibility import context_for, requester_ids, valid_voters
from effects.transitions import _notices, digests
from effects.transitions._rows import advance, end_state
from effects.transitions.intents import approval_digest
from effects.vocabulary import canonical
from effects.vocabulary.frozen_rules import rule_as_json, rule_from_json
from effects.vocabulary.states import (
    APPROVAL_LIVE,
    ApprovalPurpose,
    ApprovalState,
    AttemptOutcome,
    ExecutionReason,
    ExecutionState,
    values,
)
from effects.vocabulary.types import ApprovalRule

__all__ = [
    "GRANTED",
    "NOBODY_ENTITLED",
    "ask",
    "close",
    "covers_another_send",
    "digest_of",
    "is_void",
    "lapse",
    "lapse_live",
    "lock_live",
    "newest_for_resend",
    "newest_for_send",
    "request",
    "rule_of",
    "spend",
    "why_lapsed",
]

GRANTED = ApprovalState.GRANTED
#: `failure_code` of what ended because nobody was left who could approve it.
NOBODY_ENTITLED = "nobody_entitled"
_UNPROVEN = values({AttemptOutcome.OPEN, AttemptOutcome.UNKNOWN, AttemptOutcome.APPLIED, AttemptOutcome.SUBMITTED})


def rule_of(row: Execution) -> ApprovalRule | None:
    """Return the rule that the row froze."""
    return rule_from_json(row.contract.get("approval"))


def digest_of(row: Execution, purpose: ApprovalPurpose) -> str:
    """Return the digest of all that an approver decides about, from the row as it stands: its bytes are hashed."""
    return approval_digest(
        operation=row.operation,
        provider=row.provider,
        tenant=row.tenant,
        key=row.key,
        payload_digest=canonical.digest("effects.payload", row.payload),
        summary_digest=row.summary_digest,
        rule=row.contract.get("approval"),
        purpose=str(purpose),
    )


def request(row: Execution, rule: ApprovalRule, purpose: ApprovalPurpose = ApprovalPurpose.SEND) -> Approval:
    """Insert the request for an approval; the caller moves the execution."""
    approval = Approval.objects.create(
        execution_id=row.pk,
        purpose=str(purpose),
        digest=digest_of(row, purpose),
        summary=of_purpose(row.summary, purpose),
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
    digests.tell_row(row, approval)
    _notices.approval_requested(approval)
    return approval


def lock_live(row: Execution) -> Approval | None:
    """Lock the live approval of a locked execution, if there is one."""
    live = Approval.objects.filter(execution_id=row.pk, state__in=values(APPROVAL_LIVE)).only("pk").first()
    if live is None:
        return None
    approval = lock_approval(live.pk)
    return approval if approval.state in APPROVAL_LIVE else None


def newest_for_send(row: Execution) -> Approval | None:
    """Lock and return the newest approval of the execution's first sends."""
    return _newest(row, ApprovalPurpose.SEND)


def newest_for_resend(row: Execution) -> Approval | None:
    """Lock and return the newest approval of an ordered resend."""
    return _newest(row, ApprovalPurpose.RESEND)


def _newest(row: Execution, purpose: ApprovalPurpose) -> Approval | None:
    found = Approval.objects.filter(execution_id=row.pk, purpose=str(purpose)).order_by("-created_at", "-pk")
    first = found.only("pk").first()
    return lock_approval(first.pk) if first else None


def close(row: Execution, approval: Approval, state: ApprovalState) -> None:
    """Write how a locked live approval ended, or that it was granted."""
    at = row.locked_at
    approval.state, approval.decided_at = str(state), at
    changes: dict[str, object] = {"state": str(state), "decided_at": at}
    if state is ApprovalState.GRANTED:
        approval.use_by = max(at, approval.not_before or at) + approval.use_within
        changes["use_by"] = approval.use_by
    Approval.objects.filter(pk=approval.pk).update(**changes)
    digests.tell_row(row, approval)
    _notices.approval_closed(approval, state, at)


def lapse_live(row: Execution) -> None:
    """End the live approval of an execution that leaves by another edge."""
    approval = lock_live(row)
    if approval is not None:
        close(row, approval, ApprovalState.LAPSED)


def spend(row: Execution, approval: Approval) -> None:
    """Consume a granted approval, in the transaction that opens the attempt."""
    approval.state, approval.spent_at = str(ApprovalState.SPENT), approval.locked_at
    Approval.objects.filter(pk=approval.pk).update(state=approval.state, spent_at=approval.spent_at)
    digests.tell_row(row, approval)


def covers_another_send(approval: Approval) -> bool:
    """Return whether a spent licence is worth another send: its rule says so and none of its sends is unproven."""
    if approval.state != ApprovalState.SPENT or not approval.covers_retries:
        return False
    return not Attempt.objects.filter(approval_id=approval.pk, outcome__in=_UNPROVEN).exists()


def why_lapsed(row: Execution, approval: Approval) -> str:
    """Return in words why a granted licence cannot be used any more; empty if it can."""
    if approval.use_by is not None and approval.use_by <= approval.locked_at:
        return "not used in time"
    rule = rule_from_json(approval.rule)
    # an order by a named person, which no rule stands behind, has no voters
    if rule is not None and len(valid_voters(row, approval, rule)) < approval.quorum:
        return "an approver is no longer entitled, or asked for it too meanwhile"
    return ""


def lapse(row: Execution, approval: Approval, why: str) -> None:
    """End a granted licence unused, and what waited for it, except what is in doubt and was to be sent again."""
    close(row, approval, ApprovalState.LAPSED)
    if approval.purpose == ApprovalPurpose.RESEND:
        advance(row, "lapse", evidence={"why": why}, due_at=None)
    else:
        advance(
            row, "lapse", end_state(row), reason=ExecutionReason.LAPSED, evidence={"why": why},
            failure_code=str(ExecutionReason.LAPSED), failure_message=why,
        )  # fmt: skip


def is_void(row: Execution, approval: Approval, summary: dict[str, Any]) -> bool:
    """Return whether what would be sent, or what people are shown, is not what they approved."""
    digest = digest_of(row, ApprovalPurpose(approval.purpose))
    return digest_of_summary(summary) != row.summary_digest or approval.digest != digest


def ask(
    row: Execution,
    verb: str,
    reason: ExecutionReason,
    *,
    replaces: Approval | None = None,
    summary: dict[str, Any] | None = None,
) -> None:
    """Request an approval of a due execution that has no spendable one; of the new contents where they changed.

    Where nobody could give it, the execution ends, and says so: it would wait for people who are not there.
    """
    rule = rule_of(row)
    if rule is None:
        return
    if replaces is not None:
        close(row, replaces, ApprovalState.LAPSED)
    changes: dict[str, Any] = {}
    if summary is not None:
        changes = {"summary": summary, "summary_digest": digest_of_summary(summary), **shown(summary)}
    before = {name: getattr(row, name) for name in changes}
    _set(row, changes)
    if not somebody_can_decide(rule, requester_ids(row), context_for(row, rule)):
        # nobody is shown the new contents: the row keeps those of its newest approval
        _set(row, before)
        why = (
            f"it needs a new approval ({reason}), and nobody can give it: {rule.quorum} by {rule.approvers!r} who did "
            "not ask for it"
        )
        advance(
            row, "lapse", end_state(row), reason=ExecutionReason.LAPSED, evidence={"why": why},
            failure_code=NOBODY_ENTITLED, failure_message=why,
        )  # fmt: skip
        return
    approval = request(row, rule)
    advance(
        row, verb, ExecutionState.AWAITING_APPROVAL, reason=reason, evidence={"digest": approval.digest}, due_at=None,
        **changes,
    )  # fmt: skip


def _set(row: Execution, columns: dict[str, Any]) -> None:
    for name, value in columns.items():
        setattr(row, name, value)


def shown(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that lists filter and total by, from a summary."""
    return {
        "amount": summary.get("amount"),
        "currency": summary.get("currency", "")[:12],
        "target": summary.get("target", ""),
    }
