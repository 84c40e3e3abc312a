"""What happens next with a row, and when, in sentences."""

from __future__ import annotations

from datetime import datetime

from effects.inspection.standstill import START, standstill_of
from effects.people.approvers import in_words
from effects.transitions.lookups import LOOKUP_BUDGET
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.outcomes import MissingOutput
from effects.vocabulary.states import APPROVAL_LIVE, ApprovalState, ExecutionState, RequestState
from effects_admin.cases import Case, RequestCase
from effects_admin.display import distance, moment

__all__ = ["next_steps", "next_steps_of_request", "steps_of_ballot"]

_S, _A, _R = ExecutionState, ApprovalState, RequestState


def next_steps(case: Case) -> list[str]:
    """Return what happens next with an execution."""
    steps = _STEPS[_S(case.row.state)](case) if case.row.state in _STEPS else ["Nothing more happens to it."]
    return _standing_still(case) + steps + _troubles(case)


def steps_of_ballot(case: Case) -> list[str]:
    """Return what happens next, for somebody who is asked to decide it and may view nothing else of it."""
    approval = case.approval
    if approval is None or approval.state not in APPROVAL_LIVE:
        return ["Nothing of it waits for a decision."]
    return _STEPS[_S(case.row.state)](case) if case.row.state in _STEPS else []


def _troubles(case: Case) -> list[str]:
    """Return what stands in the way, or is worth knowing to whoever runs the journal."""
    steps = []
    if case.row.hook_due_at is not None:
        steps.append(
            f"The project's own rows could not be written ({case.row.hook_error or 'no error recorded'}); the next "
            f"try is due {_when(case.row.hook_due_at, case.seen_at)}."
        )
    if case.row.pruned_at is not None:
        steps.append(
            f"Retention dropped its payload, output and messages at {moment(case.row.pruned_at)}; key, digests, state, "
            "reference and decisions stay, and it is never sent again."
        )
    output = getattr(case.outcome, "output", None)
    if isinstance(output, MissingOutput) and output.why == "unreadable":
        steps.append(f"It happened, and {output.message}.")
    if case.row.contract.get("secrets"):
        steps.append(
            "Its payload holds a secret, which is kept nowhere: there is one send, by the call that brought it."
        )
    if case.row.trouble_count:
        steps.append(f"Working on it failed {case.row.trouble_count} times in a row: {case.row.trouble}")
    return steps


def next_steps_of_request(case: RequestCase) -> list[str]:
    """Return what happens next with a request."""
    return _standing_still(case) + _steps_of_request(case)


def _standing_still(case: Case | RequestCase) -> list[str]:
    """Say that nobody does what is due, before a sentence says that a worker does it."""
    found = standstill_of(case.row, case.seen_at)
    if found is None:
        return []
    return [f"It has been due since {moment(found.due_since)}, and nobody has done it. {found.why} {START}"]


def _steps_of_request(case: RequestCase) -> list[str]:
    row, waits = case.row, len(case.unsettled)
    if row.state == _R.RUNNING:
        return [f"Its lease ends {_when(row.lease_expires_at, case.seen_at)} unless its handler renews it."]
    if waits:
        return [f"It waits for {waits} of its executions to settle; then it is answered, or handed to a person."]
    if row.state in (_R.WAITING, _R.IN_DOUBT) and row.due_at is not None:
        return [f"A sweep tries to settle it {_when(row.due_at, case.seen_at)}."]
    if row.state == _R.IN_DOUBT:
        return [
            "Nothing happens on its own: find out what its handler did before it was cut short, then resolve it.",
            "A client that retries gets 409 operation_uncertain until then.",
        ]
    return ["Nothing more happens to it."]


def _when(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "at no fixed time"
    return f"now (since {moment(at)})" if at <= now else f"{distance(at, now)} ({moment(at)})"


def _pending(case: Case) -> list[str]:
    is_due = case.row.due_at is not None and case.row.due_at <= case.seen_at
    steps = [f"It is due {_when(case.row.due_at, case.seen_at)}; a worker sends it {'next' if is_due else 'then'}."]
    approval = case.approval
    if approval is not None and approval.state == _A.GRANTED and approval.use_by is not None:
        steps.append(f"Its approval lapses unused {_when(approval.use_by, case.seen_at)}.")
    return steps


def _awaiting(case: Case) -> list[str]:
    approval = case.approval
    if approval is None:
        return ["It waits for people, but nobody was asked."]
    rule = rule_from_json(approval.rule)
    missing, people = case.approvals_missing, f"from {in_words(rule) if rule else 'whoever ordered it'}"
    steps = [
        f"It needs {missing} more of {approval.quorum} approval{'s' if approval.quorum != 1 else ''}, {people}.",
        f"Undecided, it expires {_when(approval.decide_by, case.seen_at)}; then nothing is sent.",
    ]
    if approval.not_before is not None:
        steps.append(f"Once approved it is sent {_when(approval.not_before, case.seen_at)}, not before.")
    return steps


def _executing(case: Case) -> list[str]:
    until = moment(case.row.lease_expires_at)
    return [
        f"Its sender holds it until {until}. If nothing is heard by then it is in doubt, and the provider is asked."
    ]


def _in_doubt(case: Case) -> list[str]:
    row = case.row
    if row.contract.get("lookup") is None:
        return [
            "The provider cannot be asked about it.",
            f"A worker takes it up {_when(row.due_at, case.seen_at)}.",
            "It repeats it under the same provider key if that is declared to be safe, and otherwise asks a person.",
        ]
    if case.is_leased:
        steps = [f"A look-up is under way, until {moment(row.lease_expires_at)} at the latest."]
    else:
        steps = [f"The provider is asked again {_when(row.due_at, case.seen_at)}."]
    steps.append(
        f"{row.lookups_spent} of {LOOKUP_BUDGET} look-ups that may be undecided are spent; then it is a person's."
    )
    if row.expect_by is not None:
        steps.append(f"It should be carried out by {moment(row.expect_by)}; after that a person is asked.")
    return steps + _barrier(case)


def _needs_person(case: Case) -> list[str]:
    row, approval = case.row, case.approval
    if approval is not None and approval.state == _A.REQUESTED:
        return ["Another send is ordered and waits for approval.", *_awaiting(case)]
    if approval is not None and approval.state == _A.GRANTED:
        return [f"Another send is ordered; it is due {_when(row.due_at, case.seen_at)}."]
    steps = [
        f"Nothing happens on its own. Look at {row.provider} for the key {row.provider_key}"
        + (f" or the reference {row.reference}" if row.reference else "")
        + ", then resolve it, or reopen it so that the provider is asked again."
    ]
    return steps + _barrier(case)


def _barrier(case: Case) -> list[str]:
    if case.is_before_barrier:
        return [f"A request may still land until {moment(case.barrier_at)}: “not found” proves nothing before."]
    return []


_STEPS = {
    _S.PENDING: _pending,
    _S.AWAITING_APPROVAL: _awaiting,
    _S.EXECUTING: _executing,
    _S.ACCEPTED: _in_doubt,
    _S.UNCERTAIN: _in_doubt,
    _S.NEEDS_INTERVENTION: _needs_person,
}
