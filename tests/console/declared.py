"""Effects that the console's tests perform; what the provider says is said by `provider_says`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import effects


@dataclass(frozen=True)
class Payout:
    account: str
    amount: int
    approvals: int = 0
    covers_retries: bool = False
    note: str = ""


@effects.register
class PayOut(effects.Effect[Payout]):
    operation = "console.pay_out"
    provider = "bank/main"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))

    def send(self, context: effects.Context[Payout], permit: Any) -> effects.Applied:
        return effects.Applied({"id": "po_1"}, "po_1")

    def verify(self, context: effects.Context[Payout]) -> Any:
        return effects.Inconclusive("not asked")

    def approval(self, context: effects.Context[Payout]) -> effects.ApprovalRule | None:
        if not context.payload.approvals:
            return None
        return effects.ApprovalRule(
            approvers="effects.approve_execution",
            quorum=context.payload.approvals,
            covers_retries=context.payload.covers_retries,
        )

    def describe(self, context: effects.Context[Payout]) -> effects.Summary:
        payload = context.payload
        return effects.Summary(
            title=f"Pay out to {payload.account}",
            facts={"Account": payload.account, "Note": payload.note},
            amount=payload.amount,
            currency="eur",
            target=payload.account,
        )


@effects.register
class Untold(effects.Effect[dict]):  # type: ignore[type-arg]
    """Its provider cannot be asked."""

    operation = "console.untold"
    provider = "fax/main"

    def send(self, context: Any, permit: Any) -> effects.Applied:
        return effects.Applied()


@effects.register
class Charge(effects.Effect[dict]):  # type: ignore[type-arg]
    """It can be undone."""

    operation = "console.charge"
    provider = "cards/main"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))
    reversible = True

    def send(self, context: Any, permit: Any) -> effects.Applied:
        return effects.Applied({"id": "ch_1"}, "ch_1")

    def compensate(self, context: Any, permit: Any) -> effects.Applied:
        return effects.Applied({"id": "re_1"}, "re_1")

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("not asked")

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary(
            title=f"Charge for {context.payload['order']}", amount=context.payload["amount"], currency="eur",
            target=context.payload["order"], facts={"Order": context.payload["order"]},
        )  # fmt: skip
