"""Commit, call, commit: performing effects, sending what is due, looking up what is in doubt."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import models, transaction

from effects import transitions
from effects._commits import after_commit, journal, refuse_open_transactions
from effects._current import RequestHandle, current, without_request
from effects.conf import settings
from effects.dispatch import send_hint
from effects.effect import Effect, get_effect
from effects.exceptions import (
    CommitLostError,
    EffectsError,
    FencedError,
    JournalUnavailableError,
)
from effects.failures import classify
from effects.intents import context_of_intent, digest_of_summary, make_intent, summary_as_json
from effects.models import Execution, RequestExecution
from effects.models.base import new_id
from effects.outcomes import Outcome
from effects.settlement import in_tenant
from effects.signals import announce
from effects.snapshots import ExecutionSnapshot, context_of, snapshot
from effects.states import REQUEST_ENDED, ExecutionState, RequestState, values
from effects.transitions import NotSentInTime, Report
from effects.types import (
    Actor,
    Context,
    Later,
    Permit,
    Precondition,
    Proceed,
    Refuse,
    SendResult,
    monotonic,
)
from effects.verdicts import Conflict, Inconclusive, Unreachable, Verdict

__all__ = ["look_up", "perform", "perform_later", "run", "settle_requests_of"]

log = logging.getLogger("effects.runner")
T = TypeVar("T")

#: Waits between two tries to write an outcome while the database is away; the last one repeats.
WRITE_WAITS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


def perform(
    effect: type[Effect[Any]] | str,
    *,
    payload: Any,
    key: str | None = None,
    requested_by: Any = None,
    on_behalf_of: Any = None,
    tenant: str | None = None,
    about: models.Model | None = None,
    require_approval: bool = False,
) -> Outcome:
    """Do the effect once for this key, and return what is known of it.

    Commits before the provider is called (record and permit) and after (the outcome, with your `settled` rows). If the
    key is known already nothing is sent again: its outcome is returned; a due one is sent on. Whatever happens to this
    process, the execution is then finished by the sweeps.

    Args:
        effect: a registered effect, or its operation.
        payload: what is sent: the effect's payload type, or a dict of its fields.
        key: what makes it one occurrence: "order-17". Inside a protected request it may be left out.
        requested_by: the user (or actor, or text) who asks; inside a protected request its own user by default.
        on_behalf_of: for whom they ask; may not approve it either.
        tenant: whose it is; the request's by default.
        about: your own object, for finding it again.
        require_approval: ask people even where the effect's rule does not.

    Returns:
        An `Outcome`: ask it for `require()`, or look at its class.

    Raises:
        OpenTransactionError: a transaction is open; use `perform_later` there. Nothing was written.
        PayloadError, KeyRequiredError, PayloadConflictError, NobodyEntitledError, DuplicatePerformError: nothing sent.
        UndeclaredEffectError, RequestEndedError: the request does not allow it; nothing sent.
        JournalUnavailableError: the record could not be proven committed; nothing was sent by this call.
    """
    refuse_open_transactions(f"effects.perform({_name(effect)})")
    found, handle = get_effect(effect), current()
    if handle is not None:
        handle.check_declared(found.operation)
    intent = _intent(found, handle, payload, key, requested_by, on_behalf_of, tenant, about, require_approval)
    early = None
    if intent.rule is None:
        early = _ask_precondition(found, context_of_intent(intent))
    attempt, started = new_id(), monotonic()
    first = attempt if isinstance(early, Proceed) else None
    recorded = _write_before_send(lambda: transitions.record(intent, handle=handle, attempt=first, started=started))
    execution = recorded.execution
    announce(execution)
    if recorded.permit is not None:
        token = early.token if isinstance(early, Proceed) else None
        context = context_of_intent(intent)
        return _send(found, execution, recorded.permit, context, token).outcome
    return _go_on(execution, handle)


def perform_later(
    effect: type[Effect[Any]] | str,
    *,
    payload: Any,
    key: str | None = None,
    requested_by: Any = None,
    on_behalf_of: Any = None,
    tenant: str | None = None,
    about: models.Model | None = None,
    require_approval: bool = False,
) -> Outcome:
    """Record the effect in the caller's transaction; it is sent after the commit, by a worker or a sweep.

    Joins: rolls back with the caller's rows. Does not hold back the answer of the request that it is called in.

    Args: as `perform`.

    Returns:
        `Pending` or `AwaitingApproval`, or the outcome of a known key.

    Raises:
        PayloadError, KeyRequiredError, PayloadConflictError, NobodyEntitledError: nothing was written.
    """
    found, handle = get_effect(effect), current()
    if handle is not None:
        handle.check_declared(found.operation)
    intent = _intent(found, handle, payload, key, requested_by, on_behalf_of, tenant, about, require_approval)
    with transaction.atomic(using=settings.DATABASE):
        execution = transitions.record_later(intent, handle=handle).execution
        after_commit(functools.partial(send_hint, str(execution.id)))
        after_commit(functools.partial(announce, execution))
    return execution.outcome


def run(execution_id: UUID) -> ExecutionSnapshot:
    """Send what is due of one execution, as a worker does: `describe` and `precondition` again, permit, call, outcome.

    A hint may be lost, doubled, late: whatever is not due, not licensed or held by another is left as it is.
    """
    refuse_open_transactions("effects.runner.run")
    row = Execution.objects.get(pk=execution_id)
    with in_tenant(row.tenant), without_request():
        return _send_row(row, None) if row.state == ExecutionState.PENDING else snapshot(row)


def look_up(execution_id: UUID, *, now: bool = False) -> ExecutionSnapshot:
    """Ask the provider about one execution in doubt, and do what its verdict allows.

    Claims a lease (commit), calls `verify` outside of any transaction, records the verdict (commit), then settles the
    requests that wait for it. Without a look-up it is sent again where repeating is safe, else a person is asked.

    Args:
        execution_id: which.
        now: a person asks, so it need not be due.
    """
    refuse_open_transactions("effects.runner.look_up")
    claimed = transitions.claim(execution_id, now=now)
    row = Execution.objects.get(pk=execution_id)
    if claimed is None:
        if row.state in (ExecutionState.UNCERTAIN, ExecutionState.ACCEPTED) and row.contract["lookup"] is None:
            with in_tenant(row.tenant), without_request():
                return _resend_or_escalate(row)
        return snapshot(row)
    with in_tenant(row.tenant), without_request():
        verdict = _verify(get_effect(row.operation), row)
    result = _write_until_done(lambda: transitions.apply_verdict(execution_id, epoch=claimed.epoch, verdict=verdict))
    after_change(result)
    if result.state == ExecutionState.PENDING:
        send_hint(str(execution_id))
    return result


def after_change(execution: ExecutionSnapshot) -> None:
    """Tell observers, and settle the requests that waited for an execution that is settled now."""
    announce(execution)
    if execution.settled and execution.hook_due_at is None:
        settle_requests_of(execution.id)


def settle_requests_of(execution_id: UUID) -> None:
    """Settle the requests that wait for this execution, each in a transaction of its own.

    Only a shortcut: what raises here stays due for the sweep.
    """
    waiting = RequestExecution.objects.filter(execution_id=execution_id, holds=True).exclude(
        request__state__in=[*values(REQUEST_ENDED), str(RequestState.RUNNING)]
    )
    for request_id in waiting.values_list("request_id", flat=True):
        try:
            transitions.settle(request_id)
        except EffectsError:
            log.exception("Request %s could not be settled now; the sweep will.", request_id)


def _intent(
    effect: Effect[Any],
    handle: RequestHandle | None,
    payload: Any,
    key: str | None,
    requested_by: Any,
    on_behalf_of: Any,
    tenant: str | None,
    about: models.Model | None,
    require_approval: bool,
) -> Any:
    if handle is not None:
        tenant = handle.tenant if tenant is None else tenant
        requested_by = handle.actor if requested_by is None else requested_by
    return make_intent(
        effect, payload, key=key, request=handle.id if handle else None, tenant=tenant or "",
        requested_by=Actor.of(requested_by), on_behalf_of=Actor.of(on_behalf_of), about=about,
        require_approval=require_approval,
    )  # fmt: skip


def _name(effect: type[Effect[Any]] | str) -> str:
    return effect if isinstance(effect, str) else effect.__name__


def _go_on(execution: ExecutionSnapshot, handle: RequestHandle | None) -> Outcome:
    """Send what was recorded or met without a permit, if it is pending and due; else return its outcome."""
    if execution.state is not ExecutionState.PENDING:
        return execution.outcome
    return _send_row(Execution.objects.get(pk=execution.id), handle).outcome


def _send_row(row: Execution, handle: RequestHandle | None) -> ExecutionSnapshot:
    """Ask the precondition, get a permit, send."""
    effect = get_effect(row.operation)
    payload = effect.load(row.payload, row.payload_version)
    context = context_of(row, payload)
    ready = _ask_precondition(effect, context)
    if isinstance(ready, Refuse):
        execution = transitions.refuse(row.pk, ready.reason)
        after_change(execution)
        return execution
    if isinstance(ready, Later):
        return transitions.postpone_send(row.pk, ready.after, ready.reason)
    summary_digest = digest_of_summary(summary_as_json(effect.describe(context)))
    attempt, started = new_id(), monotonic()
    decision = _write_before_send(
        lambda: transitions.permit(
            row.pk, attempt=attempt, started=started, summary_digest=summary_digest, handle=handle
        )
    )
    if decision.permit is None:
        after_change(decision.execution)
        return decision.execution
    announce(decision.execution)
    return _send(effect, decision.execution, decision.permit, context, ready.token)


def _resend_or_escalate(row: Execution) -> ExecutionSnapshot:
    """Send an execution in doubt without a look-up again where that is safe; otherwise it is a person's."""
    execution = _send_row(row, None)
    if execution.state is not ExecutionState.UNCERTAIN or execution.attempts != row.attempts:
        return execution
    execution = transitions.escalate_unplanned(row.pk)
    after_change(execution)
    return execution


def _ask_precondition(effect: Effect[Any], context: Context[Any]) -> Precondition:
    """Ask whether it may be sent now; a precondition that raises is a refusal, said so."""
    try:
        answer: Any = effect.precondition(context)
    except Exception as error:  # the project's code: nothing was sent, and nothing may hang on it for ever
        log.exception("The precondition of %s %s raised; it is refused.", effect.operation, context.ref)
        return Refuse(f"the precondition raised {type(error).__name__}: {error}")
    if isinstance(answer, Precondition):
        return answer
    return Refuse(f"the precondition returned {type(answer).__name__}, not Proceed, Refuse or Later")


def _send(
    effect: Effect[Any], execution: ExecutionSnapshot, permit: Permit, context: Context[Any], token: Any
) -> ExecutionSnapshot:
    """Make the one call that `permit` licenses, and record what is known of it, whatever happens."""
    context = replace(context, ref=str(execution.id), attempt=permit.number, token=token)
    report, interrupt = _call(effect, context, permit)
    try:
        result = _write_until_done(
            lambda: transitions.record_outcome(execution.id, attempt=permit.attempt, epoch=permit.epoch, report=report)
        )
    except FencedError:
        log.warning("The lease of %s %s was taken over; its news is kept.", execution.operation, execution.id)
        result = _write_until_done(
            lambda: transitions.late_outcome(execution.id, attempt=permit.attempt, report=report)
        )
    after_change(result)
    if interrupt is not None:
        raise interrupt
    return result


def _call(effect: Effect[Any], context: Context[Any], permit: Permit) -> tuple[Report, BaseException | None]:
    """Call `send`; return what it reported and the interrupt that must go on afterwards."""
    if permit.remaining() <= timedelta(0):
        return NotSentInTime(), None
    call = effect.compensate if context.compensates else effect.send
    try:
        answer: Any = call(context, permit)
    except BaseException as error:  # an interrupt too: what was sent is in doubt, then it goes on
        failure = classify(error)
        log.info("%s %s: %s (%s)", effect.operation, context.ref, failure.reason, failure.code)
        interrupted = not isinstance(error, Exception) or type(error).__name__ == "SoftTimeLimitExceeded"
        return failure, error if interrupted else None
    if isinstance(answer, SendResult):
        return answer, None
    return classify(TypeError(f"send() returned {type(answer).__name__}, not Applied, Partial or Submitted")), None


def _verify(effect: Effect[Any], row: Execution) -> Verdict:
    """Call `verify`; what it raises is no evidence: a broken connection is unreachable, anything else inconclusive."""
    try:
        payload = effect.load(row.payload, row.payload_version)
        verdict: Any = effect.verify(context_of(row, payload))
    except (ConnectionError, TimeoutError) as error:
        return Unreachable(f"{type(error).__name__}: {error}")
    except Exception as error:  # the project's code or its provider's: look again, then ask a person
        log.exception("The look-up of %s %s raised.", row.operation, row.pk)
        return Inconclusive(f"the look-up raised {type(error).__name__}: {error}")
    if isinstance(verdict, Verdict):
        return verdict
    return Conflict(f"verify() returned {type(verdict).__name__}, which is no verdict")


def _write_before_send(write: Callable[[], T]) -> T:
    """Write what must be committed before the call: once more if the database says that nothing was committed."""
    try:
        return write()
    except CommitLostError:
        return write()


def _write_until_done(write: Callable[[], T]) -> T:
    """Write what is known after the call, on fresh connections, for as long as this process lives.

    The call is never repeated. Inside a test case's transaction there is no fresh connection to hope for.
    """
    waits = iter(WRITE_WAITS)
    wait = 0.0
    while True:
        try:
            return write()
        except JournalUnavailableError:
            if journal().in_atomic_block:
                raise
            wait = next(waits, wait)
            log.exception("The outcome cannot be recorded yet; trying again in %s s.", wait)
            journal().close()
            # the database is away and nothing announces its return
            time.sleep(wait)
