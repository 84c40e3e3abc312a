"""The effects of the crash matrix: each thing that a provider can attest, with and without people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from django.db import connection

import effects
from effects.journal.summaries import digest_of_summary, summary_of
from effects.models import Execution
from effects.vocabulary import canonical
from tests.crash import provider

__all__ = ["APPROVERS", "EFFECTS", "LAG", "Payload", "payload_of"]

APPROVERS = "effects.approve_execution"
#: How long the lagging look-up misses what was applied, in seconds: shorter than the quiet time, as it must be.
LAG = 240.0
AMOUNT = 1700


@dataclass(frozen=True)
class Payload:
    """What is sent; `trouble` is what the project's own code does with it."""

    order: str
    amount: int
    trouble: str = ""


def payload_of(order: str, trouble: str) -> Payload:
    """Return what is sent for an order: the same on each retry."""
    return Payload(order, AMOUNT, trouble)


class Payment(effects.Effect[Payload]):
    """Pays at the provider, and writes the project's row."""

    provider = "crash/acct"
    asks: ClassVar[bool] = False

    def send(self, context: Any, permit: Any) -> Any:
        shown = digest_of_summary(summary_of(self, context))
        answer = provider.call(
            do="send", key=permit.provider_key, number=permit.number, payload=canonical.dump(context.payload),
            shown=shown,
        )  # fmt: skip
        return effects.Applied({"id": answer["reference"]}, answer["reference"])

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary(f"Pay {context.payload.order}", {}, context.payload.amount, "eur")

    def approval(self, context: Any) -> effects.ApprovalRule | None:
        return effects.ApprovalRule(approvers=APPROVERS) if self.asks else None

    def precondition(self, context: Any) -> Any:
        answers = {"refuses": effects.Refuse("not today"), "later": effects.Later(timedelta(days=1), "not now")}
        return answers.get(context.payload.trouble, effects.Proceed())

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        if context.payload.trouble == "hook_raises" and not Execution.objects.get(pk=context.ref).hook_failures:
            raise RuntimeError("the project's own bug")
        if isinstance(outcome, effects.Completed):
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO crash_row (ref) VALUES (%s)", [context.ref])


class LookedUp(Payment):
    """The provider can be asked."""

    def verify(self, context: Any) -> Any:
        if context.payload.trouble == "conflict":
            return effects.Conflict("another amount")
        found = provider.ask("find", key=context.provider_key)
        return effects.Found(found[0], {"id": found[0]}) if found else effects.Absent()


@effects.register
class Deduplicates(Payment):
    """Deduplicates for a day, and cannot be asked."""

    operation = "crash.deduplicates"
    deduplicates = effects.Deduplication(lifetime=timedelta(hours=24))


@effects.register
class Authoritative(LookedUp):
    """Its look-up reads what the provider acts on."""

    operation = "crash.authoritative"
    lookup = effects.Authoritative(quiet=timedelta(seconds=30))


@effects.register
class Lagging(LookedUp):
    """Its look-up lags."""

    operation = "crash.lagging"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))


@effects.register
class Nothing(Payment):
    """Attests nothing."""

    operation = "crash.none"


@effects.register
class DeduplicatesAsked(Deduplicates):
    """As above, and one other person agrees."""

    operation, asks = "crash.deduplicates_asked", True


@effects.register
class AuthoritativeAsked(Authoritative):
    """As above, and one other person agrees."""

    operation, asks = "crash.authoritative_asked", True


@effects.register
class LaggingAsked(Lagging):
    """As above, and one other person agrees."""

    operation, asks = "crash.lagging_asked", True


@effects.register
class NothingAsked(Nothing):
    """As above, and one other person agrees."""

    operation, asks = "crash.none_asked", True


#: (what the provider attests, whether people agree) → the effect.
EFFECTS: dict[tuple[str, bool], type[Payment]] = {
    ("deduplicates", False): Deduplicates,
    ("authoritative", False): Authoritative,
    ("lagging", False): Lagging,
    ("none", False): Nothing,
    ("deduplicates", True): DeduplicatesAsked,
    ("authoritative", True): AuthoritativeAsked,
    ("lagging", True): LaggingAsked,
    ("none", True): NothingAsked,
}
