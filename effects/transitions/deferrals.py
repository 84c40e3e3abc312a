"""What is not done now: sends that a precondition refuses or postpones, settled hooks that stayed due."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.transitions import _licences
from effects.transitions._rows import advance, call_hook, end_hook, end_state, is_due, postpone_hook, settles
from effects.vocabulary import canonical
from effects.vocabulary.foreign import present_try
from effects.vocabulary.states import EXECUTION_SETTLED, ExecutionReason, ExecutionState
from effects.vocabulary.types import within_calendar

__all__ = ["postpone_send", "refuse", "run_hook"]

#: How often a precondition may say "later" before it counts as one that never ends.
MOST_POSTPONED = 100
#: What postponing is called where it is in doubt and about to be sent again.
_IN_DOUBT_VERBS = {str(ExecutionState.UNCERTAIN): "postpone", str(ExecutionState.NEEDS_INTERVENTION): "order_resend"}
#: What is kept of a hook that had no try, since the process was told to end.
_BROKEN = "it was interrupted"


@settles
def refuse(execution_id: UUID, reason: str) -> ExecutionSnapshot:
    """*Commits.* Do what a precondition's refusal means where the execution stands now.

    Pending and due: it ends, never to be sent. In doubt with a resend ordered: that order lapses and a person is asked
    again, for what may have happened is not refused. Anything else is left as it is: somebody moved it meanwhile, or
    its doubt goes on. Locked: the execution.
    """
    with commits("refusing an effect"):
        row = lock_execution(execution_id)
        if row.state == ExecutionState.PENDING and is_due(row):
            why = ExecutionReason.PRECONDITION
            _licences.lapse_live(row)
            advance(
                row, "refuse", end_state(row), reason=why, evidence={"reason": reason}, failure_code=str(why),
                failure_message=canonical.clean_text(reason),
            )  # fmt: skip
        elif row.state == ExecutionState.NEEDS_INTERVENTION:
            order = _licences.lock_live(row)
            if order is not None:
                _licences.lapse(row, order, f"the precondition refused: {reason}")
        return snapshot(row)


@settles
def postpone_send(execution_id: UUID, after: timedelta, reason: str) -> ExecutionSnapshot:
    """*Commits.* Move the due time of an execution whose precondition said "later"; one that never ends refuses.

    Pending, or in doubt and about to be sent again where repeating is safe; one in doubt is not ended here.

    Raises:
        WrongStateError: it is neither; somebody else moved it.
    """
    with commits("postponing an effect"):
        row = lock_execution(execution_id)
        due, evidence = row.locked_at + within_calendar(max(after, timedelta(seconds=1))), {"reason": reason}
        # by the "reason" that is written here: what RECONCILE_CHECK refused was no word of the precondition's
        asked = row.receipts.filter(event="postpone", evidence__has_key="reason")
        if row.state == ExecutionState.UNCERTAIN and asked.count() >= MOST_POSTPONED:
            return snapshot(row)  # it stays due, and its caller hands it to a person
        if row.state in _IN_DOUBT_VERBS:
            advance(row, _IN_DOUBT_VERBS[row.state], evidence=evidence, revises=False, due_at=due)
        elif row.state == ExecutionState.PENDING and not is_due(row):
            return snapshot(row)  # somebody postponed it meanwhile
        elif row.receipts.filter(event="postpone_send", reason=str(ExecutionReason.LATER)).count() >= MOST_POSTPONED:
            code, message = str(ExecutionReason.PRECONDITION), f"postponed {MOST_POSTPONED} times"
            _licences.lapse_live(row)
            advance(
                row, "refuse", end_state(row), reason=ExecutionReason.PRECONDITION, failure_code=code,
                failure_message=message, evidence={**evidence, "why": message},
            )  # fmt: skip
        else:
            advance(row, "postpone_send", reason=ExecutionReason.LATER, evidence=evidence, revises=False, due_at=due)
        return snapshot(row)


@settles
def run_hook(execution_id: UUID) -> ExecutionSnapshot:
    """*Commits.* Run a settled hook that stayed due; if it raises again it backs off further.

    Locked: the execution. A hook that ran meanwhile is not due any more and does not run twice. That of a tombstone
    ends without a run: retention dropped the payload that it would be given.
    """
    with commits("running a settled hook"):
        row = lock_execution(execution_id)
        if row.hook_due_at is None or row.state not in EXECUTION_SETTLED:
            return snapshot(row)
        if row.pruned_at is not None:
            end_hook(row)
            return snapshot(row)
        tried = present_try()
        # what broke the transaction of this very write is left out of its repetition
        error = (tried.blame or _BROKEN) if tried is not None and tried.left_out else call_hook(row)
        if error is None:
            advance(row, "run_hook", revises=False, hook_due_at=None, hook_error="")
        else:
            postpone_hook(row, error)
    return snapshot(row)
