"""Tombstones: what of a settled execution is dropped past its retention, and what stays for ever.

Key, binding, digests, state, reference, counters, people's decisions and the order of receipts stay, so that a late
duplicate still meets it and nothing is sent twice. Payload, output, summary and whatever somebody wrote in words go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from effects._commits import commits, journal
from effects._locks import lock_execution
from effects.conf import settings
from effects.models import Approval, ApprovalVote, Execution, Receipt, RequestExecution, Resolution
from effects.states import EXECUTION_SETTLED, REQUEST_ENDED, values
from effects.transitions._rows import advance
from effects.transitions._words import kept_of

__all__ = ["list_prunable", "prune_execution"]

_SETTLED = values(EXECUTION_SETTLED)
_REFERENCES = ("reference", "other_reference", "undone")


def list_prunable(limit: int) -> list[UUID]:
    """Return at most `limit` settled executions past `EXECUTION_RETENTION`, the oldest first; none where it is unset.

    One query, over a partial index. Nothing is locked: `prune_execution` looks again.
    """
    age = settings.EXECUTION_RETENTION
    if age is None:
        return []
    return list(_prunable(age).order_by("ages_from", "pk").values_list("pk", flat=True)[:limit])


def prune_execution(execution_id: UUID) -> bool:
    """*Commits.* Turn a settled execution past its retention into a tombstone; return False if it must stay whole.

    Locked: the execution. Never one in doubt, with a hook due, linked to a request that has not ended, or whose
    successor, elder, undoing or undone is unsettled.
    """
    age = settings.EXECUTION_RETENTION
    if age is None:
        return False
    with commits("pruning an execution"):
        row = lock_execution(execution_id)
        if not _prunable(age).filter(pk=row.pk).exists():
            return False
        rule = f"EXECUTION_RETENTION, {age.total_seconds():.0f} s after it was settled"
        _drop_words(row)
        advance(
            row, "prune", revises=False, evidence={"rule": rule, "pruned": row.locked_at.isoformat()},
            pruned_at=row.locked_at, ages_from=None, payload="", output=None, summary={}, target="", failure_message="",
            hook_error="",
            applied_evidence=_references(row.applied_evidence),
            items=None if row.items is None else [{**item, "message": ""} for item in row.items],
        )  # fmt: skip
        return True


def _prunable(age: timedelta) -> QuerySet[Execution]:
    open_request = RequestExecution.objects.filter(execution_id=OuterRef("pk")).exclude(
        request__state__in=values(REQUEST_ENDED)
    )
    relatives = Execution.objects.exclude(state__in=_SETTLED).filter(
        Q(supersedes=OuterRef("pk")) | Q(compensates=OuterRef("pk"))
        | Q(pk=OuterRef("supersedes_id")) | Q(pk=OuterRef("compensates_id"))
    )  # fmt: skip
    # the statement's start: an index cannot serve clock_timestamp(), which may differ from row to row
    return Execution.objects.filter(
        ~Exists(open_request), ~Exists(relatives), ages_from__lte=Now() - age, hook_due_at__isnull=True
    )  # fmt: skip


def _drop_words(row: Execution) -> None:
    """Drop what people and providers wrote about a locked execution; decisions, digests and times stay."""
    row.attempt_rows.update(message="")
    Approval.objects.filter(execution_id=row.pk).update(summary={})
    ApprovalVote.objects.filter(approval__execution_id=row.pk).update(comment="")
    Resolution.objects.filter(execution_id=row.pk).update(reason="", evidence={})
    with _receipts_open():
        for receipt in row.receipts.only("pk", "evidence").iterator(chunk_size=200):
            kept = kept_of(receipt.evidence)
            if kept != receipt.evidence:
                Receipt.objects.filter(pk=receipt.pk).update(evidence=kept)


def _references(evidence: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what stays of proof on file: that there is some, whether it was undone, and the references of it."""
    return None if evidence is None else {name: evidence[name] for name in _REFERENCES if evidence.get(name)}


@contextmanager
def _receipts_open() -> Iterator[None]:
    """Open the one door through which receipts can be changed, for this block of this transaction."""
    with journal().cursor() as cursor:
        cursor.execute("SET LOCAL effects.retention = 'on'")
    yield
    with journal().cursor() as cursor:
        cursor.execute("SET LOCAL effects.retention = 'off'")
