"""Successions: a new execution takes over the key of one that failed or was rejected. Joins the commit of `record`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from effects.journal.current import RequestHandle
from effects.journal.locks import lock_execution, lock_request, lock_running_request
from effects.models import Execution, Request, RequestExecution
from effects.transitions import _decisions, digests
from effects.transitions._rows import advance
from effects.transitions.intents import Intent
from effects.vocabulary.exceptions import WrongStateError
from effects.vocabulary.states import REQUEST_ENDED, ExecutionState, values

__all__ = ["hand_over", "lock_requests", "take_places"]

_DERIVED = "request:"


def lock_requests(superseded: UUID | None, handle: RequestHandle | None) -> list[Request]:
    """Lock, before the executions, the caller's own request and those that wait for what it supersedes.

    All in the order of their ids: two handlers that supersede what the other's request holds wait for each other once,
    not for ever.

    Args:
        superseded: the old execution, if there is one.
        handle: of the caller's own request, if there is one.

    Returns:
        All that have not ended and hold the old one, and its own; none where nothing is superseded.

    Raises:
        RequestEndedError: its own request ended or was taken over.
    """
    ids = {handle.id} if handle is not None else set()
    if superseded is not None:
        held = RequestExecution.objects.filter(execution_id=superseded, holds=True).exclude(
            request__state__in=values(REQUEST_ENDED)
        )
        ids.update(held.values_list("request_id", flat=True))
    waiting = []
    for request_id in sorted(ids):
        if handle is not None and request_id == handle.id:
            waiting.append(lock_running_request(handle.id, handle.epoch))
        elif (request := lock_request(request_id)).state not in REQUEST_ENDED:
            waiting.append(request)
    return waiting if superseded is not None else []


def hand_over(intent: Intent, superseded: UUID) -> tuple[Intent, bool]:
    """Take the key from the superseded execution for the intent; return the intent, and whether it has a successor.

    With a successor there is nothing to hand over: the caller meets it under the key.

    Raises:
        WrongStateError: the old one is neither failed nor rejected, is of another key, undoes what the intent does not,
            or its key was derived from a request that has ended.
        StaleRevisionError: it changed since a person looked.
    """
    old = lock_execution(superseded)
    if old.binding != intent.binding:
        raise WrongStateError(
            f"supersede= names {old.operation} {old.key!r}, but this performs {intent.operation} {intent.key!r}; a "
            "successor takes over the very key."
        )
    if old.compensates_id != intent.compensates:
        raise WrongStateError(f"{old.operation} {old.pk} undoes another execution; only its like can follow it.")
    if not old.holds_key:
        return intent, True
    if old.state not in (ExecutionState.FAILED, ExecutionState.REJECTED):
        raise WrongStateError(
            f"{old.operation} {old.pk} is {old.state}; only what is failed or rejected is superseded."
        )
    _decisions.check_revision(old, intent.seen_revision)
    if old.key.startswith(_DERIVED) and _has_ended(old.key.removeprefix(_DERIVED)):
        raise WrongStateError("The key belongs to a request that has ended; perform it anew under a key of its own.")
    evidence = {"successor": str(intent.id), **({"reason": intent.reason} if intent.reason else {})}
    advance(old, "supersede", actor=intent.requested_by, evidence=evidence, holds_key=False)
    return replace(intent, generation=old.generation + 1, supersedes=old.pk), False


def take_places(row: Execution, requests: Sequence[Request]) -> None:
    """Let the new execution hold the answers that the old one held, in its place."""
    if row.supersedes_id is None:
        return
    old = RequestExecution.objects.filter(execution_id=row.supersedes_id, request_id__in=[one.pk for one in requests])
    places = dict(old.filter(holds=True).values_list("request_id", "position"))
    old.update(holds=False)
    RequestExecution.objects.bulk_create(
        [
            RequestExecution(request_id=request_id, execution_id=row.pk, position=position, holds=True)
            for request_id, position in places.items()
        ],
        ignore_conflicts=True,
    )
    for request_id, position in places.items():
        digests.tell_link(row, request_id, position, holds=True)


def _has_ended(request_id: str) -> bool:
    try:
        UUID(request_id)
    except ValueError:
        return False  # the caller's own key, which only looks like a derived one
    return Request.objects.filter(pk=request_id, state__in=values(REQUEST_ENDED)).exists()
