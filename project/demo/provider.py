"""Stripe's own ledger, read at Stripe itself, past the bad network and past all of our code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests

from effects.contrib.stripe.effect import KEY_MARK
from project.services import stripe

__all__ = ["Entry", "Provider"]

TIMEOUT = 10.0
#: More than a demo makes; a list that is longer would be compared in part, and that is refused.
MOST = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of Stripe's ledger.

    Attributes:
        id: Stripe's id.
        amount: In minor units.
        key: The provider key that it was asked for under, by its metadata; empty where no effect did.
        order: The shop's order number in its metadata, where it has one.
    """

    id: str
    amount: int
    key: str
    order: str


@dataclass(frozen=True, slots=True)
class Provider:
    """Stripe, asked directly.

    Attributes:
        url: Its address.
    """

    url: str

    def refunds(self, order: str | None = None) -> list[Entry]:
        """Return the refunds, of one order or all."""
        return self._list("refunds", order)

    def payouts(self) -> list[Entry]:
        """Return the payouts."""
        return self._list("payouts")

    def payments(self, order: str | None = None) -> list[Entry]:
        """Return the payment intents, of one order or all."""
        return self._list("payment_intents", order)

    def _list(self, what: str, order: str | None = None) -> list[Entry]:
        response = requests.get(
            f"{self.url}/v1/{what}", params={"limit": MOST}, auth=(stripe.API_KEY, ""), timeout=TIMEOUT
        )
        response.raise_for_status()
        page: dict[str, Any] = response.json()
        if page["has_more"]:
            raise RuntimeError(f"Stripe has more than {MOST} {what}; whole ledgers are compared, or nothing")
        entries = [_entry(each, each["metadata"]) for each in page["data"]]
        return [entry for entry in entries if order in (None, entry.order)]


def _entry(found: dict[str, Any], metadata: dict[str, str]) -> Entry:
    return Entry(found["id"], found["amount"], metadata.get(KEY_MARK, ""), metadata.get("order", ""))
