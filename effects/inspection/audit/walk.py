"""How the audit reads: keyset batches, each one consistent view of the database, and a second look before it reports.

Nothing is locked and no view is held for longer than one batch, so that neither senders nor vacuum wait. A view sees
each verb's commit whole, or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from effects.inspection.audit.findings import Finding
from effects.journal.commits import journal
from effects.models import Execution, Receipt

__all__ = ["Check", "Scope", "consistent_view", "seen_twice", "touched", "walk"]


@dataclass(frozen=True)
class Scope:
    """What an audit looks at.

    Attributes:
        now: the database's clock at the start; rows that were made later are left to the next audit.
        since: only rows with a receipt since then; None: all. What waits now is looked at in any case.
        allowance: how late something may be before it is a finding.
        batch: how many rows are in hand at once.
    """

    now: datetime
    since: datetime | None = None
    allowance: timedelta = timedelta(minutes=10)
    batch: int = 200

    @property
    def latest(self) -> datetime:
        """What is due before this is late."""
        return self.now - self.allowance


@dataclass(frozen=True)
class Check:
    """One walk over a table.

    Attributes:
        rows: which rows, filtered by the database.
        examine: what is wrong with a batch of them; adds what it looked at to the counter.
    """

    rows: Callable[[Scope], QuerySet[Any]]
    examine: Callable[[Sequence[Any], Counter[str]], Iterable[Finding]]


def walk(check: Check, scope: Scope, checked: Counter[str]) -> Iterator[Finding]:
    """Yield what a check finds, batch by batch in the order of ids."""
    # what is made meanwhile is left out; what claims to be made much later is no such thing
    made = Q(created_at__lte=scope.now) | Q(created_at__gt=scope.now + scope.allowance)
    rows, last = check.rows(scope).filter(made).order_by("pk"), None
    while True:
        with consistent_view():
            batch = list((rows if last is None else rows.filter(pk__gt=last))[: scope.batch])
            found = list(check.examine(batch, checked))
        if found:
            yield from _look_again(check, rows, batch, found)
        if len(batch) < scope.batch:
            return
        last = batch[-1].pk


def seen_twice(found: Iterable[Finding], again: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what a second look still finds: what was only on its way in the first one is no finding."""
    first = {(one.code, one.ref) for one in found}
    yield from (one for one in again if (one.code, one.ref) in first)


@contextmanager
def consistent_view() -> Iterator[None]:
    """Read within the block as of one instant, without a lock and without a right to write."""
    connection = journal()
    nested = connection.in_atomic_block
    with transaction.atomic(using=connection.alias):
        if not nested:  # a test case's block has begun already, with an isolation of its own
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def touched(rows: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
    """Return those of the executions or requests of which something was recorded since the scope's instant."""
    if scope.since is None:
        return rows
    owner = "execution_id" if rows.model is Execution else "request_id"
    return rows.filter(Exists(Receipt.objects.filter(**{owner: OuterRef("pk")}, at__gte=scope.since)))


def _look_again(check: Check, rows: QuerySet[Any], batch: Sequence[Any], found: Sequence[Finding]) -> Iterator[Finding]:
    refs = {one.ref for one in found}
    suspects = [row.pk for row in batch if str(row.pk) in refs]
    with consistent_view():
        again = list(check.examine(list(rows.filter(pk__in=suspects)), Counter()))
    yield from seen_twice(found, again)
