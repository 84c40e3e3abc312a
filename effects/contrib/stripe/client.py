"""The SDK's client, with its retries off and our transport under it."""

from __future__ import annotations

import functools
from urllib.parse import quote

import stripe
from django.conf import settings

from effects.contrib.stripe.transport import DeadlineTransport
from effects.failures import Unauthenticated

__all__ = ["dashboard_url", "get_client", "is_live"]

DASHBOARD = "https://dashboard.stripe.com"


def get_client() -> stripe.StripeClient:
    """Return the client for the present `STRIPE_API_KEY` and `STRIPE_API_BASE`.

    The settings are read at each call; the `stripe` module's own settings are neither read nor changed. Inside
    `until` its requests end by that deadline.

    Raises:
        Unauthenticated: there is no key, so nothing can be sent.
    """
    key = getattr(settings, "STRIPE_API_KEY", "")
    if not key:
        raise Unauthenticated("STRIPE_API_KEY is not set; nothing was sent", code="no_api_key")
    return _client(key, getattr(settings, "STRIPE_API_BASE", "") or stripe.DEFAULT_API_BASE)


def is_live() -> bool | None:
    """Return whether `STRIPE_API_KEY` moves real money; None where it does not say."""
    kind = str(getattr(settings, "STRIPE_API_KEY", "")).split("_")[1:2]
    return {"live": True, "test": False}.get(kind[0]) if kind else None


def dashboard_url(section: str, reference: str) -> str:
    """Return where the dashboard shows an object; empty where a substitute for Stripe has it.

    Args:
        section: `payments`, `refunds`, as the dashboard's own addresses name it.
        reference: the object's id.
    """
    base = getattr(settings, "STRIPE_API_BASE", "") or stripe.DEFAULT_API_BASE
    if base.rstrip("/") != stripe.DEFAULT_API_BASE:
        return ""
    mode = "/test" if is_live() is False else ""
    return f"{DASHBOARD}{mode}/{section}/{quote(reference, safe='')}"


@functools.lru_cache(maxsize=32)
def _client(key: str, base: str) -> stripe.StripeClient:
    return stripe.StripeClient(
        key, base_addresses={"api": base.rstrip("/")}, max_network_retries=0, http_client=DeadlineTransport()
    )
