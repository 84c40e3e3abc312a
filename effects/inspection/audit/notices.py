"""Notices that wait: each follows from its key, from the approval that it is about, and from a receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from effects.inspection.audit.findings import Finding
from effects.inspection.audit.walk import Check, Scope
from effects.journal import locks
from effects.models import Approval, PendingNotice, Receipt
from effects.transitions._notices import ASKED, CLOSED, due_of
from effects.vocabulary.states import NoticeEvent

__all__ = ["CHECKS"]

_EVENTS = {**ASKED, **{str(state): event for state, event in CLOSED.items()}}
#: How far ahead a notice that was not heard is postponed; the rest is for a clock that was set back.
_AHEAD = timedelta(hours=1, minutes=15)


def _waiting(_scope: Scope) -> QuerySet[Any]:
    told = Receipt.objects.filter(execution_id=OuterRef("execution_id"), at=OuterRef("created_at"))
    return PendingNotice.objects.annotate(is_told=Exists(told))


def _examine(batch: Sequence[Any], _checked: Counter[str]) -> Iterator[Finding]:
    approvals = Approval.objects.in_bulk([notice.approval_id for notice in batch if notice.approval_id])
    for notice in batch:
        for wrong in _wrong(notice, approvals.get(notice.approval_id)):
            yield Finding("notice_altered", "pendingnotice", str(notice.pk), wrong)


def _wrong(notice: Any, approval: Approval | None) -> Iterator[str]:
    kind, _, rest = notice.key.partition(":")
    ref, _, what = rest.partition(":")
    if kind == "approval":
        event, expected = _EVENTS.get(what), approval.execution_id if approval else None
        named = str(notice.approval_id) == ref
    else:
        event, expected = NoticeEvent.NEEDS_PERSON, notice.execution_id
        named = kind == "execution" and str(notice.execution_id) == ref and notice.approval_id is None
    if not named or notice.event != event or notice.execution_id != expected:
        yield f"its key is {notice.key!r}, and it tells of {notice.event} of execution {notice.execution_id}"
    elif not notice.is_told:
        yield "no receipt is of the time at which it says that this happened"
    elif not _is_due(notice, due_of(approval, what) if approval and what in ASKED else notice.created_at):
        yield f"it is due at {notice.due_at:%F %T %Z}, at which nothing has it told"


def _is_due(notice: Any, first: datetime) -> bool:
    if not notice.failures:
        return bool(notice.due_at == first)
    return bool(first <= notice.due_at <= locks.now() + _AHEAD)


CHECKS = (Check(_waiting, _examine),)
