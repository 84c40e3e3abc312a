"""The effects of a soak: a look-up that lags, one that does not, orders that are only taken, and people who agree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import effects
from benchmarks import wire
from effects.vocabulary import canonical

__all__ = ["APPROVERS", "EFFECTS", "PORT", "QUIET", "TIMEOUT", "Sum", "sum_of"]

#: The environment variable that says where the provider listens.
PORT = "SOAK_PROVIDER"
APPROVERS = "effects.approve_execution"
TIMEOUT = timedelta(seconds=0.8)
#: Longer than a process is stopped, a request is late and a look-up lags, together: the assumption of every promise.
QUIET = timedelta(seconds=float(os.environ.get("SOAK_QUIET", "5")))
#: Seconds by which the client library of some orders overruns its deadline: where late replies come from.
OVERRUN = 2.0


@dataclass(frozen=True)
class Sum:
    """What is sent for an order."""

    order: int
    amount: int


def sum_of(number: int) -> Sum:
    """Return what is sent for an order: the same whoever asks, and however often."""
    return Sum(number, 100 + number % 900)


class _Payment(effects.Effect[Sum]):
    provider = "soak/acct"
    request_timeout = TIMEOUT
    retry = effects.Retry(attempts=5, first=timedelta(seconds=0.1), ceiling=timedelta(seconds=1))
    asks: ClassVar[bool] = False
    orders: ClassVar[bool] = False
    lags: ClassVar[bool] = False

    def send(self, context: effects.Context[Sum], permit: effects.Permit) -> Any:
        patience = permit.remaining().total_seconds() + OVERRUN * (context.payload.order % 5 == 0)
        try:
            answer = wire.ask(
                int(os.environ[PORT]), timeout=patience, do="send", key=permit.provider_key, number=permit.number,
                payload=canonical.dump(context.payload), order=self.orders,
            )  # fmt: skip
        except ConnectionRefusedError as error:
            raise effects.NotSent(str(error)) from error
        match answer["status"]:
            case 200 if self.orders:
                return effects.Submitted(answer["reference"])
            case 200:
                return effects.Applied({"id": answer["reference"]}, answer["reference"])
            case 402:
                raise effects.Declined("no money", code="card_declined")
            case 429:
                raise effects.NotNow("busy", retry_after=timedelta(seconds=0.2))
        raise effects.Doubt(f"status {answer['status']}")

    def verify(self, context: effects.Context[Sum]) -> Any:
        answer = wire.ask(int(os.environ[PORT]), timeout=2.0, do="find", key=context.provider_key, lags=self.lags)
        if answer["status"] != 200:
            return effects.Unreachable(f"status {answer['status']}")
        match answer["entries"]:
            case []:
                return effects.Absent()
            case [{"carried_out": True, "reference": reference}]:
                return effects.Found(reference, {"id": reference})
            case [{"reference": reference}]:
                return effects.InProgress(reference)
        return effects.Conflict(f"{len(answer['entries'])} payments under one key")

    def approval(self, context: effects.Context[Sum]) -> effects.ApprovalRule | None:  # noqa: ARG002 - all alike
        return effects.ApprovalRule(approvers=APPROVERS) if self.asks else None

    def describe(self, context: effects.Context[Sum]) -> effects.Summary:
        return effects.Summary(f"Pay order {context.payload.order}", {}, context.payload.amount, "eur")

    def settled(self, context: effects.Context[Sum], outcome: effects.Outcome) -> None:
        from benchmarks.models import Payment  # noqa: PLC0415 - this module is imported before the models are

        if isinstance(outcome, effects.Completed):
            Payment.objects.create(ref=context.ref, reference=outcome.reference)


@effects.register
class Pay(_Payment):
    """Its look-up lags."""

    operation, lags = "soak.pay", True
    lookup = effects.Eventual(quiet=QUIET)


@effects.register
class Refund(_Payment):
    """Its look-up reads what the provider acts on."""

    operation = "soak.refund"
    lookup = effects.Authoritative(quiet=QUIET)


@effects.register
class Transfer(_Payment):
    """The provider only takes the order; the look-up sees it at once."""

    operation, orders = "soak.transfer", True
    lookup = effects.Authoritative(quiet=QUIET)


@effects.register
class PayOut(_Payment):
    """Another person agrees first, to each send."""

    operation, asks, lags = "soak.pay_out", True, True
    lookup = effects.Eventual(quiet=QUIET)


EFFECTS: tuple[type[_Payment], ...] = (Pay, Refund, Transfer, PayOut, Pay)
