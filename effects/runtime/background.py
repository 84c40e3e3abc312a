"""What runs in the background: sending what is due of an execution, looking up what is in doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError

from effects import transitions
from effects.conf import settings
from effects.declarations.effect import Effect, get_effect
from effects.journal import outputs
from effects.journal.commits import refuse_open_transactions
from effects.journal.current import without_request
from effects.journal.faults import reach
from effects.journal.locks import ClockTimestamp
from effects.journal.logs import get_logger
from effects.journal.redaction import is_redacting
from effects.journal.snapshots import ExecutionSnapshot, context_of, snapshot
from effects.journal.writes import write_until_done
from effects.models import Execution
from effects.runtime.consequences import after_change
from effects.runtime.dispatch import send_hint
from effects.runtime.sending import send_row
from effects.runtime.test_runs import refuse_real_call
from effects.transitions.settlement import in_tenant
from effects.vocabulary.canonical import clean_error
from effects.vocabulary.exceptions import EffectsError, ExecutionNotFoundError, JournalUnavailableError, TroubleError
from effects.vocabulary.failures import is_interrupt, is_out_of_reach
from effects.vocabulary.states import ExecutionState
from effects.vocabulary.verdicts import Found, Inconclusive, Unreachable, Verdict, read_verdict

__all__ = ["look_up", "run"]

log = get_logger("effects.background")
T = TypeVar("T")


def run(execution_id: UUID) -> ExecutionSnapshot:
    """Send what is due of one execution, as a worker does: `describe` and `precondition` again, permit, call, outcome.

    A hint may be lost, doubled, late: whatever is not due, not licensed or held by another is left as it is.
    """
    refuse_open_transactions("effects.runtime.background.run")
    row = Execution.objects.filter(pk=execution_id).annotate(seen_at=ClockTimestamp()).first()
    if row is None:
        raise ExecutionNotFoundError(f"There is no execution {execution_id}")
    found = row

    def work() -> ExecutionSnapshot:
        with in_tenant(found.tenant), without_request():
            # an early hint must not even ask the precondition, which could refuse a window that is not open yet
            sendable = found.state in (ExecutionState.PENDING, ExecutionState.NEEDS_INTERVENTION)
            return send_row(found) if sendable and _is_due(found) else snapshot(found)

    return _noting_trouble(execution_id, work)


def look_up(execution_id: UUID, *, now: bool = False) -> ExecutionSnapshot:
    """Ask the provider about one execution in doubt, and do what its verdict allows.

    Claims a lease (commit), calls `verify` outside of any transaction, records the verdict (commit), then settles the
    requests that wait for it. Without a look-up it is sent again where repeating is safe, else a person is asked.

    Args:
        execution_id: which.
        now: a person asks, so it need not be due.
    """
    refuse_open_transactions("effects.runtime.background.look_up")
    claims: list[transitions.Claim] = []
    return _noting_trouble(execution_id, lambda: _look_up(execution_id, now, claims), claims)


def _look_up(execution_id: UUID, now: bool, claims: list[transitions.Claim]) -> ExecutionSnapshot:
    refused = None if now else _refused_for_now(execution_id)
    if refused is not None:
        return refused
    claimed = transitions.claim(execution_id, now=now)
    row = Execution.objects.annotate(seen_at=ClockTimestamp()).get(pk=execution_id)
    if claimed is None:
        unsettled = row.state in (ExecutionState.UNCERTAIN, ExecutionState.ACCEPTED)
        if unsettled and row.contract["lookup"] is None and _is_due(row):
            with in_tenant(row.tenant), without_request():
                return _resend_or_escalate(row)
        return snapshot(row)
    claims.append(claimed)
    with in_tenant(row.tenant), without_request():
        reach("look_up.before_call")
        verdict = _verify(get_effect(row.operation), row)
        reach("look_up.replied")
    result = write_until_done(lambda: transitions.apply_verdict(execution_id, epoch=claimed.epoch, verdict=verdict))
    after_change(result)
    if result.state == ExecutionState.PENDING:
        send_hint(str(execution_id))
    return result


def _refused_for_now(execution_id: UUID) -> ExecutionSnapshot | None:
    """Ask the project's `RECONCILE_CHECK` about what is due; return the execution as it waits where that says no."""
    check = settings.RECONCILE_CHECK
    row = Execution.objects.filter(pk=execution_id).annotate(seen_at=ClockTimestamp()).first() if check else None
    if check is None or row is None or not _is_due(row):
        return None
    answered = False
    with in_tenant(row.tenant), without_request():
        allowed, answered = check(snapshot(row)), True
    if not answered:
        raise RuntimeError("TENANT_CONTEXT swallowed what RECONCILE_CHECK raised; let it go on")
    return transitions.postpone_look_up(execution_id) if allowed is False else None


def _is_due(row: Any) -> bool:
    """Return whether a row, read together with the clock, is due: a hint may be early."""
    return row.due_at is not None and row.due_at <= row.seen_at


def _noting_trouble(execution_id: UUID, work: Callable[[], T], claims: Sequence[transitions.Claim] = ()) -> T:
    """Keep on the row what working on it raises; it backs off and shows. The error goes on to the sweep or worker.

    Args:
        execution_id: which.
        work: what is done.
        claims: filled by it: of the look-up that it is.

    Raises:
        TroubleError: in place of the project's own errors where texts are redacted: nobody else's log or mail is.
    """
    try:
        return work()
    except (JournalUnavailableError, OperationalError, InterfaceError):
        raise  # nothing can be kept, and the row is not to blame
    except Exception as error:
        if isinstance(error, ExecutionNotFoundError):
            raise  # there is nothing to keep it on
        try:
            transitions.note_trouble(execution_id, error, epoch=claims[0].epoch if claims else None)
        except (EffectsError, DatabaseError):
            log.exception("The trouble with execution %s could not be kept.", execution_id)
        if isinstance(error, EffectsError) or is_interrupt(error) or not is_redacting():
            raise
        log.exception("Working on execution %s raised.", execution_id)
        said = clean_error(error)
    # raised outside of the handler, so that the error itself does not come along as its context
    raise TroubleError(f"Working on execution {execution_id} raised {said}")


def _resend_or_escalate(row: Execution) -> ExecutionSnapshot:
    """Send an execution in doubt without a look-up again where that is safe; otherwise it is a person's once due."""
    if row.state == ExecutionState.UNCERTAIN:
        execution = send_row(row)
        if execution.state is not ExecutionState.UNCERTAIN or execution.attempts != row.attempts:
            return execution
        if execution.due_at and row.due_at and execution.due_at > row.due_at:
            return execution  # it waits for its provider or its precondition, however long ago that was by now
    execution = transitions.escalate_unplanned(row.pk)
    after_change(execution)
    return execution


def _verify(effect: Effect[Any], row: Execution) -> Verdict:
    """Call `verify`; what it raises is no evidence: a broken connection is unreachable, anything else inconclusive."""
    refuse_real_call(effect, "verify")
    try:
        payload = effect.load(row.payload, row.payload_version)
        verdict: Any = effect.verify(context_of(row, payload))
    except Exception as error:  # the project's code or its provider's: look again, then ask a person
        if is_interrupt(error):
            raise  # the process's time is up, which is no answer
        if is_out_of_reach(error):
            return Unreachable(clean_error(error))
        log.exception("The look-up of %s %s raised.", row.operation, row.pk)
        return Inconclusive(f"the look-up raised {clean_error(error)}")
    read = read_verdict(verdict)
    return replace(read, output=outputs.plain(read.output, row.operation, row.pk)) if isinstance(read, Found) else read
