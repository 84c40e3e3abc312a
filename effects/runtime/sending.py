"""Commit, call, commit: sending what is licensed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from effects import transitions
from effects.declarations.effect import Effect
from effects.journal import outputs
from effects.journal.commits import reaching, telling
from effects.journal.current import RequestHandle, without_request
from effects.journal.faults import reach
from effects.journal.logs import get_logger
from effects.journal.snapshots import ExecutionSnapshot, context_of, snapshot
from effects.journal.summaries import summary_of
from effects.journal.writes import write_before_send, write_until_done
from effects.models import Execution
from effects.models.base import new_id
from effects.runtime.consequences import after_change
from effects.runtime.test_runs import UnscriptedCallError, refuse_real_call
from effects.transitions import NotSentInTime, Report
from effects.transitions.intents import Intent, context_of_intent
from effects.vocabulary.canonical import clean_error
from effects.vocabulary.exceptions import FencedError, OutcomeUnrecordedError
from effects.vocabulary.failures import FailureClass, NotSent, classify, is_interrupt, read_answer
from effects.vocabulary.states import ExecutionState
from effects.vocabulary.types import Applied, Context, Later, Partial, Permit, Precondition, Proceed, Refuse, monotonic

__all__ = ["License", "ask_precondition", "license_row", "record_report", "refuse_without_secret", "send", "send_row"]

log = get_logger("effects.sending")


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
        """Return the license of a permit, its context completed by execution, permit and the precondition's token."""
        told = replace(
            context, ref=str(execution.id), attempt=permit.number, provider_key=permit.provider_key, token=token
        )
        return cls(effect, execution, permit, told, recorded_now)


def license_intent(intent: Intent, handle: RequestHandle | None) -> License | ExecutionSnapshot:
    """*Commits.* Record, and get a permit in the same breath where nothing stands before it.

    Returns:
        The permit with what the call needs; or the execution as it stands, where this caller has nothing to send.
    """
    context = context_of_intent(intent)
    asks = intent.rule is None and not _is_known(intent)
    ready = ask_precondition(intent.effect, context) if asks else None
    attempt, started = new_id(), monotonic()
    first = attempt if isinstance(ready, Proceed) else None
    recorded = write_before_send(lambda: transitions.record(intent, handle=handle, attempt=first, started=started))
    execution = recorded.execution
    if recorded.permit is not None:
        token = ready.token if isinstance(ready, Proceed) else None
        return License.of(intent.effect, execution, recorded.permit, context, token, recorded_now=True)
    if execution.state is not ExecutionState.PENDING or not recorded.due:
        return execution
    if intent.holds_secrets:
        reason = ready.reason if isinstance(ready, Refuse | Later) else ""
        return refuse_without_secret(execution.id, reason)
    # recorded or met without a permit, and due: it goes on from the row
    with reaching("performing an effect"):
        row = Execution.objects.get(pk=execution.id)
    return license_row(row, handle)


def _is_known(intent: Intent) -> bool:
    """Return whether the key is taken, so that the precondition is asked once the row is due, and not before.

    Only where the project has a precondition does this cost a query.
    """
    if not intent.effect.has_precondition:
        return False
    with reaching("performing an effect"):
        held = Execution.objects.filter(binding=intent.binding, holds_key=True).values_list("pk", flat=True).first()
    return held is not None and held != intent.supersedes


def send_row(row: Execution) -> ExecutionSnapshot:
    """Ask the precondition, get a permit, send: in the background, where nobody waits for it."""
    found = license_row(row, background=True)
    return send(found) if isinstance(found, License) else found


def license_row(
    row: Execution, handle: RequestHandle | None = None, *, background: bool = False
) -> License | ExecutionSnapshot:
    """*Commits.* Ask the precondition, get a permit; without one return the execution as it stands then."""
    with telling(row.may_have_happened):
        return _license_row(row, handle, background=background)


def _license_row(row: Execution, handle: RequestHandle | None, *, background: bool) -> License | ExecutionSnapshot:
    if row.contract.get("secrets"):
        return refuse_without_secret(row.pk) if row.state == ExecutionState.PENDING else snapshot(row)
    # before the effect's own methods are asked: they may refuse, and other code's rows are not theirs to end
    effect = transitions.effect_of(row)
    payload = effect.load(row.payload, row.payload_version)
    # what is decided before the permit is the same before there is a row, and so a provider key
    context = replace(context_of(row, payload), provider_key="")
    ready = ask_precondition(effect, context)
    if isinstance(ready, Refuse):
        execution = transitions.refuse(row.pk, ready.reason)
        after_change(execution)
        return execution
    if isinstance(ready, Later):
        return transitions.postpone_send(row.pk, ready.after, ready.reason)
    summary = summary_of(effect, context)
    attempt, started = new_id(), monotonic()
    decision = write_before_send(
        lambda: transitions.permit(
            row.pk, attempt=attempt, started=started, summary=summary, handle=handle, background=background
        )
    )
    if decision.permit is None:
        after_change(decision.execution)
        return decision.execution
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
    """*Commits.* Record what became of a licensed call, for as long as it takes, and settle requests.

    Under a lease that was taken over the news is kept as evidence.

    Raises:
        OutcomeUnrecordedError: the journal takes no outcome.
    """
    execution, permit = granted.execution, granted.permit
    if isinstance(report, (Applied, Partial)):
        report = replace(report, output=outputs.plain(report.output, execution.operation, execution.id))
    try:
        result = write_until_done(lambda: _record(execution, permit, report))
    except Exception as error:
        if is_interrupt(error):
            raise
        raise OutcomeUnrecordedError(
            f"{execution.operation} {execution.id} was sent, and what became of it could not be recorded: {error}"
        ) from error
    waits = not granted.recorded_now or result.receipt_count != execution.receipt_count + 1
    if waits or result.hook_due_at is not None:
        after_change(result)
    return result


def _record(execution: ExecutionSnapshot, permit: Permit, report: Report) -> ExecutionSnapshot:
    """Record what became of a send, or keep its news where the lease was taken over."""
    try:
        return transitions.record_outcome(execution.id, attempt=permit.attempt, epoch=permit.epoch, report=report)
    except FencedError:
        log.warning("The lease of %s %s was taken over; its news is kept.", execution.operation, execution.id)
        return transitions.late_outcome(execution.id, attempt=permit.attempt, report=report)


def _call(effect: Effect[Any], context: Context[Any], permit: Permit) -> tuple[Report, BaseException | None]:
    """Call `send`; return what it reported and the interrupt that must go on afterwards."""
    if permit.remaining() <= timedelta(0):
        return NotSentInTime(), None
    call = effect.compensate if context.compensates else effect.send
    try:
        refuse_real_call(effect, "compensate" if context.compensates else "send")
    except UnscriptedCallError as error:
        return not_called(error), error
    try:
        # the effect's own code is not the handler that performs it
        with without_request():
            answer: Any = call(context, permit)
    except BaseException as error:  # noqa: BLE001 - an interrupt too: what was sent is in doubt, then it goes on
        failure = classify(error)
        log_failure(effect, context, failure, error)
        return failure, error if is_interrupt(error) else None
    report = read_answer(answer)
    log_failure(effect, context, report)
    return report, None


def not_called(error: UnscriptedCallError) -> FailureClass:
    """Return what is recorded of a send that a test run refused: that nothing was sent."""
    return classify(NotSent(str(error), code="unscripted_call"))


def log_failure(effect: Effect[Any], context: Context[Any], report: Report, error: BaseException | None = None) -> None:
    """Log how a send failed; what is most likely a mistake in the effect's code is an error, with its traceback."""
    if not isinstance(report, FailureClass):
        return
    if report.unexpected:
        log.error(
            "%s %s: the send raised what is no declared failure, so that it is in doubt: %s", effect.operation,
            context.ref, report.message, exc_info=error,
        )  # fmt: skip
    else:
        log.info("%s %s: %s (%s)", effect.operation, context.ref, report.reason, report.code)
