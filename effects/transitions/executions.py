"""Recording executions, meeting existing ones, and refusing them before they are sent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Value

from effects.journal import current
from effects.journal.commits import commits, tell
from effects.journal.lineage import earlier_requester_ids
from effects.journal.locks import ClockTimestamp, lock_execution, lock_execution_by_binding, lock_running_request
from effects.journal.provider_keys import DerivedKey, occurrence_of
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.models import Attempt, Execution, Receipt, RequestExecution
from effects.people.approvers import somebody_can_decide
from effects.signals import announce
from effects.transitions import _decisions, _licences, digests, successions
from effects.transitions._limits import refuse_over_limits
from effects.transitions._rows import (
    advance,
    can_be_undone,
    effect_of,
    grace,
    is_due,
    receipt_of,
)
from effects.transitions.intents import Intent, context_of_intent, is_same_payload
from effects.vocabulary.exceptions import (
    DuplicatePerformError,
    ExecutionNotFoundError,
    JournalIdError,
    NobodyEntitledError,
    PayloadConflictError,
    PolicyChangedError,
    WrongStateError,
)
from effects.vocabulary.frozen_rules import rule_as_json
from effects.vocabulary.states import (
    EXECUTION_SETTLED,
    AttemptOutcome,
    ExecutionReason,
    ExecutionState,
)
from effects.vocabulary.types import Permit

__all__ = ["Recorded", "record", "record_later"]

#: How often a key is looked for that passes from one to the next meanwhile.
LOOKS = 5


#: What a contract says of people's approval; the rule is compared by itself.
_RULE = ("approval", "require_approval")


@dataclass(frozen=True)
class Recorded:
    """What recording gave: the execution, and the permit if one was written.

    Attributes:
        joined: it was met rather than made.
        due: it is due now, by the database's clock.
    """

    execution: ExecutionSnapshot
    joined: bool
    permit: Permit | None = None
    due: bool = False


def record(intent: Intent, *, handle: current.RequestHandle | None, attempt: UUID | None, started: float) -> Recorded:
    """*Commits.* Record an execution and, with `attempt`, permit its first send in the same commit.

    Locked: the request, with those that wait for what is superseded, then the execution. A racing caller of the same
    key waits for this commit and then joins. An existing row is joined: same payload only; the caller goes on to
    `permit` if it is pending and due.

    Args:
        intent: what to do.
        handle: the running request, or None.
        attempt: the id of the first attempt, made by the sender; None: record only.
        started: a `monotonic()` reading taken before this call; the permit's deadline runs from it.

    Raises:
        RequestEndedError: the request ended or was taken over; nothing was recorded.
        DuplicatePerformError: this request performed the effect already, without a key of its own.
        PayloadConflictError: the key stands for another payload.
        PayloadUnreadableError: nobody can tell whether the key stands for this payload.
        NobodyEntitledError: the rule asks for an approval that nobody can give.
        CapacityError: outside of a request, the tenant is at a limit.
        JournalIdError: the journal has no id, so that there is no provider key.
        StaleRevisionError: what it undoes or supersedes changed since a person looked.
    """
    with commits("performing an effect"):
        waiting = successions.lock_requests(intent.supersedes, handle)
        if handle is None and intent.compensates is None:
            refuse_over_limits(intent)
        if intent.supersedes is not None:
            intent, _ = successions.hand_over(intent, intent.supersedes)
        if intent.compensates is not None:
            _lock_original(intent.compensates, None if intent.supersedes else intent.seen_revision)
        if intent.rule is not None:
            attempt = None
        row, joined = _insert_or_meet(intent, attempt)
        if waiting:
            successions.take_places(row, waiting)
        permit = None
        if joined:
            _join(row, intent, handle, holds=True)
        else:
            permit = _open_first_attempt(row, attempt, started) if attempt else None
            _begin(row, intent, handle, permitted=attempt is not None, holds=True)
        return Recorded(snapshot(row), joined, permit, is_due(row))


def record_later(intent: Intent, *, handle: current.RequestHandle | None) -> Recorded:
    """*Joins.* Record an execution in the caller's transaction; a worker sends it after the commit.

    Locked until the caller commits: the running request, the execution's key. The answer is not held back by it.

    Raises:
        RequestEndedError: the request ended or was taken over; nothing was written.
        PayloadConflictError, NobodyEntitledError, CapacityError, JournalIdError: as `record`; nothing was written.
    """
    if handle is not None:
        lock_running_request(handle.id, handle.epoch)
    else:
        refuse_over_limits(intent)
    row, joined = _insert_or_meet(intent, None)
    if joined:
        _join(row, intent, handle, holds=False)
    else:
        _begin(row, intent, handle, permitted=False, holds=False)
    return Recorded(snapshot(row), joined)


def _lock_original(original: UUID, revision: int | None) -> None:
    """Lock what is to be undone, before its undoing; refuse unless it is completed, as it was when they looked."""
    row = lock_execution(original)
    _decisions.check_revision(row, revision)
    if not can_be_undone(row):
        raise WrongStateError(
            f"{row.operation} {row.pk} is {row.state} {row.reason}; only what is completed can be undone."
        )


def _insert_or_meet(intent: Intent, attempt: UUID | None) -> tuple[Execution, bool]:
    """Insert the row unless the key is taken; return the locked row that holds the key, and whether it was met."""
    row = _insert_or_lock(intent, attempt)
    if row.pk == intent.id:
        tell(False)  # it is not committed, and an error takes it back
        if not row.provider_key:
            raise JournalIdError
        _check_approvable(intent)
    elif intent.derived_key:
        raise DuplicatePerformError(
            f"This request performs {row.operation} twice without keys: say key=… for each, so that a retry finds each "
            "of them again."
        )
    return row, row.pk != intent.id


def _insert_or_lock(intent: Intent, attempt: UUID | None) -> Execution:
    for _ in range(LOOKS):
        Execution.objects.bulk_create([_new_row(intent, attempt)], ignore_conflicts=True)
        # what was met may be superseded before it is locked; then its successor is met
        with suppress(ExecutionNotFoundError):
            return lock_execution_by_binding(intent.binding)
    return lock_execution_by_binding(intent.binding)


def _check_approvable(intent: Intent) -> None:
    """Refuse a rule that nobody can meet: said when asked, not after a week."""
    if intent.rule is None:
        return
    requesters = {actor["id"] for actor in intent.requesters}
    requesters |= earlier_requester_ids(intent.supersedes, intent.compensates)
    if not somebody_can_decide(intent.rule, requesters, context_of_intent(intent)):
        raise NobodyEntitledError(
            f"{intent.operation} needs {intent.rule.quorum} approval(s) by {intent.rule.approvers!r} who did not ask "
            "for it, and there are not that many active ones. Grant the permission, or fill the group, first."
        )
    if intent.rule.four_eyes and not intent.requesters:
        raise NobodyEntitledError(
            f"{intent.operation} needs an approval by somebody other than the requester, who is unknown: say "
            "requested_by=…"
        )


def _new_row(intent: Intent, attempt: UUID | None) -> Execution:
    effect, now = intent.effect, ClockTimestamp()
    occurrence = occurrence_of(effect, intent.tenant, intent.key, intent.generation)
    row = Execution(
        id=intent.id, operation=intent.operation, tenant=intent.tenant, key=intent.key, binding=intent.binding,
        provider=effect.provider, provider_key=DerivedKey(occurrence), payload=intent.payload_text,
        payload_digest=intent.payload_digest, payload_version=effect.payload_version,
        safety_version=effect.safety_version, summary=intent.summary, summary_digest=intent.summary_digest,
        contract=intent.contract, risk=str(effect.risk), amount=intent.summary.get("amount"),
        currency=intent.summary.get("currency", "")[:12], target=intent.summary.get("target", ""),
        generation=intent.generation, supersedes_id=intent.supersedes if intent.generation > 1 else None,
        compensates_id=intent.compensates,
        requested_by=intent.requested_by.as_json() if intent.requested_by else None,
        on_behalf_of=intent.on_behalf_of.as_json() if intent.on_behalf_of else None,
        requesters=intent.requesters, state=str(ExecutionState.PENDING), due_at=now, created_at=now, receipt_count=1,
    )  # fmt: skip
    if intent.about:
        row.about_type, row.about_id = intent.about
    if intent.rule is not None:
        row.state, row.reason = str(ExecutionState.AWAITING_APPROVAL), str(ExecutionReason.APPROVAL_REQUIRED)
        row.due_at = None
    if attempt is not None:
        row.state, row.due_at = str(ExecutionState.EXECUTING), None
        row.epoch = row.attempts = row.open_attempts = 1
        row.revision = row.receipt_count = 2
        row.first_sent_at = now
        row.exposed_until = now + Value(effect.request_timeout)
        row.lease_expires_at = now + Value(effect.request_timeout + grace())
    return row


def _open_first_attempt(row: Execution, attempt: UUID, started: float) -> Permit:
    opened = Attempt(
        id=attempt, execution_id=row.pk, number=1, epoch=1, provider_key=row.provider_key,
        payload_digest=row.payload_digest, permitted_at=row.first_sent_at or row.locked_at,
        deadline=row.exposed_until or row.locked_at, outcome=str(AttemptOutcome.OPEN),
    )  # fmt: skip
    Attempt.objects.bulk_create([opened])
    digests.tell_row(row, opened)
    timeout: float = row.contract["request_timeout"]
    return Permit(attempt=attempt, number=1, epoch=1, provider_key=row.provider_key, deadline=started + timeout)


def _begin(
    row: Execution, intent: Intent, handle: current.RequestHandle | None, *, permitted: bool, holds: bool
) -> None:
    """Ask people where the rule says so, link the request, write the first receipts, tell observers."""
    if intent.rule is not None:
        _licences.request(row, intent.rule)
    _link(row, handle, holds=holds)
    Receipt.objects.bulk_create(_first_receipts(row, intent, permitted=permitted))
    announce(row, "record", None)


def _first_receipts(row: Execution, intent: Intent, *, permitted: bool) -> list[Receipt]:
    evidence: dict[str, Any] = {"payload_digest": row.payload_digest, "summary_digest": row.summary_digest}
    if intent.rule is not None:
        evidence["approval"] = rule_as_json(intent.rule)
    evidence |= {before.relation: before.ref for before in intent.derived_from}
    if intent.reason:
        evidence["reason"] = intent.reason
    actor = intent.requested_by
    if not permitted:
        return [receipt_of(row, "record", None, actor, evidence)]
    pending = ExecutionState.PENDING
    first = receipt_of(row, "record", None, actor, evidence, to=pending, sequence=1, revision=1, epoch=0)
    second = receipt_of(row, "permit", ExecutionState.PENDING, evidence={"attempt": 1})
    return [first, second]


def _join(row: Execution, intent: Intent, handle: current.RequestHandle | None, *, holds: bool) -> None:
    """Meet an existing execution: the same payload only; whoever asks becomes a requester, and is linked with it."""
    same = is_same_payload(intent, text=row.payload, digest=row.payload_digest, version=row.payload_version)
    if not same:
        raise PayloadConflictError(
            f"{row.operation} {row.key!r} already stands for another payload (execution {row.pk}, {row.state}). "
            "Nothing was sent. Use another key for another fact, or the same payload for a retry."
        )
    if row.state not in EXECUTION_SETTLED:
        effect_of(row)
        _check_terms(row, intent)
        _check_requester(row, intent)
    known = {actor["id"] for actor in row.requesters}
    new = [actor for actor in intent.requesters if actor["id"] not in known]
    _link(row, handle, holds=holds)
    if new or digests.has_told(row):
        advance(
            row, "join", actor=intent.requested_by, revises=bool(new), requesters=[*row.requesters, *new],
            evidence={"request": str(handle.id)} if handle is not None else {},
        )  # fmt: skip


def _check_requester(row: Execution, intent: Intent) -> None:
    """Refuse an unknown person who joins what others must approve: they could not be told apart from an approver."""
    rule = _licences.rule_of(row)
    if rule is not None and rule.four_eyes and not intent.requesters:
        raise NobodyEntitledError(
            f"{row.operation} {row.key!r} needs an approval by somebody other than those who ask for it, and who asks "
            "now is unknown: say requested_by=…"
        )


def _check_terms(row: Execution, intent: Intent) -> None:
    """Refuse to meet an unsettled execution under other terms than those that it was recorded under and will keep."""
    frozen, terms = row.contract, intent.contract
    changed = [name for name, value in terms.items() if name not in _RULE and frozen.get(name, value) != value]
    asked, kept = rule_as_json(intent.rule), frozen.get("approval")
    # a rule that is gone meanwhile is kept by the row; its window may be another at each call
    if asked is not None and {**asked, "not_before": None} != {**(kept or {}), "not_before": None}:
        changed.append("approval")
    if changed:
        raise PolicyChangedError(
            f"{row.operation} {row.key!r} is unsettled (execution {row.pk}, {row.state}) and was recorded under "
            f"another {', '.join(changed)}. Nothing was sent. Ask again when it is settled."
        )


def _link(row: Execution, handle: current.RequestHandle | None, *, holds: bool) -> None:
    """Link the running request and an execution, once; a link that holds the answer stays one."""
    if handle is None:
        return
    position = handle.performed
    link = RequestExecution(request_id=handle.id, execution_id=row.pk, position=position, holds=holds)
    if position == 0:
        RequestExecution.objects.bulk_create([link])
    else:
        if holds:
            RequestExecution.objects.filter(request_id=handle.id, execution_id=row.pk).update(holds=True)
        RequestExecution.objects.bulk_create([link], ignore_conflicts=True)
    digests.tell_link(row, handle.id, position, holds=holds)
    handle.performed += 1
