"""What follows a change of an execution: the requests that waited for it are settled."""

from __future__ import annotations

from uuid import UUID

from django.db import Error

from effects import transitions
from effects.journal.commits import is_beside
from effects.journal.logs import get_logger
from effects.journal.snapshots import ExecutionSnapshot
from effects.journal.writes import away_from_event_loop
from effects.models import RequestExecution
from effects.vocabulary.exceptions import EffectsError
from effects.vocabulary.states import REQUEST_ENDED, RequestState, values

__all__ = ["after_change", "settle_requests_of"]

log = get_logger("effects.consequences")


def after_change(execution: ExecutionSnapshot) -> None:
    """Settle the requests that waited for an execution that is settled now."""
    away_from_event_loop(lambda: _after_change(execution))


def _after_change(execution: ExecutionSnapshot) -> None:
    if is_beside() and execution.settled and execution.hook_due_at == execution.settled_at:
        execution = _run_hook_after_commit(execution)
    if execution.settled and execution.hook_due_at is None:
        settle_requests_of(execution.id)


def _run_hook_after_commit(execution: ExecutionSnapshot) -> ExecutionSnapshot:
    """Run the hook that could not run in the commit that settled; what goes wrong here stays due for the sweep."""
    try:
        return transitions.run_hook(execution.id)
    except (EffectsError, Error):
        log.exception("The hook of execution %s could not be run now; the sweep will.", execution.id)
        return execution


def settle_requests_of(execution_id: UUID) -> None:
    """Settle the requests that wait for this execution, each in a transaction of its own.

    Only a shortcut: what raises here stays due for the sweep.
    """
    waiting = RequestExecution.objects.filter(execution_id=execution_id, holds=True).exclude(
        request__state__in=[*values(REQUEST_ENDED), str(RequestState.RUNNING)]
    )
    try:
        for request_id in waiting.values_list("request_id", flat=True):
            transitions.settle(request_id)
    except (EffectsError, Error):  # what settled the execution is committed, and its caller must hear so
        log.exception("The requests of execution %s could not all be settled now; the sweep will.", execution_id)
