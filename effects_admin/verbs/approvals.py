"""Before it is sent: voting, taking back, ending."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from effects.journal.summaries import predecessors_in
from effects.models import Approval, Receipt
from effects.runtime import operators
from effects.vocabulary.exceptions import ApprovalError
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.states import APPROVAL_LIVE, ApprovalPurpose, ApprovalState, ExecutionState
from effects.vocabulary.types import COMPENSATES, SUPERSEDES, Actor
from effects_admin import forms
from effects_admin.cases import Case, decided_before, why_no_vote
from effects_admin.display import moment
from effects_admin.findings import doubtful_elders
from effects_admin.permissions import CANCEL, lacks, may
from effects_admin.verbs.base import Verb
from effects_admin.words import label

__all__ = ["Approve", "Cancel", "Deny", "Withdraw"]

_S = ExecutionState
#: What an approver is told of the execution that this one is derived from.
_PREDECESSORS = {
    COMPENSATES: "It undoes “{text}” ({ref}), which happened: what was done there is taken back.",
    SUPERSEDES: "It was asked for before, as “{text}” ({ref}). That one did not happen; this one takes its place.",
}


class Approve(Verb[Case]):
    """Vote for the live approval."""

    name, title, done, tone = "approve", "Approve", "Your approval is recorded.", "send"
    form_class = forms.ApproveForm
    decision: ClassVar[str] = "approve"

    def not_permitted(self, case: Case) -> str:
        """Return what the approval's rule has against this person."""
        has_rule = case.approval is not None and case.approval.rule
        return why_no_vote(case.row, case.approval, case.user) if has_rule and case.approval else ""

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
        if case.is_bare and case.contents is None:
            return "Its summary has no amount and no facts, and its payload cannot be shown: nobody decides unseen."
        if mine:
            return f"You decided it at {moment(mine[0].at)}; {case.approvals_missing} more must approve."
        return ""

    def consequences(self, case: Case) -> list[str]:
        """Return what an approval sets off."""
        approval, row = case.approval, case.row
        if approval is None:
            return []
        rule = rule_from_json(approval.rule)
        amount = case.amount
        what = f"the provider {row.provider} is asked for “{case.title}”"
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
        steps += [_PREDECESSORS[before.relation].format(**asdict(before)) for before in predecessors_in(case.summary)]
        steps += doubtful_elders(row.supersedes)
        covers = "sends until one may have arrived" if rule and rule.covers_retries else "one send"
        return [
            *steps,
            f"The approval is worth {covers}, of {self._shown(case)} (digest {approval.digest[:12]}…).",
        ]

    def finds(self, case: Case) -> bool:
        """Return whether another send is voted on, of something that may have happened."""
        return case.approval is not None and case.approval.purpose == ApprovalPurpose.RESEND

    def not_together(self, case: Case) -> str:
        """Return that it is decided by its payload, which only its own page shows."""
        if not case.is_bare:
            return ""
        return "Its effect describes no amount and no facts: open its own page, which shows the payload."

    def _shown(self, case: Case) -> str:
        """Return what the page shows of the contents, and no more than is true."""
        if case.contents is not None:
            return "exactly what is shown here" if case.contents.is_whole else "what is shown here, parts of it hidden"
        return "the contents that are summed up here, and void if they change"

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
        options = {name: data[name] for name in ("digest", "comment", "approval", "revision")}
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
        undone = case.row.compensates_id is not None
        return [
            f"It is not {'undone' if undone else 'sent'}; one refusal is enough, however many approved.",
            "Requests that wait for it are answered accordingly. To do it after all, it has to be asked for anew.",
        ]


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
        return operators.cancel(case.row.pk, by=case.user, reason=data["reason"], revision=data["revision"])


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
        return operators.withdraw(case.row.pk, by=case.user, reason=data["reason"], revision=data["revision"])
