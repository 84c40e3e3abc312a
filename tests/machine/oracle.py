"""What must hold after every step: the provider's own ledger against the journal and the project's rows.

- applied ≤ 1 for each key, over all its generations; one more for each resend that a named person ordered and that was
  spent. Supersede allows none: what it follows is failed or rejected, and so not applied;
- completed and partially completed ⇒ applied;
- pending, awaiting approval, failed, rejected ⇒ not applied, and nothing under way, taken as an order, or permitted to
  a process whose deadline has not passed, that could still apply it; without `may_have_applied` an executing one has
  nothing but its open attempt;
- an attempt that a process may still start is open, or unknown, and nothing else;
- approvals: spent before the wire, once (or, covering retries, while all earlier ones are proven absent), by enough
  distinct people who did not ask, on the digest of the bytes that were on the wire and of what was shown then;
- what undoes another execution never sends, and the reverse;
- receipts replay to the row, attempts and licences fit it (`effects.inspection.audit`);
- the settled hook's rows: one for each settling, none for anything else, and the newest says what the row says;
- a request ends only when what it holds is settled, is released only when all that it performed is rejected, never
  changes its answer, and what was told to be safe under a new key is never applied.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from effects.http import replay
from effects.inspection import audit
from effects.inspection.audit import attempts, cases, licences, told
from effects.inspection.audit.replay import differences
from effects.journal.snapshots import request_snapshot
from effects.models import Attempt, Execution, Receipt, Request, RequestExecution
from effects.people.eligibility import requester_ids
from effects.transitions.intents import approval_digest
from effects.vocabulary import canonical
from effects.vocabulary.states import (
    EXECUTION_SETTLED,
    NOTHING_HAPPENED,
    REQUEST_ENDED,
    ApprovalPurpose,
    ApprovalState,
    AttemptOutcome,
    ExecutionState,
    RequestState,
    values,
)
from tests.machine.world import World

__all__ = ["Oracle", "Violation", "audit_journal"]

_S = ExecutionState
_HAPPENED = values({_S.COMPLETED, _S.PARTIALLY_COMPLETED})
_SETTLED = values(EXECUTION_SETTLED)
#: Late is what the machine itself left undone.
_LATE = {"lease_overrun", "overdue", "approval_overdue", "hook_overdue", "notice_overdue", "sweep_stopped"}
#: The machine moves some instants and not others, as nobody else may.
_INSTANTS = {"due_altered", "lease_altered"}


class Violation(AssertionError):  # noqa: N818 - what was found, not what went wrong with finding
    """A promise is broken."""


def audit_journal(now: datetime) -> None:
    """Let the operations' own audit look at the whole journal.

    Raises:
        Violation: it finds something.
    """
    found = [each for each in audit.audit(audit.Scope(now), Counter()) if each.code not in (*_LATE, *_INSTANTS)]
    if found:
        raise Violation(f"the audit finds {found}")


class Oracle:
    """Looks at a world after each step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._seen: dict[UUID, tuple[Any, ...]] = {}
        self._spent: set[UUID] = set()
        self._resent: dict[UUID, int] = {}
        self._ended: set[UUID] = set()
        self._wired = 0

    def check(self) -> None:
        """Look at all that changed.

        Raises:
            Violation: a promise is broken.
        """
        world, changed = self.world, self._changed()
        rows = {row.pk: row for row in [*world.rows, *Execution.objects.filter(pk__in=changed)]} if changed else {}
        requests = (
            {row.pk: row for row in [*world.requests, *Request.objects.filter(pk__in=changed)]} if changed else {}
        )
        if changed:
            world.rows = sorted(rows.values(), key=lambda row: row.pk)
            world.requests = sorted(requests.values(), key=lambda row: row.pk)
        world.provider.settle()
        for row in world.rows:
            self._check_row(row)
        if any(pk in rows for pk in changed):
            self._check_evidence([rows[pk] for pk in changed if pk in rows])
            self._check_hooks([rows[pk] for pk in changed if pk in rows])
        self._check_ledger()
        self._check_wire()
        self._check_requests([requests[pk] for pk in changed if pk in requests])

    def check_leases(self, now: datetime) -> None:
        """After a sweep nothing executes, and no handler runs, past its lease; what another sweep has in hand aside."""
        for model, state in ((Execution, _S.EXECUTING), (Request, RequestState.RUNNING)):
            late = model.objects.filter(state=str(state), lease_expires_at__lte=now)
            for row in late:
                self._demand(row.swept_until is not None and row.swept_until > now, row, "is past its lease, and swept")

    # -- executions ----------------------------------------------------------------------------------------------

    def _check_ledger(self) -> None:
        keys, ordered = defaultdict(list), Counter[str]()
        for row in self.world.rows:
            keys[row.binding].append(row.provider_key)
            ordered[row.binding] += self._resent.get(row.pk, 0)
        for binding, used in keys.items():
            applied, allowed = self.world.provider.applied(*used), 1 + ordered[binding]
            self._demand(applied <= allowed, None, f"applied {applied} times, allowed {allowed}")

    def _check_row(self, row: Execution) -> None:
        provider = self.world.provider
        if row.state in _HAPPENED:
            self._demand(provider.applied(row.provider_key) > 0, row, "did not happen")
        if row.state in NOTHING_HAPPENED:
            self._demand(not provider.applied(row.provider_key), row, "happened")
            self._demand(not provider.under_way(row.provider_key), row, "is under way")
            self._demand(not self._licensed(row), row, "can be sent by a process that holds a permit")
        elif row.state == _S.EXECUTING and not row.may_have_applied:
            open_attempt = row.attempts
            older = [each for each in self._licensed(row) if each != open_attempt]
            self._demand(not older, row, f"has attempts {older} beside the open one")

    def _licensed(self, row: Execution) -> list[int]:
        """Return the attempts that a process may still start."""
        clock = self.world.provider.clock()
        held = [each for each in self.world.senders if each.execution == row.pk and each.report is None]
        return [each.permit.number for each in held if clock < each.deadline]

    def _check_evidence(self, rows: list[Execution]) -> None:
        for case in cases.load(rows, Counter()):
            rules = (attempts.of_case(case), licences.of_case(case), told.of_execution(case))
            for rule in (*rules, differences(case.row, case.replay)):
                for finding in rule:
                    self._demand(finding.code in _INSTANTS, case.row, f"{finding.code}: {finding.wrong}")
            self._check_licensed(case)
            spent = [approval for approval in case.approvals if approval.state == ApprovalState.SPENT]
            self._resent[case.row.pk] = sum(approval.purpose == ApprovalPurpose.RESEND for approval in spent)
            for approval in spent:
                self._check_licence(case, approval)

    def _check_licensed(self, case: cases.Case) -> None:
        """While a process may still start an attempt, nobody can know what became of it."""
        licensed = self._licensed(case.row)
        for attempt in case.attempts:
            unknown = attempt.outcome in (AttemptOutcome.OPEN, AttemptOutcome.UNKNOWN)
            self._demand(
                unknown or attempt.number not in licensed, case.row,
                f"has attempt {attempt.number} {attempt.outcome}, which a process may still send",
            )  # fmt: skip

    def _check_licence(self, case: cases.Case, approval: Any) -> None:
        """Enough people who did not ask, when it is first seen spent; and then one send, or proven ones."""
        if approval.pk not in self._spent and approval.rule:
            voters = set(approval.votes.filter(decision="approve").values_list("actor_id", flat=True))
            asked = requester_ids(case.row)
            self._demand(len(voters - asked) >= approval.quorum, case.row, "was sent with too few approvals")
        self._spent.add(approval.pk)
        licensed = [attempt for attempt in case.attempts if attempt.approval_id == approval.pk]
        self._demand(approval.covers_retries or len(licensed) == 1, case.row, "was sent twice under one approval")
        for attempt in licensed[:-1]:
            proven = attempt.outcome in (AttemptOutcome.NOT_APPLIED, AttemptOutcome.NOT_SENT)
            self._demand(proven, case.row, f"was sent again, attempt {attempt.number} unproven, under one approval")

    def _check_wire(self) -> None:
        """What reached the provider since the last step was permitted, under its own key, and approved as it was."""
        wired, self._wired = self.world.provider.wire[self._wired :], len(self.world.provider.wire)
        for sent in wired:
            attempt = Attempt.objects.select_related("execution", "approval").get(
                execution__provider_key=sent.key, number=sent.number
            )
            row, licence = attempt.execution, attempt.approval
            payload = canonical.digest("effects.payload", sent.payload)
            self._demand(sent.undoes == row.key.startswith("compensate:"), row, "was sent, not undone, or the reverse")
            self._demand(attempt.payload_digest == payload, row, "was sent with other contents than permitted")
            self._demand(licence is not None or row.contract["approval"] is None, row, "was sent without an approval")
            if licence is not None:
                resent = licence.purpose == ApprovalPurpose.RESEND
                digest = approval_digest(
                    operation=row.operation, provider=row.provider, tenant=row.tenant, key=row.key,
                    payload_digest=payload, summary_digest=row.summary_digest if resent else sent.shown,
                    rule=row.contract["approval"], purpose=licence.purpose,
                )  # fmt: skip
                self._demand(licence.digest == digest, row, "was sent with other contents than approved")
                self._demand(licence.state == ApprovalState.SPENT, row, "was sent before its approval was spent")

    # -- the project's rows --------------------------------------------------------------------------------------

    def _check_hooks(self, changed: list[Execution]) -> None:
        written: dict[str, list[str]] = defaultdict(list)
        with connection.cursor() as cursor:
            cursor.execute("SELECT ref, state FROM machine_row ORDER BY id")
            for ref, state in cursor.fetchall():
                written[ref].append(state)
        relevant = [row for row in changed if row.state in _SETTLED or written[str(row.pk)]]
        if not relevant:
            return
        settlings = Counter(
            Receipt.objects.filter(execution__in=relevant, to_state__in=_SETTLED)
            .exclude(from_state__in=_SETTLED)
            .values_list("execution_id", flat=True)
        )
        for row in relevant:
            rows = written[str(row.pk)]
            self._demand(len(rows) <= settlings[row.pk], row, f"has the project's rows {rows}")
            if row.state in _SETTLED and row.hook_due_at is None:
                self._demand(rows[-1:] == [row.state], row, f"has the project's rows {rows}")

    # -- requests ------------------------------------------------------------------------------------------------

    def _check_requests(self, changed: list[Request]) -> None:
        told = cases.replays(changed, Counter())
        for request in changed:
            for finding in differences(request, told[request.pk]):
                self._demand(False, request, f"{finding.code}: {finding.wrong}")
            if request.state in REQUEST_ENDED:
                self._check_ended(request)
        for request in self.world.requests:
            if request.answer is not None:
                first = self.world.answers.setdefault(request.pk, (request.answer[0], request.answer[2]))
                self._demand(first == (request.answer[0], request.answer[2]), request, "has changed its answer")
        for request_id in self.world.told_safe:
            for row in self.world.rows:
                if row.key == f"request:{request_id}":
                    self._demand(not self.world.provider.applied(row.provider_key), row, "happened, and was told safe")

    def _check_ended(self, request: Request) -> None:
        links = list(RequestExecution.objects.filter(request=request).select_related("execution"))
        linked = [link.execution for link in links]
        if request.state == RequestState.RELEASED:
            self._demand(all(row.state == _S.REJECTED for row in linked), request, "was released")
        held = [link.execution.state for link in links if link.holds]
        if request.pk not in self._ended:
            # when it ends: what it held may be contradicted afterwards, before retention writes its receipts
            self._ended.add(request.pk)
            self._demand(set(held) <= set(_SETTLED), request, "ended before what it holds")
        snapshot = request_snapshot(request)
        if replay.safe_new_key(snapshot, replay.standing_of(snapshot)):
            for row in linked:
                provider = self.world.provider
                still = provider.applied(row.provider_key) or provider.under_way(row.provider_key)
                self._demand(not still, row, "happened or can happen, and a new key is called safe")

    def _changed(self) -> set[UUID]:
        """Return the ids of what has changed since the last step."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT id, receipt_count, hook_failures, holds_key FROM effects_execution "
                "UNION ALL SELECT id, receipt_count, 0, holds_key FROM effects_request"
            )
            standing = {row[0]: row[1:] for row in cursor.fetchall()}
        changed = {pk for pk, stands in standing.items() if self._seen.get(pk) != stands}
        self._seen = standing
        return changed

    def _demand(self, holds: bool, row: Any, what: str) -> None:
        if not holds:
            name = f"{row._meta.model_name} {row} ({row.state}, {row.reason}) " if row is not None else ""
            raise Violation(name + what)
