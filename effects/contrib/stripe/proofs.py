"""What an answer of Stripe's that is an error proves. The table of statuses is in `effects.contrib.statuses`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stripe

from effects.contrib import statuses
from effects.vocabulary.failures import Doubt, KeyReused, SendError, parse_retry_after
from effects.vocabulary.verdicts import Inconclusive, Unreachable

__all__ = ["hindrance", "proof_of", "proven"]

#: Another request came under this key and is under way: what becomes of that one is the question, whatever this one's
#: status is. Stripe says it by the code, or by the status of an `idempotency_error`. Any other `idempotency_error`
#: tells that the key came with other contents.
IN_USE, CONFLICT = "idempotency_key_in_use", 409
REUSED = "idempotency_error"


def proof_of(error: stripe.StripeError) -> SendError:
    """Return the failure that says what `error` proves about the request that met it."""
    status, said = error.http_status or 0, _said(error)
    message = str(said.get("message") or error.user_message or "")
    code = str(said.get("decline_code") or said.get("code") or (f"http_{status}" if status else type(error).__name__))
    retry_after = parse_retry_after(_header(error, "Retry-After"))
    if said.get("code") == IN_USE or (said.get("type") == REUSED and status == CONFLICT):
        return Doubt(message, code=code)
    if said.get("type") == REUSED:
        return KeyReused(message, code=code)
    # a status proves what the table says if Stripe says it: somebody else's page does not speak for Stripe
    proof = statuses.PROOF if said else statuses.NOT_NOW
    return statuses.failure(
        status, message, code=code, reference=_reference(said), retry_after=retry_after, proof=proof
    )


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
        return statuses.hindrance(error)
    status, found = error.http_status or 0, proof_of(error)
    verdict = Unreachable if statuses.is_away(status) else Inconclusive
    return verdict(found.message, {"code": found.code, "status": status})


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
