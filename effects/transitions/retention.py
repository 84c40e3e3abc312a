"""Retention: what of an ended request is dropped, and when."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from effects.conf import settings
from effects.journal.commits import commits
from effects.journal.locks import now, skip_locked
from effects.models import Receipt, Request, RequestExecution
from effects.transitions._rows import receipt_of
from effects.vocabulary.states import EXECUTION_SETTLED, RequestState, values

__all__ = ["drop_answers", "free_keys"]


def drop_answers(limit: int) -> int:
    """*Commits.* Drop the bytes of at most `limit` answers older than `ANSWER_RETENTION`; their keys stay taken."""
    kept = Request.objects.filter(answer_body__isnull=False)
    return _update(kept, settings.ANSWER_RETENTION, limit, "drop_answer", answer_body=None, answer_missing="expired")


def free_keys(limit: int) -> int:
    """*Commits.* Free at most `limit` keys of requests that ended more than `KEY_RETENTION` ago; the rows stay."""
    unsettled = RequestExecution.objects.filter(request_id=OuterRef("pk"), holds=True).exclude(
        execution__state__in=values(EXECUTION_SETTLED)
    )
    # an answer whose execution was contradicted since is in doubt again
    holding = Request.objects.filter(~Exists(unsettled), holds_key=True, ended_at__isnull=False)
    return _update(holding, settings.KEY_RETENTION, limit, "free_key", holds_key=False)


def _update(kept: QuerySet[Request], age: timedelta, limit: int, verb: str, **changes: Any) -> int:
    old = _older(kept, age)
    # in order, as the index has them: where nothing is old enough any more, `exists()` makes a scan of the whole table
    if old.values_list("pk").first() is None:
        return 0
    with commits("retention"):
        ids = skip_locked(old, limit, functools.partial(_change, changes))
        at, evidence = now(), {"rule": f"{age.total_seconds():.0f} s after it ended"}
        receipts = []
        for row in Request.objects.filter(pk__in=ids).defer("answer_body"):
            row.locked_at = at
            receipts.append(receipt_of(row, verb, RequestState(row.state), evidence=evidence))
        Receipt.objects.bulk_create(receipts)
    return len(ids)


def _change(changes: dict[str, Any], ids: list[UUID]) -> None:
    Request.objects.filter(pk__in=ids).update(receipt_count=F("receipt_count") + 1, **changes)


def _older(requests: QuerySet[Request], age: timedelta) -> QuerySet[Request]:
    # the statement's start: an index cannot serve clock_timestamp(), which may differ from row to row
    older: QuerySet[Request] = requests.filter(ended_at__lte=Now() - age).order_by("ended_at")
    return older
