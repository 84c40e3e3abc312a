"""The SDK's client, with its retries off and our transport under it."""

from __future__ import annotations

import functools

import stripe
from django.conf import settings

from effects.contrib.stripe.transport import DeadlineTransport
from effects.failures import Unauthenticated

__all__ = ["get_client"]


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


@functools.lru_cache(maxsize=32)
def _client(key: str, base: str) -> stripe.StripeClient:
    return stripe.StripeClient(
        key, base_addresses={"api": base.rstrip("/")}, max_network_retries=0, http_client=DeadlineTransport()
    )
