"""The forms of the console's verbs. Each carries what its page showed, so that a stale page is told apart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID, uuid4

from django import forms

from effects.vocabulary import canonical
from effects.vocabulary.exceptions import PayloadError
from effects_admin.words import DECISIONS, REQUEST_DECISIONS, STATEMENTS, label

__all__ = [
    "MOST_ITEMS",
    "ApproveForm",
    "BulkForm",
    "ConfirmedReasonForm",
    "DecisionForm",
    "DenyForm",
    "EvidenceForm",
    "Item",
    "ReasonForm",
    "ResolveForm",
    "ResolveRequestForm",
    "new_decision_id",
]

MAX_TEXT = 2000
#: Rows of one bulk decision: what a person can read.
MOST_ITEMS = 50


def new_decision_id() -> str:
    """Return the id of one decision, made by the page: sent twice it is the same decision."""
    return uuid4().hex


class DecisionForm(forms.Form):
    """What every verb's page carries: the revision that it showed, and the decision's own id."""

    revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    decision_id = forms.CharField(max_length=100, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any] | None:
        """Say once, in words, that a page without its hidden fields decides nothing."""
        if any(name in self.errors for name in self.fields if self.fields[name].widget.is_hidden):
            self.add_error(None, "This page is incomplete, so nothing was done. Open it again and decide then.")
        return super().clean()


class ApproveForm(DecisionForm):
    """An approver's vote on exactly what the page showed."""

    approval = forms.UUIDField(widget=forms.HiddenInput)
    digest = forms.CharField(max_length=64, widget=forms.HiddenInput)
    comment = forms.CharField(
        label="Comment", required=False, max_length=MAX_TEXT, widget=forms.Textarea({"rows": 3}),
        help_text="Kept with your vote.",
    )  # fmt: skip


class DenyForm(ApproveForm):
    """An approver's refusal."""

    comment = forms.CharField(
        label="Why", max_length=MAX_TEXT, widget=forms.Textarea({"rows": 3}),
        help_text="Kept with your vote; whoever asked for it reads it.",
    )  # fmt: skip


class ReasonForm(DecisionForm):
    """A decision that overrides what would have happened, with its reason."""

    reason = forms.CharField(
        label="Reason", max_length=MAX_TEXT, widget=forms.Textarea({"rows": 3}),
        help_text="Why, in your words. Kept for ever, with your name.",
    )  # fmt: skip


class OutputField(forms.CharField):
    """JSON that may be left out. The page shows again what was typed, whatever that was."""

    def to_python(self, value: Any) -> Any:
        """Return the value that the text stands for; None for an empty field."""
        text = super().to_python(value)
        try:
            return json.loads(text) if text else None
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError("Enter a valid JSON, not nested too deeply.") from error


class ConfirmedReasonForm(ReasonForm):
    """A decision that may cost twice, which repeats what it is about: the amount, or the key of what has none."""

    confirm = forms.CharField(max_length=255, label="Type it again", widget=forms.TextInput({"autocomplete": "off"}))

    def ask_for(self, what: str, shown: str, confirms: str) -> None:
        """Say what has to be typed: `what`, as the page shows it; that stands for what the journal compares with."""
        self.what, self.shown, self.confirms = what, shown, confirms
        self.fields["confirm"].label = f"Type {what} again"
        self.fields["confirm"].help_text = f"As this page shows it: {shown}. It may have happened already."

    def clean_confirm(self) -> str:
        """Compare, whatever separators and currency somebody types beside an amount's digits."""
        typed: str = self.cleaned_data["confirm"]
        same = _digits(typed) == _digits(self.shown) if self.what == "the amount" else typed == self.shown
        if not same:
            raise forms.ValidationError(f"That is not {self.what} on this page. Nothing was ordered.")
        return self.confirms


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


class ReferencedForm(ReasonForm):
    """What a person says that happened, with the provider's reference, or the word that there is none."""

    #: The field that says what happened, and what of it has a reference.
    says: ClassVar[str] = "decision"
    happened: ClassVar[frozenset[str]] = frozenset({"applied", "undone"})

    reference = forms.CharField(
        label="Provider reference", required=False, max_length=255,
        help_text="The provider's own id of it, if it happened: re_3Q…",
    )  # fmt: skip
    no_reference = forms.BooleanField(label="There is no reference", required=False)

    def clean(self) -> dict[str, Any] | None:
        """Ask for the reference of what happened, or for the word that there is none."""
        cleaned = super().clean()
        reference, without = self.cleaned_data.get("reference"), self.cleaned_data.get("no_reference")
        if self.cleaned_data.get(self.says) in self.happened and "reference" not in self.errors:
            if not reference and not without:
                self.add_error("reference", "Enter the provider's reference, or tick that there is none.")
            elif reference and without:
                self.add_error("no_reference", "There is a reference above; take one of the two away.")
        return cleaned


class EvidenceForm(ReferencedForm):
    """What a person has seen that says otherwise than the row does."""

    says = "statement"
    statement = forms.ChoiceField(
        label="What the evidence says",
        choices=[(name, f"{label(name).capitalize()}: {meaning}") for name, meaning in STATEMENTS.items()],
        widget=forms.RadioSelect,
    )
    field_order = ("statement", "reason", "reference", "no_reference")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["reason"].label = "What you have seen, and where"


class ResolveForm(ReferencedForm):
    """What became of an execution in doubt, by a person's knowledge."""

    decision = forms.ChoiceField(
        label="What became of it",
        choices=[(name, f"{label(name).capitalize()}: {meaning}") for name, meaning in DECISIONS.items()],
        widget=forms.RadioSelect,
    )
    output = OutputField(
        label="Output (JSON)", required=False, widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="What the effect would have given, if the waiting answer needs it. Money in minor units.",
    )  # fmt: skip
    field_order = ("decision", "reason", "reference", "no_reference", "output")

    def clean_output(self) -> Any:
        """Refuse what the journal could not keep exactly, naming the value."""
        output = self.cleaned_data["output"]
        try:
            canonical.dump(output)
        except PayloadError as error:
            raise forms.ValidationError(f"It cannot be kept exactly: {error}") from error
        return output

    def clean(self) -> dict[str, Any] | None:
        """Refuse a reference or an output of something that did not happen."""
        cleaned = super().clean()
        if self.cleaned_data.get("decision") in ("not_applied", "unknown"):
            for name in ("reference", "output"):
                if self.cleaned_data.get(name) not in (None, ""):
                    self.add_error(name, "Only what happened has one; leave it empty.")
        return cleaned


@dataclass(frozen=True)
class Item:
    """One row of a bulk decision, as its page showed it."""

    ref: UUID
    revision: int
    approval: UUID | None
    digest: str

    @classmethod
    def parse(cls, text: str) -> Item:
        """Read `ref:revision:approval:digest`.

        Raises:
            ValueError: it is something else.
        """
        ref, revision, approval, digest = text.split(":")
        return cls(UUID(ref), int(revision), UUID(approval) if approval else None, digest[:64])

    def as_data(self) -> dict[str, Any]:
        """Return it as one verb's form gives it."""
        return {"revision": self.revision, "approval": self.approval, "digest": self.digest}


class BulkForm(forms.Form):
    """Rows that are decided together, each with the digest and revision that the page showed."""

    comment = forms.CharField(
        label="Comment", required=False, max_length=MAX_TEXT, widget=forms.Textarea({"rows": 3}),
        help_text="Kept with each of your votes.",
    )  # fmt: skip
    items: list[Item]

    def clean(self) -> dict[str, Any] | None:
        """Read the rows; one that cannot be read refuses them all."""
        try:
            sent: Any = self.data
            self.items = [Item.parse(text) for text in dict.fromkeys(sent.getlist("item"))]
        except ValueError:
            self.items = []
        if not 0 < len(self.items) <= MOST_ITEMS:
            self.add_error(None, "This page is incomplete, so nothing was done. Open it again and decide then.")
        return super().clean()

    def said(self) -> dict[str, Any]:
        """Return what the person typed for all of them."""
        return {"comment": self.cleaned_data["comment"]}

    def incomplete(self) -> list[str]:
        """Return what is wrong with it."""
        return [str(message) for messages in self.errors.values() for message in messages]


class ResolveRequestForm(ReasonForm):
    """What became of a request in doubt, by a person's knowledge."""

    decision = forms.ChoiceField(
        label="What became of it",
        choices=[(name, f"{label(name).capitalize()}: {meaning}") for name, meaning in REQUEST_DECISIONS.items()],
        widget=forms.RadioSelect,
    )
    field_order = ("decision", "reason")
