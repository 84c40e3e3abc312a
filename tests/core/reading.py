"""Reading the journal in a test."""

from __future__ import annotations

import effects
from effects.models import Execution, Receipt
from effects.runtime.background import look_up


def row_of(outcome: effects.Outcome) -> Execution:
    """Return the row that an outcome speaks of."""
    return Execution.objects.get(pk=outcome.ref)


def events() -> list[str]:
    """Return the verbs of all receipts, in order."""
    return list(Receipt.objects.order_by("execution", "sequence").values_list("event", flat=True))


def run_again(outcome: effects.Outcome) -> None:
    """Do what the sweep would do once for an execution in doubt."""
    look_up(row_of(outcome).pk)
