"""The settled hooks of effects and the answers of requests: the project's own code inside our transactions.

Both run in a savepoint of the transaction that settles, under the row's lock. What they raise never undoes the
settling: the world has changed already, and the journal must say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from effects.conf import is_set, settings
from effects.declarations.effect import Effect
from effects.declarations.operations import NotFinished, StoredAnswer, find_operation
from effects.journal.commits import is_beside, journal, leave_blocks
from effects.journal.current import without_request
from effects.journal.faults import reach
from effects.journal.logs import get_logger
from effects.journal.snapshots import context_of, outcome_of
from effects.journal.statements import why_no_read
from effects.models import Execution
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import (
    JournalBesideError,
    MarkedForRollbackError,
    OutcomeError,
    OutputUnavailableError,
)
from effects.vocabulary.foreign import hold_interrupt, present_try
from effects.vocabulary.outcomes import MissingOutput, Outcome
from effects.vocabulary.states import EXECUTION_SETTLED, values

__all__ = ["hook_backoff", "in_tenant", "run_settled_hook", "try_answer"]

log = get_logger("effects.settlement")

#: record, refuse, contradict, resolve.
FEWEST_TO_SETTLE_TWICE = 4
_SWALLOWED = "TENANT_CONTEXT swallowed what {what} raised; let it go on"


def in_tenant(tenant: str) -> AbstractContextManager[Any]:
    """Return the project's context for work on a tenant's behalf (`EFFECTS["TENANT_CONTEXT"]`)."""
    return settings.TENANT_CONTEXT(tenant)


def hook_backoff(failures: int) -> timedelta:
    """Return when a hook that failed that often runs again: 1 s doubling to 5 min."""
    return timedelta(seconds=min(2.0 ** max(failures - 1, 0), 300.0))


def run_settled_hook(effect: Effect[Any], row: Execution, previous: Outcome | None = None) -> str | None:
    """Run `settled` for the outcome that the locked `row` has just been given; return None, or what it raised.

    Joins the caller's transaction: the hook's rows commit with the state, or are undone alone. What ends the process
    is held back until that is committed.
    """
    done = False
    try:
        with _tried(), _undoable(row.tenant):
            payload = effect.load(row.payload, row.payload_version)
            previous = previous or _earlier_outcome(row)
            reach("hook.before")
            effect.settled(context_of(row, payload, previous=previous), outcome_of(row))
            reach("hook.after")
            done = True
    except BaseException as error:  # any error of the project's code: recorded, shown, tried again
        hold_interrupt(error)
        log.exception("The settled hook of %s %s failed; it stays due.", row.operation, row.pk)
        return canonical.clean_error(error)
    return None if done else _SWALLOWED.format(what="settled()")


def _earlier_outcome(row: Execution) -> Outcome | None:
    """Return how the execution was settled before it was contradicted; its output is not kept.

    The usual way, record, permit, complete, is too short for that and costs no query.
    """
    if row.receipt_count < FEWEST_TO_SETTLE_TWICE:
        return None
    settled = values(EXECUTION_SETTLED)
    settlings = row.receipts.filter(to_state__in=settled).exclude(from_state__in=settled).order_by("-sequence")
    earlier = next(iter(settlings[1:2]), None)
    if earlier is None:
        return None
    evidence = earlier.evidence
    return outcome_of(
        Execution(
            id=row.pk, operation=row.operation, state=earlier.to_state, reason=earlier.reason,
            may_have_applied=earlier.may_have_applied, reference=str(evidence.get("reference") or ""),
            failure_code=str(evidence.get("code") or ""), failure_message=str(evidence.get("message") or ""),
        )
    )  # fmt: skip


def try_answer(
    operation: str, tenant: str, outcomes: Sequence[Outcome]
) -> StoredAnswer | NotFinished | Outcome | str | None:
    """Build a request's answer from its outcomes with the view's `answer=`.

    Returns:
        The answer; `NotFinished`; a settled outcome that was asked for an output which there is not (`require()`), and
            of which the client is told itself; None where the view has no `answer=`; or, as text, what it raised, an
            output that this code cannot read included.
    """
    try:
        # finding it may import the project's views, which can raise as anything of the project's
        view = find_operation(operation)
        if view is None or view.answer is None:
            return None
        built: Any = _SWALLOWED.format(what="answer=")
        with _tried(), _only_reading(operation), _undoable(tenant):
            built = view.answer(outcomes)
            if not isinstance(built, (StoredAnswer, NotFinished)):
                raise TypeError(f"answer= returned {type(built).__name__}, no answer")
    except OutcomeError as error:
        unreadable = isinstance(error, OutputUnavailableError) and error.why == "unreadable"
        if error.outcome.settled and not unreadable:
            return error.outcome
        return canonical.clean_text(str(error))
    except BaseException as error:  # as above
        hold_interrupt(error)
        expired = _expired(outcomes, error)
        if expired is not None:
            return expired
        log.exception("answer= of %s failed; the request stays due.", operation)
        return canonical.clean_error(error)
    return built


def _expired(outcomes: Sequence[Outcome], error: BaseException) -> Outcome | None:
    """Return the outcome whose expired output `json` was given: it names the type, and asks the value for nothing."""
    if not isinstance(error, TypeError) or MissingOutput.__name__ not in str(error):
        return None
    outputs = ((outcome, getattr(outcome, "output", None)) for outcome in outcomes)
    return next((of for of, it in outputs if isinstance(it, MissingOutput) and it.why == "expired"), None)


@contextmanager
def _tried() -> Iterator[None]:
    """Say of the project's code in the block that it has had its one try within this write, and how that ended."""
    tried = present_try()
    if tried is None:
        yield
        return
    tried.count, tried.finished = tried.count + 1, False
    try:
        yield
    except BaseException as error:
        tried.error = canonical.clean_error(error)
        raise
    tried.finished = True


@contextmanager
def _only_reading(operation: str) -> Iterator[None]:
    """Refuse rows in `answer=` where they could not commit with the answer."""
    if not is_beside():
        yield
        return

    def refuse(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if why := why_no_read(sql):
            raise JournalBesideError(
                f"answer= of {operation!r} {why.rstrip(',')}, and the journal is another database, so that the "
                "rows could stand without the answer. Write them in the effect's settled(), keyed by context.ref."
            )
        return execute(sql, params, many, context)

    with connections[DEFAULT_DB_ALIAS].execute_wrapper(refuse):
        yield


@contextmanager
def _undoable(tenant: str) -> Iterator[None]:
    """Run the project's code for a tenant; its rows stand if all of it went well, `TENANT_CONTEXT` included.

    The inner savepoint lets that context leave by statements of its own; the outer one keeps the transaction alive
    where those fail.
    """
    around = _savepoint() if is_set("TENANT_CONTEXT") else nullcontext()
    with around, in_tenant(tenant), without_request(), _savepoint():
        yield


@contextmanager
def _savepoint() -> Iterator[None]:
    """Run the project's code in a savepoint; rows that were marked for rollback are an error, not a silent loss.

    Raises:
        MarkedForRollbackError: a database error was caught inside, or `set_rollback(True)` was called.
    """
    # with a journal of its own the project's rows commit when the block is left, all of them or none
    connection = connections[DEFAULT_DB_ALIAS] if is_beside() else journal()
    own = transaction.atomic(using=journal().alias) if is_beside() else nullcontext()
    with own, transaction.atomic(using=connection.alias):
        depth = len(connection.atomic_blocks)
        try:
            yield
        finally:
            left_open = leave_blocks(connection, depth)
        if left_open or connection.needs_rollback:
            raise MarkedForRollbackError(
                "Its rows were marked for rollback by a database error that was caught, by set_rollback(True), or by a "
                "nested atomic() that was left open. Catch database errors around a nested atomic()."
            )
