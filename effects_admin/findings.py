"""What is known of a row beside its state: the last look-up's finding, later evidence, and the words of people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from effects.journal.snapshots import WORD_OF
from effects.models import Execution, Receipt, Request, Resolution
from effects.transitions import DECISIONS
from effects.vocabulary.states import ExecutionReason, ExecutionState
from effects_admin.cases import Case
from effects_admin.display import moment, visible
from effects_admin.timeline import Line, lines
from effects_admin.words import EXECUTION_MEANINGS

__all__ = ["Finding", "changes_since", "doubtful_elders", "finding_of", "meaning_of", "word_behind"]

#: The verbs by which a look-up says what it found, and those by which evidence comes from elsewhere.
_LOOKED = ("postpone", "acknowledge", "escalate", "confirm", "confirm_absence", "confirm_failure")
_HEARD = ("observe", "contradict")
#: How many lines of later evidence, and of what changed since a page was made, are shown.
_MOST = 10
#: How far back it is followed who asked for the same before.
_ELDERS = 10
_BY_WORD = (ExecutionReason.OPERATOR, ExecutionReason.UNDONE)
_SAID = {
    ExecutionState.COMPLETED: "It happened, as {who} said on {at}; nothing checked it.",
    ExecutionState.FAILED: "It did not happen, as {who} said on {at}; nothing checked it.",
    ExecutionState.ABANDONED: "Nobody will know whether it happened, as {who} decided on {at}; nothing checked it. "
    "Its key stays taken, so it is never sent again.",
}


@dataclass(frozen=True)
class Finding:
    """What a person who decides has to know.

    Attributes:
        lines: the last look-up's finding and later evidence, the newest first.
        references: the provider's references that are named there or on file, each with its address at the provider.
    """

    lines: list[Line]
    references: list[tuple[str, str]]


def finding_of(case: Case, user: Any) -> Finding | None:
    """Return what was found of an execution, as `user` may read it; None where nothing was looked up or heard."""
    receipts = case.row.receipts.order_by("-sequence")
    looked = list(receipts.filter(event__in=_LOOKED)[:1])
    since = looked[0].sequence if looked else 0
    heard = list(receipts.filter(event__in=_HEARD, sequence__gt=since)[:_MOST])
    if not looked and not heard:
        return None
    found = [*heard, *looked]
    named = [name for receipt in found for name in _named(receipt.evidence)]
    proof = case.row.applied_evidence or {}
    on_file = [case.row.reference, proof.get("reference"), proof.get("other_reference")]
    every = list(dict.fromkeys(str(name) for name in [*on_file, *named] if name))
    return Finding(list(lines(found, user, case.row)), [(visible(name), case.url_of(name)) for name in every])


def _named(evidence: Any) -> Iterator[Any]:
    kept = evidence if isinstance(evidence, dict) else {}
    references = kept.get("references")
    if isinstance(references, list):
        yield from references
    else:
        yield kept.get("reference")
    yield kept.get("other_reference")


def changes_since(row: Execution | Request, revision: int | None, user: Any) -> list[Line]:
    """Return what changed in a row after a page of `revision` was made, the newest first; empty: nothing."""
    if revision is None or row.revision <= revision:
        return []
    newer: QuerySet[Receipt] = row.receipts.filter(revision__gt=revision)
    return list(lines(newer.order_by("-sequence")[:_MOST], user, row))


def meaning_of(row: Execution) -> str:
    """Return what a state means; where only a person said so it names them, and says that nothing checked it."""
    meaning: str = EXECUTION_MEANINGS.get(row.state, "")
    word = word_behind(row)
    said = _SAID.get(ExecutionState(row.state)) if word is not None else None
    return said.format(who=_who(word), at=moment(word.at)) if said and word else meaning


def word_behind(row: Execution) -> Resolution | None:
    """Return the decision of a person that alone says how an execution ended; None where a program has proof."""
    proof = row.applied_evidence
    is_proven = row.state == ExecutionState.COMPLETED and proof is not None and WORD_OF not in proof
    if row.reason not in _BY_WORD or is_proven:
        return None
    return row.resolutions.filter(decision__in=DECISIONS).order_by("-pk").first()


def doubtful_elders(row: Execution | None) -> list[str]:
    """Return a warning for each of a row's elders, itself included, that did not happen by a person's word alone."""
    found = []
    for _ in range(_ELDERS):
        if row is None:
            break
        word = word_behind(row) if row.state == ExecutionState.FAILED else None
        if word is not None:
            said = f"That it did not happen is what {_who(word)} said on {moment(word.at)}, and nothing checked it."
            found.append(
                f"{said} If that is wrong, this does it a second time. Look at {row.provider} under the key "
                f"{row.provider_key} first; whoever has evidence that it happened brings that instead."
            )
        row = row.supersedes
    return found


def _who(word: Resolution) -> str:
    return visible(word.actor_label or word.actor_id)
