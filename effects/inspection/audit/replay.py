"""Receipts replay to the row: every step is one of the table's, goes on from the last, and the last one is the row.

What they tell of the rows beside it is folded with them, for `told` to compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from effects.inspection.audit.findings import Finding
from effects.models import Execution, Receipt, Request
from effects.transitions import digests
from effects.vocabulary.states import (
    EXECUTION_EDGES,
    REQUEST_EDGES,
    AttemptOutcome,
    Edge,
    ExecutionState,
    RequestState,
    Word,
    allows,
)

__all__ = ["Replay", "Told", "differences"]

#: The verbs after which something counts as proven.
_PROVING = frozenset({"confirm", "resolve"})
#: The verbs after which no settled hook is due any more.
_HOOK_ENDS = frozenset({"run_hook", "end_hook", "contradict"})
#: The verbs that make their actor one who asked, and those that are a vote.
_ASKING, _VOTING = frozenset({"record", "join", "order_resend"}), frozenset({"vote", "grant", "deny"})
_DISPROVING = frozenset({"confirm_absence", "confirm_failure"})
_DISPROVED = (str(AttemptOutcome.UNKNOWN), str(AttemptOutcome.SUBMITTED))
_UNPRUNED = "its contents are gone, and no receipt says that retention dropped them"


class Told(NamedTuple):
    """What the newest receipt that tells of something tells of it."""

    value: Any
    at: datetime
    sequence: int


@dataclass
class Replay:
    """One row's receipts, folded as they are read: however many there are, this stays small.

    Attributes:
        told: name → what was told of it last.
        outcomes: number of the attempt → its outcome and reference.
        links: request → the positions that its link can have, and whether it holds the answer.
        pruned: the sequence of the newest receipt of retention; 0: none.
        is_dropped: whether retention dropped the bytes of its answer.
        hook: what is told of the settled hook: `due`, `over`, or nothing.
        requesters: the ids of those who asked, as far as receipts tell.
        voters: the sequence of each vote of one of them.
    """

    row: Execution | Request
    edges: Mapping[str, Edge]
    machine: type[Word]
    count: int = 0
    first: Receipt | None = None
    newest: Receipt | None = None
    is_proven: bool = False
    pruned: int = 0
    is_dropped: bool = False
    hook: str = ""
    faults: dict[str, str] = field(default_factory=dict)
    licences: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    outcomes: dict[str, list[Any]] = field(default_factory=dict)
    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    requesters: set[str] = field(default_factory=set)
    voters: list[int] = field(default_factory=list)
    _other_words: int = 0

    @classmethod
    def of(cls, row: Execution | Request) -> Replay:
        """Return an empty replay for a row's machine."""
        if not isinstance(row, Execution):
            return cls(row, REQUEST_EDGES, RequestState)
        asked = {one["id"] for one in (row.requested_by, row.on_behalf_of) if isinstance(one, dict) and "id" in one}
        return cls(row, EXECUTION_EDGES, ExecutionState, requesters=asked)

    def add(self, receipt: Receipt) -> None:
        """Take the next receipt, in the order of sequences; of each kind of fault the first one is kept."""
        self.count += 1
        if receipt.sequence != self.count:
            self._fault("receipts_gap", f"receipt no. {self.count} has the sequence {receipt.sequence}")
        if not self._is_step(receipt):
            step = f"{receipt.event}: {receipt.from_state or 'nothing'} → {receipt.to_state}"
            self._fault("receipts_edge", f"receipt {receipt.sequence} tells {step}")
        broken = self._break(receipt)
        if broken:
            self._fault("receipts_chain", f"receipt {receipt.sequence} {broken}")
        self._fold(receipt)
        if self._is_as_written(receipt):
            self._hear(receipt)
        else:
            self._fault("receipt_altered", f"receipt {receipt.sequence} is not as it was written")
        self.first, self.newest = self.first or receipt, receipt

    def words_fault(self) -> str:
        """Return what is wrong with words in receipts that retention has not dropped."""
        return f"words in receipt {self._other_words} are not as they were written" if self._other_words else ""

    def is_as_told(self, told: Told, digest: str) -> bool:
        """Return whether a digest in two halves is the one that was told; words count until retention drops them."""
        if self.pruned > told.sequence:
            return str(told.value).partition(".")[0] == digest.partition(".")[0]
        return bool(told.value == digest)

    def _fault(self, code: str, wrong: str) -> None:
        self.faults.setdefault(code, wrong)

    def _fold(self, receipt: Receipt) -> None:
        if receipt.event in _PROVING:
            self.is_proven = True
        if receipt.event == "prune":
            self.pruned, self._other_words = receipt.sequence, 0
        self.is_dropped = self.is_dropped or receipt.event == "drop_answer"
        if receipt.event in _HOOK_ENDS:
            self.hook = "over"
        elif receipt.from_state != receipt.to_state:
            self.hook = ""
        if receipt.event in _VOTING and receipt.actor_id in self.requesters:
            self.voters.append(receipt.sequence)
        if receipt.event in _ASKING and receipt.actor_id:
            self.requesters.add(receipt.actor_id)
        evidence = receipt.evidence if isinstance(receipt.evidence, dict) else {}
        attempt = evidence.get("attempt")
        if receipt.event in ("permit", "resend") and isinstance(attempt, int):
            self.licences[attempt] = (evidence.get("approval"), evidence.get("digest"))
        if receipt.event in _DISPROVING:
            for ended in self.outcomes.values():
                if ended[0] in _DISPROVED:
                    ended[0] = str(AttemptOutcome.NOT_APPLIED)

    def _is_as_written(self, receipt: Receipt) -> bool:
        if not (isinstance(receipt.evidence, dict) and isinstance(receipt.digests, dict)):
            return False
        lasting, _, words = str(receipt.digests.get(digests.OWN)).partition(".")
        now_lasting, _, now_words = digests.digest_of_receipt(receipt, self.row.created_at).partition(".")
        if words != now_words and not self._other_words and receipt.event != "prune":
            self._other_words = receipt.sequence
        return lasting == now_lasting

    def _hear(self, receipt: Receipt) -> None:
        """Keep what a receipt tells that is as it was written."""
        for name, value in receipt.digests.items():
            self.told[name] = Told(value, receipt.at, receipt.sequence)
            if name.startswith("outcome "):
                self.outcomes[name.removeprefix("outcome ")] = list(value)
            elif name.startswith("link "):
                link = self.links.setdefault(name.removeprefix("link "), {"positions": set(), "holds": False})
                link["positions"].update(value["positions"])
                link["holds"] = link["holds"] or value["holds"]
            elif name == "hook":
                self.hook = value
        if "row" in receipt.digests:
            for name in ("due", "lease"):
                if name not in receipt.digests:
                    self.told.pop(name, None)

    def _is_step(self, receipt: Receipt) -> bool:
        edge = self.edges.get(receipt.event)
        if edge is None:
            return False
        try:
            target = self.machine(receipt.to_state)
            if not edge.sources:
                return not receipt.from_state and target in edge.targets
            return allows(edge, self.machine(receipt.from_state), target)
        except ValueError:
            return False

    def _break(self, receipt: Receipt) -> str:
        before = self.newest
        if before is None:
            return f"is the first and begins in {receipt.from_state}" if receipt.from_state else ""
        if receipt.from_state != before.to_state:
            return f"begins in {receipt.from_state or 'nothing'}, and the one before ends in {before.to_state}"
        if receipt.epoch < before.epoch or not before.revision <= receipt.revision <= before.revision + 1:
            return f"goes from revision {before.revision}, epoch {before.epoch} to {receipt.revision}, {receipt.epoch}"
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
    if words := replay.words_fault():
        faults.setdefault("receipt_altered", words)
    if isinstance(row, Execution) and (row.pruned_at is not None) != bool(replay.pruned):
        faults["tombstone"] = "a receipt says that it was pruned, and it is whole" if replay.pruned else _UNPRUNED
    for code, wrong in faults.items():
        yield Finding(code, kind, str(row.pk), wrong)


def _differing(row: Execution | Request, newest: Receipt | None) -> str:
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
