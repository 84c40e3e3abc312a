"""Both state machines of the journal, as data.

Constraints, admin filters, the docs' diagrams and the tests read these tables; `transitions` refuses whatever is not
in them. A state says what is known of the outside world, a reason says why we know it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "APPROVAL_LIVE",
    "EXECUTION_EDGES",
    "EXECUTION_IN_DOUBT",
    "EXECUTION_OPEN",
    "EXECUTION_SETTLED",
    "NOTHING_HAPPENED",
    "REQUEST_EDGES",
    "REQUEST_ENDED",
    "ApprovalPurpose",
    "ApprovalState",
    "AttemptOutcome",
    "Edge",
    "ExecutionReason",
    "ExecutionState",
    "NoticeEvent",
    "RequestReason",
    "RequestState",
    "Word",
    "allows",
    "values",
]


class Word(str, Enum):
    """A word of the vocabulary: compares, prints and stores as its value."""

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Return (value, label) pairs for model fields and filters."""
        return [(str(word.value), str(word.value).replace("_", " ")) for word in cls]


def values(words: Iterable[Word]) -> list[str]:
    """Return the stored values of `words`, sorted: for constraints, migrations and SQL."""
    return sorted(str(word.value) for word in words)


class RequestState(Word):
    """Where a protected HTTP request stands."""

    RUNNING = "running"  # a handler holds the lease
    WAITING = "waiting"  # the handler is done; a held execution is unsettled
    IN_DOUBT = "in_doubt"  # the handler was cut short and may have called out
    ANSWERED = "answered"  # has its answer, stored or not; ended
    RELEASED = "released"  # nothing was or can be sent, the key is free; ended
    RESOLVED = "resolved"  # closed by a person without an answer; ended


REQUEST_ENDED = frozenset({RequestState.ANSWERED, RequestState.RELEASED, RequestState.RESOLVED})


class RequestReason(Word):
    """Why a request is in its state."""

    NONE = ""
    HANDLER = "handler"
    EXECUTIONS_UNSETTLED = "executions_unsettled"
    HANDLER_FAILED = "handler_failed"
    LEASE_EXPIRED = "lease_expired"
    ANSWER_BUILT = "answer_built"
    NO_ANSWER = "no_answer"
    NOT_EXECUTED = "not_executed"
    HANDLER_RELEASED = "handler_released"
    OPERATOR = "operator"
    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"


class ExecutionState(Word):
    """What is known of one occurrence of an effect."""

    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    ACCEPTED = "accepted"
    UNCERTAIN = "uncertain"
    NEEDS_INTERVENTION = "needs_intervention"
    COMPLETED = "completed"
    PARTIALLY_COMPLETED = "partially_completed"
    FAILED = "failed"
    REJECTED = "rejected"
    ABANDONED = "abandoned"


_S = ExecutionState
EXECUTION_OPEN = frozenset({_S.PENDING, _S.AWAITING_APPROVAL, _S.EXECUTING})
EXECUTION_IN_DOUBT = frozenset({_S.ACCEPTED, _S.UNCERTAIN, _S.NEEDS_INTERVENTION})
EXECUTION_SETTLED = frozenset({_S.COMPLETED, _S.PARTIALLY_COMPLETED, _S.FAILED, _S.REJECTED, _S.ABANDONED})
#: States that say "nothing happened": `may_have_applied` can stand beside none of them.
NOTHING_HAPPENED = frozenset({_S.PENDING, _S.AWAITING_APPROVAL, _S.FAILED, _S.REJECTED})


class ExecutionReason(Word):
    """Why an execution is in its state."""

    NONE = ""
    # pending
    RETRY = "retry"
    NOT_SENT = "not_sent"
    ABSENT = "absent"
    APPROVED = "approved"
    LATER = "later"
    # awaiting_approval
    APPROVAL_REQUIRED = "approval_required"
    CONTENTS_CHANGED = "contents_changed"
    # failed, rejected
    DECLINED = "declined"
    INVALID_REQUEST = "invalid_request"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    STALE = "stale"
    ATTEMPTS_SPENT = "attempts_spent"
    PROVEN_FAILED = "proven_failed"
    DENIED = "denied"
    APPROVAL_EXPIRED = "approval_expired"
    WITHDRAWN = "withdrawn"
    LAPSED = "lapsed"
    PRECONDITION = "precondition"
    CANCELLED = "cancelled"
    # uncertain
    TIMEOUT = "timeout"
    NO_REPLY = "no_reply"
    PROVIDER_ERROR = "provider_error"
    INTERRUPTED = "interrupted"
    UNCLASSIFIED = "unclassified"
    LEASE_EXPIRED = "lease_expired"
    OLDER_DOUBT = "older_doubt"
    REOPENED = "reopened"
    # accepted
    SUBMITTED = "submitted"
    IN_PROGRESS = "in_progress"
    # needs_intervention, abandoned
    CONFLICT = "conflict"
    BUDGET_SPENT = "budget_spent"
    NO_PLAN = "no_plan"
    OVERDUE = "overdue"
    CONTRADICTED = "contradicted"
    # completed, partially_completed
    SENT = "sent"
    FOUND = "found"
    LATE_REPLY = "late_reply"
    OPERATOR = "operator"
    UNDONE = "undone"


class AttemptOutcome(Word):
    """How one permitted send ended."""

    OPEN = "open"
    APPLIED = "applied"
    SUBMITTED = "submitted"
    NOT_APPLIED = "not_applied"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


class ApprovalState(Word):
    """Where people's licence for one digest stands."""

    REQUESTED = "requested"
    GRANTED = "granted"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    LAPSED = "lapsed"
    SPENT = "spent"


APPROVAL_LIVE = frozenset({ApprovalState.REQUESTED, ApprovalState.GRANTED})


class ApprovalPurpose(Word):
    """What an approval licenses: the first sends, or another send of something in doubt."""

    SEND = "send"
    RESEND = "resend"


class NoticeEvent(Word):
    """What people are told about."""

    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_REMINDER = "approval_reminder"
    APPROVAL_GRANTED = "approval_granted"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_WITHDRAWN = "approval_withdrawn"
    APPROVAL_LAPSED = "approval_lapsed"
    NEEDS_PERSON = "needs_person"


@dataclass(frozen=True)
class Edge:
    """One verb: from which states, to which. Without any it creates the row; from `keeps` it changes no state."""

    sources: frozenset[Word]
    targets: frozenset[Word]
    keeps: frozenset[Word] = frozenset()

    def leads(self, source: Word) -> frozenset[Word]:
        """Return the states that the verb can lead to from `source`."""
        if source in self.keeps:
            return frozenset({source})
        return self.targets if source in self.sources else frozenset()


def _edge(sources: Iterable[Word], *targets: Word, keeps: Iterable[Word] = ()) -> Edge:
    return Edge(frozenset(sources) | frozenset(keeps), frozenset(targets), frozenset(keeps))


def _same(sources: Iterable[Word]) -> Edge:
    return _edge((), keeps=sources)


_R = RequestState
REQUEST_EDGES: dict[str, Edge] = {
    "open": _edge(set(), _R.RUNNING),
    "renew": _same({_R.RUNNING}),
    "suspend": _edge({_R.RUNNING}, _R.WAITING),
    "freeze": _edge({_R.RUNNING}, _R.ANSWERED),
    "release": _edge({_R.RUNNING}, _R.RELEASED),
    "lose": _edge({_R.RUNNING}, _R.WAITING, _R.IN_DOUBT),
    "settle": _edge({_R.WAITING, _R.IN_DOUBT}, _R.ANSWERED, _R.IN_DOUBT),
    "resolve": _edge({_R.IN_DOUBT}, _R.ANSWERED, _R.RESOLVED),
    "doubt_since": _edge({_R.RUNNING}, _R.IN_DOUBT),
    "drop_answer": _same({_R.ANSWERED}),
    "free_key": _same({_R.ANSWERED, _R.RESOLVED}),
}

_ALL = frozenset(ExecutionState)
_BEFORE_SEND: frozenset[Word] = frozenset({_S.PENDING, _S.AWAITING_APPROVAL})
#: Where an approval is for another send of something in doubt: only the approval changes.
_PERSON: frozenset[Word] = frozenset({_S.NEEDS_INTERVENTION})
EXECUTION_EDGES: dict[str, Edge] = {
    "record": _edge(set(), _S.PENDING, _S.AWAITING_APPROVAL),
    "join": _same(_ALL),
    "request_approval": _edge({_S.PENDING}, _S.AWAITING_APPROVAL, keeps=_PERSON),
    "vote": _same({_S.AWAITING_APPROVAL, _S.NEEDS_INTERVENTION}),
    "grant": _edge({_S.AWAITING_APPROVAL}, _S.PENDING, keeps=_PERSON),
    "void": _edge(_BEFORE_SEND, _S.AWAITING_APPROVAL),
    "deny": _edge(_BEFORE_SEND, _S.REJECTED, _S.FAILED, keeps=_PERSON),
    "expire": _edge(_BEFORE_SEND, _S.REJECTED, _S.FAILED, keeps=_PERSON),
    "withdraw": _edge(_BEFORE_SEND, _S.REJECTED, _S.FAILED, keeps=_PERSON),
    "lapse": _edge(_BEFORE_SEND, _S.REJECTED, _S.FAILED, keeps=_PERSON),
    "refuse": _edge({_S.PENDING}, _S.REJECTED, _S.FAILED),
    "postpone_send": _same({_S.PENDING}),
    "permit": _edge({_S.PENDING}, _S.EXECUTING),
    "resend": _edge({_S.UNCERTAIN, _S.NEEDS_INTERVENTION}, _S.EXECUTING),
    "complete": _edge({_S.EXECUTING}, _S.COMPLETED, _S.PARTIALLY_COMPLETED),
    "submit": _edge({_S.EXECUTING}, _S.ACCEPTED),
    "fail": _edge({_S.EXECUTING}, _S.FAILED),
    "reschedule": _edge({_S.EXECUTING}, _S.PENDING),
    "doubt": _edge({_S.EXECUTING}, _S.UNCERTAIN),
    "not_sent": _edge({_S.EXECUTING}, _S.PENDING, _S.UNCERTAIN, _S.FAILED),
    "expire_lease": _edge({_S.EXECUTING}, _S.UNCERTAIN),
    "claim": _same({_S.ACCEPTED, _S.UNCERTAIN}),
    "acknowledge": _edge({_S.ACCEPTED, _S.UNCERTAIN}, _S.ACCEPTED),
    "confirm": _edge(EXECUTION_IN_DOUBT, _S.COMPLETED, _S.PARTIALLY_COMPLETED),
    "confirm_failure": _edge({_S.UNCERTAIN, _S.ACCEPTED}, _S.FAILED),
    "confirm_absence": _edge({_S.UNCERTAIN, _S.ACCEPTED}, _S.FAILED, _S.PENDING),
    "postpone": _same({_S.ACCEPTED, _S.UNCERTAIN}),
    "escalate": _edge({_S.ACCEPTED, _S.UNCERTAIN}, _S.NEEDS_INTERVENTION, _S.ABANDONED),
    "resolve": _edge(EXECUTION_IN_DOUBT, _S.COMPLETED, _S.FAILED, _S.ABANDONED),
    "reopen": _edge({_S.NEEDS_INTERVENTION}, _S.UNCERTAIN),
    "order_resend": _same({_S.NEEDS_INTERVENTION}),
    "supersede": _same({_S.FAILED, _S.REJECTED}),
    "contradict": _edge(EXECUTION_SETTLED | _BEFORE_SEND, _S.NEEDS_INTERVENTION),
    "observe": _same(_ALL),
    "run_hook": _same(EXECUTION_SETTLED),
    "end_hook": _same(EXECUTION_SETTLED),
    "prune": _same(EXECUTION_SETTLED),
    # after a restore: what the journal forgot may have sent it, or sent it once more
    "doubt_since": _edge(EXECUTION_OPEN, _S.UNCERTAIN),
    "extend_doubt": _same(EXECUTION_IN_DOUBT),
}


def allows(edge: Edge, source: Word, target: Word) -> bool:
    """Return whether `edge` leads from `source` to `target`."""
    return target in edge.leads(source)
