"""Receipts replay to the row: every step is one of the table's, goes on from the last, and the last one is the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from effects.audit.findings import Finding
from effects.models import Execution, Request
from effects.states import EXECUTION_EDGES, REQUEST_EDGES, Edge, ExecutionState, RequestState, Word, allows

__all__ = ["Line", "Replay", "differences"]

#: The verbs after which something counts as proven.
_PROVING = frozenset({"confirm", "resolve"})
_UNPRUNED = "its contents are gone, and no receipt says that retention dropped them"


@dataclass(frozen=True)
class Line:
    """What the audit reads of one receipt; the last three are the licence that a permit's evidence names."""

    sequence: int
    event: str
    from_state: str
    to_state: str
    reason: str
    revision: int
    epoch: int
    may_have_applied: bool
    attempt: Any
    approval: Any
    digest: Any


@dataclass
class Replay:
    """One row's receipts, folded as they are read: however many there are, this stays small."""

    edges: Mapping[str, Edge]
    machine: type[Word]
    count: int = 0
    newest: Line | None = None
    is_proven: bool = False
    is_pruned: bool = False
    faults: dict[str, str] = field(default_factory=dict)
    licences: dict[int, tuple[str | None, str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Execution | Request) -> Replay:
        """Return an empty replay for a row's machine."""
        if isinstance(row, Execution):
            return cls(EXECUTION_EDGES, ExecutionState)
        return cls(REQUEST_EDGES, RequestState)

    def add(self, line: Line) -> None:
        """Take the next receipt, in the order of sequences; of each kind of fault the first one is kept."""
        self.count += 1
        if line.sequence != self.count:
            self.faults.setdefault("receipts_gap", f"receipt no. {self.count} has the sequence {line.sequence}")
        if not self._is_step(line):
            step = f"{line.event}: {line.from_state or 'nothing'} → {line.to_state}"
            self.faults.setdefault("receipts_edge", f"receipt {line.sequence} tells {step}")
        broken = self._break(line)
        if broken:
            self.faults.setdefault("receipts_chain", f"receipt {line.sequence} {broken}")
        if line.event in _PROVING:
            self.is_proven = True
        self.is_pruned = self.is_pruned or line.event == "prune"
        if line.event in ("permit", "resend") and isinstance(line.attempt, int):
            self.licences[line.attempt] = (line.approval, line.digest)
        self.newest = line

    def _is_step(self, line: Line) -> bool:
        edge = self.edges.get(line.event)
        if edge is None:
            return False
        try:
            target = self.machine(line.to_state)
            if not edge.sources:
                return not line.from_state and target in edge.targets
            return allows(edge, self.machine(line.from_state), target)
        except ValueError:
            return False

    def _break(self, line: Line) -> str:
        before = self.newest
        if before is None:
            return f"is the first and begins in {line.from_state}" if line.from_state else ""
        if line.from_state != before.to_state:
            return f"begins in {line.from_state or 'nothing'}, and the one before ends in {before.to_state}"
        if line.epoch < before.epoch or not before.revision <= line.revision <= before.revision + 1:
            return f"goes from revision {before.revision}, epoch {before.epoch} to {line.revision}, {line.epoch}"
        return ""


def differences(row: Execution | Request, replay: Replay) -> Iterator[Finding]:
    """Yield what keeps a row's receipts from replaying to it."""
    kind = "execution" if isinstance(row, Execution) else "request"
    faults = dict(replay.faults)
    if row.receipt_count != replay.count:
        faults["receipts_count"] = f"the row counts {row.receipt_count} receipts, there are {replay.count}"
    differing = _differing(row, replay.newest)
    if differing:
        faults["receipts_end"] = differing
    if isinstance(row, Execution) and (row.pruned_at is not None) != replay.is_pruned:
        faults["tombstone"] = "a receipt says that it was pruned, and it is whole" if replay.is_pruned else _UNPRUNED
    for code, wrong in faults.items():
        yield Finding(code, kind, str(row.pk), wrong)


def _differing(row: Execution | Request, newest: Line | None) -> str:
    if newest is None:
        return f"the row is {row.state} and has no receipt"
    told = {
        "state": newest.to_state, "reason": newest.reason, "revision": newest.revision, "epoch": newest.epoch,
        "may_have_applied": newest.may_have_applied,
    }  # fmt: skip
    is_ = {name: getattr(row, name, False) for name in told}
    wrong = [
        f"{name} {is_[name] or 'none'} instead of {told[name] or 'none'}" for name in told if is_[name] != told[name]
    ]
    return f"the row has {', '.join(wrong)} (receipt {newest.sequence})" if wrong else ""
