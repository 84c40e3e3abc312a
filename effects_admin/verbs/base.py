"""What each verb answers: who may, when it is possible, what it does, and how it is done."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from effects_admin import forms
from effects_admin.cases import Case, RequestCase

__all__ = ["Verb"]

C = TypeVar("C", Case, RequestCase)


class Verb(Generic[C]):
    """One thing that a person may do to a row, on a page of its own.

    Attributes:
        name: the last part of the page's address.
        title: what the button says.
        done: what the message says afterwards.
        form_class: what the person fills in.
        tone: how the button looks: it sends, it ends, or it does neither.
        shows_finding: whether its page shows what look-ups found: who decides in doubt must not miss it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    done: ClassVar[str]
    form_class: ClassVar[type[forms.DecisionForm]] = forms.DecisionForm
    tone: ClassVar[str] = "plain"
    shows_finding: ClassVar[bool] = False

    def not_permitted(self, case: C) -> str:
        """Return why this person may not; empty if they may."""
        raise NotImplementedError

    def not_possible(self, case: C) -> str:
        """Return why it cannot be done as the row stands; empty if it can."""
        raise NotImplementedError

    def consequences(self, case: C) -> list[str]:
        """Return what exactly will be done, in sentences."""
        raise NotImplementedError

    def form(self, case: C, data: Any = None, **options: Any) -> forms.DecisionForm:  # noqa: ARG002 - for those that ask more of some rows
        """Return what the person fills in, for this row."""
        return self.form_class(data, **options)

    def finds(self, case: C) -> bool:  # noqa: ARG002 - for verbs that decide in doubt at times only
        """Return whether the page for this row shows what was found."""
        return self.shows_finding

    def initial(self, case: C) -> dict[str, Any]:
        """Return what the page carries."""
        return {"revision": case.row.revision, "decision_id": forms.new_decision_id()}

    def was_done(self, case: C, data: dict[str, Any]) -> bool:  # noqa: ARG002 - for the verbs that record one
        """Return whether this very decision is recorded already: the page was sent twice."""
        return False

    def decide(self, case: C, data: dict[str, Any]) -> object:
        """Do it, through the public function. Commits."""
        raise NotImplementedError

    def not_together(self, case: C) -> str:  # noqa: ARG002 - for verbs that a list of rows tells too little of
        """Return why it is not done to several rows on one page; empty if it may be."""
        return ""

    def why_not(self, case: C) -> str:
        """Return in words why this person cannot do it now; empty if they can."""
        return self.not_permitted(case) or self.not_possible(case)
