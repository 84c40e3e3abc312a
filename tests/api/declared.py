"""Effects that may be proposed, and one that may not; `provider_says` decides what their provider answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import effects

PROPOSE, APPROVE = "auth.add_group", "effects.approve_execution"


@dataclass(frozen=True)
class Item:
    """One thing in it."""

    name: str
    count: int


@dataclass(frozen=True)
class GiftPayload:
    """Who gets what."""

    to: str
    amount: int
    items: tuple[Item, ...] = ()
    secret: str = ""

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise ValueError("amount is above zero")


class _Shop(effects.Effect[GiftPayload]):
    provider = "shop/test"

    def send(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary(
            f"Gift to {context.payload.to}", {"To": context.payload.to}, context.payload.amount, "eur"
        )


@effects.register
class Gift(_Shop):
    """May be proposed, and asks nobody by itself."""

    operation = "api.gift"
    proposable_by = PROPOSE

    def refuse_proposal(self, payload: GiftPayload, *, user: Any, tenant: str) -> str:
        return f"{user.get_username()} may give {payload.to} at most 1000." if payload.amount > 1000 else ""


@effects.register
class Lax(_Shop):
    """Its rule would let those who ask approve."""

    operation = "api.lax"
    proposable_by = f"{PROPOSE} & auth.change_group"

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule("auth.delete_group", quorum=1, four_eyes=False)


@effects.register
class Double(_Shop):
    """Takes two people."""

    operation = "api.double"
    proposable_by = PROPOSE

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule(APPROVE, quorum=2)


@effects.register
class Closed(_Shop):
    """Declares nothing: nobody may propose it."""

    operation = "api.closed"
