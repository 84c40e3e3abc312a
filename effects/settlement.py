"""The settled hooks of effects and the answers of requests: the project's own code inside our transactions.

Both run in a savepoint of the transaction that settles, under the row's lock. What they raise never undoes the
settling: the world has changed already, and the journal must say so.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from django.db import transaction

from effects import canonical
from effects._current import without_request
from effects.conf import settings
from effects.effect import Effect
from effects.models import Execution
from effects.operations import NotFinished, StoredAnswer, find_operation
from effects.outcomes import Outcome
from effects.snapshots import context_of, outcome_of

__all__ = ["hook_backoff", "in_tenant", "run_settled_hook", "try_answer"]

log = logging.getLogger("effects.settlement")


def in_tenant(tenant: str) -> AbstractContextManager[Any]:
    """Return the project's context for work on a tenant's behalf (`EFFECTS["TENANT_CONTEXT"]`)."""
    return settings.TENANT_CONTEXT(tenant)


def hook_backoff(failures: int) -> timedelta:
    """Return when a hook that failed that often runs again: 1 s doubling to 5 min."""
    return timedelta(seconds=min(2.0 ** max(failures - 1, 0), 300.0))


def run_settled_hook(effect: Effect[Any], row: Execution, previous: Outcome | None = None) -> str | None:
    """Run `settled` for the outcome that `row` is about to have; return None, or what it raised.

    Joins the caller's transaction: the hook's rows commit with the state, or are undone alone.
    """
    if not effect.has_hook:
        return None
    try:
        with in_tenant(row.tenant), without_request(), transaction.atomic(using=settings.DATABASE):
            payload = effect.load(row.payload, row.payload_version)
            effect.settled(context_of(row, payload, previous=previous), outcome_of(row))
    except Exception as error:  # any error of the project's code: recorded, shown, tried again
        log.exception("The settled hook of %s %s failed; it stays due.", row.operation, row.pk)
        return canonical.clean_text(f"{type(error).__name__}: {error}")
    return None


def try_answer(operation: str, tenant: str, outcomes: Sequence[Outcome]) -> StoredAnswer | NotFinished | None | str:
    """Build a request's answer from its outcomes with the view's `answer=`.

    Returns:
        The answer; `NotFinished`; None where the view has no `answer=`; or, as text, what it raised.
    """
    view = find_operation(operation)
    if view is None or view.answer is None:
        return None
    try:
        with in_tenant(tenant), without_request(), transaction.atomic(using=settings.DATABASE):
            return view.answer(outcomes)
    except Exception as error:  # as above
        log.exception("answer= of %s failed; the request stays due.", operation)
        return canonical.clean_text(f"{type(error).__name__}: {error}")
