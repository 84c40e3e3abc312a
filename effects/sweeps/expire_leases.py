"""Leases that are past: sends whose process died, handlers that were lost."""

from __future__ import annotations

from uuid import UUID

from effects import transitions
from effects.models import Execution, Request
from effects.sweeps._batches import Counts, each, take
from effects.vocabulary.states import ExecutionState, RequestState

__all__ = ["NAME", "run_once"]

NAME = "expire_leases"


def run_once(batch: int | None = None) -> Counts:
    """Put sends of dead processes in doubt, and close the requests of lost handlers."""
    sends = take(Execution.objects.filter(state=str(ExecutionState.EXECUTING)), "lease_expires_at", batch)
    handlers = take(Request.objects.filter(state=str(RequestState.RUNNING)), "lease_expires_at", batch)
    counts = each(NAME, sends, _expire)
    return counts + each(NAME, handlers, _abort)


def _expire(execution_id: UUID) -> str:
    return f"executions_{transitions.expire_lease(execution_id).state}"


def _abort(request_id: UUID) -> str:
    return f"requests_{transitions.abort(request_id, epoch=None, why='the lease is past').state}"
