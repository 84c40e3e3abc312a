"""What a look-up can say. Each verdict carries its proof; only `Found`, `Absent` and `ProvenFailed` are evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from effects.vocabulary.cleaning import clean_error, clean_reference
from effects.vocabulary.items import read_items, refusal_of
from effects.vocabulary.types import Item

__all__ = [
    "Absent",
    "Conflict",
    "Found",
    "InProgress",
    "Inconclusive",
    "ProvenFailed",
    "Unreachable",
    "Verdict",
    "read_verdict",
]


@dataclass(frozen=True)
class Found:
    """The provider's own record shows that it happened. `items` where it is itemised and not all applied."""

    reference: str
    output: Any = field(default=None, repr=False)
    items: Sequence[Item] = ()
    proof: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Absent:
    """The provider has no record of it, accepted orders included. Believed only after the barrier."""

    proof: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ProvenFailed:
    """The provider's record shows that it was refused for good and did not happen."""

    code: str
    message: str = field(default="", repr=False)
    reference: str = ""
    proof: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class InProgress:
    """The provider has taken the order and not yet carried it out."""

    reference: str = ""
    expect_by: datetime | None = None
    proof: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Inconclusive:
    """The look-up worked and could not decide. Spends the budget."""

    reason: str = ""
    proof: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Unreachable:
    """The provider could not be asked. Evidence of nothing; spends nothing."""

    reason: str = ""
    proof: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Conflict:
    """What was found contradicts what was asked for: another amount, two references. A person decides."""

    reason: str
    reference: str = ""
    proof: dict[str, Any] = field(default_factory=dict, repr=False)


Verdict = Found | Absent | ProvenFailed | InProgress | Inconclusive | Unreachable | Conflict


def read_verdict(answer: object) -> Verdict:
    """Return what `verify` returned where it can be recorded; what cannot be read is a person's."""
    if not isinstance(answer, Verdict):
        return Conflict(f"verify() returned {type(answer).__name__}, which is no verdict")
    # a mapping of foreign make is copied, anything else is kept as it is
    proof = dict(answer.proof) if isinstance(answer.proof, Mapping) else {"proof": answer.proof}
    verdict = replace(answer, proof=proof)
    if not isinstance(verdict, Found):
        return verdict
    try:
        items = read_items(() if verdict.items is None else verdict.items)
    except Exception as error:  # noqa: BLE001 - what it made of its items may raise anything
        why = f"verify() returned Found with {clean_error(error)}"
        return Conflict(why, clean_reference(verdict.reference), proof)
    refused = refusal_of(items) if items else None
    if refused is not None:
        # as an answer to the send itself: all was refused, so nothing happened
        return ProvenFailed(refused.code or "no_item_applied", refused.message, verdict.reference, proof)
    return replace(verdict, items=items)
