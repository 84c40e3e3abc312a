"""What became of permitted sends: an execution's way out of `executing`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from effects.declarations.effect import get_effect
from effects.journal import outputs
from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.redaction import redact_output
from effects.journal.snapshots import WORD_OF, ExecutionSnapshot, snapshot
from effects.models import Attempt, Execution
from effects.transitions import _licences, digests
from effects.transitions._rows import advance, settles
from effects.transitions.permits import may_resend
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError, FencedError
from effects.vocabulary.failures import FailureClass
from effects.vocabulary.foreign import hold_interrupt
from effects.vocabulary.states import AttemptOutcome, ExecutionReason, ExecutionState
from effects.vocabulary.types import Applied, Item, Partial, SendResult, Submitted

__all__ = [
    "EXPECT_WITHIN",
    "UNDONE",
    "NotSentInTime",
    "Report",
    "beside",
    "complete_row",
    "expire_lease",
    "is_undone",
    "proof_of_undoing",
    "record_outcome",
    "references_on_file",
    "retry_delay",
    "without_word",
]

#: How long a submitted order may take where the effect does not say.
EXPECT_WITHIN = timedelta(days=7)
UNDONE = "it happened, and was undone at the provider"
KEY_REUSED = "the provider knows this key from a request with other contents"
_S, _R = ExecutionState, ExecutionReason


@dataclass(frozen=True)
class NotSentInTime:
    """The permit's deadline passed before sending began: no doubt at all."""


#: What a sender reports: what the provider answered, what its failure proves, or that nothing was sent.
Report = SendResult | FailureClass | NotSentInTime


@settles
def record_outcome(execution_id: UUID, *, attempt: UUID, epoch: int, report: Report) -> ExecutionSnapshot:
    """*Commits.* Record what became of a permitted send, and settle the execution if that settles it.

    Locked: the execution. Repeated with the same attempt and outcome it returns the present snapshot.

    Args:
        execution_id: which.
        attempt: the permit's attempt.
        epoch: the permit's epoch.
        report: what the provider answered, what the failure proves, or that nothing was sent.

    Raises:
        FencedError: the lease was taken over; the news belongs in `late_outcome`. The effect may have happened.
    """
    with commits("recording an outcome"):
        row = lock_execution(execution_id)
        if row.state != _S.EXECUTING or row.epoch != epoch:
            _repeat_or_fence(row, attempt, epoch, report)
        else:
            _record(row, attempt, report)
    # after the commit: reading an output may run the project's code
    return snapshot(row)


def _record(row: Execution, attempt: UUID, report: Report) -> None:
    match report:
        case Applied() | Partial():
            _complete(row, attempt, report)
        case Submitted():
            _submit(row, attempt, report)
        case NotSentInTime():
            _not_sent(row, attempt)
        case FailureClass():
            _record_failure(row, attempt, report)


def expire_lease(execution_id: UUID) -> ExecutionSnapshot:
    """*Commits.* Put a send in doubt whose lease is past: its process may have died on either side of the call.

    Locked: the execution; the lease is compared with the clock read after the lock. A live lease changes nothing.
    """
    with commits("expiring a lease"):
        row = lock_execution(execution_id)
        if row.state == _S.EXECUTING and row.lease_expires_at and row.lease_expires_at <= row.locked_at:
            open_attempt = row.attempt_rows.get(outcome=str(AttemptOutcome.OPEN))
            _end_attempt(row, open_attempt.pk, AttemptOutcome.UNKNOWN, reason=_R.LEASE_EXPIRED)
            _into_doubt(row, "expire_lease", _R.LEASE_EXPIRED, {"attempt": open_attempt.number})
        return snapshot(row)


def retry_delay(row: Execution, floor: timedelta | None = None) -> timedelta:
    """Return when the next attempt may start: doubling, with jitter in [d/2, d], never before the provider's wish."""
    retry = row.contract["retry"]
    # the exponent is bounded, since a float overflows beyond 1023
    delay = min(retry["first"] * 2.0 ** min(max(row.attempts - 1, 0), 64), retry["ceiling"])
    jittered = timedelta(seconds=random.uniform(delay / 2, delay))  # noqa: S311 - no secret
    return max(jittered, floor or timedelta(0))


def _repeat_or_fence(row: Execution, attempt: UUID, epoch: int, report: Report) -> None:
    """Accept a report that was recorded already; refuse any other one of an attempt that is no longer ours."""
    known = row.attempt_rows.filter(pk=attempt, epoch=epoch).first()
    if known is not None and known.ended_at is not None and known.outcome == str(_outcome_of(report, known)):
        return
    error = FencedError(
        f"{row.operation} {row.pk} is {row.state} under epoch {row.epoch}; attempt {attempt} holds epoch {epoch}. Its "
        "news is kept as evidence."
    )
    error.effect_may_have_happened = True
    raise error


def _outcome_of(report: Report, known: Attempt) -> AttemptOutcome:
    match report:
        case Applied() | Partial():
            return AttemptOutcome.APPLIED
        case Submitted():
            return AttemptOutcome.SUBMITTED
        case NotSentInTime():
            return AttemptOutcome.NOT_SENT
        case FailureClass(not_applied=True, reason=ExecutionReason.NOT_SENT):
            return AttemptOutcome.NOT_SENT
        case FailureClass(not_applied=True):
            return AttemptOutcome.NOT_APPLIED
    # an expired lease wrote "unknown" too; that is not this report, whose failure class names itself
    same = known.failure_reason == str(report.reason)
    return AttemptOutcome.UNKNOWN if same else AttemptOutcome.OPEN


def _end_attempt(
    row: Execution,
    attempt: UUID,
    outcome: AttemptOutcome,
    *,
    reference: str = "",
    reason: str = "",
    code: str = "",
    message: str = "",
) -> None:
    ended: datetime = row.locked_at
    permitted = row.attempt_rows.filter(pk=attempt, outcome=str(AttemptOutcome.OPEN))
    row.exposed_until = max(row.exposed_until or ended, ended)
    reference, code, message = (
        canonical.clean_reference(reference), canonical.clean_text(code, 100), canonical.clean_text(message, 2000),
    )  # fmt: skip
    found = permitted.update(
        outcome=str(outcome), ended_at=ended, reference=reference, failure_reason=str(reason), failure_code=code,
        message=message,
    )  # fmt: skip
    if not found:
        raise FencedError(f"Attempt {attempt} is not the open one of {row.operation} {row.pk}.")
    # the open one is the newest
    digests.tell_end(
        row, row.attempts, str(outcome), reference=reference, reason=str(reason), code=code, message=message
    )


def references_on_file(row: Execution) -> set[str]:
    """Return the provider's references that we hold for an execution; more than one is a person's."""
    evidence = row.applied_evidence or {}
    held = (row.reference, evidence.get("reference"), evidence.get("other_reference"))
    return {str(reference) for reference in held if reference}


def beside(row: Execution, reference: str) -> dict[str, Any]:
    """Return the proof on file together with one more reference of something that happened."""
    on_file = row.applied_evidence
    return {"reference": reference} if on_file is None else {**without_word(on_file), "other_reference": reference}


def without_word(on_file: dict[str, Any]) -> dict[str, Any]:
    """Return proof as it stands once a program has found the same, or more: no longer a person's word alone."""
    return {name: value for name, value in on_file.items() if name != WORD_OF}


def is_undone(row: Execution) -> bool:
    """Return whether evidence is on file that it was undone at the provider: that it happened is not all, then."""
    return bool((row.applied_evidence or {}).get("undone"))


def proof_of_undoing(row: Execution, reference: str) -> dict[str, Any] | None:
    """Return the proof that what is said to have happened was undone: on file, or told of this very object by news.

    Such news is final, and an answer that says otherwise is older: a late one, one repeated under its key, a list that
    lags. None where nobody says so.
    """
    if is_undone(row):
        return without_word(row.applied_evidence or {})
    told = row.receipts.filter(event="observe", evidence__says="undone", evidence__reference=reference)
    if not (reference and told.exists()):
        return None
    return {**without_word(row.applied_evidence or {}), "reference": reference, "undone": True}


def _complete(row: Execution, attempt: UUID, report: Applied | Partial) -> None:
    _end_attempt(row, attempt, AttemptOutcome.APPLIED, reference=report.reference)
    reference = canonical.clean_reference(report.reference)
    second = row.applied_evidence is not None and not references_on_file(row) <= {reference}
    # of a first attempt nobody could have told before
    undone = proof_of_undoing(row, reference) if row.attempts > 1 or is_undone(row) else None
    if second or undone:
        # while it was under way an earlier attempt was proven to have applied, as something else, or it was undone
        why = "two references for one execution" if second else UNDONE
        evidence = {"why": why, "reference": reference, "on_file": row.applied_evidence}
        _call_person(row, evidence, applied_evidence=beside(row, reference) if second else undone)
        return
    complete_row(row, "complete", ExecutionReason.SENT, report, {"attempt": row.attempts})


def complete_row(
    row: Execution,
    verb: str,
    reason: ExecutionReason,
    report: Applied | Partial,
    evidence: dict[str, Any],
    *,
    on_file: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Settle a locked row as completed, from an answer, a look-up or a person: then `on_file` is their word."""
    if row.state == _S.NEEDS_INTERVENTION:
        _licences.lapse_live(row)  # a resend that was ordered meanwhile
    partial = isinstance(report, Partial) and not all(item.applied for item in report.items)
    items = [_item_as_json(item) for item in report.items] if isinstance(report, Partial) else None
    reference = canonical.clean_reference(report.reference)
    proof = on_file or (row.applied_evidence and without_word(row.applied_evidence))
    advance(
        row, verb, _S.PARTIALLY_COMPLETED if partial else _S.COMPLETED, reason=reason,
        # first, since a long proof is cut
        evidence={"reference": reference} | evidence | {"reference": reference}, may_have_applied=True,
        open_attempts=0, lease_expires_at=None,
        output=output_text(report.output), output_version=_output_version(row), reference=reference or row.reference,
        items=items, exposed_until=row.exposed_until,
        applied_evidence=proof, expect_by=None, failure_code="", failure_message="", **options,
    )  # fmt: skip


def _item_as_json(item: Item) -> dict[str, Any]:
    """Return one item, each text cleaned and none left out: as many as there are, they are read back one by one."""
    texts = {name: canonical.clean_text(getattr(item, name), 255) for name in ("key", "reference", "code", "message")}
    return {**texts, "applied": bool(item.applied)}


def _output_version(row: Execution) -> int:
    try:
        return get_effect(row.operation).output_version
    except EffectDefinitionError:  # resolved by a person after the effect was gone
        return row.output_version


def output_text(output: Any) -> str:
    """Return an output as canonical text, redacted; what cannot be kept exactly is cleaned: recording cannot fail."""
    try:
        # what was read in the transaction's way is data already; what a person resolves with is read here
        return outputs.dump_output(redact_output(outputs.as_data(output)[0]))
    except BaseException as error:  # noqa: BLE001 - the provider's object: whatever it holds, the outcome is recorded
        hold_interrupt(error)
        return outputs.dump_output(outputs.as_data(canonical.clean_json(output))[0])


def _submit(row: Execution, attempt: UUID, report: Submitted) -> None:
    _end_attempt(row, attempt, AttemptOutcome.SUBMITTED, reference=report.reference)
    reference = canonical.clean_reference(report.reference)
    expect_by = report.expect_by or row.locked_at + EXPECT_WITHIN
    # without a look-up only outside evidence can settle it, and no person is called before it should be there
    due = row.locked_at if row.contract["lookup"] is not None else expect_by
    advance(
        row, "submit", _S.ACCEPTED, reason=_R.SUBMITTED, evidence={"attempt": row.attempts, "reference": reference},
        may_have_applied=True, open_attempts=0, lease_expires_at=None, reference=reference or row.reference,
        due_at=due, expect_by=expect_by, exposed_until=row.exposed_until,
    )  # fmt: skip


def _not_sent(row: Execution, attempt: UUID) -> None:
    _end_attempt(row, attempt, AttemptOutcome.NOT_SENT, reason=_R.NOT_SENT)
    if row.may_have_applied:
        _into_doubt(row, "not_sent", _R.OLDER_DOUBT, {"attempt": row.attempts})
    elif row.attempts < row.contract["retry"]["attempts"]:
        _reschedule(row, "not_sent", _R.NOT_SENT, None, {"attempt": row.attempts, "why": "deadline passed unsent"})
    else:
        _fail(row, "not_sent", _R.ATTEMPTS_SPENT, "not_sent", "the deadline passed before sending began")


def _record_failure(row: Execution, attempt: UUID, failure: FailureClass) -> None:
    outcome = AttemptOutcome.UNKNOWN
    if failure.not_applied:
        sent = failure.reason is not ExecutionReason.NOT_SENT
        outcome = AttemptOutcome.NOT_APPLIED if sent else AttemptOutcome.NOT_SENT
    _end_attempt(
        row,
        attempt,
        outcome,
        reference=canonical.clean_text(failure.reference, 255),
        reason=failure.reason,
        code=failure.code,
        message=failure.message,
    )
    evidence = {"attempt": row.attempts, "code": failure.code, "message": canonical.clean_text(failure.message)}
    if failure.is_key_reused:
        _call_person(
            row, {"why": KEY_REUSED, **evidence}, failure_code=canonical.clean_text(failure.code, 100),
            failure_message=canonical.clean_text(failure.message, 2000),
        )  # fmt: skip
    elif not failure.not_applied:
        said: dict[str, Any] = {}
        if failure.unexpected:
            said["failure_code"] = canonical.clean_text(failure.code, 100)
            said["failure_message"] = canonical.clean_text(failure.message, 2000)
        _into_doubt(row, "doubt", failure.reason, evidence, not_before=failure.retry_after, **said)
    elif row.may_have_applied or row.applied_evidence is not None:
        # a refusal proves nothing about an earlier attempt that may have applied
        _into_doubt(row, "doubt", _R.OLDER_DOUBT, evidence, not_before=failure.retry_after)
    elif not failure.repeat:
        _fail(row, "fail", failure.reason, failure.code, failure.message)
    elif row.attempts < row.contract["retry"]["attempts"]:
        _reschedule(row, "reschedule", failure.reason, failure.retry_after, evidence)
    else:
        _fail(row, "fail", _R.ATTEMPTS_SPENT, failure.code, failure.message)


def _into_doubt(
    row: Execution,
    verb: str,
    reason: ExecutionReason,
    evidence: dict[str, Any],
    not_before: timedelta | None = None,
    **changes: Any,
) -> None:
    """May have applied: a look-up is due at once, another send where that is safe after the usual wait.

    Neither is due before the provider's wish.
    """
    wait = retry_delay(row, not_before) if may_resend(row) else not_before or timedelta(0)
    advance(
        row, verb, _S.UNCERTAIN, reason=reason, evidence=evidence, may_have_applied=True, open_attempts=0,
        lease_expires_at=None, due_at=row.locked_at + wait, exposed_until=row.exposed_until, **changes,
    )  # fmt: skip


def _call_person(row: Execution, evidence: dict[str, Any], **changes: Any) -> None:
    """May have applied, and what the provider says fits neither a yes nor a no: a person gets it at once."""
    _into_doubt(row, "doubt", _R.CONFLICT, evidence)
    advance(row, "escalate", _S.NEEDS_INTERVENTION, reason=_R.CONFLICT, evidence=evidence, due_at=None, **changes)


def _reschedule(
    row: Execution, verb: str, reason: ExecutionReason, floor: timedelta | None, evidence: dict[str, Any]
) -> None:
    advance(
        row, verb, _S.PENDING, reason=reason, evidence=evidence, open_attempts=0, lease_expires_at=None,
        due_at=row.locked_at + retry_delay(row, floor), exposed_until=row.exposed_until,
    )  # fmt: skip


def _fail(row: Execution, verb: str, reason: ExecutionReason, code: str, message: str) -> None:
    code, message = canonical.clean_text(code, 100), canonical.clean_text(message, 2000)
    advance(
        row, verb, _S.FAILED, reason=reason, evidence={"attempt": row.attempts, "code": code, "message": message},
        open_attempts=0, lease_expires_at=None, failure_code=code, failure_message=message,
        exposed_until=row.exposed_until,
    )  # fmt: skip
