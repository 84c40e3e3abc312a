"""Answers: a response as it is stored, a stored one as it is sent, and what each decision says to the client."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings as project
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import get_language

from effects.conf import settings
from effects.declarations.operations import StoredAnswer
from effects.http.problems import problem
from effects.http.replay import (
    AtCapacity,
    Decision,
    Ended,
    Free,
    InDoubt,
    InProgress,
    PolicyChanged,
    Replay,
    Reused,
    Run,
    Waiting,
    safe_new_key,
)
from effects.http.status import accepted, reported_state, status_url
from effects.journal.snapshots import RequestSnapshot

__all__ = ["REPLAYED", "STATUS", "answer", "rendered", "store", "unavailable"]

REPLAYED = "Idempotent-Replayed"
#: Says `ignored` where a view that does not require a key was used without one.
STATUS = "Idempotency-Status"

_HTML = frozenset({"text/html", "application/xhtml+xml"})


def rendered(response: HttpResponseBase) -> HttpResponseBase:
    """Return a response whose bytes are there; one of REST framework that no view finished is rendered as JSON."""
    if getattr(response, "is_rendered", True):
        return response
    if hasattr(response, "data") and not hasattr(response, "accepted_renderer"):
        from effects.http.drf import render_alone  # noqa: PLC0415 - REST framework is optional

        return render_alone(response)
    return cast("HttpResponseBase", cast("Any", response).render())


def store(response: HttpResponseBase) -> StoredAnswer:
    """Return a rendered response as it is frozen: allow-listed headers, and the bytes unless they cannot be kept.

    Not kept: streams and what is longer than `MAX_ANSWER_BYTES`; HTML, whose forms hold tokens of one session; bodies
    that the view compressed itself, since another client may not read them.
    """
    allowed = {name.lower() for name in settings.REPLAY_HEADERS}
    headers = tuple(
        # jsonb holds no NUL; no valid header does
        (name, str(value).replace("\x00", ""))
        for name, value in (*response.items(), *_language(response))
        if name.lower() in allowed
    )
    body = b"" if response.streaming else cast("HttpResponse", response).content
    missing = _why_not_stored(response, body)
    return StoredAnswer(
        status=response.status_code,
        headers=headers,
        body=None if missing else body,
        size=len(body),
        missing=missing,
    )


def _language(response: HttpResponseBase) -> list[tuple[str, str]]:
    """Return the language header that `LocaleMiddleware` is about to set, outside of the view.

    Unless it is stored, a replay's header would name the language of whoever asks again, not that of the bytes.
    """
    if response.has_header("Content-Language"):
        return []
    says = any("LocaleMiddleware" in path for path in project.MIDDLEWARE)
    return [("Content-Language", get_language() or project.LANGUAGE_CODE)] if says else []


def _why_not_stored(response: HttpResponseBase, body: bytes) -> str:
    media_type = response.get("Content-Type", "").partition(";")[0].strip().lower()
    if response.streaming:
        return "streaming"
    if len(body) > settings.MAX_ANSWER_BYTES:
        return "oversize"
    if response.has_header("Content-Encoding"):
        return "encoded"
    return "html" if body and media_type in _HTML else ""


def answer(decision: Decision, request: Any, *, replayed: bool = True) -> HttpResponseBase:
    """Return what a decision says to the client.

    Args:
        decision: any but `Run`.
        request: Django's or REST framework's, for `REPLAY_CHECK`.
        replayed: whether a stored answer was sent before; False for the first client's own.

    Raises:
        PermissionDenied: `REPLAY_CHECK` returned False; what it raises goes through too.
    """
    match decision:
        case Replay():
            return _replay(decision, request, replayed)
        case Waiting():
            return accepted(decision)
        case InProgress():
            return _refusal(decision.code, decision.request, retry_after=decision.retry_after)
        case Reused():
            return problem(decision.code, extra={"differs": list(decision.parts)})
        case InDoubt() | PolicyChanged():
            return _refusal(decision.code, decision.request, operation_state=reported_state(decision))
        case Ended():
            safe = safe_new_key(decision.request, decision.standing)
            return _refusal(decision.code, decision.request, safe_new_key=safe)
        case Free():
            return unavailable()
        case AtCapacity():
            return problem(decision.code)
        case Run():
            raise TypeError("a request that runs has no answer yet")


def unavailable() -> HttpResponse:
    """Return 503: nothing could be recorded, so nothing was done; the same request may be sent again."""
    return problem("execution_unavailable")


def _replay(decision: Replay, request: Any, replayed: bool) -> HttpResponseBase:
    if replayed:
        refusal = _ask_replay_check(request, decision.request)
        if refusal is not None:
            return refusal
    response = HttpResponse(decision.body, status=decision.status)
    del response["Content-Type"]
    for name, value in decision.headers:
        response[name] = value
    if replayed:
        response[REPLAYED] = "true"
    return response


def _ask_replay_check(request: Any, found: RequestSnapshot) -> HttpResponseBase | None:
    check = settings.REPLAY_CHECK
    if check is None:
        return None
    verdict = check(request, found)
    if verdict is False:
        raise PermissionDenied("The stored answer may not be shown to this caller any more.")
    return verdict if isinstance(verdict, HttpResponseBase) else None


def _refusal(code: str, found: RequestSnapshot | None, **members: Any) -> HttpResponse:
    if found is None:
        return problem(code, **members)
    members.setdefault("operation_state", str(found.state))
    return problem(code, operation_ref=found.ref, status_url=status_url(found), **members)
