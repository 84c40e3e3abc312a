"""Restores: the journal forgot commits, and what they may have sent is put in doubt.

A journal that was restored from a backup is right about all that was committed until `since` and knows nothing of what
was committed afterwards, until the old one was switched off. Whatever it would send now may have been sent in that gap,
under the same provider key. What each state means after a restore:

`pending`, `awaiting_approval`: a permit, or a vote and a permit, may be among what was lost → `uncertain`, a look-up
    under the same provider key is due. Where the provider cannot be asked, the sweep repeats what is safe to repeat
    (the key's lifetime counts from `since`) and hands the rest to a person, as after any other doubt. Not exposed is
    what could not be sent yet: pending with a due time still ahead, or an approval's window that has not begun.
`executing`: its end was lost, and perhaps later attempts → `uncertain`, its attempt ends as unknown.
`uncertain`, `accepted`: proven absent and sent again, perhaps → same state, the barrier moves to now, so that no
    absence claimed before it is believed; the budget of look-ups is new, since the question is.
`needs_intervention`: a resend may have been ordered and sent → same state; the barrier moves here too, so that nobody
    resolves it as not applied too early.
`completed`, `partially_completed`, `abandoned`, `failed`, `rejected`: settled on evidence that is still on file, and
    none of them is sent again by itself → untouched. That a failed or rejected one was superseded, or a completed one
    undone, may have been lost; so may executions and requests that were recorded after `since`. No row stands for them.

A live approval lapses: it may have been spent, denied or withdrawn, and it is worth one send. Epochs leap, so that
look-ups and handlers that lived through the restore are fenced.

A request that was `running` is in doubt and a person's: its handler may have recorded and sent more than the links
show, so it counts as opaque, is never released and never answered from its executions alone. The others had heard the
end of their handlers before `since`.
"""

from __future__ import annotations

from datetime import datetime, timezone
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from effects.journal.commits import commits
from effects.journal.locks import lock_execution, lock_request
from effects.journal.snapshots import ExecutionSnapshot, RequestSnapshot, request_snapshot, snapshot
from effects.models import Approval, Execution, Receipt, Request
from effects.transitions import _licences, digests
from effects.transitions._rows import advance, advance_request
from effects.vocabulary.states import (
    APPROVAL_LIVE,
    EXECUTION_IN_DOUBT,
    EXECUTION_OPEN,
    AttemptOutcome,
    ExecutionReason,
    ExecutionState,
    RequestReason,
    RequestState,
    values,
)

__all__ = ["DOUBTING", "doubt_request_since", "doubt_since", "exposed_executions", "exposed_requests"]

_S = ExecutionState
#: The verbs whose receipts say that a row was put in doubt by a restore.
DOUBTING = ("doubt_since", "extend_doubt")
#: More leases than one row can have been given in what was lost; about 200,000 restores fit into the column.
EPOCH_LEAP = 10_000


def exposed_executions(since: datetime, until: datetime) -> QuerySet[Execution]:
    """Return the executions that may have been sent between `since` and now and are not in doubt for it yet.

    Args:
        since: the newest instant of which the journal is sure to hold every commit.
        until: when the restored journal took over; what was recorded later cannot have been sent by a lost commit.
    """
    # a receipt of a doubt written after `since` was written after the restore: all that was lost is older than it
    doubted = Receipt.objects.filter(
        execution_id=OuterRef("pk"), event__in=DOUBTING, at__gt=since, evidence__since__lte=_stamp(since)
    )
    opens_later = Approval.objects.filter(
        execution_id=OuterRef("pk"), state__in=values(APPROVAL_LIVE), not_before__gt=Now()
    )
    unsent = Q(state=str(_S.PENDING), due_at__gt=Now()) | (Q(state=str(_S.AWAITING_APPROVAL)) & Exists(opens_later))
    unsettled = Execution.objects.filter(state__in=values(EXECUTION_OPEN | EXECUTION_IN_DOUBT), created_at__lte=until)
    exposed: QuerySet[Execution] = unsettled.exclude(unsent).filter(~Exists(doubted)).order_by("pk")
    return exposed


def exposed_requests(until: datetime) -> QuerySet[Request]:
    """Return the requests whose handlers were at work when the journal broke off."""
    exposed: QuerySet[Request] = Request.objects.filter(state=str(RequestState.RUNNING), created_at__lte=until)
    return exposed.order_by("pk")


def doubt_since(execution_id: UUID, *, since: datetime, until: datetime) -> ExecutionSnapshot:
    """*Commits.* Put an execution in doubt that may have been sent by a commit that the journal lost.

    Call it for each of `exposed_executions`, before a worker or a handler runs on the restored journal. Locked: the
    execution, then its live approval. One that is not exposed, or in doubt for this already, is not changed.

    Args:
        execution_id: which.
        since: as of `exposed_executions`.
        until: as of `exposed_executions`.
    """
    with commits("doubting an effect after a restore"):
        row = lock_execution(execution_id)
        if exposed_executions(since, until).filter(pk=row.pk).exists():
            _licences.lapse_live(row)
            if row.state in EXECUTION_OPEN:
                _doubt(row, since)
            else:
                _extend_doubt(row, since)
        return snapshot(row)


def doubt_request_since(request_id: UUID, *, since: datetime, until: datetime) -> RequestSnapshot:
    """*Commits.* Put a request in doubt whose handler was at work when the journal broke off; its key stays taken.

    Locked: the request. A handler that is still alive learns that its request has ended. One that is not exposed is not
    changed. Args as `doubt_since`.
    """
    with commits("doubting a request after a restore"):
        row = lock_request(request_id)
        if exposed_requests(until).filter(pk=row.pk).exists():
            advance_request(
                row, "doubt_since", RequestState.IN_DOUBT, reason=RequestReason.HANDLER_FAILED,
                evidence={"since": _stamp(since), "declared": row.declared}, epoch=row.epoch + EPOCH_LEAP,
                declared=None, due_at=None,
            )  # fmt: skip
        return request_snapshot(row)


def _doubt(row: Execution, since: datetime) -> None:
    unended = row.attempt_rows.filter(outcome=str(AttemptOutcome.OPEN))
    why = str(ExecutionReason.OLDER_DOUBT)
    if unended.update(outcome=str(AttemptOutcome.UNKNOWN), ended_at=row.locked_at, failure_reason=why):
        digests.tell_end(row, row.attempts, str(AttemptOutcome.UNKNOWN), reason=why)
    advance(
        row, "doubt_since", _S.UNCERTAIN, reason=ExecutionReason.OLDER_DOUBT,
        evidence={"since": _stamp(since), "was": row.state}, epoch=row.epoch + EPOCH_LEAP, may_have_applied=True,
        open_attempts=0, lease_expires_at=None, due_at=row.locked_at, exposed_until=_exposed_until(row),
        first_sent_at=_first_sent(row, since), lookups_spent=0, lookups_unreachable=0,
    )  # fmt: skip


def _extend_doubt(row: Execution, since: datetime) -> None:
    # a person's is not due: what a lapsed order of a resend was due for is over
    due = None if row.state == _S.NEEDS_INTERVENTION else row.locked_at
    advance(
        row, "extend_doubt", evidence={"since": _stamp(since)}, epoch=row.epoch + EPOCH_LEAP, may_have_applied=True,
        lease_expires_at=None, due_at=due, exposed_until=_exposed_until(row), first_sent_at=_first_sent(row, since),
        lookups_spent=0, lookups_unreachable=0,
    )  # fmt: skip


def _first_sent(row: Execution, since: datetime) -> datetime:
    """Return the earliest possible first use of the provider key: its lifetime is counted from there."""
    return row.first_sent_at or max(since, row.created_at)


def _exposed_until(row: Execution) -> datetime:
    """Return until when a request may have been under way: a lost one until now, a known one until its deadline."""
    return max(row.exposed_until or row.locked_at, row.locked_at)


def _stamp(instant: datetime) -> str:
    """Return an instant as text that sorts as instants do."""
    return instant.astimezone(timezone.utc).isoformat(timespec="microseconds")
