"""The comparison at the end: Stripe's ledger, our journal and the shop's own rows, line by line."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain

from django.core.management import call_command

from effects.models import Approval, Execution, Receipt, Request, Resolution
from effects.vocabulary import canonical
from effects.vocabulary.states import EXECUTION_SETTLED, ApprovalState, ExecutionState, values
from project.payments.models import Payout, Refund
from project.services.faults import Faults

from .clients import Conversations
from .provider import Entry, Provider

__all__ = ["Audit", "Balance", "Counts", "Difference", "audit", "balance", "count"]

#: What is compared: its name, the effect's operation, and the shop's table of it.
KINDS: Mapping[str, tuple[str, type[Refund | Payout]]] = {
    "refund": ("payments.refund", Refund),
    "payout": ("payments.payout", Payout),
}
Lines = Counter[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One movement of money that is not in all three ledgers exactly once.

    Attributes:
        kind: refund or payout.
        reference: Stripe's id; empty where the journal knows none.
        amount: In minor units.
        provider: How often Stripe has it.
        journal: How often the journal has it as completed.
        shop: How often the shop's tables have it.
    """

    kind: str
    reference: str
    amount: int
    provider: int
    journal: int
    shop: int


@dataclass(frozen=True, slots=True)
class Balance:
    """The three ledgers, compared by reference and amount.

    Attributes:
        totals: For each kind and ledger, the number of lines and their sum in minor units.
        differences: What does not stand in all of them exactly once.
        duplicates: How often money moved at Stripe without an execution, or once more for the same one.
        unsettled: Executions whose outcome is open.
    """

    totals: Mapping[str, Mapping[str, tuple[int, int]]]
    differences: tuple[Difference, ...]
    duplicates: int
    unsettled: int

    @property
    def lost(self) -> int:
        """What the journal says and Stripe does not have, and what Stripe has and the shop does not know."""
        return sum(max(each.journal - each.provider, each.provider - each.shop, 0) for each in self.differences)


@dataclass(frozen=True, slots=True)
class Audit:
    """What `manage.py effects_audit` says of the journal.

    Attributes:
        checked: How many it looked at, by kind.
        findings: What is wrong, one line each.
    """

    checked: Mapping[str, int]
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened, counted in the ledgers, in the journal and in the clients' answers.

    Attributes:
        operations: Protected requests in the journal.
        provider_sends: Requests for a refund that left the shop, lost ones included.
        provider_refunds: Refunds in Stripe's ledger.
        shop_refunds: The shop's rows.
        duplicates: See `Balance`.
        lost: See `Balance`.
        replays: Answers that the shop called replays.
        replays_identical: Those of them that are the original byte for byte.
        resolved_by_lookup: Executions in doubt that a look-up decided.
        resolved_by_person: Decisions of people about something in doubt.
        approvals_spent: Approvals that licensed a send.
        left_to_a_person: Requests in doubt that wait for a person's decision.
    """

    operations: int
    provider_sends: int
    provider_refunds: int
    shop_refunds: int
    duplicates: int
    lost: int
    replays: int
    replays_identical: int
    resolved_by_lookup: int
    resolved_by_person: int
    approvals_spent: int
    left_to_a_person: int

    def as_json(self) -> dict[str, int]:
        """Return them by name."""
        return asdict(self)


def balance(provider: Provider) -> Balance:
    """Compare the three ledgers."""
    entries = {"refund": provider.refunds(), "payout": provider.payouts()}
    ledgers = {
        kind: {
            "provider": Counter((entry.id, entry.amount) for entry in entries[kind]),
            "journal": _journal_lines(operation),
            "shop": Counter(rows.objects.values_list("stripe_id", "amount")),
        }
        for kind, (operation, rows) in KINDS.items()
    }
    totals = {kind: {name: _total(lines) for name, lines in of.items()} for kind, of in ledgers.items()}
    differences = [each for kind, of in ledgers.items() for each in _differences(kind, **of)]
    unsettled = Execution.objects.exclude(state__in=values(EXECUTION_SETTLED)).count()
    return Balance(totals, tuple(differences), _duplicates([*chain(*entries.values())]), unsettled)


def audit() -> Audit:
    """Compare the journal with its own rules, by the command that operations use."""
    said = io.StringIO()
    with contextlib.suppress(SystemExit):  # that there are findings: they are in what it said
        call_command("effects_audit", json=True, stdout=said)
    report = json.loads(said.getvalue())
    found = (f"{one['code']}: {one['kind']} {one['ref']}: {one['wrong']}" for one in report["findings"])
    return Audit(report["checked"], tuple(found))


def count(found: Balance, provider: Provider, faults: Faults, conversations: Conversations) -> Counts:
    """Count what happened."""
    confirmed = ("confirm", "confirm_absence", "confirm_failure")
    return Counts(
        operations=Request.objects.count(),
        provider_sends=len(faults.sends(method="POST", path="/v1/refunds")),
        provider_refunds=len(provider.refunds()),
        shop_refunds=Refund.objects.count(),
        duplicates=found.duplicates,
        lost=found.lost,
        replays=conversations.replays,
        replays_identical=conversations.identical_replays,
        resolved_by_lookup=Receipt.objects.filter(event__in=confirmed).values("execution").distinct().count(),
        resolved_by_person=Resolution.objects.count(),
        approvals_spent=Approval.objects.filter(state=str(ApprovalState.SPENT)).count(),
        left_to_a_person=Request.objects.filter(state="in_doubt").count(),
    )


def _total(lines: Lines) -> tuple[int, int]:
    return sum(lines.values()), sum(amount * number for (_, amount), number in lines.items())


def _duplicates(entries: list[Entry]) -> int:
    """Count what moved at Stripe beyond once for each provider key of ours."""
    ours = set(Execution.objects.values_list("provider_key", flat=True))
    return len(entries) - len({entry.key for entry in entries} & ours)


def _journal_lines(operation: str) -> Lines:
    completed = Execution.objects.filter(operation=operation, state=str(ExecutionState.COMPLETED))
    return Counter(
        (reference, canonical.load(payload)["amount"])
        for reference, payload in completed.values_list("reference", "payload")
    )


def _differences(kind: str, provider: Lines, journal: Lines, shop: Lines) -> Iterator[Difference]:
    for line in sorted({*provider, *journal, *shop}):
        found = provider[line], journal[line], shop[line]
        if found != (1, 1, 1):
            yield Difference(kind, *line, *found)
