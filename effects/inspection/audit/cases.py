"""The rows of a batch with what belongs to them, read in a handful of queries whatever the batch holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F, Func, QuerySet, TextField, Value

from effects.inspection.audit.replay import Replay
from effects.inspection.audit.walk import Scope, touched
from effects.models import (
    Approval,
    ApprovalVote,
    Attempt,
    Execution,
    Receipt,
    Request,
    RequestExecution,
    Resolution,
)

__all__ = ["CHUNK", "Case", "executions", "load", "replays", "requests", "resolutions"]

#: Receipts are streamed in chunks: a row may have thousands.
CHUNK = 1000


@dataclass
class Case:
    """One execution with all that the rules compare it with."""

    row: Execution
    replay: Replay
    attempts: list[Attempt] = field(default_factory=list)
    approvals: list[Any] = field(default_factory=list)
    votes: list[ApprovalVote] = field(default_factory=list)
    resolutions: list[Resolution] = field(default_factory=list)
    links: list[RequestExecution] = field(default_factory=list)


def executions(scope: Scope) -> QuerySet[Execution]:
    """Return the executions of the scope."""
    return touched(Execution.objects.all(), scope)


def requests(scope: Scope) -> QuerySet[Request]:
    """Return the requests of the scope, the bytes of their answers digested by the database."""
    digest = Func(Func(F("answer_body"), function="sha256"), Value("hex"), function="encode", output_field=TextField())
    return touched(Request.objects.defer("answer_body").annotate(body_digest=digest), scope)


def load(rows: Sequence[Execution], checked: Counter[str]) -> Iterator[Case]:
    """Yield a case for each execution of a batch."""
    told = replays(rows, checked)
    cases: dict[Any, Case] = {row.pk: Case(row, told[row.pk]) for row in rows}
    for attempt in Attempt.objects.filter(execution_id__in=cases).order_by("execution_id", "number"):
        cases[attempt.execution_id].attempts.append(attempt)
        checked["attempts"] += 1
    for approval in Approval.objects.filter(execution_id__in=cases).order_by("created_at", "pk"):
        cases[approval.execution_id].approvals.append(approval)
        checked["approvals"] += 1
    for vote in ApprovalVote.objects.filter(approval__execution_id__in=cases).select_related("approval"):
        cases[vote.approval.execution_id].votes.append(vote)
    for resolution in Resolution.objects.filter(execution_id__in=cases):
        cases[resolution.execution_id].resolutions.append(resolution)
    for link in RequestExecution.objects.filter(execution_id__in=cases):
        cases[link.execution_id].links.append(link)
    checked["executions"] += len(cases)
    yield from cases.values()


def resolutions(rows: Sequence[Request]) -> dict[Any, list[Resolution]]:
    """Return the decisions about each request of a batch."""
    found: dict[Any, list[Resolution]] = {row.pk: [] for row in rows}
    for resolution in Resolution.objects.filter(request_id__in=found):
        found[resolution.request_id].append(resolution)
    return found


def replays(rows: Sequence[Execution | Request], checked: Counter[str]) -> dict[UUID, Replay]:
    """Return the folded receipts of a batch of executions or of requests."""
    folded = {row.pk: Replay.of(row) for row in rows}
    if not rows:
        return folded
    owner = "execution_id" if isinstance(rows[0], Execution) else "request_id"
    receipts = Receipt.objects.filter(**{f"{owner}__in": list(folded)}).order_by(owner, "sequence")
    for receipt in receipts.iterator(chunk_size=CHUNK):
        folded[getattr(receipt, owner)].add(receipt)
        checked["receipts"] += 1
    return folded
