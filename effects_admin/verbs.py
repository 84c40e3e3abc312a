"""What a person may do to a row: each verb with its rules in words, its consequence and the public function it calls.

A verb answers two questions before it is offered: is this person permitted (`not_permitted`), and is it possible as
the row stands (`not_possible`). Both only explain: the transitions ask again under the row's lock.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from effects import operators
from effects.effect import rule_from_json
from effects.exceptions import ApprovalError, StaleRevisionError
from effects.models import Approval, Execution, Receipt, Resolution
from effects.states import (
    APPROVAL_LIVE,
    EXECUTION_IN_DOUBT,
    ApprovalPurpose,
    ApprovalState,
    ExecutionState,
    RequestState,
)
from effects.types import Actor
from effects_admin import forms
from effects_admin.cases import Case, RequestCase, decided_before, why_no_vote
from effects_admin.display import moment, money, visible
from effects_admin.permissions import CANCEL, LOOK_UP, REOPEN, RESOLVE, lacks, may
from effects_admin.words import label

__all__ = ["EXECUTION_VERBS", "REQUEST_VERBS", "Verb"]

C = TypeVar("C", Case, RequestCase)
_S = ExecutionState


class Verb(Generic[C]):
    """One thing that a person may do to a row, on a page of its own.

    Attributes:
        name: the last part of the page's address.
        title: what the button says.
        done: what the message says afterwards.
        form_class: what the person fills in.
        tone: how the button looks: it sends, it ends, or it does neither.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    done: ClassVar[str]
    form_class: ClassVar[type[forms.DecisionForm]] = forms.DecisionForm
    tone: ClassVar[str] = "plain"

    def not_permitted(self, case: C) -> str:
        """Return why this person may not; empty if they may."""
        raise NotImplementedError

    def not_possible(self, case: C) -> str:
        """Return why it cannot be done as the row stands; empty if it can."""
        raise NotImplementedError

    def consequences(self, case: C) -> list[str]:
        """Return what exactly will be done, in sentences."""
        raise NotImplementedError

    def initial(self, case: C) -> dict[str, Any]:
        """Return what the page carries."""
        return {"revision": case.row.revision, "decision_id": forms.new_decision_id()}

    def was_done(self, case: C, data: dict[str, Any]) -> bool:  # noqa: ARG002 - for the verbs that record one
        """Return whether this very decision is recorded already: the page was sent twice."""
        return False

    def decide(self, case: C, data: dict[str, Any]) -> object:
        """Do it, through the public function. Commits."""
        raise NotImplementedError

    def why_not(self, case: C) -> str:
        """Return in words why this person cannot do it now; empty if they can."""
        return self.not_permitted(case) or self.not_possible(case)


class Approve(Verb[Case]):
    """Vote for the live approval."""

    name, title, done, tone = "approve", "Approve", "Your approval is recorded.", "send"
    form_class = forms.ApproveForm
    decision: ClassVar[str] = "approve"

    def not_permitted(self, case: Case) -> str:
        """Return what the approval's rule has against this person."""
        return why_no_vote(case.row, case.approval, case.user) if case.approval else ""

    def not_possible(self, case: Case) -> str:
        """Return what became of the approval, if it is not open."""
        approval = case.approval
        if approval is None:
            return "Nobody was asked to approve it."
        if approval.state != ApprovalState.REQUESTED:
            return decided_before(approval, case.attempts)
        if approval.decide_by <= case.seen_at:
            return f"The time to decide was over at {moment(approval.decide_by)}; nothing was sent."
        actor = Actor.of(case.user)
        mine = [vote for vote in case.votes if actor is not None and vote.actor_id == actor.id]
        if mine:
            return f"You decided it at {moment(mine[0].at)}; {case.approvals_missing} more must approve."
        return ""

    def consequences(self, case: Case) -> list[str]:
        """Return what an approval sets off."""
        approval, row = case.approval, case.row
        if approval is None:
            return []
        rule = rule_from_json(approval.rule)
        amount = money(row.amount, row.currency)
        what = f"the provider {row.provider} is asked for “{visible(row.summary.get('title', row.operation))}”"
        missing = case.approvals_missing
        steps = []
        if missing > 1:
            steps.append(
                f"Your approval is no. {approval.quorum - missing + 1} of {approval.quorum}; nothing is sent yet."
            )
            steps.append(f"With the last one {what}{', ' + amount if amount else ''}.")
        else:
            when = f"at {moment(approval.not_before)}" if approval.not_before else "as soon as a worker is free"
            steps.append(f"{what[0].upper()}{what[1:]}{', ' + amount if amount else ''}, {when}.")
        if approval.purpose == ApprovalPurpose.RESEND:
            steps.append("It may have happened before: this sends it again, under the same provider key.")
        covers = "sends until one may have arrived" if rule and rule.covers_retries else "one send"
        return [
            *steps,
            f"The approval is worth {covers}, of exactly what is shown here (digest {approval.digest[:12]}…).",
        ]

    def initial(self, case: Case) -> dict[str, Any]:
        """Return what the page carries: also which approval, and the digest that it showed."""
        approval = case.approval
        shown = {"approval": approval.pk, "digest": approval.digest} if approval else {}
        return {**super().initial(case), **shown}

    def was_done(self, case: Case, data: dict[str, Any]) -> bool:
        """Return whether this person cast this vote on the page's approval before."""
        actor = Actor.of(case.user)
        votes = [vote for each in case.approvals if each.pk == data["approval"] for vote in each.votes.all()]
        return any(actor and vote.actor_id == actor.id and vote.decision == self.decision for vote in votes)

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """Vote. A refusal tells what became of the approval meanwhile."""
        call = operators.grant if self.decision == "approve" else operators.deny
        options = {name: data[name] for name in ("digest", "comment", "approval")}
        try:
            return call(case.row.pk, by=case.user, **options)
        except ApprovalError as error:
            raise type(error)(self._refused(case, data) or str(error)) from error

    def _refused(self, case: Case, data: dict[str, Any]) -> str:
        """Return what became of the page's approval, read again; empty if it is open."""
        shown = Approval.objects.filter(pk=data["approval"], execution_id=case.row.pk).first()
        said = decided_before(shown, list(case.row.attempt_rows.order_by("number"))) if shown else ""
        return f"{said} Your click changed nothing." if said else ""


class Deny(Approve):
    """Vote against the live approval."""

    name, title, done, tone = "deny", "Deny", "Denied.", "end"
    form_class = forms.DenyForm
    decision = "deny"

    def consequences(self, case: Case) -> list[str]:
        """Return what a refusal ends."""
        if case.approval is not None and case.approval.purpose == ApprovalPurpose.RESEND:
            return ["It is not sent again, and stays in doubt until somebody resolves it."]
        return [
            "It is not sent; one refusal is enough, however many approved.",
            "Requests that wait for it are answered accordingly. To do it after all, it has to be asked for anew.",
        ]


class LookUp(Verb[Case]):
    """Ask the provider now."""

    name, title, done = "look-up", "Look up now", "The provider was asked."

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, LOOK_UP, case.row)

    def not_possible(self, case: Case) -> str:
        """Return why there is nothing to ask, or nobody."""
        row = case.row
        if row.state == _S.NEEDS_INTERVENTION:
            return "It waits for a person: reopen it, and the provider is asked again."
        if row.state not in (_S.UNCERTAIN, _S.ACCEPTED):
            return f"It is {label(row.state)}; only what is in doubt is looked up."
        if row.contract.get("lookup") is None:
            return f"{row.provider} cannot be asked: the effect declares no look-up."
        return "A look-up is under way; its answer is here in a few seconds." if case.is_leased else ""

    def consequences(self, case: Case) -> list[str]:
        """Return what asking can change, and that it sends nothing."""
        seconds = case.row.contract.get("request_timeout", 0)
        steps = [
            f"{case.row.provider} is asked now what became of it; that takes {seconds:g} s at most and sends nothing.",
            "Found: it completes. No trace of it, after the time in which it may still land: it may be sent again.",
        ]
        if case.is_before_barrier:
            steps.append(f"Until {moment(case.barrier_at)} a request may still land, and “not found” changes nothing.")
        return steps

    def decide(self, case: Case, data: dict[str, Any]) -> object:  # noqa: ARG002 - asking takes no decision
        """Claim, ask, record the verdict."""
        return operators.look_up_now(case.row.pk)


class Resolve(Verb[Case]):
    """Settle what is in doubt by a person's knowledge."""

    name, title, done, tone = "resolve", "Resolve", "Resolved.", "end"
    form_class: ClassVar[type[forms.DecisionForm]] = forms.ResolveForm

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, RESOLVE, case.row)

    def not_possible(self, case: Case) -> str:
        """Return why there is nothing to resolve now."""
        if case.row.state not in EXECUTION_IN_DOUBT:
            return f"It is {label(case.row.state)}; only what is in doubt is resolved."
        return "A look-up is under way; wait for its answer, a few seconds." if case.is_leased else ""

    def consequences(self, case: Case) -> list[str]:
        """Return what is at stake, and what speaks against which decision."""
        row = case.row
        steps = [
            f"Nothing checks your word. Look first at {row.provider}, under {_traces(row)}.",
        ]
        if row.applied_evidence is not None:
            steps.append("Proof that it happened is on file, so “not applied” is refused.")
        elif case.is_before_barrier:
            steps.append(f"A request may still land until {moment(case.barrier_at)}; “not applied” is refused before.")
        return steps

    def was_done(self, case: Case, data: dict[str, Any]) -> bool:
        """Return whether this decision's id is recorded."""
        return Resolution.objects.filter(execution_id=case.row.pk, decision_id=data["decision_id"]).exists()

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """Settle it."""
        kept = ("decision", "revision", "decision_id", "reason", "reference", "output")
        return operators.resolve(case.row.pk, by=case.user, **{name: data[name] for name in kept})


class Reopen(Resolve):
    """Give a new budget of look-ups."""

    name, title, done, tone = "reopen", "Reopen", "Reopened: the provider is asked again.", "plain"
    form_class = forms.ReasonForm

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, REOPEN, case.row)

    def not_possible(self, case: Case) -> str:
        """Return why the provider is not to be asked again."""
        if case.row.state != _S.NEEDS_INTERVENTION:
            return f"It is {label(case.row.state)}; only what waits for a person is reopened."
        if case.row.contract.get("lookup") is None:
            return f"{case.row.provider} cannot be asked: the effect declares no look-up. Resolve it instead."
        return ""

    def consequences(self, case: Case) -> list[str]:
        """Return that look-ups go on and nothing is sent."""
        return [
            f"{case.row.provider} is asked again what became of it, with a new budget of look-ups.",
            "Reopening itself sends nothing. If it is proven that it did not happen it may be sent again.",
        ]

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """Reopen it."""
        kept = ("revision", "decision_id", "reason")
        return operators.reopen(case.row.pk, by=case.user, **{name: data[name] for name in kept})


class Cancel(Verb[Case]):
    """End what was not sent."""

    name, title, done, tone = "cancel", "Cancel", "Cancelled; it is not sent.", "end"
    form_class = forms.ReasonForm
    events: ClassVar[tuple[str, ...]] = ("refuse", "withdraw")

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, CANCEL, case.row)

    def not_possible(self, case: Case) -> str:
        """Return that it is too late."""
        if case.approval is not None and case.approval.state in APPROVAL_LIVE:
            return "It has an approval that is not used: withdraw that, and it ends."
        if case.row.state in (_S.PENDING, _S.AWAITING_APPROVAL):
            return ""
        return f"It is {label(case.row.state)}; only what was not sent can be cancelled."

    def consequences(self, case: Case) -> list[str]:
        """Return how it ends."""
        sent = "Its earlier sends did not happen, and none follows." if case.row.attempts else "It is never sent."
        return [
            sent,
            "Requests that wait for it are answered accordingly. To do it after all, it has to be asked for anew.",
        ]

    def was_done(self, case: Case, data: dict[str, Any]) -> bool:
        """Return whether this person did it on the very revision that the page showed."""
        actor = Actor.of(case.user)
        if actor is None:
            return False
        own = Receipt.objects.filter(execution_id=case.row.pk, revision=data["revision"] + 1, actor_id=actor.id)
        return own.filter(event__in=self.events).exists()

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """End it."""
        self._refuse_stale(case, data)
        return operators.cancel(case.row.pk, by=case.user, reason=data["reason"])

    def _refuse_stale(self, case: Case, data: dict[str, Any]) -> None:
        if data["revision"] != case.row.revision:
            raise StaleRevisionError("It changed since this page was made; look at it again, then decide.")


class Withdraw(Cancel):
    """Take back a request for approval, or a grant that was not used."""

    name, title, done = "withdraw", "Withdraw", "Withdrawn; it is not sent."
    events = ("withdraw",)

    def not_permitted(self, case: Case) -> str:
        """Return that this person neither asked for it nor may cancel."""
        if case.has_asked or may(case.user, CANCEL, case.row):
            return ""
        return f"You did not ask for it, and do not have the permission “{CANCEL}”."

    def not_possible(self, case: Case) -> str:
        """Return that there is nothing to take back."""
        if case.approval is None:
            return "Nobody was asked to approve it."
        if case.approval.state not in APPROVAL_LIVE:
            return decided_before(case.approval, case.attempts)
        return ""

    def consequences(self, case: Case) -> list[str]:
        """Return what is taken back."""
        if case.approval is not None and case.approval.purpose == ApprovalPurpose.RESEND:
            return ["It is not sent again, and stays in doubt until somebody resolves it."]
        return ["The request for approval ends, votes and all, and it is not sent.", *super().consequences(case)[1:]]

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """Take it back."""
        self._refuse_stale(case, data)
        return operators.withdraw(case.row.pk, by=case.user, reason=data["reason"])


class ResolveRequest(Verb[RequestCase]):
    """Close a request in doubt by a person's knowledge."""

    name, title, done, tone = "resolve", "Resolve", "Resolved.", "end"
    form_class = forms.ResolveRequestForm

    def not_permitted(self, case: RequestCase) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, RESOLVE, case.row)

    def not_possible(self, case: RequestCase) -> str:
        """Return why there is nothing to resolve now."""
        if case.row.state != RequestState.IN_DOUBT:
            return f"It is {label(case.row.state)}; only what is in doubt is resolved."
        if case.unsettled:
            return "An execution of this request is not settled; resolve that one first."
        return ""

    def consequences(self, case: RequestCase) -> list[str]:
        """Return what a client learns from then on."""
        view = "which calls out by itself" if case.row.is_opaque else "which declares what it performs"
        return [
            f"Its view, {view}, was cut short. Find out at the providers what it did before you decide.",
            "The request is closed for good and without an answer. Its key stays taken: its handler never runs again.",
        ]

    def was_done(self, case: RequestCase, data: dict[str, Any]) -> bool:
        """Return whether this decision's id is recorded."""
        return Resolution.objects.filter(request_id=case.row.pk, decision_id=data["decision_id"]).exists()

    def decide(self, case: RequestCase, data: dict[str, Any]) -> object:
        """Close it."""
        kept = ("decision", "revision", "decision_id", "reason")
        return operators.resolve_request(case.row.pk, by=case.user, **{name: data[name] for name in kept})


def _traces(row: Execution) -> str:
    """Return under what the provider knows it."""
    return f"the key {row.provider_key}" + (f" or the reference {visible(row.reference)}" if row.reference else "")


#: In the order in which the execution's page offers them.
EXECUTION_VERBS: tuple[Verb[Case], ...] = (
    Approve(), Deny(), LookUp(), Resolve(), Reopen(), Withdraw(), Cancel(),
)  # fmt: skip
REQUEST_VERBS: tuple[Verb[RequestCase], ...] = (ResolveRequest(),)
