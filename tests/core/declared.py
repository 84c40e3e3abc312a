"""The effects that the core's tests perform. `provider_says` decides what their provider answers."""

from __future__ import annotations

from collections.abc import Callable
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


@effects.register
class Ruled(_Bank):
    """Asks for the approval that a test says, and shows people what a test says."""

    operation = "bank.ruled"
    lookup = effects.Authoritative()
    rule: effects.ApprovalRule | None = effects.ApprovalRule(approvers="effects.approve_execution")
    price: str = "10.00"

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")

    def approval(self, context: Any) -> effects.ApprovalRule | None:
        return self.rule

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary("Charge", {"price": self.price}, context.payload.amount, "eur")


@effects.register
class RuledBlind(_Bank):
    """Needs an approval that covers retries; the provider cannot be asked, and deduplicates."""

    operation = "bank.ruled_blind"
    deduplicates = effects.Deduplication(lifetime=timedelta(hours=24))

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule(approvers="effects.approve_execution", covers_retries=True)


@effects.register
class Order(_Bank):
    """Its look-up reads what the provider itself acts on."""

    operation = "bank.order"
    lookup = effects.Authoritative()

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")


@effects.register
class Cheap(_Bank):
    """Low risk: given up where nobody can tell."""

    operation = "bank.cheap"
    risk = effects.Risk.LOW
    in_doubt = effects.InDoubt.ABANDON
    lookup = effects.Eventual(quiet=timedelta(minutes=5))

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")


@effects.register
class Noted(_Bank):
    """Its hook does what a test says."""

    operation = "bank.noted"
    lookup = effects.Authoritative()
    then: Callable[[Any, effects.Outcome], None] = staticmethod(lambda context, outcome: None)

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        type(self).then(context, outcome)


@effects.register
class Patient(_Bank):
    """Retries for ever."""

    operation = "bank.patient"
    retry = effects.Retry(attempts=1_000_000)


@effects.register
class Conditional(_Bank):
    """Its precondition says what a test says; the provider deduplicates."""

    operation = "bank.conditional"
    deduplicates = effects.Deduplication(lifetime=timedelta(hours=24))


@effects.register
class Renamed(_Bank):
    """Was called otherwise once."""

    operation = "bank.new_name"
    aliases = ("bank.old_name",)


@effects.register
class Opaque(effects.Effect[dict]):  # type: ignore[type-arg]
    """Its payload is a dict of anything."""

    operation = "bank.opaque"
    provider = "bank/acct_test"

    def send(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")


@effects.register
class LowRisk(_Bank):
    """Costs little when it is wrong."""

    operation = "bank.low"
    risk = effects.Risk.LOW
