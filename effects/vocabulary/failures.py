"""What an exception raised by `send` proves.

Only the classes below prove that nothing was applied. Whatever else is raised is doubt, and after an earlier attempt
that may have applied, a refusal proves nothing about that one either.
"""

from __future__ import annotations

import concurrent.futures
import errno
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from effects.vocabulary.foreign import is_interrupt
from effects.vocabulary.items import read_items, refusal_of
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import Applied, Partial, SendResult, Submitted, readable_instant

__all__ = [
    "Declined",
    "Doubt",
    "FailureClass",
    "Forbidden",
    "InvalidRequest",
    "KeyReused",
    "NotNow",
    "NotSent",
    "ProvenNotApplied",
    "Repeatable",
    "SendError",
    "Stale",
    "Unauthenticated",
    "classify",
    "is_interrupt",
    "is_out_of_reach",
    "is_unexpected",
    "parse_retry_after",
    "read_answer",
]

#: What a provider wishes beyond this is cut, so that every instant stays within the calendar.
LONGEST_WAIT = timedelta(days=366)
_R = ExecutionReason
_PROVEN = frozenset({
    _R.DECLINED, _R.INVALID_REQUEST, _R.UNAUTHENTICATED, _R.FORBIDDEN, _R.STALE, _R.NOT_SENT, _R.RETRY,
})  # fmt: skip
_DOUBTFUL = frozenset({_R.TIMEOUT, _R.NO_REPLY, _R.PROVIDER_ERROR, _R.INTERRUPTED, _R.UNCLASSIFIED, _R.CONFLICT})


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


class ProvenNotApplied(SendError):  # noqa: N818 - named for what it proves
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


class KeyReused(SendError):  # noqa: N818 - as above
    """The provider knows this key from a request with other contents, and refused this one.

    What stands there under the key is not what was asked for, and a look-up may take the one for the other. So it is
    neither repeated nor looked up: a person gets it at once, with the provider's words. A key whose first request is
    still under way is no `KeyReused` but doubt.
    """

    reason = ExecutionReason.CONFLICT


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
    message: str = field(repr=False)
    reference: str = ""
    not_applied: bool = False
    repeat: bool = False
    retry_after: timedelta | None = None
    #: No declared failure, and none of a network or a client: a mistake in the effect's own code, most likely.
    unexpected: bool = False

    @property
    def is_key_reused(self) -> bool:
        """Whether the provider has something else under the key, which only a person can judge."""
        return self.reason is _R.CONFLICT


def classify(error: BaseException) -> FailureClass:
    """Return what `error`, raised by `send`, proves; unknown errors prove nothing.

    Never raises, whatever the exception's own attributes do: the failure must be recorded.
    """
    proven = isinstance(error, ProvenNotApplied)
    reason = _reason(error)
    if reason not in (_PROVEN if proven else _DOUBTFUL):
        reason = _R.DECLINED if proven else _R.UNCLASSIFIED
    known, unexpected = isinstance(error, SendError), is_unexpected(error)
    return FailureClass(
        reason=reason,
        code=str(_attribute(error, "code", str) or type(error).__name__),
        message=_message(error, known=known, unexpected=unexpected),
        reference=str(_attribute(error, "reference", str) or "") if known else "",
        not_applied=proven,
        repeat=isinstance(error, Repeatable),
        retry_after=_attribute(error, "retry_after", _as_wait),
        unexpected=unexpected,
    )


def _message(error: BaseException, *, known: bool, unexpected: bool) -> str:
    if known:
        return str(_attribute(error, "message", str) or "")
    return f"{type(error).__name__}: {_text(error)}" if unexpected else _text(error)


#: What the usual libraries raise where the other side could not be reached, by package: they are not imported here.
_OUT_OF_REACH = {
    "aiohttp": {"ClientConnectionError"},
    "botocore": {"ConnectionError", "HTTPClientError"},
    "httpx": {"TransportError"},
    "requests": {"ConnectionError", "Timeout"},
    "socket": {"gaierror"},
    "stripe": {"APIConnectionError"},
    "urllib3": {"MaxRetryError", "NewConnectionError", "ProtocolError", "TimeoutError"},
}


#: What else the usual libraries raise for a provider's answer, or its absence, by package.
_OF_PROVIDERS = {
    "aiohttp": {"ClientError"},
    "botocore": {"BotoCoreError", "ClientError"},
    "http": {"HTTPException"},
    "httpx": {"HTTPError"},
    "json": {"JSONDecodeError"},
    "requests": {"RequestException"},
    "smtplib": {"SMTPException"},
    "ssl": {"SSLError"},
    "stripe": {"StripeError"},
    "urllib3": {"HTTPError"},
}
_OF_NETWORKS = frozenset({
    errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH, errno.ETIMEDOUT,
})  # fmt: skip


def is_unexpected(error: BaseException) -> bool:
    """Return whether `error` is no declared failure, no interrupt, and nothing that networks and providers do."""
    if isinstance(error, SendError) or is_interrupt(error) or is_out_of_reach(error):
        return False
    if isinstance(error, concurrent.futures.TimeoutError):
        return False
    if isinstance(error, OSError) and error.errno in _OF_NETWORKS:
        return False
    return not any(
        kind.__name__ in _OF_PROVIDERS.get(kind.__module__.partition(".")[0], ()) for kind in type(error).__mro__
    )


def is_out_of_reach(error: BaseException) -> bool:
    """Return whether `error` says that the other side could not be reached, or did not answer in time."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    return any(
        kind.__name__ in _OUT_OF_REACH.get(kind.__module__.partition(".")[0], ()) for kind in type(error).__mro__
    )


def read_answer(answer: object) -> SendResult | FailureClass:
    """Return what `send` returned where that can be recorded; what cannot be read is doubt, for it was sent."""
    if isinstance(answer, Applied):
        return answer
    if isinstance(answer, Submitted):
        return replace(answer, expect_by=readable_instant(answer.expect_by))
    if isinstance(answer, Partial):
        return _read_items(answer)
    return classify(TypeError(f"send() returned {type(answer).__name__}, not Applied, Partial or Submitted"))


def _read_items(answer: Partial) -> SendResult | FailureClass:
    try:
        items = read_items(answer.items)
    except Exception as error:  # noqa: BLE001 - what it made of its items may raise anything
        return classify(TypeError(f"send() returned Partial with {_text(error)}"))
    if not items:
        return classify(TypeError("send() returned Partial without items"))
    refused = refusal_of(items)
    if refused is None:
        return replace(answer, items=items)
    return FailureClass(
        reason=_R.DECLINED, code=refused.code or "no_item_applied", message=refused.message, reference=answer.reference,
        not_applied=True,
    )  # fmt: skip


def _reason(error: BaseException) -> ExecutionReason:
    if is_interrupt(error):
        return _R.INTERRUPTED
    if isinstance(error, SendError):
        return error.reason
    if isinstance(error, (TimeoutError, concurrent.futures.TimeoutError)):
        return _R.TIMEOUT
    if isinstance(error, ConnectionError):
        return _R.NO_REPLY
    return _R.UNCLASSIFIED


def _attribute(error: BaseException, name: str, read: Callable[[Any], Any]) -> Any:
    """Return an attribute of a foreign exception, read; None where it is missing, empty or raises."""
    try:
        value = getattr(error, name, None)
        return read(value) if value not in (None, "") else None
    except Exception:  # noqa: BLE001 - a property, a comparison or a __str__ of foreign code
        return None


def _as_wait(value: Any) -> timedelta | None:
    if isinstance(value, (int, float)):
        value = timedelta(seconds=min(value, LONGEST_WAIT.total_seconds()))
    return min(max(value, timedelta(0)), LONGEST_WAIT) if isinstance(value, timedelta) else None


class Doubt(SendError):  # noqa: N818 - as above
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
    if re.fullmatch(r"[0-9]+", value.strip()):
        return timedelta(seconds=min(float(value), LONGEST_WAIT.total_seconds()))
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return min(max(timedelta(0), when - (now or datetime.now(timezone.utc))), LONGEST_WAIT)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a provider's exception may not even print
        return type(error).__name__
