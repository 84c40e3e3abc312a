"""Whether Stripe signed what came, with one of the secrets of `STRIPE_WEBHOOK_SECRET`."""

from __future__ import annotations

import json
from typing import Any

import stripe
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

__all__ = ["UnsignedError", "signed_event", "signing_secrets"]

SETTING = "STRIPE_WEBHOOK_SECRET"
_FIX = f'Write {SETTING} = "whsec_…", the signing secret of the endpoint, or a list of several while one is rolled.'
#: How the keys of Stripe's API begin: what they would sign, Stripe does not.
_API_KEYS = ("sk_", "pk_", "rk_")


class UnsignedError(Exception):
    """It is no event that Stripe signed for us just now."""


def signing_secrets() -> list[str]:
    """Return the secrets that an event may be signed with.

    The setting is read at each call. Each endpoint at Stripe has a secret of its own, test and live mode included.

    Raises:
        ImproperlyConfigured: there is none, or a value that is no secret.
    """
    value = getattr(settings, SETTING, None)
    if not value:
        raise ImproperlyConfigured(f"{SETTING} is not set, so that no event can be told from a forged one. {_FIX}")
    secrets = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else [value]
    for secret in secrets:
        if not isinstance(secret, str) or not secret.strip():
            raise ImproperlyConfigured(f"{SETTING} holds {type(secret).__name__}, no secret or an empty one. {_FIX}")
        if secret != secret.strip():
            raise ImproperlyConfigured(f"{SETTING} has white space around it, which signs nothing. {_FIX}")
        if secret.startswith(_API_KEYS):
            raise ImproperlyConfigured(f"{SETTING} holds a key of Stripe's API, which signs nothing. {_FIX}")
    return secrets


def signed_event(body: bytes, header: str, secrets: list[str]) -> dict[str, Any]:
    """Return the event of a raw body.

    Args:
        body: the bytes as they came.
        header: `Stripe-Signature`.
        secrets: one of them must have signed it, within the SDK's tolerance.

    Raises:
        UnsignedError: none of them did, or too long ago; or what they signed is no JSON object. The message holds
            nothing of the body.
    """
    failures = {_failure(body, header, secret) for secret in secrets}
    if "" not in failures:
        raise UnsignedError("; ".join(sorted(failures)))
    try:
        event = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnsignedError(f"signed, but no JSON ({type(error).__name__})") from None
    if not isinstance(event, dict):
        raise UnsignedError("signed, but no JSON object")
    return event


def _failure(body: bytes, header: str, secret: str) -> str:
    """Return why one secret did not sign this; "" where it did."""
    try:
        stripe.WebhookSignature.verify_header(body.decode(), header, secret, stripe.Webhook.DEFAULT_TOLERANCE)
    except stripe.SignatureVerificationError as error:
        return str(error)
    except (ValueError, TypeError, OverflowError) as error:
        # bytes that are no UTF-8, a signature that is no ASCII
        return f"cannot be verified ({type(error).__name__})"
    return ""
