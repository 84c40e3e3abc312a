"""Stripe's own ledger, read at Stripe itself, past the bad network and past all of our code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests

from project.services import stripe

__all__ = ["Provider", "ProviderRefund"]

TIMEOUT = 10.0
#: More than a demo makes; a list that is longer would be compared in part, and that is refused.
MOST = 1000


@dataclass(frozen=True, slots=True)
class ProviderRefund:
    """One refund in Stripe's ledger; `amount` counts minor units."""

    id: str
    amount: int
    payment_intent: str


@dataclass(frozen=True, slots=True)
class Provider:
    """Stripe, asked directly.

    Attributes:
        url: Its address.
    """

    url: str

    def refunds(self, payment_intent: str | None = None) -> list[ProviderRefund]:
        """Return the refunds in its ledger, of one payment or of all."""
        return [
            ProviderRefund(each["id"], each["amount"], each["payment_intent"] or "")
            for each in self._list("refunds")
            if payment_intent in (None, each["payment_intent"])
        ]

    def payment_intents(self) -> list[str]:
        """Return the ids of the payment intents in its ledger."""
        return [str(each["id"]) for each in self._list("payment_intents")]

    def _list(self, what: str) -> list[dict[str, Any]]:
        response = requests.get(
            f"{self.url}/v1/{what}", params={"limit": MOST}, auth=(stripe.API_KEY, ""), timeout=TIMEOUT
        )
        response.raise_for_status()
        page = response.json()
        if page["has_more"]:
            raise RuntimeError(f"Stripe has more than {MOST} {what}; the demo compares whole ledgers only")
        data: list[dict[str, Any]] = page["data"]
        return data
