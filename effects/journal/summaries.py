"""Summaries: what people are shown of an execution before they decide, as it is frozen, digested and shown again.

`describe` says what an execution does. What it cannot know, or would have to remember, is said here for every effect:
that the execution undoes another one, that it asks again for one that did not happen, and that an approval is about a
second send. It stands in the title, so that no list, page, notice or client can show the title without it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from effects.declarations.effect import Effect
from effects.journal import redaction
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError, PayloadError, PayloadUnreadableError
from effects.vocabulary.secrets import MASK, RESERVED
from effects.vocabulary.states import ApprovalPurpose
from effects.vocabulary.types import COMPENSATES, SUPERSEDES, Context, Predecessor, Summary

__all__ = ["Contents", "contents_of", "digest_of_summary", "is_bare", "of_purpose", "predecessors_in", "summary_of"]

#: How a title begins, and what the fact is called that names the other execution.
_UNDO, _AGAIN, _RESEND = "Undo: ", "Again: ", "Send again: "
_PREFIXES = {COMPENSATES: _UNDO, SUPERSEDES: _AGAIN}
_NAMES = {COMPENSATES: "Undoes", SUPERSEDES: "Asked again after"}
_SENT_BEFORE = ["Sent before", "It may have happened already; this sends it once more, under the same provider key."]
LONGEST_TITLE = 255


def summary_of(effect: Effect[Any], context: Context[Any]) -> dict[str, Any]:
    """Return the frozen form of what an effect says of an execution, and of what that one is derived from.

    Every value is cleaned to what a page and jsonb can hold. Runs `describe`, so outside of any transaction of ours.

    Raises:
        EffectDefinitionError: `describe` returned something else.
        PayloadError: the amount is no integer of minor units.
    """
    said: object = effect.describe(context)
    if not isinstance(said, Summary):
        raise EffectDefinitionError(f"describe() returned {said!r:.80}: return effects.Summary(title, …)")
    if said.amount is not None and (isinstance(said.amount, bool) or not isinstance(said.amount, int)):
        raise PayloadError("money is an integer of minor units", path="summary.amount")
    data = asdict(said)
    for name in ("title", "currency", "target"):
        data[name] = canonical.clean_shown(data[name], LONGEST_TITLE)
    # pairs: jsonb sorts the names of an object, and people are shown the facts in the order that was meant
    facts = [[canonical.clean_shown(name, 255), canonical.clean_shown(it)] for name, it in said.facts.items()]
    is_blank = said.amount is None and not any(value.strip() for _name, value in facts)
    data["title"] = data["title"].strip() or f"{effect.operation} {context.key}"
    data["facts"] = facts
    if is_blank:
        data["bare"] = True
    return _derived(data, context.derived_from)


def of_purpose(summary: dict[str, Any], purpose: ApprovalPurpose) -> dict[str, Any]:
    """Return what the approvers of a purpose are shown: of a second send, that it is one."""
    if purpose is not ApprovalPurpose.RESEND:
        return summary
    return {**summary, **_headed(summary, _RESEND, [_SENT_BEFORE])}


def predecessors_in(summary: dict[str, Any]) -> tuple[Predecessor, ...]:
    """Return what a frozen summary says that its execution is derived from."""
    return tuple(Predecessor(*each) for each in summary.get("derived_from", ()))


def is_bare(summary: dict[str, Any]) -> bool:
    """Return whether a frozen summary tells nothing of the contents: no amount, and no fact that says anything.

    Nobody decides by a title alone, which may be made of the operation's name and the key.
    """
    return bool(summary.get("bare")) or not summary.get("title")


@dataclass(frozen=True)
class Contents:
    """A payload as plain JSON, as it may be shown: secrets masked, and what the project's `REDACTOR` hides by now.

    Attributes:
        value: what is shown.
        is_whole: whether nothing of it is hidden.
    """

    value: Any
    is_whole: bool


def contents_of(payload: str) -> Contents:
    """Return a recorded payload as it may be shown to those who decide by it.

    Raises:
        PayloadUnreadableError: retention dropped it, or it is no JSON: there is nothing that could be shown.
    """
    try:
        value = canonical.load(payload, unmark=lambda _mark: MASK)
    except PayloadError as error:
        raise PayloadUnreadableError("The payload is dropped, or cannot be read.") from error
    shown = redaction.redact_value(value, "payload")
    return Contents(shown, is_whole=shown == value and RESERVED not in payload)


def digest_of_summary(summary: dict[str, Any]) -> str:
    """Return the digest that a changed summary is noticed by."""
    return canonical.digest("effects.summary", canonical.dump(summary))


def _derived(data: dict[str, Any], derived_from: tuple[Predecessor, ...]) -> dict[str, Any]:
    if not derived_from:
        return data
    heading = "".join(_PREFIXES[before.relation] for before in reversed(derived_from))
    named = [[_NAMES[before.relation], f"{before.text}, ref {before.ref}"] for before in derived_from]
    told = [[before.relation, before.ref, before.text] for before in derived_from]
    return {**data, **_headed(data, heading, named), "derived_from": told}


def _headed(data: dict[str, Any], heading: str, facts: list[list[str]]) -> dict[str, Any]:
    # what is long is cut at its end: the heading stays
    title = canonical.clean_text(f"{heading}{data.get('title', '')}", LONGEST_TITLE)
    return {"title": title, "facts": [*facts, *data.get("facts", ())]}
