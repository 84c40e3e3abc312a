"""Requests that wait for their executions."""

from __future__ import annotations

from uuid import UUID

from effects import transitions
from effects.models import Request
from effects.sweeps._batches import Counts, each, take
from effects.vocabulary.states import RequestState, values

__all__ = ["NAME", "run_once"]

NAME = "settle_requests"
UNSETTLED = values({RequestState.WAITING, RequestState.IN_DOUBT})


def run_once(batch: int | None = None) -> Counts:
    """Answer those whose executions have settled; the others come again later."""
    ids = take(Request.objects.filter(state__in=UNSETTLED), "due_at", batch)
    return each(NAME, ids, _settle)


def _settle(request_id: UUID) -> str:
    return str(transitions.settle(request_id).state)
