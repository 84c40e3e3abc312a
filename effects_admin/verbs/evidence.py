"""Evidence that says otherwise: the way back from what people, or a provider, said wrongly."""

from __future__ import annotations

from typing import Any, ClassVar

from effects.models import Resolution
from effects.runtime import operators
from effects.transitions import STATEMENTS, why_not_said
from effects.vocabulary.states import EXECUTION_IN_DOUBT, ExecutionState
from effects_admin import forms
from effects_admin.cases import Case
from effects_admin.permissions import OBSERVE, lacks
from effects_admin.verbs.base import Verb

__all__ = ["BringEvidence"]


class BringEvidence(Verb[Case]):
    """Bring evidence that an execution stands otherwise than its row says."""

    name, title, done = "evidence", "I have evidence that says otherwise", "Your evidence is recorded."
    form_class: ClassVar[type[forms.DecisionForm]] = forms.EvidenceForm
    shows_finding = True

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, OBSERVE, case.row)

    def not_possible(self, case: Case) -> str:
        """Return why nothing could be said now; a send that is under way is waited for."""
        if case.row.state == ExecutionState.EXECUTING:
            return "It is being sent just now. Wait until that has ended, a few seconds, and look again."
        # a reference that nobody knows yet is news of what happened, too
        why = [why_not_said(case.row, statement, "?") for statement in STATEMENTS]
        return "" if "" in why else why[0]

    def consequences(self, case: Case) -> list[str]:
        """Return what evidence can change, and that it neither decides nor sends."""
        row = case.row
        steps = ["Evidence decides nothing and sends nothing. It is kept as your word, which nothing has checked."]
        if row.state in EXECUTION_IN_DOUBT:
            steps.append("That it happened goes on file; then it is neither sent again nor taken for failed unseen.")
        else:
            steps.append("It then needs a person: somebody who may resolve looks at it and decides anew.")
        denied = why_not_said(row, "not_applied")
        if denied:
            steps.append(f"That it did not happen cannot be said here: {denied[0].lower()}{denied[1:]}")
        return steps

    def was_done(self, case: Case, data: dict[str, Any]) -> bool:
        """Return whether this evidence's id is recorded."""
        return Resolution.objects.filter(execution_id=case.row.pk, decision_id=data["decision_id"]).exists()

    def decide(self, case: Case, data: dict[str, Any]) -> object:
        """Hand it in."""
        kept = ("revision", "decision_id", "reason", "reference")
        statement = data["statement"]
        return operators.observe(
            case.row.pk, by=case.user, undone=statement == "undone", not_applied=statement == "not_applied",
            **{name: data[name] for name in kept},
        )  # fmt: skip
