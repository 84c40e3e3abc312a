"""Retention: what of an ended request is dropped, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from effects._commits import commits
from effects._locks import skip_locked
from effects.conf import settings
from effects.models import Request, RequestExecution
from effects.states import EXECUTION_SETTLED, values

__all__ = ["drop_answers", "free_keys"]


def drop_answers(limit: int) -> int:
    """*Commits.* Drop the bytes of at most `limit` answers older than `ANSWER_RETENTION`; their keys stay taken."""
    kept = Request.objects.filter(answer_body__isnull=False)
    return _update(_older(kept, settings.ANSWER_RETENTION), limit, answer_body=None, answer_missing="expired")


def free_keys(limit: int) -> int:
    """*Commits.* Free at most `limit` keys of requests that ended more than `KEY_RETENTION` ago; the rows stay."""
    unsettled = RequestExecution.objects.filter(request_id=OuterRef("pk"), holds=True).exclude(
        execution__state__in=values(EXECUTION_SETTLED)
    )
    # an answer whose execution was contradicted since is in doubt again
    holding = Request.objects.filter(~Exists(unsettled), holds_key=True, ended_at__isnull=False)
    return _update(_older(holding, settings.KEY_RETENTION), limit, holds_key=False)


def _older(requests: QuerySet[Request], age: timedelta) -> QuerySet[Request]:
    # the statement's start: an index cannot serve clock_timestamp(), which may differ from row to row
    older: QuerySet[Request] = requests.filter(ended_at__lte=Now() - age).order_by("ended_at")
    return older


def _update(old: QuerySet[Request], limit: int, **changes: Any) -> int:
    # in order, as the index has them: where nothing is old enough any more, `exists()` makes a scan of the whole table
    if old.values_list("pk").first() is None:
        return 0
    with commits("retention"):
        return len(skip_locked(old, limit, lambda ids: Request.objects.filter(pk__in=ids).update(**changes)))
