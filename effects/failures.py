"""What an exception raised by `send` proves.

Only the classes below prove that nothing was applied. Whatever else is raised is doubt, and after an earlier attempt
that may have applied, a refusal proves nothing about that one either.
"""

from __future__ import annotations

import concurrent.futures
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import ClassVar

from effects.states import ExecutionReason

__all__ = [
    "Declined",
    "Doubt",
    "FailureClass",
    "Forbidden",
    "InvalidRequest",
    "NotNow",
    "NotSent",
    "ProvenNotApplied",
    "Repeatable",
    "SendError",
    "Stale",
    "Unauthenticated",
    "classify",
    "parse_retry_after",
]


class SendError(Exception):
    """What `send` raises when it knows what the provider's answer proves.

    Args:
        message: the provider's text; cleaned and cut before it is stored.
        code: the provider's code.
        reference: the provider's id of what it refused, if it made one.
    """

    reason: ClassVar[ExecutionReason] = ExecutionReason.UNCLASSIFIED

    def __init__(self, message: str = "", *, code: str = "", reference: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.reference = message, code, reference


class ProvenNotApplied(SendError):
    """The provider's answer proves that nothing was applied by this attempt."""


class Declined(ProvenNotApplied):
    """The provider refused for a business reason."""

    reason = ExecutionReason.DECLINED


class InvalidRequest(ProvenNotApplied):
    """The provider refused the request itself."""

    reason = ExecutionReason.INVALID_REQUEST


class Unauthenticated(ProvenNotApplied):
    """The provider does not know us."""

    reason = ExecutionReason.UNAUTHENTICATED


class Forbidden(ProvenNotApplied):
    """The provider knows us and does not let us."""

    reason = ExecutionReason.FORBIDDEN


class Stale(ProvenNotApplied):
    """The target's own precondition refused; no effect was applied."""

    reason = ExecutionReason.STALE


class Repeatable(ProvenNotApplied):
    """Nothing was applied and a later attempt may succeed."""

    retry_after: timedelta | None = None


class NotSent(Repeatable):
    """No byte of the request reached the provider: DNS, connect or TLS failed, and no redirect was followed."""

    reason = ExecutionReason.NOT_SENT


class NotNow(Repeatable):
    """The provider refused for now: 425, 429, or a 503 that the effect declares to be a refusal.

    Args:
        retry_after: not before that long from now; may exceed the retry ceiling.
    """

    reason = ExecutionReason.RETRY

    def __init__(
        self, message: str = "", *, retry_after: timedelta | None = None, code: str = "", reference: str = ""
    ) -> None:
        super().__init__(message, code=code, reference=reference)
        self.retry_after = retry_after


@dataclass(frozen=True)
class FailureClass:
    """What one exception proves. Exactly one of `not_applied` and doubt; `repeat` only beside `not_applied`."""

    reason: ExecutionReason
    code: str
    message: str
    reference: str = ""
    not_applied: bool = False
    repeat: bool = False
    retry_after: timedelta | None = None


def classify(error: BaseException) -> FailureClass:
    """Return what `error`, raised by `send`, proves; unknown errors prove nothing."""
    if isinstance(error, SendError):
        return FailureClass(
            reason=error.reason,
            code=error.code or type(error).__name__,
            message=error.message,
            reference=error.reference,
            not_applied=isinstance(error, ProvenNotApplied),
            repeat=isinstance(error, Repeatable),
            retry_after=getattr(error, "retry_after", None),
        )
    if not isinstance(error, Exception) or type(error).__name__ == "SoftTimeLimitExceeded":
        reason = ExecutionReason.INTERRUPTED
    elif isinstance(error, (TimeoutError, concurrent.futures.TimeoutError)):
        reason = ExecutionReason.TIMEOUT
    elif isinstance(error, ConnectionError):
        reason = ExecutionReason.NO_REPLY
    else:
        reason = getattr(error, "doubt_reason", ExecutionReason.UNCLASSIFIED)
    retry_after = getattr(error, "retry_after", None)
    return FailureClass(
        reason=reason,
        code=str(getattr(error, "code", "") or type(error).__name__),
        message=_text(error),
        retry_after=retry_after if isinstance(retry_after, timedelta) else None,
    )


class Doubt(SendError):
    """The request was sent and the answer proves nothing: a 5xx, a timeout, an answer that cannot be read.

    Args:
        reason: one of timeout, no_reply, provider_error.
        retry_after: the provider's wish; kept as "not before".
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "",
        reference: str = "",
        reason: ExecutionReason = ExecutionReason.PROVIDER_ERROR,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message, code=code, reference=reference)
        self.reason = reason  # type: ignore[misc]
        self.retry_after = retry_after


def parse_retry_after(value: str | None, now: datetime | None = None) -> timedelta | None:
    """Return the delay that a Retry-After header (RFC 9110 §10.2.3: seconds or a date) asks for, or None."""
    if not value:
        return None
    if value.strip().isdigit():
        return timedelta(seconds=min(int(value), 10**8))
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return max(timedelta(0), when - (now or datetime.now(timezone.utc)))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a provider's exception may not even print
        return type(error).__name__
