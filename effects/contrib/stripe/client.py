"""The SDK's client, with its retries off and our transport under it."""

from __future__ import annotations

import functools
from urllib.parse import quote

import stripe
from django.conf import settings

from effects.contrib.stripe.transport import DeadlineTransport
from effects.vocabulary.failures import InvalidRequest, Unauthenticated

__all__ = ["check_client", "dashboard_url", "get_client", "is_live"]

DASHBOARD = "https://dashboard.stripe.com"


def get_client(*, api_key: str = "", stripe_account: str = "") -> stripe.StripeClient:
    """Return a client whose requests each go out once, end by a deadline and follow no redirect.

    The settings are read at each call; the `stripe` module's own settings are neither read nor changed. Inside
    `until` its requests end by that deadline, and elsewhere after 10 s.

    Args:
        api_key: of another account; `STRIPE_API_KEY` unless said.
        stripe_account: the connected account to act for (`acct_…`, Stripe Connect); empty: the key's own.

    Raises:
        Unauthenticated: there is no key, so nothing can be sent.
    """
    key = api_key or getattr(settings, "STRIPE_API_KEY", "")
    if not key:
        raise Unauthenticated("STRIPE_API_KEY is not set; nothing was sent", code="no_api_key")
    return _client(key, stripe_account, getattr(settings, "STRIPE_API_BASE", "") or stripe.DEFAULT_API_BASE)


def check_client(client: object) -> stripe.StripeClient:
    """Return the client that a project's `client()` gave, if it keeps what a permit promises.

    The SDK's own HTTP layer counts its time anew at each read, follows redirects and sends a request up to three times.

    Raises:
        InvalidRequest: it is another client than one of `get_client`; nothing was sent.
    """
    # no public attribute says which HTTP layer a client has
    transport = getattr(getattr(client, "_requestor", None), "_client", None)
    if isinstance(client, stripe.StripeClient) and isinstance(transport, DeadlineTransport):
        return client
    raise InvalidRequest(
        "client() returned a client that has no deadline and may send a request more than once; nothing was sent. "
        "Return get_client(api_key=…, stripe_account=…) of effects.contrib.stripe, or give your StripeClient "
        "http_client=DeadlineTransport()",
        code="unsafe_client",
    )


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


@functools.lru_cache(maxsize=256)
def _client(key: str, account: str, base: str) -> stripe.StripeClient:
    return stripe.StripeClient(
        key, stripe_account=account or None, base_addresses={"api": base.rstrip("/")}, max_network_retries=0,
        http_client=DeadlineTransport(),
    )  # fmt: skip
