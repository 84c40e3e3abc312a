"""What the status of an HTTP answer proves about the request that it answers: the one table of it (RFC 9110 §15)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from effects.vocabulary.failures import (
    Declined,
    Doubt,
    Forbidden,
    InvalidRequest,
    NotNow,
    SendError,
    Stale,
    Unauthenticated,
)
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.verdicts import Inconclusive, Unreachable

__all__ = ["NOT_NOW", "PROOF", "failure", "hindrance", "is_away"]

#: Refused before anything was looked at, in whoever's words.
NOT_NOW: Mapping[int, type[SendError]] = {425: NotNow, 429: NotNow}
#: What a status proves. One that is not here proves nothing: redirects (the server may have done it and point at the
#: result), 406 (what could not be rendered was done before), 408, 409, 423 and 424 (an earlier request under this key
#: may be under way, or done), and everything from 500 on (who forwarded the request may say so, too).
PROOF: Mapping[int, type[SendError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    402: Declined,
    403: Forbidden,
    404: InvalidRequest,
    405: InvalidRequest,
    410: InvalidRequest,
    411: InvalidRequest,
    412: Stale,
    413: InvalidRequest,
    414: InvalidRequest,
    415: InvalidRequest,
    # §15.5.20: may be repeated on another connection "whether or not the request method is idempotent"
    421: InvalidRequest,
    422: InvalidRequest,
    426: InvalidRequest,
    428: InvalidRequest,
    431: InvalidRequest,
    451: Forbidden,
    **NOT_NOW,
}
_AWAY = frozenset({408, *NOT_NOW})


def failure(
    status: int,
    message: str = "",
    *,
    code: str = "",
    reference: str = "",
    retry_after: timedelta | None = None,
    proof: Mapping[int, type[SendError]] = PROOF,
) -> SendError:
    """Return what `send` raises for an answer with this status; a status that `proof` does not name is doubt.

    Args:
        status: of an answer that is no success.
        message: the provider's words.
        code: the provider's code.
        reference: the provider's id of what it refused, if it made one.
        retry_after: the provider's wish; kept for what is tried later, and for doubt.
        proof: the table to read.
    """
    kind = proof.get(status, Doubt)
    if issubclass(kind, NotNow):
        return kind(message, code=code, reference=reference, retry_after=retry_after)
    if issubclass(kind, Doubt):
        reason = ExecutionReason.TIMEOUT if status == 408 else ExecutionReason.PROVIDER_ERROR
        return kind(message, code=code, reference=reference, reason=reason, retry_after=retry_after)
    return kind(message, code=code, reference=reference)


def is_away(status: int) -> bool:
    """Return whether an answer to a look-up says that the provider cannot be asked now, or somebody else says so."""
    return status in _AWAY or status >= 500


def hindrance(error: SendError) -> Unreachable | Inconclusive:
    """Return what a look-up says that `error` ended: whether the provider could not be asked, or did not tell."""
    away = error.reason in (ExecutionReason.NOT_SENT, ExecutionReason.TIMEOUT, ExecutionReason.NO_REPLY)
    return (Unreachable if away else Inconclusive)(error.message, {"code": error.code})
