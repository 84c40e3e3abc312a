"""Limits per tenant and per provider. Off by default, and then they cost nothing.

Per tenant: nothing new while too much is open or in doubt. What is known already is never refused: a replay, a
duplicate, an execution that is met. Nor is what belongs to work that was let in: what a handler performs, and an
undoing. Two that open at the same instant do not see each other, so a limit may be overrun by as many as do.

Per provider: background work starts no call while too many are under way, so that a thousand rows that are due after
an outage are no stampede. These do see each other. What a handler performs is counted and never held back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from effects.conf import settings
from effects.conf.values import EVERY_PROVIDER
from effects.journal.commits import journal
from effects.journal.locks import lock_provider
from effects.models import Execution
from effects.transitions.intents import Intent
from effects.vocabulary.exceptions import CapacityError
from effects.vocabulary.states import EXECUTION_IN_DOUBT, ExecutionState, RequestState

__all__ = ["Condition", "is_provider_busy", "over_limits", "refuse_over_limits"]

#: SQL that is true or false, and its parameters.
Condition = tuple[str, list[Any]]

_REQUESTS, _EXECUTIONS = "effects_request", "effects_execution"
_OPEN_REQUESTS = (RequestState.RUNNING, RequestState.WAITING)
_OPEN_EXECUTIONS = (ExecutionState.PENDING, ExecutionState.AWAITING_APPROVAL, ExecutionState.EXECUTING)
_DOUBTED_EXECUTIONS = tuple(sorted(EXECUTION_IN_DOUBT, key=str))


def over_limits(tenant: str, *, requests: bool) -> Condition | None:
    """Return whether a tenant is at a limit, as SQL; None where no limit is set.

    Args:
        tenant: whose.
        requests: count protected requests too, not executions alone.
    """
    most_open, most_doubted = settings.MAX_OPEN_PER_TENANT, settings.MAX_IN_DOUBT_PER_TENANT
    found: list[Condition] = []
    if most_open is not None:
        found.append(_reached(_EXECUTIONS, _OPEN_EXECUTIONS, tenant, most_open))
        if requests:
            found.append(_reached(_REQUESTS, _OPEN_REQUESTS, tenant, most_open))
    if most_doubted is not None:
        found.append(_reached(_EXECUTIONS, _DOUBTED_EXECUTIONS, tenant, most_doubted))
        if requests:
            found.append(_reached(_REQUESTS, (RequestState.IN_DOUBT,), tenant, most_doubted))
    if not found:
        return None
    return " OR ".join(sql for sql, _ in found), [value for _, params in found for value in params]


def refuse_over_limits(intent: Intent) -> None:
    """Refuse to record what is new for a tenant that is at a limit; one query, and none where no limit is set.

    Raises:
        CapacityError: nothing was recorded.
    """
    condition = over_limits(intent.tenant, requests=False)
    if condition is None:
        return
    sql, params = condition
    held = f"EXISTS (SELECT 1 FROM {_EXECUTIONS} WHERE binding = %s AND holds_key)"  # noqa: S608
    with journal().cursor() as cursor:
        cursor.execute(f"SELECT NOT {held} AND ({sql})", [intent.binding, *params])
        (refused,) = cursor.fetchone()
    if refused:
        raise CapacityError(
            f"{intent.operation} {intent.key!r}: tenant {intent.tenant!r} has as many executions open or in doubt as "
            "MAX_OPEN_PER_TENANT and MAX_IN_DOUBT_PER_TENANT allow. Nothing was recorded; perform it again later."
        )


def is_provider_busy(row: Execution) -> bool:
    """Return whether as many calls are under way at a locked row's provider as `MAX_CALLS_PER_PROVIDER` allows.

    A call is under way while its lease lives: a send, a look-up, one whose process died. Whoever asks takes the lease
    in the same transaction or leaves it. Two queries, and none where the provider has no limit.
    """
    limits = settings.MAX_CALLS_PER_PROVIDER
    limit = limits.get(row.provider, limits.get(EVERY_PROVIDER))
    if limit is None:
        return False
    lock_provider(row.provider)
    leased = f"SELECT 1 FROM {_EXECUTIONS} WHERE provider = %s AND lease_expires_at > clock_timestamp() LIMIT %s"  # noqa: S608
    with journal().cursor() as cursor:
        # a statement of its own: its snapshot has what those committed who held the lock before
        cursor.execute(f"SELECT count(*) >= %s FROM ({leased}) AS counted", [limit, row.provider, limit])  # noqa: S608
        (busy,) = cursor.fetchone()
    return bool(busy)


def _reached(table: str, states: Iterable[object], tenant: str, limit: int) -> Condition:
    """Return whether a tenant has `limit` rows in some states; each state is found by its own partial index."""
    # literals: a parameter would hide from the planner that a partial index serves
    arms = [f"SELECT 1 FROM {table} WHERE tenant = %s AND state = '{state}'" for state in states]  # noqa: S608
    sql = f"(SELECT count(*) >= %s FROM ({' UNION ALL '.join(arms)} LIMIT %s) AS counted)"  # noqa: S608
    return sql, [limit, *[tenant] * len(arms), limit]
