"""The effects that the core's tests perform. `provider_says` decides what their provider answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import effects

hook_calls: list[tuple[str, str]] = []


@dataclass(frozen=True)
class ChargePayload:
    """Who is charged how much."""

    customer: str
    amount: int
    currency: str = "eur"


class _Bank(effects.Effect[ChargePayload]):
    provider = "bank/acct_test"

    def send(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")

    def describe(self, context: Any) -> effects.Summary:
        payload = context.payload
        return effects.Summary("Charge", {"customer": payload.customer}, payload.amount, payload.currency)


@effects.register
class Charge(_Bank):
    """Has a lagging look-up and a hook."""

    operation = "bank.charge"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        hook_calls.append((context.ref, str(outcome.state)))


@effects.register
class Plain(_Bank):
    """The strict defaults: no look-up, no hook, no approval."""

    operation = "bank.plain"


@effects.register
class Approved(_Bank):
    """Needs one other person."""

    operation = "bank.approved"
    lookup = effects.Authoritative()

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule(approvers="effects.approve_execution")


@effects.register
class Deduplicated(_Bank):
    """No look-up, but the provider deduplicates for a day."""

    operation = "bank.deduplicated"
    deduplicates = effects.Deduplication(lifetime=timedelta(hours=24))
