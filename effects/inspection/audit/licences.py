"""Licences: what demands an approval was sent under one, spent once, for the very contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from effects.inspection.audit.cases import Case
from effects.inspection.audit.findings import Finding
from effects.models import Execution
from effects.transitions.intents import approval_digest
from effects.vocabulary.states import APPROVAL_LIVE, ApprovalPurpose, ApprovalState, ExecutionState

__all__ = ["of_case"]

_S = ExecutionState
#: Where its execution stands while an approval is live.
_HOMES = {
    (ApprovalPurpose.SEND, ApprovalState.REQUESTED): _S.AWAITING_APPROVAL,
    (ApprovalPurpose.SEND, ApprovalState.GRANTED): _S.PENDING,
    (ApprovalPurpose.RESEND, ApprovalState.REQUESTED): _S.NEEDS_INTERVENTION,
    (ApprovalPurpose.RESEND, ApprovalState.GRANTED): _S.NEEDS_INTERVENTION,
}


def of_case(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with an execution's approvals and with the sends that they licensed."""
    seen = set()
    for rule in (_attempts, _approvals, _contents, _homes):
        for code, wrong in rule(case):
            if code not in seen:
                seen.add(code)
                yield Finding(code, "execution", str(case.row.pk), wrong)


def _attempts(case: Case) -> Iterator[tuple[str, str]]:
    approvals = {approval.pk: approval for approval in case.approvals}
    demanded = case.row.contract.get("approval") is not None
    for attempt in case.attempts:
        told = case.replay.licences.get(attempt.number, (None, None))
        approval = approvals.get(attempt.approval_id)
        if approval is None:
            if demanded or attempt.approval_id is not None:
                yield "attempt_unlicensed", f"attempt {attempt.number} was permitted without an approval of its own"
            elif told != (None, None):
                yield "approval_digest", f"attempt {attempt.number} has lost the approval that its receipt names"
        elif told != (str(approval.pk), approval.digest):
            yield "approval_digest", f"the receipt of attempt {attempt.number} names another approval or digest"
        elif approval.state != ApprovalState.SPENT:
            yield "attempt_unlicensed", f"attempt {attempt.number} used an approval that is {approval.state}, not spent"


def _approvals(case: Case) -> Iterator[tuple[str, str]]:
    uses = Counter(attempt.approval_id for attempt in case.attempts)
    for approval in case.approvals:
        if approval.state == ApprovalState.SPENT and not uses[approval.pk]:
            yield "approval_orphan", f"approval {approval.pk} is spent, and no attempt names it"
        if uses[approval.pk] > 1 and not approval.covers_retries:
            yield "approval_spent_twice", f"approval {approval.pk} licensed {uses[approval.pk]} attempts"
        # an order that needs no approval has no rule: the orderer is its licence
        used = approval.state in (ApprovalState.SPENT, ApprovalState.GRANTED) and approval.rule
        approving = sum(vote.decision == "approve" and vote.approval_id == approval.pk for vote in case.votes)
        if used and approving < approval.quorum:
            yield "approval_quorum", f"approval {approval.pk} has {approving} of {approval.quorum} votes"


def _contents(case: Case) -> Iterator[tuple[str, str]]:
    """Only the newest approval stands for the row as it is: changed contents ask for a new one."""
    if case.approvals and case.approvals[-1].digest != _digest(case.row, case.approvals[-1]):
        yield "approval_digest", f"approval {case.approvals[-1].pk} was asked for other contents than the row's"


def _homes(case: Case) -> Iterator[tuple[str, str]]:
    live = [approval for approval in case.approvals if approval.state in APPROVAL_LIVE]
    for approval in live:
        home = _HOMES.get((approval.purpose, approval.state))
        if case.row.state != home:
            yield "approval_orphan", f"approval {approval.pk} is {approval.state}, and the execution {case.row.state}"
    if case.row.state == _S.AWAITING_APPROVAL and not live:
        yield "approval_orphan", "it awaits an approval, and nobody is asked for one"


def _digest(row: Execution, approval: Any) -> str:
    return approval_digest(
        operation=row.operation, provider=row.provider, tenant=row.tenant, key=row.key,
        payload_digest=row.payload_digest, summary_digest=row.summary_digest, rule=row.contract.get("approval"),
        purpose=approval.purpose,
    )  # fmt: skip
