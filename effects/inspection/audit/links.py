"""Links: successors and their elders, requests and the executions that hold their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from effects.inspection.audit.findings import Finding
from effects.inspection.audit.walk import Check, Scope, touched
from effects.models import Execution, Receipt, Request, RequestExecution
from effects.vocabulary.states import EXECUTION_SETTLED, ExecutionState, RequestState, values

__all__ = ["CHECKS"]

_S, _R = ExecutionState, RequestState
_FAILED = values({_S.FAILED, _S.REJECTED})


def _contradicted(execution_id: str) -> Exists:
    """What late evidence contradicted is not what it was when others relied on it; that is no fault of the journal."""
    return Exists(Receipt.objects.filter(execution_id=OuterRef(execution_id), event="contradict"))


def _unfit_elders(scope: Scope) -> QuerySet[Any]:
    succeeded = Q(supersedes__holds_key=False, supersedes__binding=F("binding"))
    next_generation = Q(generation=F("supersedes__generation") + 1)
    ended = Q(supersedes__state__in=_FAILED) | _contradicted("supersedes_id")
    successors = touched(Execution.objects.filter(supersedes__isnull=False), scope)
    return successors.exclude(succeeded & next_generation & ended).only("state", "supersedes_id")


def _abandoned_keys(scope: Scope) -> QuerySet[Any]:
    successor = Execution.objects.filter(supersedes_id=OuterRef("pk"))
    return touched(Execution.objects.filter(~Exists(successor), holds_key=False), scope).only("state")


def _ended_early(scope: Scope) -> QuerySet[Any]:
    unsettled = _linked().filter(~_contradicted("execution_id"), holds=True)
    unsettled = unsettled.exclude(execution__state__in=values(EXECUTION_SETTLED))
    ended = Request.objects.filter(Exists(unsettled), state__in=values({_R.ANSWERED, _R.RESOLVED}))
    return touched(ended, scope).only("state")


def _waiting_for_nothing(scope: Scope) -> QuerySet[Any]:
    waiting = Request.objects.filter(~Exists(_linked().filter(holds=True)), state=str(_R.WAITING))
    return touched(waiting, scope).only("state")


def _released_with_send(scope: Scope) -> QuerySet[Any]:
    sent = _linked().filter(~_contradicted("execution_id")).exclude(execution__state=str(_S.REJECTED))
    return touched(Request.objects.filter(Exists(sent), state=str(_R.RELEASED)), scope).only("state")


def _linked() -> QuerySet[RequestExecution]:
    links: QuerySet[RequestExecution] = RequestExecution.objects.filter(request_id=OuterRef("pk"))
    return links


def _check(code: str, rows: Callable[[Scope], QuerySet[Any]], wrong: str) -> Check:
    def examine(batch: Sequence[Any], _checked: Counter[str]) -> Iterator[Finding]:
        for row in batch:
            elder = getattr(row, "supersedes_id", None) if code == "elder_unfit" else None
            yield Finding(code, str(row._meta.model_name), str(row.pk), wrong.format(state=row.state, elder=elder))

    return Check(rows, examine)


CHECKS = (
    _check("elder_unfit", _unfit_elders, "it supersedes {elder}, which is no fit elder"),
    _check("key_abandoned", _abandoned_keys, "it is {state}, does not hold its key, and nothing supersedes it"),
    _check("request_ended_early", _ended_early, "it is {state}, and an execution that holds its answer is unsettled"),
    _check("request_waits_for_nothing", _waiting_for_nothing, "it is {state}, and nothing holds its answer"),
    _check("request_released_with_send", _released_with_send, "it is {state}, and what it performed is not rejected"),
)
