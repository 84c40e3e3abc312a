"""What a look-up can say. Each verdict carries its proof; only `Found`, `Absent` and `ProvenFailed` are evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from effects.types import Item

__all__ = [
    "Absent",
    "Conflict",
    "Found",
    "InProgress",
    "Inconclusive",
    "ProvenFailed",
    "Unreachable",
    "Verdict",
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
