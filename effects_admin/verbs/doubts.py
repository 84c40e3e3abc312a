"""In doubt: asking the provider, deciding by hand, sending again by order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from effects.journal.snapshots import WORD_OF
from effects.models import Execution, Resolution
from effects.runtime import operators
from effects.transitions.attempts import references_on_file
from effects.transitions.permits import why_not_resendable
from effects.transitions.resends import needs_confirming, what_confirms
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.states import APPROVAL_LIVE, EXECUTION_IN_DOUBT, ExecutionState, RequestState
from effects_admin import forms
from effects_admin.cases import Case, RequestCase
from effects_admin.display import moment, money, span, visible
from effects_admin.permissions import LOOK_UP, ORDER_RESEND, REOPEN, RESOLVE, lacks
from effects_admin.verbs.base import Verb
from effects_admin.words import label

__all__ = ["LookUp", "OrderResend", "Reopen", "Resolve", "ResolveRequest"]

_S = ExecutionState


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
        if case.is_leased:
            return "A look-up is under way; its answer is here in a few seconds."
        return case.foreign_code

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
    shows_finding = True

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
            if word := row.applied_evidence.get(WORD_OF):
                steps.append(f"It is the word of {visible(word)}, which nothing checked: evidence can say otherwise.")
        elif case.is_before_barrier:
            steps.append(f"A request may still land until {moment(case.barrier_at)}; “not applied” is refused before.")
        return steps

    def initial(self, case: Case) -> dict[str, Any]:
        """Return what the page carries: also the reference that is on file, if there is one alone that can be shown."""
        known = references_on_file(case.row)
        shown = [reference for reference in known if len(known) == 1 and visible(reference) == reference]
        return {**super().initial(case), **({"reference": shown[0]} if shown else {})}

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
        if case.row.pruned_at is not None:
            return "Retention dropped its payload, which a look-up needs. Resolve it instead."
        return case.foreign_code

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


class OrderResend(Resolve):
    """Have it sent again, although it may have happened."""

    name, title, done, tone = "order-resend", "Send again", "Another send is ordered.", "end"
    form_class = forms.ReasonForm

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, ORDER_RESEND, case.row)

    def not_possible(self, case: Case) -> str:
        """Return what speaks against another send."""
        if case.row.state != _S.NEEDS_INTERVENTION:
            return f"It is {label(case.row.state)}; only what waits for a person is sent again by order."
        if case.row.applied_evidence is not None:
            return "Proof that it happened is on file; another send would do it twice."
        if case.approval is not None and case.approval.state in APPROVAL_LIVE:
            return "Another send is ordered already."
        if why := why_not_resendable(case.row):
            return f"It cannot be sent again: {why}."
        return case.foreign_code if case.row.holds_key else "Its key has passed to a successor."

    def consequences(self, case: Case) -> list[str]:
        """Return that it may happen twice, and who has to agree."""
        row, amount = case.row, money(case.row.amount, case.row.currency)
        lifetime = row.contract.get("deduplicated_for")
        kept = f"recognises its key for {span(timedelta(seconds=lifetime))}" if lifetime else "does not promise to"
        what = f"“{visible(row.summary.get('title', row.operation))}”" + (f", {amount}," if amount else "")
        steps = [
            f"{what} is sent again to {row.provider}, under the same key {row.provider_key}.",
            f"If the first one arrived it happens twice, unless the provider recognises the key: it {kept}.",
        ]
        rule = rule_from_json(row.contract.get("approval"))
        agree = (
            f"{rule.quorum} with “{rule.approvers}” must approve first, and not you" if rule else "nobody else is asked"
        )
        disputed = "What was found speaks against it, so you type again what is sent." if needs_confirming(row) else ""
        return [*steps, f"{agree[0].upper()}{agree[1:]}.", *filter(None, [disputed])]

    def form(self, case: Case, data: Any = None, **options: Any) -> forms.DecisionForm:
        """Return the form; after a conflict it asks for the amount, or the key, unless other people must approve."""
        row = case.row
        if not needs_confirming(row):
            return super().form(case, data, **options)
        confirmed = forms.ConfirmedReasonForm(data, **options)
        shown = row.key if row.amount is None else money(row.amount, row.currency)
        confirmed.ask_for("the key" if row.amount is None else "the amount", shown, what_confirms(row))
        return confirmed

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """Order it."""
        kept = {name: data[name] for name in ("revision", "decision_id", "reason")}
        return operators.order_resend(case.row.pk, by=case.user, **kept, confirm=data.get("confirm", ""))


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
