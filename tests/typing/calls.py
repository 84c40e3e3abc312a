"""Calls as a project writes them; each `type: ignore` is an error that its type checker has to find.

It is never run. The checker is strict about ignores that nothing needs, so that an error which is not found is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from typing_extensions import assert_type

import effects


@dataclass(frozen=True)
class Refund:
    """What is refunded."""

    charge: str
    amount: int


@dataclass(frozen=True)
class Payout:
    """Another effect's payload."""

    amount: int


@effects.register
class RefundOrder(effects.Effect[Refund]):
    """A refund."""

    operation = "typed.refund"
    provider = "bank"
    lookup = effects.Eventual(quiet=timedelta(minutes=1))

    def send(self, context: effects.Context[Refund], permit: effects.Permit) -> effects.Applied:
        assert_type(context.payload, Refund)
        context.payload.amonut  # type: ignore[attr-defined]  # noqa: B018
        return effects.Applied(permit.provider_key)

    def verify(self, context: effects.Context[Refund]) -> effects.Found | effects.Absent:
        return effects.Found(context.payload.charge)


@effects.register
class Note(effects.Effect[dict[str, Any]]):
    """A plain dict."""

    operation = "typed.note"
    provider = "bank"

    def send(self, context: effects.Context[dict[str, Any]], permit: effects.Permit) -> effects.Submitted:
        return effects.Submitted(reference=str(context.payload["id"]))


async def calls(refund: Refund, payout: Payout) -> None:
    """What is right, and what is not."""
    assert_type(effects.perform(RefundOrder, payload=refund), effects.Outcome)
    effects.perform(RefundOrder, payload={"charge": "ch_1", "amount": 5}, key="k")
    effects.perform("typed.refund", payload=refund)
    effects.perform(Note, payload={"id": 1})
    effects.perform_later(RefundOrder, payload=refund)
    assert_type((await effects.aget("ref")).outcome, effects.Outcome)
    assert_type(await effects.aperform(RefundOrder, payload=refund), effects.Outcome)
    with effects.sending(RefundOrder, payload=refund) as block:
        block.report(effects.Applied())

    effects.perform(RefundOrder, payload=5)  # type: ignore[misc]
    effects.perform(RefundOrder, payload=payout)  # type: ignore[misc]
    effects.perform(RefundOrder, payload="typed.refund")  # type: ignore[misc]
    effects.perform(RefundOrder, payload=None)  # type: ignore[misc]
    effects.perform(RefundOrder, payload=[refund])  # type: ignore[misc]
    effects.perform(Refund, payload=refund)  # type: ignore[arg-type]
    effects.perform(RefundOrder, refund)  # type: ignore[call-arg]
    effects.perform(RefundOrder, payload=refund, key=17)  # type: ignore[arg-type]
    effects.perform_later(RefundOrder, payload=payout)  # type: ignore[misc]
    await effects.aperform(RefundOrder, payload=payout)  # type: ignore[misc]
    effects.perform(RefundOrder, payload=refund).amount  # type: ignore[attr-defined]  # noqa: B018
    with effects.sending(RefundOrder, payload=payout) as block:  # type: ignore[misc]
        block.report("done")  # type: ignore[arg-type]
