"""The effects of the rows: their provider is a process of its own, whose ledger counts what happened."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group

import effects
from tests.crash import provider

__all__ = ["Ask", "Note", "Order", "Pay", "call_directly"]


@dataclass(frozen=True)
class Order:
    """What is paid; a negative amount is declined."""

    number: str
    amount: int = 1700


class _AtProvider(effects.Effect[Order]):
    provider = "rows/acct"

    def send(self, context: Any, permit: Any) -> Any:
        if context.payload.amount < 0:
            raise effects.Declined("no funds")
        answer = provider.call(do="send", key=permit.provider_key, pid=os.getpid())
        return effects.Applied({"id": answer["reference"]}, answer["reference"])


class _LookedUp(_AtProvider):
    lookup = effects.Authoritative(quiet=timedelta(seconds=30))

    def verify(self, context: Any) -> Any:
        found = provider.ask("find", key=context.provider_key)
        return effects.Found(found[0], {"id": found[0]}) if found else effects.Absent()


@effects.register
class Pay(_LookedUp):
    """Pays, and writes the shop's row."""

    operation = "rows.pay"

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        if isinstance(outcome, effects.Completed):
            Group.objects.create(name=f"paid {context.ref}")


@effects.register
class Ask(_LookedUp):
    """Pays once another person agrees."""

    operation = "rows.ask"

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule(approvers="effects.approve_execution")


@effects.register
class Note(_AtProvider):
    """Cannot be looked up."""

    operation = "rows.note"


def call_directly(number: str) -> str:
    """Call the provider as an opaque view does, past the library; return its reference.

    Raises:
        ConnectionError: no answer came.
    """
    return str(provider.call(do="send", key=f"direct {number}", pid=os.getpid())["reference"])
