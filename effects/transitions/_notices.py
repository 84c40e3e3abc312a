"""Notices, written in the commits that they tell of; nothing is written where the project has no `NOTIFY`."""

from __future__ import annotations

from datetime import datetime, timedelta

from effects.conf import is_set
from effects.models import Approval, Execution, PendingNotice
from effects.vocabulary.states import ApprovalState, NoticeEvent

__all__ = ["ASKED", "CLOSED", "approval_closed", "approval_requested", "due_of", "person_needed"]

_E = NoticeEvent
#: Only whether it is set is asked here: a function that cannot be imported must not stop a decision.
NOTIFY = "NOTIFY"
CLOSED = {
    ApprovalState.GRANTED: _E.APPROVAL_GRANTED,
    ApprovalState.DENIED: _E.APPROVAL_DENIED,
    ApprovalState.EXPIRED: _E.APPROVAL_EXPIRED,
    ApprovalState.WITHDRAWN: _E.APPROVAL_WITHDRAWN,
    ApprovalState.LAPSED: _E.APPROVAL_LAPSED,
}
#: What people are told of a request: the last word of the notice's key, and the event.
ASKED = {"requested": _E.APPROVAL_REQUESTED, "half": _E.APPROVAL_REMINDER, "last": _E.APPROVAL_REMINDER}
#: The last reminder comes when a tenth of the window is left, and never earlier than this before its end.
LAST_REMINDER = timedelta(days=1)


def approval_requested(approval: Approval) -> None:
    """Have people told of a new request now, at half of its window, and shortly before its end."""
    if not is_set(NOTIFY):
        return
    PendingNotice.objects.bulk_create(
        [
            _of(approval, event, what, due_at=due_of(approval, what), at=approval.created_at)
            for what, event in ASKED.items()
        ]
    )


def due_of(approval: Approval, what: str) -> datetime:
    """Return when people are first told of a request, by the last word of the notice's key."""
    window = approval.decide_by - approval.created_at
    if what == "half":
        return approval.created_at + window / 2
    return approval.decide_by - min(window / 10, LAST_REMINDER) if what == "last" else approval.created_at


def approval_closed(approval: Approval, state: ApprovalState, at: datetime) -> None:
    """Have people told that an approval was granted, or how it ended."""
    if is_set(NOTIFY) and state in CLOSED:
        _of(approval, CLOSED[state], str(state), due_at=at, at=at).save(force_insert=True)


def person_needed(row: Execution) -> None:
    """Have people told of something in doubt that no program will decide."""
    if is_set(NOTIFY):
        PendingNotice.objects.create(
            key=f"execution:{row.pk}:{row.revision}", event=str(_E.NEEDS_PERSON), execution_id=row.pk,
            due_at=row.locked_at, created_at=row.locked_at,
        )  # fmt: skip


def _of(approval: Approval, event: NoticeEvent, what: str, *, due_at: datetime, at: datetime) -> PendingNotice:
    return PendingNotice(
        key=f"approval:{approval.pk}:{what}", event=str(event), execution_id=approval.execution_id,
        approval_id=approval.pk, due_at=due_at, created_at=at,
    )  # fmt: skip
