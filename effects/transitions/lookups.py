"""Look-ups: leased claims, and what their verdicts do to an execution in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import ExecutionSnapshot, barrier, snapshot
from effects.models import Execution
from effects.transitions._limits import is_provider_busy
from effects.transitions._rows import advance, effect_of, grace, is_due, is_leased, settles, step_back
from effects.transitions.attempts import (
    EXPECT_WITHIN,
    UNDONE,
    beside,
    complete_row,
    proof_of_undoing,
    references_on_file,
)
from effects.transitions.evidence import observe_row
from effects.transitions.troubles import pause_after
from effects.vocabulary import canonical
from effects.vocabulary.states import AttemptOutcome, ExecutionReason, ExecutionState, values
from effects.vocabulary.types import Applied, InDoubt, Partial, readable_instant
from effects.vocabulary.verdicts import (
    Absent,
    Conflict,
    Found,
    Inconclusive,
    InProgress,
    ProvenFailed,
    Unreachable,
    Verdict,
)

__all__ = ["LOOKUP_BUDGET", "Claim", "apply_verdict", "claim", "escalate_unplanned", "postpone_look_up"]

#: Look-ups that worked and could not decide, before a person is asked.
LOOKUP_BUDGET = 8
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=5), timedelta(hours=1)
#: How long something rests that the project's `RECONCILE_CHECK` refused.
REFUSED_DELAY = timedelta(minutes=10)
_DIED = "the look-up that began at {at:%Y-%m-%d %H:%M:%S %Z} never answered: its process died, or was killed"
_S, _R = ExecutionState, ExecutionReason


@dataclass(frozen=True)
class Claim:
    """The lease of one look-up: its verdict is believed under this epoch alone."""

    epoch: int
    execution: ExecutionSnapshot


def claim(execution_id: UUID, *, now: bool = False) -> Claim | None:
    """*Commits.* Take the lease of a look-up; None if it is not due, somebody else has it, or its provider is busy.

    Locked: the execution. `claimed_at` is the database's clock after the lock: absence is believed only of what was
    claimed after the barrier. A claim that was never answered counts as trouble, and this one's own end is waited for
    the longer: what kills its process once may do so again.

    Args:
        execution_id: which.
        now: a person asks, so it is due, and waits for no other call.
    """
    with commits("looking up an effect"):
        row = lock_execution(execution_id)
        if row.state not in (_S.UNCERTAIN, _S.ACCEPTED) or row.contract["lookup"] is None:
            return None
        if is_leased(row):
            return None
        if not now and not is_due(row):
            return None
        effect_of(row)
        if not now and is_provider_busy(row):
            step_back(row)
            return None
        lease_end = row.locked_at + timedelta(seconds=row.contract["request_timeout"]) + grace()
        trouble: dict[str, Any] = {}
        if row.lease_expires_at is not None:  # no verdict, and no error either, which ends the lease
            trouble = {"trouble_count": row.trouble_count + 1, "trouble": _DIED.format(at=row.claimed_at)}
        pause = pause_after(row.trouble_count + 1) if trouble else timedelta(0)
        advance(
            row, "claim", revises=False, epoch=row.epoch + 1, claimed_at=row.locked_at, lease_expires_at=lease_end,
            due_at=lease_end + pause, **trouble,
        )  # fmt: skip
        return Claim(row.epoch, snapshot(row))


@settles
def apply_verdict(execution_id: UUID, *, epoch: int, verdict: Verdict) -> ExecutionSnapshot:
    """*Commits.* Do what a look-up's verdict allows, under the epoch of its own claim.

    Locked: the execution. A verdict under an older epoch, or a second one under one claim (a COMMIT in question is
    repeated), changes nothing, except that a `Found` is kept as evidence. Only `Inconclusive` spends the budget, and
    nothing does before the instant by which an accepted order is expected; `Unreachable` never does.
    """
    with commits("recording a look-up"):
        row = lock_execution(execution_id)
        answered = row.lease_expires_at is None
        if row.epoch != epoch or answered or row.state not in (_S.UNCERTAIN, _S.ACCEPTED):
            if isinstance(verdict, Found):
                observe_row(row, reference=verdict.reference, evidence={**verdict.proof, "from": "an older look-up"})
            return snapshot(row)
        row.lease_expires_at = None
        match verdict:
            case Found():
                _confirm(row, verdict)
            case InProgress():
                _acknowledge(row, verdict)
            case Absent() | ProvenFailed():
                _disprove(row, verdict)
            case Conflict():
                _escalate(row, _R.CONFLICT, {"why": verdict.reason, "reference": verdict.reference, **verdict.proof})
            case Inconclusive() | Unreachable():
                _postpone(row, verdict)
    return snapshot(row)


def postpone_look_up(execution_id: UUID) -> ExecutionSnapshot:
    """*Commits.* Leave an execution in doubt for later: the project does not want it worked on now.

    It spends no budget and calls nobody; asked again after `REFUSED_DELAY`.
    """
    with commits("postponing a look-up"):
        row = lock_execution(execution_id)
        if row.state in (_S.UNCERTAIN, _S.ACCEPTED) and is_due(row) and not is_leased(row):
            _later(row, row.locked_at + REFUSED_DELAY, {"why": "RECONCILE_CHECK refused it for now"})
        return snapshot(row)


@settles
def escalate_unplanned(execution_id: UUID) -> ExecutionSnapshot:
    """*Commits.* Hand a due execution in doubt to a person that has neither a look-up nor a safe repetition.

    An accepted order is left alone until it should have been carried out.
    """
    with commits("escalating an effect"):
        row = lock_execution(execution_id)
        if row.state not in (_S.UNCERTAIN, _S.ACCEPTED) or row.contract["lookup"] is not None or not is_due(row):
            return snapshot(row)
        if row.state == _S.ACCEPTED and row.expect_by is not None and row.expect_by > row.locked_at:
            _later(row, row.expect_by, {"why": "accepted, and no look-up can tell before it is due"})
        else:
            _escalate(row, _R.NO_PLAN, {"why": "the effect has no look-up"})
        return snapshot(row)


def _confirm(row: Execution, found: Found) -> None:
    reference = canonical.clean_reference(found.reference)
    if _is_second_reference(row, reference, happened=True):
        return
    undone = proof_of_undoing(row, reference)
    if undone:
        evidence = {"why": UNDONE, "reference": reference, "on_file": row.applied_evidence}
        _escalate(row, _R.CONFLICT, evidence, applied_evidence=undone)
        return
    report = (
        Partial(items=found.items, output=found.output, reference=reference)
        if found.items
        else Applied(output=found.output, reference=reference)
    )
    complete_row(row, "confirm", _R.FOUND, report, {"proof": found.proof})


def _is_second_reference(row: Execution, reference: str, *, happened: bool) -> bool:
    """Escalate and return True if the provider names another reference than those that we hold.

    What happened goes on file, so that no later absence and no order to resend passes over it.
    """
    known = references_on_file(row)
    if not reference or known <= {reference}:
        return False
    evidence = {"why": "two references for one execution", "references": [*sorted(known), reference]}
    _escalate(row, _R.CONFLICT, evidence, applied_evidence=beside(row, reference) if happened else row.applied_evidence)
    return True


def _acknowledge(row: Execution, verdict: InProgress) -> None:
    reference = canonical.clean_reference(verdict.reference)
    if _is_second_reference(row, reference, happened=False):
        return
    expect_by = (
        readable_instant(verdict.expect_by) or row.expect_by or (row.exposed_until or row.locked_at) + EXPECT_WITHIN
    )
    evidence = {**verdict.proof, "reference": reference, "expect_by": str(expect_by)}
    if expect_by <= row.locked_at:
        _escalate(row, _R.OVERDUE, evidence)
        return
    advance(
        row, "acknowledge", _S.ACCEPTED, reason=_R.IN_PROGRESS, evidence=evidence, revises=row.state != _S.ACCEPTED,
        lease_expires_at=None, may_have_applied=True, expect_by=expect_by, lookups_unreachable=0, lookups_spent=0,
        reference=reference or row.reference, due_at=_next_look(row),
    )  # fmt: skip


def _disprove(row: Execution, verdict: Absent | ProvenFailed) -> None:
    """Believe that it did not happen, if that can be evidence: claimed after the barrier, no proof against it."""
    name = type(verdict).__name__
    proof = {"verdict": name} | verdict.proof | {"verdict": name}
    believed_from = barrier(row)
    if believed_from is None or row.claimed_at is None or row.claimed_at <= believed_from:
        # an index that lags may miss what is there: before the barrier not even a conflict can be told
        _later(
            row, max(_backoff_due(row), believed_from or row.locked_at), {**proof, "why": "asked before the barrier"}
        )
    elif row.applied_evidence is not None:
        _escalate(row, _R.CONFLICT, {**proof, "why": "proof of success is on file", "on_file": row.applied_evidence})
    elif isinstance(verdict, Absent) and _is_awaited(row) and not row.contract["authoritative"]:
        # an index that does not show the order yet, or a list of what was carried out
        _later(row, _next_look(row), {**proof, "why": "the provider had accepted it, and it is not expected yet"})
    elif _was_accepted(row) and not row.contract["authoritative"]:
        _escalate(row, _R.CONFLICT, {**proof, "why": "the provider had accepted it"})
    else:
        row.attempt_rows.filter(outcome__in=values({AttemptOutcome.UNKNOWN, AttemptOutcome.SUBMITTED})).update(
            outcome=str(AttemptOutcome.NOT_APPLIED)
        )
        _disproved(row, verdict, proof)


def _is_awaited(row: Execution) -> bool:
    """Return whether the provider took the order and need not have carried it out yet: no person is called before."""
    return row.expect_by is not None and row.expect_by > row.locked_at


def _was_accepted(row: Execution) -> bool:
    """Return whether the provider took the order at some time, whatever the state was called since."""
    if row.state == _S.ACCEPTED or row.expect_by is not None:
        return True
    return row.attempt_rows.filter(outcome=str(AttemptOutcome.SUBMITTED)).exists()


def _disproved(row: Execution, verdict: Absent | ProvenFailed, proof: dict[str, Any]) -> None:
    # a reference of what is proven not to exist would pass for a second one later
    cleared: dict[str, Any] = {
        "lease_expires_at": None, "may_have_applied": False, "expect_by": None, "reference": "",
    }  # fmt: skip
    if isinstance(verdict, ProvenFailed):
        code, message = canonical.clean_text(verdict.code, 100), canonical.clean_text(verdict.message)
        advance(
            row, "confirm_failure", _S.FAILED, reason=_R.PROVEN_FAILED, evidence={**proof, "code": code},
            failure_code=code, failure_message=message, **cleared,
        )  # fmt: skip
    elif row.attempts < row.contract["retry"]["attempts"]:
        advance(
            row, "confirm_absence", _S.PENDING, reason=_R.ABSENT, evidence=proof, due_at=row.locked_at,
            lookups_spent=0, lookups_unreachable=0, failure_code="", failure_message="", **cleared,
        )  # fmt: skip
    else:
        advance(
            row, "confirm_absence", _S.FAILED, reason=_R.ATTEMPTS_SPENT, evidence=proof,
            failure_code=str(_R.ATTEMPTS_SPENT), failure_message="", **cleared,
        )  # fmt: skip


def _postpone(row: Execution, verdict: Inconclusive | Unreachable) -> None:
    proof = {"verdict": type(verdict).__name__, "why": verdict.reason, **verdict.proof}
    believed_from = barrier(row) or row.locked_at
    if isinstance(verdict, Unreachable):
        delay = min(FIRST_DELAY * 2 ** min(row.lookups_unreachable, 10), LONGEST_DELAY)
        unreachable = row.lookups_unreachable + 1
        _later(row, max(row.locked_at + delay, believed_from), proof, lookups_unreachable=unreachable)
        return
    if _is_awaited(row):
        # what is not there yet cannot be seen; the budget is for the time after
        _later(row, max(_next_look(row), believed_from), proof, lookups_unreachable=0)
        return
    # a look-up before the barrier could not have decided an absence: it costs nothing
    spent = row.lookups_spent + (1 if row.claimed_at and row.claimed_at > believed_from else 0)
    if spent >= LOOKUP_BUDGET:
        _escalate(row, _R.BUDGET_SPENT, proof)
        return
    _later(row, max(_backoff_due(row), believed_from), proof, lookups_spent=spent, lookups_unreachable=0)


def _later(row: Execution, due: datetime, proof: dict[str, Any], **changes: Any) -> None:
    advance(row, "postpone", evidence=proof, revises=False, lease_expires_at=None, due_at=due, **changes)


def _backoff_due(row: Execution) -> datetime:
    delay: timedelta = min(FIRST_DELAY * 2 ** min(row.lookups_spent, 10), LONGEST_DELAY)
    return row.locked_at + delay


def _next_look(row: Execution) -> datetime:
    """Return when an order that was taken is looked at again: after a tenth of its age, between 5 s and 1 h."""
    age = row.locked_at - (row.first_sent_at or row.locked_at)
    return row.locked_at + min(max(age / 10, FIRST_DELAY), LONGEST_DELAY)


def _escalate(row: Execution, reason: ExecutionReason, evidence: dict[str, Any], **changes: Any) -> None:
    """Hand it to a person; or give up where the declaration of a low risk says so and nothing speaks against it."""
    undecidable = reason in (_R.NO_PLAN, _R.BUDGET_SPENT) and row.applied_evidence is None
    gives_up = undecidable and row.contract["in_doubt"] == str(InDoubt.ABANDON)
    target = _S.ABANDONED if gives_up else _S.NEEDS_INTERVENTION
    advance(
        row, "escalate", target, reason=reason, evidence=evidence, lease_expires_at=None, due_at=None,
        may_have_applied=True, **changes,
    )  # fmt: skip
