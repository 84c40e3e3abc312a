"""After the end: undoing what happened, asking again for what did not."""

from __future__ import annotations

from typing import Any

from effects.models import Receipt, Request
from effects.runtime import perform
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.states import REQUEST_ENDED, ExecutionReason, ExecutionState, values
from effects.vocabulary.types import Actor
from effects_admin import forms
from effects_admin.cases import Case
from effects_admin.display import visible
from effects_admin.findings import doubtful_elders, word_behind
from effects_admin.permissions import COMPENSATE, SUPERSEDE, lacks
from effects_admin.verbs.base import Verb
from effects_admin.words import label

__all__ = ["Compensate", "Supersede"]

_S = ExecutionState
#: Keys that `perform` made from the id of its request.
_DERIVED = "request:"
_UNCHECKED = (
    "That it happened is what {who} said, and nothing checked it: if that is wrong, this takes back what never was."
)


class Compensate(Verb[Case]):
    """Undo what happened, as an execution of its own."""

    name, title, done, tone = "compensate", "Undo", "The undoing is recorded.", "end"
    form_class = forms.ReasonForm

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, COMPENSATE, case.row)

    def not_possible(self, case: Case) -> str:
        """Return why there is nothing to undo, or no way."""
        row = case.row
        if row.compensates_id is not None:
            return "It is an undoing itself; to do the thing after all, it has to be asked for under a key of its own."
        if row.state not in (_S.COMPLETED, _S.PARTIALLY_COMPLETED):
            return f"It is {label(row.state)}; only what happened is undone."
        if row.reason == ExecutionReason.UNDONE:
            return "It was undone at the provider already."
        if not row.contract.get("reversible"):
            return f"{row.operation} declares no undoing."
        undoing = _undoing(case)
        if undoing:
            return f"Its undoing is recorded already; that one is {label(undoing.state)}."
        return case.foreign_code if case.is_gone else ""

    def consequences(self, case: Case) -> list[str]:
        """Return what is undone, and who has to agree."""
        word = word_behind(case.row)
        said = [_UNCHECKED.format(who=visible(word.actor_label or word.actor_id))] if word is not None else []
        return [
            *said,
            f"{_what(case)} is undone at {case.row.provider}, by a call of its own under a key of its own.",
            "Where the effect's rule asks for an approval other people decide first; otherwise it is sent at once.",
            "The original stays completed, and says what undid it.",
        ]

    def was_done(self, case: Case, data: dict[str, Any]) -> bool:  # noqa: ARG002 - one original has one undoing
        """Return whether this person had it undone before."""
        undoing, actor = _undoing(case), Actor.of(case.user)
        return undoing is not None and actor is not None and (undoing.requested_by or {}).get("id") == actor.id

    def decide(self, case: Case, data: dict[str, Any]) -> Outcome:
        """Record the undoing, and send it where nobody has to agree."""
        return perform.compensate(
            case.row.pk, requested_by=case.user, reason=data["reason"], revision=data["revision"]
        )  # fmt: skip


class Supersede(Verb[Case]):
    """Ask again for what did not happen: the same contents, under a new provider key."""

    name, title, done, tone = "supersede", "Ask again", "It is asked for again.", "send"
    form_class = forms.ReasonForm

    def not_permitted(self, case: Case) -> str:
        """Return that the permission is missing."""
        return lacks(case.user, SUPERSEDE, case.row)

    def not_possible(self, case: Case) -> str:
        """Return why it cannot be asked for again."""
        row = case.row
        if row.state not in (_S.FAILED, _S.REJECTED):
            return f"It is {label(row.state)}; only what did not happen is asked for again."
        if not row.holds_key:
            return "It was asked for again already: its key has passed to a successor."
        if row.key.startswith(_DERIVED) and _has_ended(row.key.removeprefix(_DERIVED)):
            return "Its key belongs to a request that has ended; it has to be asked for under a key of its own."
        return case.foreign_code if case.is_gone else ""

    def consequences(self, case: Case) -> list[str]:
        """Return what is sent, and who has to agree."""
        return [
            *doubtful_elders(case.row),
            f"{_what(case)} is asked for again with the same contents, as a new execution that takes over its key.",
            f"{case.row.provider} gets a new key for it: it does not take it for the one that did not happen.",
            "Where the effect's rule asks for an approval, people decide who did not ask; else it is sent at once.",
        ]

    def was_done(self, case: Case, data: dict[str, Any]) -> bool:
        """Return whether this person did it on the very revision that the page showed."""
        actor = Actor.of(case.user)
        own = Receipt.objects.filter(execution_id=case.row.pk, event="supersede", revision=data["revision"] + 1)
        return actor is not None and own.filter(actor_id=actor.id).exists()

    def decide(self, case: Case, data: dict[str, Any]) -> Outcome:
        """Record the successor, and send it where nobody has to agree."""
        return perform.supersede(
            case.row.pk, requested_by=case.user, reason=data["reason"], revision=data["revision"]
        )  # fmt: skip


def _what(case: Case) -> str:
    return f"“{case.title}”" + (f", {case.amount}," if case.amount else "")


def _undoing(case: Case) -> Any:
    return next((each for each in case.sequels if each.compensates_id == case.row.pk and each.holds_key), None)


def _has_ended(request_id: str) -> bool:
    return Request.objects.filter(pk=request_id, state__in=values(REQUEST_ENDED)).exists()
