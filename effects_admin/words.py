"""The journal's words in plain sentences: states, reasons, events. A test holds them complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effects.models import Receipt
from effects.vocabulary.states import ApprovalState, ExecutionReason, ExecutionState, RequestReason, RequestState

__all__ = [
    "APPROVAL_MEANINGS",
    "DECISIONS",
    "EVENTS",
    "EXECUTION_MEANINGS",
    "REASONS",
    "REQUEST_DECISIONS",
    "REQUEST_MEANINGS",
    "STATEMENTS",
    "headline",
    "label",
    "tone",
]

_S, _R, _A = ExecutionState, RequestState, ApprovalState

EXECUTION_MEANINGS: Mapping[str, str] = {
    _S.PENDING: "Recorded and not sent; it is sent when it is due.",
    _S.AWAITING_APPROVAL: "People decide first; nothing is sent before.",
    _S.EXECUTING: "A permitted send is under way.",
    _S.ACCEPTED: "The provider took the order; the proof that it was carried out is still missing.",
    _S.UNCERTAIN: "It may have happened, and nobody knows yet. It is never sent again on a guess.",
    _S.NEEDS_INTERVENTION: "It may have happened, and no look-up decides it: a person has to.",
    _S.COMPLETED: "It happened, and the proof is on file.",
    _S.PARTIALLY_COMPLETED: "Some items happened and the others did not; nothing is in doubt.",
    _S.FAILED: "It did not happen, over all attempts.",
    _S.REJECTED: "It was never sent.",
    _S.ABANDONED: "Nobody will know whether it happened. Its key stays taken, so it is never sent again.",
}
REQUEST_MEANINGS: Mapping[str, str] = {
    _R.RUNNING: "Its handler is at work and holds the lease.",
    _R.WAITING: "Its handler is done; its answer waits for an execution that is not settled.",
    _R.IN_DOUBT: "Its handler was cut short and may have called out. It is never run again.",
    _R.ANSWERED: "It has its answer; a retry with the same key gets the same one.",
    _R.RELEASED: "Nothing was sent and nothing can be; the client may use the key again.",
    _R.RESOLVED: "A person closed it without an answer.",
}
APPROVAL_MEANINGS: Mapping[str, str] = {
    _A.REQUESTED: "People have not decided yet.",
    _A.GRANTED: "Approved and not used yet.",
    _A.DENIED: "Somebody refused; nothing is sent under it.",
    _A.EXPIRED: "Nobody decided in time; nothing is sent under it.",
    _A.WITHDRAWN: "It was taken back; nothing is sent under it.",
    _A.LAPSED: "It ended unused: its time was over, its contents changed, or an approver lost the right.",
    _A.SPENT: "It was used for a send; it is worth no other one unless its rule covers retries.",
}
#: Short reasons, beside a state's name.
REASONS: Mapping[str, str] = {
    ExecutionReason.RETRY: "the provider said “not now”",
    ExecutionReason.NOT_SENT: "the last try never left this machine",
    ExecutionReason.ABSENT: "the provider has no trace of the last try",
    ExecutionReason.APPROVED: "approved",
    ExecutionReason.LATER: "its precondition said “later”",
    ExecutionReason.APPROVAL_REQUIRED: "its rule asks for an approval",
    ExecutionReason.CONTENTS_CHANGED: "its contents changed after people had voted",
    ExecutionReason.DECLINED: "declined by the provider",
    ExecutionReason.INVALID_REQUEST: "the provider found the request invalid",
    ExecutionReason.UNAUTHENTICATED: "the provider did not accept our credentials",
    ExecutionReason.FORBIDDEN: "the provider does not let us",
    ExecutionReason.STALE: "what it acts on had changed",
    ExecutionReason.ATTEMPTS_SPENT: "all tries are spent",
    ExecutionReason.PROVEN_FAILED: "the provider's own record says that it failed",
    ExecutionReason.DENIED: "an approver refused",
    ExecutionReason.APPROVAL_EXPIRED: "nobody decided in time",
    ExecutionReason.WITHDRAWN: "the request for approval was withdrawn",
    ExecutionReason.LAPSED: "the approval was not used in time, or an approver lost the right",
    ExecutionReason.PRECONDITION: "its precondition refused",
    ExecutionReason.CANCELLED: "cancelled by a person",
    ExecutionReason.TIMEOUT: "no answer in time",
    ExecutionReason.NO_REPLY: "the connection broke after sending",
    ExecutionReason.PROVIDER_ERROR: "the provider answered with an error that proves nothing",
    ExecutionReason.INTERRUPTED: "the sender was interrupted",
    ExecutionReason.UNCLASSIFIED: "an error that proves nothing",
    ExecutionReason.LEASE_EXPIRED: "whoever worked on it was not heard of again",
    ExecutionReason.OLDER_DOUBT: "an earlier send is still in doubt",
    ExecutionReason.REOPENED: "reopened by a person",
    ExecutionReason.SUBMITTED: "the provider took the order",
    ExecutionReason.IN_PROGRESS: "the provider is working on it",
    ExecutionReason.CONFLICT: "what was found contradicts what was asked for",
    ExecutionReason.BUDGET_SPENT: "the look-ups could not decide",
    ExecutionReason.NO_PLAN: "the provider cannot be asked",
    ExecutionReason.OVERDUE: "the provider is overdue",
    ExecutionReason.CONTRADICTED: "evidence contradicts what was recorded",
    ExecutionReason.SENT: "the provider's answer is the proof",
    ExecutionReason.FOUND: "found by a look-up",
    ExecutionReason.LATE_REPLY: "proven by the sender's late reply",
    ExecutionReason.OPERATOR: "decided by a person",
    ExecutionReason.UNDONE: "it happened and was undone at the provider",
    RequestReason.HANDLER: "by its handler",
    RequestReason.EXECUTIONS_UNSETTLED: "an execution is not settled",
    RequestReason.HANDLER_FAILED: "the handler raised an error",
    RequestReason.ANSWER_BUILT: "the answer was built from the outcomes",
    RequestReason.NO_ANSWER: "no answer could be built",
    RequestReason.NOT_EXECUTED: "nothing was sent",
    RequestReason.HANDLER_RELEASED: "the handler released the key",
    RequestReason.APPLIED: "a person decided: it happened",
    RequestReason.NOT_APPLIED: "a person decided: it did not happen",
    RequestReason.UNKNOWN: "a person decided: nobody will know",
}
#: What each verb's receipt says; braces name evidence, filled by `headline` with plain text.
EVENTS: Mapping[str, str] = {
    "record": "Recorded",
    "join": "Asked for again with the same key and the same contents",
    "request_approval": "Approval requested",
    "vote": "Approved: {votes} of {quorum}",
    "grant": "Approved: {votes} of {quorum}, the licence is granted",
    "void": "The contents changed: the approval is void and a new one requested",
    "deny": "Denied",
    "expire": "Nobody decided in time",
    "withdraw": "Withdrawn before it was sent",
    "lapse": "The approval ended unused",
    "refuse": "Refused before it was sent",
    "postpone_send": "Put off",
    "permit": "Send no. {attempt} permitted",
    "resend": "Send no. {attempt} permitted, under the same provider key",
    "complete": "The provider answered: it happened",
    "submit": "The provider took the order",
    "fail": "The provider refused: it did not happen",
    "reschedule": "Not applied; it is tried again",
    "doubt": "No answer that proves anything: in doubt",
    "not_sent": "Its deadline passed before sending began: nothing was sent",
    "expire_lease": "The sender was not heard of again: in doubt",
    "claim": "Asking the provider what became of it",
    "acknowledge": "Look-up: the provider is still working on it",
    "confirm": "Look-up: found, it happened",
    "confirm_failure": "Look-up: proven that it did not happen",
    "confirm_absence": "Look-up: no trace of it, and none can come any more",
    "postpone": "Put off, to be worked on again later",
    "escalate": "Handed to a person",
    "resolve": "Resolved by a person, and nothing checked it: {decision}",
    "reopen": "Reopened: the provider is asked again",
    "order_resend": "Another send ordered",
    "supersede": "Its key passed to a successor",
    "contradict": "Contradicted: it is a person's now",
    "observe": "Evidence from elsewhere kept",
    "doubt_since": "The journal was restored: what it forgot may have been sent",
    "extend_doubt": "The journal was restored: absence is evidence only from a later time on",
    "run_hook": "The project's own rows were written",
    "end_hook": "The project's own rows were not written: retention had dropped the payload",
    "prune": "Retention dropped payload, output and messages",
    "open": "Opened",
    "renew": "Lease renewed",
    "suspend": "The handler is done; the answer waits",
    "freeze": "Answered; the answer is frozen",
    "release": "Released: the key is free again",
    "lose": "The handler was cut short",
    "settle": "Settled without its handler",
    "drop_answer": "Retention dropped the bytes of the answer",
    "free_key": "Retention freed the key",
}
_POSTPONED = {
    "Unreachable": "Look-up: the provider could not be reached",
    "Inconclusive": "Look-up: it could not decide",
    "Absent": "Look-up: no trace of it, asked too early to believe that",
    "ProvenFailed": "Look-up: said to have failed, asked too early to believe that",
}
#: What an operator may decide about an execution, with its consequence.
DECISIONS = {
    "applied": "It happened. It completes, the project's own rows are written, and waiting requests get their answer.",
    "not_applied": "It did not happen, and no request for it is under way any more. It fails; nothing is sent again.",
    "undone": "It happened and was undone at the provider. It completes, marked as undone.",
    "unknown": "Nobody will know. It is abandoned; its key stays taken, so it is never sent again under it.",
}
#: What evidence may say, against what the row says.
STATEMENTS = {
    "applied": "It happened, and stands. Give the provider's reference.",
    "undone": "It happened, and was undone at the provider. Give the provider's reference.",
    "not_applied": "It did not happen. Only against what people said: the provider's own proof is not undone by it.",
}
#: And about a request.
REQUEST_DECISIONS = {
    "applied": "What it was to do happened. A retry learns that an operator resolved it.",
    "not_applied": "What it was to do did not happen. A retry learns that; the key is not run again.",
    "unknown": "Nobody will know. The key is not run again.",
}
_TONES: Mapping[str, str] = {
    **dict.fromkeys((_S.COMPLETED, _R.ANSWERED), "good"),
    **dict.fromkeys((_S.FAILED, _S.REJECTED, _S.ABANDONED, _R.RESOLVED, _R.RELEASED), "quiet"),
    **dict.fromkeys((_A.DENIED, _A.EXPIRED, _A.WITHDRAWN, _A.LAPSED, _A.SPENT), "quiet"),
    **dict.fromkeys((_S.UNCERTAIN, _S.ACCEPTED, _S.PARTIALLY_COMPLETED), "doubt"),
    **dict.fromkeys((_S.NEEDS_INTERVENTION, _R.IN_DOUBT), "alarm"),
    **dict.fromkeys((_S.AWAITING_APPROVAL, _A.REQUESTED), "people"),
}


def label(word: str) -> str:
    """Return a word of the vocabulary as people read it: `needs intervention`."""
    return str(word).replace("_", " ")


def tone(state: str) -> str:
    """Return how a state is coloured; colour only repeats what the word says."""
    return _TONES.get(state, "plain")


def headline(receipt: Receipt) -> str:
    """Return what a receipt says, in one line."""
    evidence: dict[str, Any] = receipt.evidence if isinstance(receipt.evidence, dict) else {}
    if receipt.event == "postpone":
        return _POSTPONED.get(str(evidence.get("verdict")), EVENTS["postpone"])
    if receipt.event == "confirm" and receipt.reason == ExecutionReason.LATE_REPLY:
        return "The sender's late reply: it happened"
    if receipt.event == "lose" and receipt.reason == RequestReason.LEASE_EXPIRED:
        return "The handler was not heard of again"
    if receipt.event == "record" and "compensates" in evidence:
        return "Recorded, to undo another execution"
    if receipt.event == "record" and "supersedes" in evidence:
        return "Recorded, to ask again for one that did not happen"
    text = EVENTS.get(receipt.event, label(receipt.event))
    for name in ("votes", "quorum", "attempt", "decision"):
        # replaced, never formatted: evidence may hold braces
        text = text.replace("{" + name + "}", label(str(evidence.get(name, "?"))))
    return text
