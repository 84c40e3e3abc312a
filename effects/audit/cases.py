"""The rows of a batch with what belongs to them, read in a handful of queries whatever the batch holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from effects.audit.replay import Line, Replay
from effects.audit.walk import Scope, touched
from effects.models import Approval, Attempt, Execution, Receipt, Request

__all__ = ["CHUNK", "Case", "executions", "load", "replays", "requests"]

#: Receipts are streamed in chunks: a row may have thousands.
CHUNK = 1000
_COLUMNS = (
    "sequence", "event", "from_state", "to_state", "reason", "revision", "epoch", "may_have_applied",
    "evidence__attempt", "evidence__approval", "evidence__digest",
)  # fmt: skip


@dataclass
class Case:
    """One execution with all that the rules compare it with."""

    row: Execution
    replay: Replay
    attempts: list[Attempt] = field(default_factory=list)
    approvals: list[Any] = field(default_factory=list)


def executions(scope: Scope) -> QuerySet[Execution]:
    """Return the executions of the scope, without the columns that only grow."""
    rows: QuerySet[Execution] = touched(Execution.objects.defer("output", "items"), scope)
    return rows


def requests(scope: Scope) -> QuerySet[Request]:
    """Return the requests of the scope, without their answers."""
    rows: QuerySet[Request] = touched(Request.objects.defer("answer_body", "answer_headers", "fingerprint"), scope)
    return rows


def load(rows: Sequence[Execution], checked: Counter[str]) -> Iterator[Case]:
    """Yield a case for each execution of a batch."""
    told = replays(rows, checked)
    cases = {row.pk: Case(row, told[row.pk]) for row in rows}
    for attempt in Attempt.objects.filter(execution_id__in=cases).order_by("execution_id", "number"):
        cases[attempt.execution_id].attempts.append(attempt)
        checked["attempts"] += 1
    approvals = Approval.objects.filter(execution_id__in=cases).defer("summary")
    votes = Count("votes", filter=Q(votes__decision="approve"))
    for approval in approvals.annotate(approving=votes).order_by("created_at", "pk"):
        cases[approval.execution_id].approvals.append(approval)
        checked["approvals"] += 1
    checked["executions"] += len(cases)
    yield from cases.values()


def replays(rows: Sequence[Execution | Request], checked: Counter[str]) -> dict[UUID, Replay]:
    """Return the folded receipts of a batch of executions or of requests."""
    folded = {row.pk: Replay.of(row) for row in rows}
    if not rows:
        return folded
    owner = "execution_id" if isinstance(rows[0], Execution) else "request_id"
    receipts = Receipt.objects.filter(**{f"{owner}__in": list(folded)}).order_by(owner, "sequence")
    for pk, *columns in receipts.values_list(owner, *_COLUMNS).iterator(chunk_size=CHUNK):
        folded[pk].add(Line(*columns))
        checked["receipts"] += 1
    return folded
