"""Approvals that nobody decided in time, or that were granted and not used."""

from __future__ import annotations

from uuid import UUID

from effects import transitions
from effects.models import Approval
from effects.runtime import consequences
from effects.sweeps._batches import Counts, each, take
from effects.vocabulary.states import ApprovalState

__all__ = ["NAME", "run_once"]

NAME = "expire_approvals"


def run_once(batch: int | None = None) -> Counts:
    """Expire what is past its decide-by, lapse what is past its use-by."""
    undecided = take(Approval.objects.filter(state=str(ApprovalState.REQUESTED)), "decide_by", batch)
    unused = take(Approval.objects.filter(state=str(ApprovalState.GRANTED)), "use_by", batch)
    return each(NAME, [*undecided, *unused], _expire)


def _expire(approval_id: UUID) -> str:
    execution = transitions.expire_approval(approval_id)
    consequences.after_change(execution)
    return str(execution.state)
