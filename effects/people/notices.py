"""What the project's `NOTIFY` is told: that somebody has to decide, or what became of what they asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from effects.journal.snapshots import ExecutionSnapshot, actor_from_json, context_of, snapshot
from effects.journal.summaries import contents_of, is_bare
from effects.models import Approval, Execution, PendingNotice
from effects.people.actors import find_user
from effects.people.approvers import list_people, lists_everybody
from effects.people.eligibility import count_missing, entitled_people, outlook, requester_ids
from effects.vocabulary.exceptions import PayloadUnreadableError
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.states import ApprovalPurpose, ApprovalState, ExecutionState, NoticeEvent
from effects.vocabulary.types import Actor, ApprovalRule

__all__ = ["MOST_PEOPLE", "ApprovalSnapshot", "Notice", "read_notice"]

#: More are not told of one thing.
MOST_PEOPLE = 100
#: They ask people to decide.
_ASKING = (NoticeEvent.APPROVAL_REQUESTED, NoticeEvent.APPROVAL_REMINDER)
#: Whoever holds it is called to what is in doubt.
RESOLVE = ApprovalRule(approvers="effects.resolve_execution", four_eyes=False)


@dataclass(frozen=True)
class ApprovalSnapshot:
    """An approval as it stood at one moment. `missing` people have still to agree; `outlook` says so in words.

    `payload` is what they are to decide by where the summary tells no amount and no facts; else None.
    """

    id: UUID
    purpose: ApprovalPurpose
    state: ApprovalState
    digest: str
    summary: dict[str, Any]
    approvers: str
    quorum: int
    missing: int
    decide_by: datetime
    not_before: datetime | None
    use_by: datetime | None
    outlook: str
    payload: Any


@dataclass(frozen=True)
class Notice:
    """One thing that people should hear of.

    Attributes:
        key: the same however often this notice is told: repeat nothing that was done under it.
        event: what happened.
        execution: as it stands when this is told.
        approval: the approval that it is about, None for `needs_person`.
        people: the users whom it concerns: who can still decide, who may resolve what is in doubt, or who asked for
            what was decided. Perhaps nobody; at most 100.
        is_everybody: whether `people` are all whom it concerns. False where no list says who holds a permission (of
            a backend of the project's that is asked of each person), or there are more than 100: tell a place where
            they look as well.
        requesters: who asked for it, joined it, or was acted for.
        due_at: since when it is to be told.
    """

    key: str
    event: NoticeEvent
    execution: ExecutionSnapshot
    approval: ApprovalSnapshot | None
    people: tuple[Any, ...]
    is_everybody: bool
    requesters: tuple[Actor, ...]
    due_at: datetime


def read_notice(notice_id: int) -> Notice | None:
    """Return a pending notice as it is told now; None if it was told, or nobody needs to hear of it any more."""
    pending = PendingNotice.objects.select_related("execution", "approval").filter(pk=notice_id).first()
    if pending is None or _is_out_of_date(pending):
        return None
    row, approval = pending.execution, pending.approval
    known = (actor_from_json(requester) for requester in row.requesters)
    event = NoticeEvent(pending.event)
    people = tuple(_people(row, approval, event))
    return Notice(
        key=pending.key,
        event=event,
        execution=snapshot(row),
        approval=_approval_snapshot(row, approval) if approval is not None else None,
        people=people,
        is_everybody=len(people) < MOST_PEOPLE and _are_listed(row, approval, event),
        requesters=tuple(actor for actor in known if actor is not None),
        due_at=pending.due_at,
    )


def _is_out_of_date(pending: PendingNotice) -> bool:
    """Return whether what it asks people to do was done meanwhile. What happened stays worth telling."""
    if pending.event == NoticeEvent.NEEDS_PERSON:
        return pending.execution.state != ExecutionState.NEEDS_INTERVENTION
    asks = pending.event in _ASKING
    return asks and pending.approval is not None and pending.approval.state != ApprovalState.REQUESTED


def _people(row: Execution, approval: Approval | None, event: NoticeEvent) -> Iterable[Any]:
    if event == NoticeEvent.NEEDS_PERSON:
        return islice(list_people(RESOLVE, ()), MOST_PEOPLE)
    if approval is not None and event in _ASKING:
        return entitled_people(row, approval, limit=MOST_PEOPLE)
    return islice(_users(requester_ids(row)), MOST_PEOPLE)


def _are_listed(row: Execution, approval: Approval | None, event: NoticeEvent) -> bool:
    """Return whether all who are entitled can be listed; who asked always can."""
    if event == NoticeEvent.NEEDS_PERSON:
        return lists_everybody(RESOLVE)
    if approval is None or event not in _ASKING:
        return True
    rule = rule_from_json(approval.rule)
    return rule is None or lists_everybody(rule, context_of(row, None))


def _users(actor_ids: Iterable[str]) -> Iterator[Any]:
    """Iterate over the active users among actors; names and deleted accounts are nobody to tell."""
    for actor_id in sorted(actor_ids):
        user = find_user(actor_id)
        if user is not None and user.is_active:
            yield user


def _payload(row: Execution, approval: Approval) -> Any:
    if approval.state != ApprovalState.REQUESTED or not is_bare(approval.summary):
        return None
    try:
        return contents_of(row.payload).value
    except PayloadUnreadableError:
        return None


def _approval_snapshot(row: Execution, approval: Approval) -> ApprovalSnapshot:
    return ApprovalSnapshot(
        id=approval.pk, purpose=ApprovalPurpose(approval.purpose), state=ApprovalState(approval.state),
        digest=approval.digest, summary=approval.summary, approvers=approval.approvers, quorum=approval.quorum,
        missing=count_missing(row, approval), decide_by=approval.decide_by, not_before=approval.not_before,
        use_by=approval.use_by, outlook=outlook(row, approval), payload=_payload(row, approval),
    )  # fmt: skip
