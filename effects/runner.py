"""Commit, call, commit: sending what is licensed, looking up what is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, Error, InterfaceError, OperationalError

from effects import transitions
from effects._commits import is_beside, refuse_open_transactions
from effects._current import RequestHandle, without_request
from effects._faults import reach
from effects._locks import ClockTimestamp
from effects._logs import get_logger
from effects._writes import write_before_send, write_until_done
from effects.canonical import clean_error
from effects.conf import settings
from effects.dispatch import send_hint
from effects.effect import Effect, get_effect
from effects.exceptions import (
    EffectsError,
    ExecutionNotFoundError,
    FencedError,
    JournalUnavailableError,
    OutcomeUnrecordedError,
    TroubleError,
)
from effects.failures import classify, is_interrupt, is_out_of_reach, read_answer
from effects.intents import summary_as_json
from effects.models import Execution, RequestExecution
from effects.models.base import new_id
from effects.redaction import is_redacting
from effects.settlement import in_tenant
from effects.signals import announce
from effects.snapshots import ExecutionSnapshot, context_of, snapshot
from effects.states import REQUEST_ENDED, ExecutionState, RequestState, values
from effects.transitions import NotSentInTime, Report
from effects.types import Context, Later, Permit, Precondition, Refuse, monotonic
from effects.verdicts import Inconclusive, Unreachable, Verdict, read_verdict

__all__ = [
    "License",
    "after_change",
    "ask_precondition",
    "license_row",
    "look_up",
    "record_report",
    "refuse_without_secret",
    "run",
    "send",
    "send_row",
    "settle_requests_of",
]

log = get_logger("effects.runner")
T = TypeVar("T")


def run(execution_id: UUID) -> ExecutionSnapshot:
    """Send what is due of one execution, as a worker does: `describe` and `precondition` again, permit, call, outcome.

    A hint may be lost, doubled, late: whatever is not due, not licensed or held by another is left as it is.
    """
    refuse_open_transactions("effects.runner.run")
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
    refuse_open_transactions("effects.runner.look_up")
    return _noting_trouble(execution_id, lambda: _look_up(execution_id, now))


def _look_up(execution_id: UUID, now: bool) -> ExecutionSnapshot:
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


def _noting_trouble(execution_id: UUID, work: Callable[[], T]) -> T:
    """Keep on the row what working on it raises; it backs off and shows. The error goes on to the sweep or worker.

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
            transitions.note_trouble(execution_id, error)
        except (EffectsError, DatabaseError):
            log.exception("The trouble with execution %s could not be kept.", execution_id)
        if isinstance(error, EffectsError) or is_interrupt(error) or not is_redacting():
            raise
        log.exception("Working on execution %s raised.", execution_id)
        said = clean_error(error)
    # raised outside of the handler, so that the error itself does not come along as its context
    raise TroubleError(f"Working on execution {execution_id} raised {said}")


def after_change(execution: ExecutionSnapshot) -> None:
    """Tell observers, and settle the requests that waited for an execution that is settled now."""
    if is_beside() and execution.settled and execution.hook_due_at == execution.settled_at:
        execution = _run_hook_after_commit(execution)
    announce(execution)
    if execution.settled and execution.hook_due_at is None:
        settle_requests_of(execution.id)


def _run_hook_after_commit(execution: ExecutionSnapshot) -> ExecutionSnapshot:
    """Run the hook that could not run in the commit that settled; what goes wrong here stays due for the sweep."""
    try:
        return transitions.run_hook(execution.id)
    except (EffectsError, Error):
        log.exception("The hook of execution %s could not be run now; the sweep will.", execution.id)
        return execution


def settle_requests_of(execution_id: UUID) -> None:
    """Settle the requests that wait for this execution, each in a transaction of its own.

    Only a shortcut: what raises here stays due for the sweep.
    """
    waiting = RequestExecution.objects.filter(execution_id=execution_id, holds=True).exclude(
        request__state__in=[*values(REQUEST_ENDED), str(RequestState.RUNNING)]
    )
    try:
        for request_id in waiting.values_list("request_id", flat=True):
            transitions.settle(request_id)
    except (EffectsError, Error):  # what settled the execution is committed, and its caller must hear so
        log.exception("The requests of execution %s could not all be settled now; the sweep will.", execution_id)


@dataclass(frozen=True)
class License:
    """A committed permit with what the call needs: the effect, the execution as the permit left it, what it is told."""

    effect: Effect[Any]
    execution: ExecutionSnapshot
    permit: Permit
    context: Context[Any]
    #: Recorded in the permit's own commit, so that no request but the caller's can hold it unless one met it since,
    #: which leaves a receipt.
    recorded_now: bool = False

    @classmethod
    def of(
        cls,
        effect: Effect[Any],
        execution: ExecutionSnapshot,
        permit: Permit,
        context: Context[Any],
        token: Any,
        *,
        recorded_now: bool = False,
    ) -> License:
        """Return the license of a permit, its context completed by execution, attempt and the precondition's token."""
        told = replace(context, ref=str(execution.id), attempt=permit.number, token=token)
        return cls(effect, execution, permit, told, recorded_now)


def send_row(row: Execution) -> ExecutionSnapshot:
    """Ask the precondition, get a permit, send: in the background, where nobody waits for it."""
    found = license_row(row, background=True)
    return send(found) if isinstance(found, License) else found


def license_row(
    row: Execution, handle: RequestHandle | None = None, *, background: bool = False
) -> License | ExecutionSnapshot:
    """*Commits.* Ask the precondition, get a permit; without one return the execution as it stands then."""
    if row.contract.get("secrets"):
        return refuse_without_secret(row.pk) if row.state == ExecutionState.PENDING else snapshot(row)
    # before the effect's own methods are asked: they may refuse, and other code's rows are not theirs to end
    effect = transitions.effect_of(row)
    payload = effect.load(row.payload, row.payload_version)
    context = context_of(row, payload)
    ready = ask_precondition(effect, context)
    if isinstance(ready, Refuse):
        execution = transitions.refuse(row.pk, ready.reason)
        after_change(execution)
        return execution
    if isinstance(ready, Later):
        return transitions.postpone_send(row.pk, ready.after, ready.reason)
    summary = summary_as_json(effect.describe(context))
    attempt, started = new_id(), monotonic()
    decision = write_before_send(
        lambda: transitions.permit(
            row.pk, attempt=attempt, started=started, summary=summary, handle=handle, background=background
        )
    )
    if decision.permit is None:
        after_change(decision.execution)
        return decision.execution
    announce(decision.execution)
    return License.of(effect, decision.execution, decision.permit, context, ready.token)


def refuse_without_secret(execution_id: UUID, reason: str = "") -> ExecutionSnapshot:
    """End a pending execution whose payload held a secret: the call that had it did not send it, and nobody else can.

    Args:
        execution_id: which.
        reason: of the precondition, where that stood before the send.
    """
    why = "it cannot wait: its payload held a secret, and only the call that brought it could send it"
    execution = transitions.refuse(execution_id, f"{reason}; {why}" if reason else why)
    after_change(execution)
    return execution


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


def ask_precondition(effect: Effect[Any], context: Context[Any]) -> Precondition:
    """Ask whether it may be sent now; a precondition that raises is a refusal, said so."""
    try:
        with without_request():
            answer: Any = effect.precondition(context)
    except Exception as error:  # the project's code: nothing was sent, and nothing may hang on it for ever
        if is_interrupt(error):
            raise  # the process's time is up, which is no answer
        log.exception("The precondition of %s %s raised; it is refused.", effect.operation, context.ref)
        return Refuse(f"the precondition raised {clean_error(error)}")
    if isinstance(answer, Precondition) and not (isinstance(answer, Later) and not isinstance(answer.after, timedelta)):
        return answer
    return Refuse(f"the precondition returned {answer!r:.200}, not Proceed, Refuse or Later(timedelta)")


def send(granted: License) -> ExecutionSnapshot:
    """Make the one call that a permit licenses, and record what is known of it, whatever happens.

    Raises:
        OutcomeUnrecordedError: it may have happened, and the journal takes no outcome.
    """
    reach("send.before_call")
    report, interrupt = _call(granted.effect, granted.context, granted.permit)
    reach("send.replied")
    try:
        result = record_report(granted, report)
    except OutcomeUnrecordedError as error:
        if interrupt is not None:
            raise interrupt from error
        raise
    if interrupt is not None:
        raise interrupt
    return result


def record_report(granted: License, report: Report) -> ExecutionSnapshot:
    """*Commits.* Record what became of a licensed call, for as long as it takes, and tell observers and requests.

    Under a lease that was taken over the news is kept as evidence.

    Raises:
        OutcomeUnrecordedError: the journal takes no outcome.
    """
    execution, permit = granted.execution, granted.permit
    try:
        result = _record(execution, permit, report)
    except (JournalUnavailableError, Error) as error:
        raise OutcomeUnrecordedError(
            f"{execution.operation} {execution.id} was sent, and what became of it could not be recorded: {error}"
        ) from error
    if granted.recorded_now and result.receipt_count == execution.receipt_count + 1 and result.hook_due_at is None:
        announce(result)
    else:
        after_change(result)
    return result


def _record(execution: ExecutionSnapshot, permit: Permit, report: Report) -> ExecutionSnapshot:
    """Record what became of a send, or keep its news where the lease was taken over."""
    try:
        return write_until_done(
            lambda: transitions.record_outcome(execution.id, attempt=permit.attempt, epoch=permit.epoch, report=report)
        )
    except FencedError:
        log.warning("The lease of %s %s was taken over; its news is kept.", execution.operation, execution.id)
        return write_until_done(lambda: transitions.late_outcome(execution.id, attempt=permit.attempt, report=report))


def _call(effect: Effect[Any], context: Context[Any], permit: Permit) -> tuple[Report, BaseException | None]:
    """Call `send`; return what it reported and the interrupt that must go on afterwards."""
    if permit.remaining() <= timedelta(0):
        return NotSentInTime(), None
    call = effect.compensate if context.compensates else effect.send
    try:
        # the effect's own code is not the handler that performs it
        with without_request():
            answer: Any = call(context, permit)
    except BaseException as error:  # noqa: BLE001 - an interrupt too: what was sent is in doubt, then it goes on
        failure = classify(error)
        log.info("%s %s: %s (%s)", effect.operation, context.ref, failure.reason, failure.code)
        return failure, error if is_interrupt(error) else None
    return read_answer(answer), None


def _verify(effect: Effect[Any], row: Execution) -> Verdict:
    """Call `verify`; what it raises is no evidence: a broken connection is unreachable, anything else inconclusive."""
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
    return read_verdict(verdict)
