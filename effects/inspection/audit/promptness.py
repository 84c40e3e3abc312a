"""Promptness: nothing hangs. Leases, due times, approvals, hooks, and the sweeps that look after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from effects.inspection.audit.findings import Finding
from effects.inspection.audit.walk import Check, Scope, consistent_view, seen_twice
from effects.models import Approval, Execution, Heartbeat, PendingNotice, Request
from effects.sweeps import (
    expire_approvals,
    expire_leases,
    look_up_due,
    run_due,
    run_hooks,
    send_notices,
    settle_requests,
)
from effects.vocabulary.states import ApprovalState, ExecutionState, RequestState, values

__all__ = ["CHECKS", "SWEPT", "stopped_sweeps"]

Rows = Callable[[], QuerySet[Any]]
_S, _R, _A = ExecutionState, RequestState, ApprovalState


def _executions(*states: ExecutionState) -> Rows:
    return lambda: Execution.objects.filter(state__in=values(states))


def _requests(*states: RequestState) -> Rows:
    return lambda: Request.objects.filter(state__in=values(states))


def _approvals(state: ApprovalState) -> Rows:
    return lambda: Approval.objects.filter(state=str(state))


def _hooked() -> QuerySet[Any]:
    return Execution.objects.filter(hook_due_at__isnull=False)


def _notices() -> QuerySet[Any]:
    return PendingNotice.objects.all()


#: Sweep → what it looks after: finding, rows, the column that says when. Retention is never urgent.
SWEPT: dict[str, tuple[tuple[str, Rows, str], ...]] = {
    expire_leases.NAME: (
        ("lease_overrun", _executions(_S.EXECUTING), "lease_expires_at"),
        ("lease_overrun", _requests(_R.RUNNING), "lease_expires_at"),
    ),
    run_due.NAME: (("overdue", _executions(_S.PENDING, _S.NEEDS_INTERVENTION), "due_at"),),
    look_up_due.NAME: (("overdue", _executions(_S.ACCEPTED, _S.UNCERTAIN), "due_at"),),
    settle_requests.NAME: (("overdue", _requests(_R.WAITING, _R.IN_DOUBT), "due_at"),),
    run_hooks.NAME: (("hook_overdue", _hooked, "hook_due_at"),),
    expire_approvals.NAME: (
        ("approval_overdue", _approvals(_A.REQUESTED), "decide_by"),
        ("approval_overdue", _approvals(_A.GRANTED), "use_by"),
    ),
    send_notices.NAME: (("notice_overdue", _notices, "due_at"),),
}
#: What is due at some time as long as it stands like this.
_ALWAYS_DUE = (_executions(_S.PENDING, _S.UNCERTAIN, _S.ACCEPTED), _requests(_R.WAITING))


def _timed(code: str, rows: Rows, column: str) -> Check:
    words = column.replace("_", " ")

    def late(scope: Scope) -> QuerySet[Any]:
        found = rows().filter(**{f"{column}__lt": scope.latest})
        return found if found.model is PendingNotice else found.only("state", column)

    def examine(batch: Sequence[Any], _checked: Counter[str]) -> Iterator[Finding]:
        for row in batch:
            stands = f"{row.event} of execution {row.execution_id}" if isinstance(row, PendingNotice) else row.state
            yield _finding(code, row, f"it is {stands}, and its {words} was {getattr(row, column):%F %T %Z}")

    return Check(late, examine)


def _always_due(rows: Rows) -> Check:
    def forgotten(_scope: Scope) -> QuerySet[Any]:
        return rows().filter(due_at__isnull=True).only("state")

    def examine(batch: Sequence[Any], _checked: Counter[str]) -> Iterator[Finding]:
        for row in batch:
            yield _finding("never_due", row, f"it is {row.state}, and has no due time")

    return Check(forgotten, examine)


CHECKS = (
    *(_timed(*watched) for swept in SWEPT.values() for watched in swept),
    *(_always_due(rows) for rows in _ALWAYS_DUE),
)


def stopped_sweeps(scope: Scope) -> Iterator[Finding]:
    """Yield the sweeps that gave no sign of life for longer than the allowance while they have something to do."""
    found = list(_stopped_sweeps(scope))
    if found:
        yield from seen_twice(found, list(_stopped_sweeps(scope)))


def _stopped_sweeps(scope: Scope) -> Iterator[Finding]:
    with consistent_view():
        beats = dict(Heartbeat.objects.values_list("sweep", "at"))
        for name, seen_at in beats.items():
            if seen_at > scope.now + scope.allowance:
                ahead = f"it was seen at {seen_at:%F %T %Z}, ahead of the database's clock"
                yield Finding("heartbeat_ahead", "sweep", name, ahead)
        for name, watched in SWEPT.items():
            beat = beats.get(name)
            # one that never ran may not have been needed before: what is due now counts only once it is late
            due = scope.latest if beat is None else scope.now
            if beat is not None and beat >= scope.latest:
                continue
            if any(rows().filter(**{f"{column}__lt": due}).exists() for _, rows, column in watched):
                seen = f"was last seen {beat:%F %T %Z}" if beat else "was never seen"
                yield Finding("sweep_stopped", "sweep", name, f"it {seen}, and something is due")


def _finding(code: str, row: Any, wrong: str) -> Finding:
    return Finding(code, str(row._meta.model_name), str(row.pk), wrong)
