"""Effects whose payloads hold secrets. `provider_says` decides what their provider answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import effects

CANARY = "canary-7Q2x-DE89370400440532013000"


@dataclass(frozen=True)
class Transfer:
    """To whose account how much."""

    account: effects.Secret
    amount: int = 1000
    note: str = ""


def transfer(account: str = CANARY, **fields: Any) -> Transfer:
    """Return a payload with a secret."""
    return Transfer(effects.Secret(account), **fields)


class _Vault(effects.Effect[Transfer]):
    provider = "vault/main"
    lookup = effects.Authoritative(quiet=timedelta(seconds=1))

    def send(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("a test says what the provider answers")


@effects.register
class Wire(_Vault):
    """Its hook, precondition and summary do what a test says."""

    operation = "vault.wire"
    reversible = True
    then: Callable[..., None] = staticmethod(lambda context, outcome: None)
    ready: Callable[..., Any] = staticmethod(lambda context: effects.Proceed())
    shows: Callable[..., Any] = staticmethod(lambda context: {"to": context.payload.account})

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        type(self).then(context, outcome)

    def precondition(self, context: Any) -> Any:
        return type(self).ready(context)

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary("Wire", type(self).shows(context), context.payload.amount, "eur")

    def compensate(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")


@effects.register
class WireApproved(_Vault):
    """Needs one other person."""

    operation = "vault.approved"

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule(approvers="effects.approve_execution")


@effects.register
class Fax(_Vault):
    """Repeating is safe, and nobody can be asked: an ordinary payload would be sent again."""

    operation = "vault.fax"
    repeatable = True
    lookup = None
    verify = effects.Effect.verify


@effects.register
class Loose(effects.Effect[dict]):  # type: ignore[type-arg]
    """Its payload is a dict of anything."""

    operation = "vault.loose"
    provider = "vault/main"

    def send(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")
