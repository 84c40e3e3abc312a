"""Receipts as lines that people read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from effects.models import Execution, Receipt, Request
from effects_admin.display import short
from effects_admin.evidence import read_evidence
from effects_admin.words import REASONS, headline, label

__all__ = ["Line", "change", "lines"]

#: Evidence that says something to a person at once; the rest folds away.
_SAID_AT_ONCE = ("reason", "why", "comment", "message", "code", "reference")
#: Evidence that the headline has said.
_SAID_BY_HEADLINE = frozenset({"votes", "quorum", "attempt", "decision", "verdict"})


@dataclass(frozen=True)
class Line:
    """One receipt."""

    at: datetime
    headline: str
    who: str
    change: str
    notes: list[tuple[str, str]] = field(default_factory=list)
    evidence: list[tuple[str, str]] = field(default_factory=list)


def lines(receipts: Iterable[Receipt], user: Any, of: Execution | Request) -> Iterator[Line]:
    """Yield a line for each receipt of a row, in the order given, as `user` may read it."""
    for receipt in receipts:
        kept = read_evidence(receipt.evidence, user, of)
        said = {name: short(value) for name, value in kept.items() if value not in (None, "", [], {})}
        yield Line(
            at=receipt.at,
            headline=headline(receipt),
            who=receipt.actor_label or receipt.actor_id,
            change=change(receipt),
            notes=[(label(name), said[name]) for name in _SAID_AT_ONCE if name in said],
            evidence=[
                (label(name), text)
                for name, text in said.items()
                if name not in _SAID_AT_ONCE and name not in _SAID_BY_HEADLINE
            ],
        )


def change(receipt: Receipt) -> str:
    """Return how the state moved; empty where it stayed."""
    if receipt.from_state == receipt.to_state:
        return ""
    why = REASONS.get(receipt.reason)
    moved = (
        f"{label(receipt.from_state)} → {label(receipt.to_state)}" if receipt.from_state else label(receipt.to_state)
    )
    return f"{moved} ({why})" if why else moved
