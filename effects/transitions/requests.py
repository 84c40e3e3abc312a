"""Protected requests: opened, answered, released, lost, settled, resolved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from uuid import UUID

from django.db.models import Q, QuerySet

from effects.declarations.operations import NotFinished, StoredAnswer
from effects.journal.commits import commits
from effects.journal.locks import lock_request, lock_running_request
from effects.journal.snapshots import RequestSnapshot, outcome_of, request_snapshot
from effects.models import Execution, Request, RequestExecution
from effects.transitions import _decisions, _opening, digests
from effects.transitions._opening import Opened, Opening
from effects.transitions._rows import advance_request, settles
from effects.transitions.settlement import try_answer
from effects.vocabulary.exceptions import WrongStateError
from effects.vocabulary.foreign import present_try
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.states import (
    EXECUTION_SETTLED,
    NOTHING_HAPPENED,
    ExecutionState,
    RequestReason,
    RequestState,
    values,
)
from effects.vocabulary.types import Actor

__all__ = [
    "abort",
    "conclude",
    "freeze",
    "open_request",
    "release",
    "renew",
    "resolve_request",
    "settle",
]

_S, _R = RequestState, RequestReason
#: What a person may decide about a request in doubt.
DECISIONS = {str(word): word for word in (RequestReason.APPLIED, RequestReason.NOT_APPLIED, RequestReason.UNKNOWN)}
_SETTLED = values(EXECUTION_SETTLED)
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=2), timedelta(minutes=5)


def open_request(opening: Opening, *, joins: bool = False) -> Opened:
    """Open a request under its key, or find the one that holds it: one statement.

    *Commits* (journaled), or *joins* the caller's transaction (transactional: the row is never seen `running`). An
    advisory try-lock in the statement lets a duplicate of an uncommitted request learn "busy" at once.
    """
    with _scope(joins, "opening a request"):
        return _opening.open_or_find(opening)


def renew(held: Sequence[tuple[UUID, int]]) -> int:
    """Renew the leases of running requests, (id, epoch) each; return how many are still ours. No receipt: no change."""
    if not held:
        return 0
    with commits("renewing leases"):
        return _opening.renew(held)


def conclude(request_id: UUID, *, epoch: int, answer: StoredAnswer, joins: bool = False) -> RequestSnapshot:
    """The handler returned: freeze its answer, or wait for the executions that hold it back.

    *Commits*, or *joins* the transaction of `finishing()` or of a transactional view. Locked: the request.

    Raises:
        RequestEndedError: it was taken over; the handler's bytes must not reach the client.
    """
    with _scope(joins, "answering a request"):
        row = lock_running_request(request_id, epoch)
        if _held(row).exclude(execution__state__in=_SETTLED).exists():
            advance_request(
                row, "suspend", _S.WAITING, reason=_R.EXECUTIONS_UNSETTLED, handler_returned=True,
                due_at=row.locked_at + FIRST_LOOK,
            )  # fmt: skip
        else:
            _freeze(row, "freeze", answer, _R.HANDLER)
        return request_snapshot(row)


def freeze(opened: Opened, answer: StoredAnswer) -> RequestSnapshot:
    """*Joins.* Freeze the answer of a transactional request, opened in this very transaction."""
    row = opened.row
    _freeze(row, "freeze", answer, _R.HANDLER)
    return request_snapshot(row)


def release(request_id: UUID, *, epoch: int, asked: bool, joins: bool = False) -> RequestSnapshot | None:
    """Free the key of a request under which nothing was or can be sent; None where that is not proven.

    *Commits*, or *joins* the transaction of a transactional view whose rows are to stand. Locked: the request.

    Args:
        request_id: which.
        epoch: the handler's.
        asked: the handler said `release()`, which an opaque view or one with local writes must.
        joins: see above.
    """
    with _scope(joins, "releasing a request"):
        row = lock_running_request(request_id, epoch)
        if not _may_release(row, asked):
            return None
        _release(row, _R.HANDLER_RELEASED if asked else _R.NOT_EXECUTED)
        return request_snapshot(row)


def abort(request_id: UUID, *, epoch: int | None, asked: bool = False, why: str = "") -> RequestSnapshot:
    """*Commits.* The handler was cut short: release the key where nothing was or can be sent, else it is lost.

    Args:
        request_id: which.
        epoch: the handler's own; None: whoever finds that the lease is past.
        asked: the handler said `release()` before it was cut short.
        why: what cut it short.
    """
    with commits("closing a lost request"):
        row = lock_request(request_id) if epoch is None else lock_running_request(request_id, epoch)
        past = row.lease_expires_at is not None and row.lease_expires_at <= row.locked_at
        if row.state != _S.RUNNING or (epoch is None and not past):
            return request_snapshot(row)
        reason = _R.LEASE_EXPIRED if epoch is None else _R.HANDLER_FAILED
        if _may_release(row, asked):
            _release(row, reason)
            return request_snapshot(row)
        waits = not row.is_opaque and _held(row).exclude(execution__state__in=_SETTLED).exists()
        # a declared view with held executions heals itself; an opaque one is a person's from here on
        due = None if row.is_opaque else row.locked_at
        advance_request(
            row, "lose", _S.WAITING if waits else _S.IN_DOUBT, reason=reason, epoch=row.epoch + 1,
            evidence={"why": why}, due_at=due,
        )  # fmt: skip
        return request_snapshot(row)


@settles
def settle(request_id: UUID) -> RequestSnapshot:
    """*Commits.* Answer a request whose held executions have settled, their hooks having run; else look again later.

    Locked: the request. `answer=` runs in this transaction and may write rows.
    """
    with commits("settling a request"):
        row = lock_request(request_id)
        if row.state not in (_S.WAITING, _S.IN_DOUBT):
            return request_snapshot(row)
        held = list(
            Execution.objects.filter(links__request=row.pk, links__holds=True).order_by("links__position", "links__id")
        )
        if any(execution.state not in EXECUTION_SETTLED or execution.hook_due_at for execution in held):
            _look_again(row)
        elif not held or (row.is_opaque and not row.handler_returned):
            _give_up(row)
        else:
            _answer(row, held)
        return request_snapshot(row)


def resolve_request(
    request_id: UUID,
    *,
    decision: str,
    revision: int,
    decision_id: str,
    actor: Actor,
    reason: str,
    answer: StoredAnswer | None = None,
) -> RequestSnapshot:
    """*Commits.* Close a request in doubt by a person's decision; its held executions are settled first.

    Args:
        request_id: which.
        decision: applied, not_applied or unknown.
        revision: what the person saw.
        decision_id: repeated, it is the same decision.
        actor: who.
        reason: why, in their words.
        answer: what the client is to get; None: no answer.

    Raises:
        WrongStateError: not in doubt, or a held execution is unsettled; no such decision, or no reason.
        StaleRevisionError: it changed since.
    """
    if decision not in DECISIONS:
        raise WrongStateError(f"decision is one of {', '.join(DECISIONS)}, not {decision!r}")
    if not reason.strip():
        raise WrongStateError("A resolution needs a reason.")
    with commits("resolving a request"):
        row = lock_request(request_id)
        if _decisions.is_taken(row, decision_id):
            return request_snapshot(row)
        _decisions.check_revision(row, revision)
        if row.state != _S.IN_DOUBT:
            raise WrongStateError(f"Request {row.pk} is {row.state}; only what is in doubt is resolved.")
        if _held(row).exclude(execution__state__in=_SETTLED).exists():
            raise WrongStateError("An execution of this request is unsettled; resolve it first.")
        evidence = {"decision": decision, "reason": reason}
        _decisions.keep(row, decision, revision=revision, decision_id=decision_id, actor=actor, reason=reason)
        if answer is not None:
            _freeze(row, "resolve", answer, _R.OPERATOR, actor=actor, evidence=evidence)
        else:
            advance_request(
                row, "resolve", _S.RESOLVED, reason=DECISIONS[decision], actor=actor, evidence=evidence
            )  # fmt: skip
        return request_snapshot(row)


def _scope(joins: bool, what: str) -> AbstractContextManager[None]:
    return nullcontext() if joins else commits(what)


def _held(row: Request) -> QuerySet[RequestExecution]:
    return RequestExecution.objects.filter(request_id=row.pk, holds=True)


def _may_release(row: Request, asked: bool) -> bool:
    """Nothing linked was or can be sent, and no unseen effect or row can be the handler's."""
    if not asked and (row.is_opaque or row.local_writes):
        return False
    return not RequestExecution.objects.filter(
        ~Q(execution__state=str(ExecutionState.REJECTED)), request_id=row.pk
    ).exists()


def _release(row: Request, reason: RequestReason) -> None:
    advance_request(row, "release", _S.RELEASED, reason=reason, holds_key=False, epoch=row.epoch + 1)


def _freeze(row: Request, verb: str, answer: StoredAnswer, reason: RequestReason, **options: object) -> None:
    if answer.body is not None:
        digests.tell(row, "body", digests.digest_of_body(answer.body))
    advance_request(
        row, verb, _S.ANSWERED, reason=reason, answer_status=answer.status,
        answer_headers=[list(pair) for pair in answer.headers], answer_body=answer.body, answer_size=answer.size,
        answer_missing=answer.missing, answer_error="", handler_returned=row.handler_returned or verb == "freeze",
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def _look_again(row: Request, error: str = "") -> None:
    """Look again after half of the age, between 2 s and 5 min: settling also asks at once, this is the safety net."""
    delay = min(max((row.locked_at - row.created_at) / 2, FIRST_LOOK), LONGEST_LOOK)
    row.due_at, row.answer_error = row.locked_at + delay, error
    # the sweep's own mark would hold it back for longer
    Request.objects.filter(pk=row.pk).update(due_at=row.due_at, answer_error=error, swept_until=None)


def _give_up(row: Request) -> None:
    """A person's from here on."""
    if row.state == _S.WAITING:
        advance_request(row, "settle", _S.IN_DOUBT, reason=_reason_of(row), due_at=None)
    else:
        Request.objects.filter(pk=row.pk).update(due_at=None)


def _reason_of(row: Request) -> RequestReason:
    """Return why a request that settles without an answer is in doubt: whatever cut its handler short."""
    return _R(row.reason) if row.reason else _R.HANDLER_FAILED


def _nothing_happened(row: Request, held: list[Execution]) -> bool:
    return not row.is_opaque and all(execution.state in NOTHING_HAPPENED for execution in held)


def _answer(row: Request, held: list[Execution]) -> None:
    tried = present_try()
    if tried is not None and tried.left_out:
        # it broke the transaction of this very write, which is repeated without it
        _look_again(row, tried.blame or "it was interrupted")
        return
    built = try_answer(row.operation, row.tenant, [outcome_of(execution) for execution in held])
    if isinstance(built, StoredAnswer):
        _freeze(row, "settle", built, _R.ANSWER_BUILT)
    elif isinstance(built, str):
        _look_again(row, built)
    elif isinstance(built, NotFinished):
        _give_up(row)
    elif isinstance(built, Outcome) or row.handler_returned or _nothing_happened(row, held):
        # all is known, and nobody could add anything to it: the client is told what became of it
        advance_request(row, "settle", _S.ANSWERED, reason=_R.NO_ANSWER, answer_missing="not_built")
    else:
        _give_up(row)
