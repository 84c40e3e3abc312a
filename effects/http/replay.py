"""The idempotency decision, free of HTTP: run, replay, or say honestly why not.

`begin` opens the request or finds who holds its key; `decide` says what a request that was found means for the one
who asks. A decision is a frozen value; the HTTP side turns it into an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.db.models.functions import Now

from effects import transitions
from effects.conf import settings
from effects.declarations.effect import get_effect
from effects.journal.commits import reaching
from effects.journal.snapshots import RequestSnapshot, outcome_of
from effects.models import RequestExecution
from effects.transitions import Opened, Opening
from effects.vocabulary.exceptions import EffectDefinitionError
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.polling import RUNNING_HINT, hint
from effects.vocabulary.states import EXECUTION_SETTLED, ExecutionState, RequestReason, RequestState

__all__ = [
    "AtCapacity",
    "Compare",
    "Decision",
    "Ended",
    "Free",
    "InDoubt",
    "InProgress",
    "PolicyChanged",
    "Replay",
    "Reused",
    "Run",
    "Standing",
    "Waiting",
    "begin",
    "close_lost",
    "decide",
    "policy_changed",
    "safe_new_key",
    "standing_of",
]

#: Tells which parts of a request differ from a stored fingerprint; None: its definition is not known any more.
Compare = Callable[[int, Mapping[str, str]], "Sequence[str] | None"]

#: How often a key that a dead owner left is taken over in one request; each loss means that another one was faster.
TAKEOVERS = 3
#: Pauses between two looks of a duplicate that waits: the journal is polled, NOTIFY does not pass transaction poolers.
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5

_S = ExecutionState
#: The most doubtful speaks for all.
_SPEAKERS = (
    frozenset({_S.UNCERTAIN, _S.NEEDS_INTERVENTION}),
    frozenset({_S.AWAITING_APPROVAL, _S.ACCEPTED}),
    frozenset({_S.PENDING, _S.EXECUTING}),
)
_NOT_SENT_AGAIN = frozenset({_S.FAILED, _S.REJECTED})


@dataclass(frozen=True)
class Standing:
    """What is known of all that a request performed.

    Args:
        outcomes: of the executions that hold its answer, in the order in which they were performed.
        nothing_left: it performed something, and all of it, `perform_later` included, failed or was rejected and
            still holds its own key.
        foreign: an unsettled one was recorded under a declaration that this code may not touch.
        due_in: how long until the one that speaks is due, or the request where all are settled; None: at no set time.
    """

    outcomes: tuple[Outcome, ...] = ()
    nothing_left: bool = False
    foreign: bool = False
    due_in: timedelta | None = None

    @property
    def retry_after(self) -> timedelta | None:
        """When asking again makes sense: when what speaks is due, within bounds."""
        return hint(self.speaker.state if self.speaker else None, self.due_in)

    @property
    def speaker(self) -> Outcome | None:
        """The most doubtful unsettled outcome; None where all are settled."""
        for states in _SPEAKERS:
            for outcome in self.outcomes:
                if outcome.state in states:
                    return outcome
        return None


@dataclass(frozen=True)
class Run:
    """The request is ours: run the handler."""

    opened: Opened


@dataclass(frozen=True)
class Replay:
    """It was answered: the same status, headers and bytes again."""

    request: RequestSnapshot
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    code: ClassVar[str] = "operation_answered"


@dataclass(frozen=True)
class InProgress:
    """The first one is still running; `request` is None while it is not committed yet."""

    request: RequestSnapshot | None = None
    retry_after: timedelta = RUNNING_HINT
    code: ClassVar[str] = "operation_in_progress"


@dataclass(frozen=True)
class Waiting:
    """What it performed is under way: people must decide, or the provider took the order."""

    request: RequestSnapshot
    standing: Standing

    @property
    def code(self) -> str:
        """The code of the outcome that speaks."""
        return self.standing.speaker.problem_code if self.standing.speaker else "operation_pending"

    @property
    def retry_after(self) -> timedelta:
        """When asking again makes sense."""
        return self.standing.retry_after or RUNNING_HINT


@dataclass(frozen=True)
class InDoubt:
    """It may have happened; look-ups or people are on it."""

    request: RequestSnapshot
    standing: Standing
    code: ClassVar[str] = "operation_uncertain"


@dataclass(frozen=True)
class Reused:
    """The key stands for another request; `parts` differ."""

    parts: tuple[str, ...]
    code: ClassVar[str] = "idempotency_key_reused"


@dataclass(frozen=True)
class Ended:
    """It has ended, and there is no answer to replay."""

    request: RequestSnapshot
    code: str
    standing: Standing


@dataclass(frozen=True)
class Free:
    """It was released: its key may be used again."""

    request: RequestSnapshot
    code: ClassVar[str] = "operation_released"


@dataclass(frozen=True)
class AtCapacity:
    """The tenant is at a limit; nothing was opened."""

    code: ClassVar[str] = "execution_capacity"


@dataclass(frozen=True)
class PolicyChanged:
    """It was recorded under rules that this code does not know, or may not touch."""

    request: RequestSnapshot
    standing: Standing = Standing()
    code: ClassVar[str] = "operation_policy_changed"


Decision = Run | Replay | InProgress | Waiting | InDoubt | Reused | Ended | Free | PolicyChanged | AtCapacity


def begin(
    opening: Opening,
    *,
    compare: Compare,
    wait: timedelta = timedelta(0),
    open_request: Callable[[Opening], Opened] = transitions.open_request,
) -> Decision:
    """Open the request, or decide what the one that holds its key means for this caller.

    A replay costs one query and no commit. A running request whose lease is past by the database's clock is taken
    over first: where nothing can have happened its key is free again, and this caller runs.

    Args:
        opening: what to open.
        compare: compares this request with a stored fingerprint, by the definition that the row names.
        wait: how long a duplicate waits for the first to end.
        open_request: opens and, in a transactional view, runs within the same commit.

    Raises:
        JournalUnavailableError: nothing was recorded, or it cannot be proven.
    """
    deadline, pause = time.monotonic() + wait.total_seconds(), FIRST_PAUSE
    while True:
        decision = _begin_once(opening, compare, open_request)
        left = deadline - time.monotonic()
        if not isinstance(decision, InProgress) or left <= 0:
            return decision
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def decide(request: RequestSnapshot, now: datetime | None = None) -> Decision:
    """Return what a request that was found, its fingerprint agreeing, means for the one who asks.

    Args:
        request: as it was found.
        now: the database's clock then; None: an answer that has just been stored, so its retention is not past.

    Raises:
        JournalUnavailableError: what it performed cannot be read now.
    """
    with reaching("reading a request"):
        match request.state:
            case RequestState.RUNNING:
                return InProgress(request)
            case RequestState.RELEASED:
                return Free(request)
            case RequestState.WAITING | RequestState.IN_DOUBT:
                return _decide_unsettled(request)
            case _:
                return _decide_ended(request, now)


def policy_changed(request: RequestSnapshot) -> PolicyChanged:
    """Return what a request means that this code cannot compare with another: nobody may get its answer.

    Raises:
        JournalUnavailableError: what it performed cannot be read now.
    """
    with reaching("reading a request"):
        return PolicyChanged(request, standing_of(request))


def close_lost(request_id: UUID, *, epoch: int | None, asked: bool = False, why: str) -> RequestSnapshot:
    """*Commits.* Close a request whose handler was cut short, and settle it at once where `answer=` can.

    Args: as `transitions.abort`.

    Raises:
        RequestEndedError: somebody took it over before.
    """
    request = transitions.abort(request_id, epoch=epoch, asked=asked, why=why)
    if epoch is None:
        _doubt_left_behind(request)
    if request.state is RequestState.IN_DOUBT and not request.is_opaque:
        request = transitions.settle(request_id)
    return request


def standing_of(request: RequestSnapshot) -> Standing:
    """Return what is known of all that a request performed: one query."""
    links = (
        RequestExecution.objects.filter(request_id=request.id)
        .select_related("execution")
        .annotate(seen_at=Now())
        .order_by("position", "id")
    )
    outcomes, nothing_left, foreign = [], bool(links), False
    dues: dict[str, datetime | None] = {}
    for link in links:
        row = link.execution
        if row.state not in _NOT_SENT_AGAIN or not row.holds_key:
            nothing_left = False
        if link.holds:
            outcomes.append(outcome_of(row))
            dues[str(row.pk)] = row.due_at
            foreign = foreign or (row.state not in EXECUTION_SETTLED and _is_foreign(row))
    standing = Standing(tuple(outcomes), nothing_left, foreign)
    due = dues[standing.speaker.ref] if standing.speaker else request.due_at
    return replace(standing, due_in=due - links[0].seen_at) if due and links else standing


def safe_new_key(request: RequestSnapshot, standing: Standing) -> bool:
    """Return whether nothing was applied and nothing can be any more under this key.

    The request has ended and still holds its key, all that it performed failed or was rejected, and nothing else can
    be its handler's: an opaque view may have called out itself unless a person found that it did not, and rows of its
    own that stand behind an answer of success were applied too.
    """
    if not request.ended or not request.holds_key:
        return False
    if request.state is RequestState.RESOLVED:
        performed_nothing = not standing.outcomes
        return request.reason == RequestReason.NOT_APPLIED and (standing.nothing_left or performed_nothing)
    if request.is_opaque or request.local_writes or request.mode != "journaled":
        return False
    succeeded = request.answer is not None and request.answer[0] < 400
    return standing.nothing_left and not succeeded


def _begin_once(opening: Opening, compare: Compare, open_request: Callable[[Opening], Opened]) -> Decision:
    for _ in range(TAKEOVERS):
        opened = open_request(opening)
        if opened.made:
            return Run(opened)
        request = opened.request
        if request is None:
            return AtCapacity() if opened.full else InProgress()
        refused = _refuse_other(request, opening, compare)
        if refused is not None:
            return refused
        if not _is_left_behind(request, opened.now):
            return decide(request, opened.now)
        request = close_lost(request.id, epoch=None, why="the lease is past")
        if request.state is not RequestState.RELEASED:
            return decide(request, opened.now)
    return InProgress()


def _doubt_left_behind(request: RequestSnapshot) -> None:
    """*Commits.* Doubt what the dead owner was sending: without this the client hears "pending" until a sweep comes."""
    sending = RequestExecution.objects.filter(request_id=request.id, execution__state=str(_S.EXECUTING))
    for execution in sending.values_list("execution_id", flat=True):
        transitions.expire_lease(execution)


def _refuse_other(request: RequestSnapshot, opening: Opening, compare: Compare) -> Decision | None:
    if request.operation != opening.operation:
        return Reused(("operation",))
    parts = compare(request.fingerprint_version, request.fingerprint)
    if parts is None:
        return policy_changed(request)
    return Reused(tuple(parts)) if parts else None


def _is_left_behind(request: RequestSnapshot, now: datetime) -> bool:
    lease = request.lease_expires_at
    return request.state is RequestState.RUNNING and lease is not None and lease <= now


def _decide_unsettled(request: RequestSnapshot) -> Decision:
    standing = standing_of(request)
    if standing.foreign:
        return PolicyChanged(request, standing)
    speaker = standing.speaker
    if request.state is RequestState.IN_DOUBT or (speaker is not None and speaker.state in _SPEAKERS[0]):
        return InDoubt(request, standing)
    return Waiting(request, standing)


def _decide_ended(request: RequestSnapshot, now: datetime | None) -> Decision:
    past = now is not None and request.ended_at is not None and request.ended_at + settings.ANSWER_RETENTION < now
    if request.answer is not None and not past:
        status, headers, body = request.answer
        return Replay(request, status, tuple((name, value) for name, value in headers), body)
    standing = standing_of(request)
    if request.answer is not None or request.answer_missing == "expired":
        return Ended(request, "operation_result_expired", standing)
    return Ended(request, _code_without_answer(request, standing), standing)


def _code_without_answer(request: RequestSnapshot, standing: Standing) -> str:
    states = {outcome.state for outcome in standing.outcomes}
    if states & {_S.COMPLETED, _S.PARTIALLY_COMPLETED}:
        return "operation_result_unavailable"
    if request.state is RequestState.RESOLVED or _S.ABANDONED in states:
        return "operation_resolved"
    if not states:
        return "operation_result_unavailable"
    return "operation_not_applied" if _S.FAILED in states else "operation_rejected"


def _is_foreign(row: Any) -> bool:
    try:
        return get_effect(row.operation).safety_version != int(row.safety_version)
    except EffectDefinitionError:
        return True
