"""Events as Stripe would send them, signed by hand as its documentation says (HMAC-SHA256 of "timestamp.body")."""

import hashlib
import hmac
import json
import time
from typing import Any
from uuid import uuid4

from django.test import Client

SECRET = "whsec_one"
ADDRESS = "/stripe/events/"


def sign(body: bytes, secret: str = SECRET, at: float | None = None) -> str:
    """Return the header `Stripe-Signature` of a body."""
    stamp = str(int(time.time() if at is None else at))
    mac = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"t={stamp},v1={mac}"


def event_of(found: Any, kind: str = "refund.updated", id: str = "") -> dict[str, Any]:  # noqa: A002
    """Return an event that shows an object."""
    return {
        "id": id or f"evt_{uuid4().hex}", "object": "event", "api_version": "2025-01-27.acacia", "livemode": False,
        "created": int(time.time()), "type": kind, "data": {"object": found}, "pending_webhooks": 1,
        "request": {"id": "req_1", "idempotency_key": "not kept"},
    }  # fmt: skip


def deliver(event: Any, header: str | None = None, *, method: str = "POST", raises: bool = True, **headers: str) -> Any:
    """Deliver an event, or bytes, as one request of its own; return the response."""
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    named = {"Stripe-Signature": sign(body) if header is None else header, **headers}
    client = Client(raise_request_exception=raises, enforce_csrf_checks=True)
    return client.generic(method, ADDRESS, body, "application/json", headers=named)
