"""The status resource: where an operation can be asked for by the tenant and subject that sent it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import NoReverseMatch, reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from effects.declarations.operations import find_operation
from effects.http.fingerprints import is_known
from effects.http.identity import identify
from effects.http.problems import problem
from effects.http.replay import (
    Decision,
    InDoubt,
    InProgress,
    PolicyChanged,
    Run,
    Waiting,
    decide,
    policy_changed,
    safe_new_key,
    standing_of,
)
from effects.journal import queries
from effects.journal.commits import reaching
from effects.journal.locks import now
from effects.journal.logs import get_logger
from effects.journal.snapshots import RequestSnapshot
from effects.vocabulary.exceptions import ExecutionNotFoundError, JournalUnavailableError, NameUnusableError
from effects.vocabulary.polling import DOUBT_HINT
from effects.vocabulary.states import RequestState

__all__ = ["accepted", "operation_status", "ref_of", "reported_state", "status_url"]

log = get_logger("effects.http")


@csrf_exempt  # it only reads, and tells a client that posts to it so
@transaction.non_atomic_requests
@require_safe
def operation_status(request: HttpRequest, ref: str) -> HttpResponseBase:
    """Answer where an operation stands; 404 for anybody but the tenant and subject that sent it.

    REST framework's default authenticators are used where it is installed, Django's own session otherwise.
    """
    try:
        with reaching("reading a request"):
            caller = _caller_of(request)
            if isinstance(caller, HttpResponseBase):
                return caller
            found = queries.get_request(ref_of(ref))
            _refuse_others(caller, found)
            decision = _as_a_retry_is_told(found)
            return _response(_members(found, decision), retry_after=_hint(decision))
    except (ExecutionNotFoundError, NameUnusableError):
        return problem("operation_not_found")
    except JournalUnavailableError:
        log.exception("The status of %s cannot be read.", ref)
        return problem("execution_unavailable")


def ref_of(text: str) -> UUID:
    """Return the public id that a client wrote into an address.

    The URL patterns take any text: what is no id is then answered as one that nobody has, and not by the page that
    Django shows where no pattern fits.

    Raises:
        ExecutionNotFoundError: it is none.
    """
    try:
        found = UUID(text)
    except ValueError as error:
        raise ExecutionNotFoundError from error
    if str(found) != text.lower():
        raise ExecutionNotFoundError
    return found


def accepted(decision: Waiting) -> HttpResponse:
    """Return 202 with the status resource, and where it can be asked for."""
    found = decision.request
    response = _response(_members(found, decision), status=202, retry_after=decision.retry_after)
    url = status_url(found)
    if url is not None:
        response["Location"] = url
    return response


def status_url(found: RequestSnapshot) -> str | None:
    """Return the path of an operation's status; None where the project does not include `effects.urls`."""
    try:
        return reverse("effects:operation-status", args=[found.id])
    except NoReverseMatch:
        return None


def reported_state(decision: Decision) -> str:
    """Return the state that a client is told: of the most doubtful execution while one is unsettled."""
    standing = getattr(decision, "standing", None)
    if standing is not None and standing.speaker is not None:
        return str(standing.speaker.state)
    request: RequestSnapshot | None = getattr(decision, "request", None)
    return str(request.state) if request is not None else ""


def _as_a_retry_is_told(found: RequestSnapshot) -> Decision:
    """Return what the same request would be told, which is compared first; one that was released is opened anew."""
    if found.state is not RequestState.RELEASED and not is_known(found.fingerprint_version):
        return policy_changed(found)
    return decide(found, now())


def _caller_of(request: HttpRequest) -> Any:
    """Return the request with whoever REST framework's authenticators find, where it is installed; or their refusal."""
    if not apps.is_installed("rest_framework"):
        return request
    from effects.http.drf import authenticated  # noqa: PLC0415 - REST framework is optional

    return authenticated(request)


def _refuse_others(caller: Any, found: RequestSnapshot) -> None:
    view = find_operation(found.operation)
    who = identify(caller, view.options.get("identity") if view else None)
    if who is None or (who.tenant, who.subject) != (found.tenant, found.subject):
        raise ExecutionNotFoundError


def _members(found: RequestSnapshot, decision: Decision) -> dict[str, Any]:
    standing = getattr(decision, "standing", None) or standing_of(found)
    members = {
        "operation_ref": found.ref,
        "operation": found.operation,
        "operation_state": reported_state(decision),
        "code": "" if isinstance(decision, Run) else decision.code,
        "safe_new_key": not isinstance(decision, PolicyChanged) and safe_new_key(found, standing),
        "answer_status": found.answer[0] if found.answer is not None else None,
        "status_url": status_url(found),
        "poll_after_seconds": _seconds(_hint(decision)),
    }
    return {name: value for name, value in members.items() if value is not None}


def _hint(decision: Decision) -> timedelta | None:
    match decision:
        case InProgress() | Waiting():
            return decision.retry_after
        case InDoubt():
            return max(decision.standing.retry_after or DOUBT_HINT, DOUBT_HINT)
        case PolicyChanged() if not decision.request.ended:
            return DOUBT_HINT
        case _:
            return None


def _seconds(wait: timedelta | None) -> int | None:
    return max(1, math.ceil(wait.total_seconds())) if wait is not None else None


def _response(members: dict[str, Any], *, status: int = 200, retry_after: timedelta | None) -> HttpResponse:
    response = JsonResponse(members, status=status)
    response["Cache-Control"] = "no-store"
    seconds = _seconds(retry_after)
    if seconds is not None:
        response["Retry-After"] = str(seconds)
    return response
