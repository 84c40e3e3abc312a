"""Tombstones: what of a settled execution is dropped past its retention, and what stays for ever.

Key, binding, digests, state, reference, counters, people's decisions and the order of receipts stay, so that a late
duplicate still meets it and nothing is sent twice. Payload, output, summary and whatever somebody wrote in words go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from effects.conf import settings
from effects.journal.commits import commits, journal
from effects.journal.locks import lock_free_executions
from effects.journal.snapshots import WORD_OF
from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt, RequestExecution, Resolution
from effects.transitions._rows import receipt_of
from effects.transitions._words import KEEP_WHAT_PROVES, KEPT_EVIDENCE
from effects.vocabulary.states import REQUEST_ENDED, ExecutionState, values

__all__ = ["Aged", "list_prunable", "prune_executions"]

#: What stays of proof on file: that there is some, whether it was undone, the references of it, and whose word it is.
_REFERENCES = f"""(
    SELECT COALESCE(jsonb_object_agg(name, value), '{{}}') FROM jsonb_each(applied_evidence) AS proof (name, value)
    WHERE name IN ('reference', 'other_reference', 'undone', '{WORD_OF}') AND value NOT IN ('""', 'false', 'null')
)"""  # noqa: S608 - a name of ours
_ITEMS = """(
    SELECT COALESCE(jsonb_agg(item || '{"message": ""}' ORDER BY place), '[]')
    FROM jsonb_array_elements(items) WITH ORDINALITY AS itemised (item, place)
)"""
#: What a receipt copies from its row; the payload is not among it, and may be long.
_COPIED = ("state", "reason", "revision", "receipt_count", "epoch", "may_have_applied", "created_at")


class Aged(NamedTuple):
    """An execution past its retention, and its place among them."""

    ages_from: datetime
    id: UUID


def list_prunable(limit: int, after: Aged | None = None) -> list[Aged]:
    """Return at most `limit` settled executions past `EXECUTION_RETENTION`, the oldest first; none where it is unset.

    One query, over a partial index. Nothing is locked: `prune_executions` looks again.

    Args:
        limit: how many at most.
        after: go on after this one, so that what cannot be pruned is looked at once, however many there are.
    """
    age = settings.EXECUTION_RETENTION
    if age is None:
        return []
    rows = _prunable(age)
    if after is not None:
        rows = rows.filter(ages_from__gte=after.ages_from).exclude(ages_from=after.ages_from, pk__lte=after.id)
    found = rows.order_by("ages_from", "pk").values_list("ages_from", "pk")[:limit]
    return [Aged(at, pk) for at, pk in found if at is not None]


def prune_executions(ids: Sequence[UUID]) -> int:
    """*Commits.* Turn settled executions past their retention into tombstones, together; return how many.

    Left whole: what another process holds, and what is found, under the lock, to be needed: in doubt, with a hook due,
    linked to a request that has not ended, or with a successor, elder, undoing or undone that is unsettled. Locked: the
    executions. The number of statements does not depend on theirs.
    """
    age = settings.EXECUTION_RETENTION
    if age is None:
        return 0
    with commits("pruning an execution"):
        free, at = lock_free_executions(ids)
        rows = list(_prunable(age).filter(pk__in=free).only(*_COPIED)) if free else []
        if rows:
            _drop_words([row.pk for row in rows])
            _bury(rows, at, f"EXECUTION_RETENTION, {age.total_seconds():.0f} s after it was settled")
        return len(rows)


def _prunable(age: timedelta) -> QuerySet[Execution]:
    open_requests = RequestExecution.objects.filter(execution_id=OuterRef("pk")).exclude(
        request__state__in=values(REQUEST_ENDED)
    )
    relatives = Execution.objects.filter(settled_at__isnull=True).filter(
        Q(supersedes=OuterRef("pk")) | Q(compensates=OuterRef("pk"))
        | Q(pk=OuterRef("supersedes_id")) | Q(pk=OuterRef("compensates_id"))
    )  # fmt: skip
    # the statement's start: an index cannot serve clock_timestamp(), which may differ from row to row
    return Execution.objects.filter(
        ~Exists(open_requests), ~Exists(relatives), ages_from__lte=Now() - age, hook_due_at__isnull=True
    )


def _drop_words(ids: list[UUID]) -> None:
    """Drop what people and providers wrote about locked executions; decisions, digests and times stay."""
    Attempt.objects.filter(execution_id__in=ids).exclude(message="").update(message="")
    Approval.objects.filter(execution_id__in=ids).exclude(summary={}).update(summary={})
    ApprovalVote.objects.filter(approval__execution_id__in=ids).exclude(comment="").update(comment="")
    Resolution.objects.filter(~Q(reason="") | ~Q(evidence={}), execution_id__in=ids).update(reason="", evidence={})
    with _receipts_open(), journal().cursor() as cursor:
        cursor.execute(KEEP_WHAT_PROVES, [list(KEPT_EVIDENCE), ids])


def _bury(rows: list[Execution], at: datetime, rule: str) -> None:
    """Drop the contents of locked executions, each with its receipt."""
    Execution.objects.filter(pk__in=[row.pk for row in rows]).update(
        pruned_at=at, ages_from=None, payload="", output=None, summary={}, target="", failure_message="",
        hook_error="", trouble_count=0, trouble="", swept_until=None, receipt_count=F("receipt_count") + 1,
        applied_evidence=RawSQL(f"CASE WHEN applied_evidence IS NOT NULL THEN {_REFERENCES} END", []),  # noqa: S611
        items=RawSQL(f"CASE WHEN items IS NOT NULL THEN {_ITEMS} END", []),  # noqa: S611
    )  # fmt: skip
    receipts = []
    for row in rows:
        row.locked_at, row.receipt_count = at, row.receipt_count + 1
        evidence = {"rule": rule, "pruned": at.isoformat()}
        receipts.append(receipt_of(row, "prune", ExecutionState(row.state), evidence=evidence))
    Receipt.objects.bulk_create(receipts)


@contextmanager
def _receipts_open() -> Iterator[None]:
    """Open the one door through which receipts can be changed, for this block of this transaction."""
    with journal().cursor() as cursor:
        cursor.execute("SET LOCAL effects.retention = 'on'")
    yield
    with journal().cursor() as cursor:
        cursor.execute("SET LOCAL effects.retention = 'off'")
