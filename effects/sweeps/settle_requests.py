"""Requests that wait for their executions."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from effects import transitions
from effects.models import Request
from effects.sweeps._batches import Counts, each, is_anything_due, take
from effects.vocabulary.states import RequestState, values

__all__ = ["NAME", "is_due", "run_once"]

NAME = "settle_requests"
UNSETTLED = values({RequestState.WAITING, RequestState.IN_DOUBT})


def run_once(batch: int | None = None) -> Counts:
    """Answer those whose executions have settled; the others come again later."""
    return each(NAME, take(_rows(), "due_at", batch), _settle)


def is_due() -> bool:
    """Return whether there is any to look at."""
    return is_anything_due(NAME, _rows(), "due_at")


def _rows() -> QuerySet[Request]:
    return Request.objects.filter(state__in=UNSETTLED)


def _settle(request_id: UUID) -> str:
    return str(transitions.settle(request_id).state)
