"""What an answer of Stripe's that is an error proves: the one table of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import stripe

from effects.failures import (
    Declined,
    Doubt,
    Forbidden,
    InvalidRequest,
    NotNow,
    ProvenNotApplied,
    SendError,
    Unauthenticated,
    parse_retry_after,
)
from effects.states import ExecutionReason
from effects.verdicts import Inconclusive, Unreachable

__all__ = ["hindrance", "proof_of", "proven"]

#: What a refusal in Stripe's own words proves, by its status. A status that is not here proves nothing: 408, 409 (the
#: key is in use: an earlier request under it is still under way), 424, redirects, everything from 500 on.
PROOF: Mapping[int, type[ProvenNotApplied]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    402: Declined,
    403: Forbidden,
    404: InvalidRequest,
    405: InvalidRequest,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
}
#: Refused before anything was looked at, in whoever's words.
NOT_NOW = frozenset({425, 429})
#: Another request came under this key before: what became of that one is the question, whatever this one's status is.
DOUBTFUL = frozenset({"idempotency_error", "idempotency_key_in_use"})


def proof_of(error: stripe.StripeError) -> SendError:
    """Return the failure that says what `error` proves about the request that met it."""
    status, said = error.http_status or 0, _said(error)
    message = str(said.get("message") or error.user_message or "")
    code = str(said.get("decline_code") or said.get("code") or (f"http_{status}" if status else type(error).__name__))
    retry_after = parse_retry_after(_header(error, "Retry-After"))
    if DOUBTFUL & {said.get("type"), said.get("code")}:
        return Doubt(message, code=code)
    if status in NOT_NOW:
        return NotNow(message, retry_after=retry_after, code=code)
    if said and status in PROOF:
        return PROOF[status](message, code=code, reference=_reference(said))
    reason = ExecutionReason.TIMEOUT if status == 408 else ExecutionReason.PROVIDER_ERROR
    return Doubt(message, code=code, reason=reason, retry_after=retry_after)


@contextmanager
def proven() -> Iterator[None]:
    """Raise what the SDK raises in the block as the failure that says what it proves."""
    try:
        yield
    except stripe.StripeError as error:
        raise proof_of(error) from error


def hindrance(error: stripe.StripeError | SendError) -> Unreachable | Inconclusive:
    """Return what a look-up says that `error` ended: whether Stripe could not be asked, or did not tell."""
    if isinstance(error, SendError):
        away = error.reason in (ExecutionReason.NOT_SENT, ExecutionReason.TIMEOUT, ExecutionReason.NO_REPLY)
        return (Unreachable if away else Inconclusive)(error.message, {"code": error.code})
    status, found = error.http_status or 0, proof_of(error)
    proof = {"code": found.code, "status": status}
    if status in NOT_NOW or status == 408 or status >= 500:
        return Unreachable(found.message, proof)
    return Inconclusive(found.message, proof)


def _said(error: stripe.StripeError) -> dict[str, Any]:
    """Return the error in Stripe's own words; nothing where something else has answered."""
    body = error.json_body
    said = body.get("error") if isinstance(body, dict) else None
    return said if isinstance(said, dict) else {}


def _header(error: stripe.StripeError, name: str) -> str | None:
    headers: Any = error.headers
    return str(headers[name]) if headers and name in headers else None


def _reference(said: dict[str, Any]) -> str:
    """Return the id of the object that the refusal is about, where it names one."""
    intent = said.get("payment_intent")
    return str(intent.get("id", "")) if isinstance(intent, dict) else ""
