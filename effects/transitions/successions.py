"""Successions: a new execution takes over the key of one that failed or was rejected. Joins the commit of `record`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from effects._locks import lock_execution, lock_request
from effects.exceptions import WrongStateError
from effects.intents import Intent, provider_key_of
from effects.models import Execution, Request, RequestExecution
from effects.states import REQUEST_ENDED, ExecutionState, values
from effects.transitions import _decisions
from effects.transitions._rows import advance

__all__ = ["hand_over", "lock_waiting_requests", "take_places"]

_DERIVED = "request:"


def lock_waiting_requests(superseded: UUID, own: Request | None) -> list[Request]:
    """Lock, before the executions, every request that has not ended and holds the old one, in the order of their ids.

    Args:
        superseded: the old execution.
        own: the caller's request, locked already.
    """
    held = RequestExecution.objects.filter(execution_id=superseded, holds=True).exclude(
        request__state__in=values(REQUEST_ENDED)
    )
    ids = set(held.values_list("request_id", flat=True)) - {own.pk if own else None}
    locked = [lock_request(request_id) for request_id in sorted(ids)]
    waiting = [request for request in locked if request.state not in REQUEST_ENDED]
    return waiting if own is None else [own, *waiting]


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
    generation = old.generation + 1
    key = provider_key_of(intent.effect, intent.tenant, intent.key, generation)
    return replace(intent, generation=generation, provider_key=key, supersedes=old.pk), False


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


def _has_ended(request_id: str) -> bool:
    try:
        UUID(request_id)
    except ValueError:
        return False  # the caller's own key, which only looks like a derived one
    return Request.objects.filter(pk=request_id, state__in=values(REQUEST_ENDED)).exists()
