"""Lineage: what an undoing or a successor has from the execution that it follows, and who asked for those before it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from effects.journal.commits import journal
from effects.models import Execution
from effects.vocabulary.states import ExecutionState
from effects.vocabulary.types import COMPENSATES, SUPERSEDES, Actor, Predecessor

__all__ = ["COLUMNS", "Column", "Origin", "earlier_requester_ids", "successor_of", "undoing_of"]


class Origin(Enum):
    """Where the value of a column of a derived execution comes from."""

    INHERITED = "inherited"
    """As the execution that it follows has it; what a caller of `perform` says instead stands."""
    DERIVED = "derived"
    """Computed from that execution, or from the declaration and the payload, as they are now."""
    FRESH = "fresh"
    """As of any new execution."""


@dataclass(frozen=True)
class Column:
    """Where an undoing and a successor have a column from, and why."""

    undoing: Origin
    successor: Origin
    why: str


_I, _D, _F = Origin.INHERITED, Origin.DERIVED, Origin.FRESH
_HISTORY = Column(_F, _F, "It tells what became of this execution alone.")
_DECLARED = Column(_D, _D, "The declaration says it as it is when this is recorded, as for any new execution.")
_SHOWN = Column(_D, _D, "People are shown what this one does, described anew, and what it is derived from.")

#: Every column of `Execution`. `undoing_of` and `successor_of` read it; a test compares it with the model.
COLUMNS: dict[str, Column] = {
    "id": Column(_F, _F, "It is an execution of its own."),
    "operation": Column(_D, _D, "The same effect, under the name that it has now."),
    "tenant": Column(_I, _I, "It belongs to whom the other belongs; a protected request serves its own tenant alone."),
    "key": Column(_D, _I, "One original has one undoing, under a key made of its id; a successor takes the key over."),
    "binding": Column(_D, _I, "It follows from tenant, operation and key."),
    "holds_key": Column(_F, _F, "It holds its key; the one that it supersedes lets go of it."),
    "generation": Column(_F, _D, "A successor's is the next one, so that its provider key is another."),
    "provider": _DECLARED,
    "provider_key": Column(_D, _D, "It follows from key and generation: no derived execution repeats a provider key."),
    "payload": Column(_I, _D, "An undoing is told what was done; a successor repeats it, or corrects it."),
    "payload_digest": Column(_D, _D, "It follows from the payload."),
    "payload_version": _DECLARED,
    "safety_version": _DECLARED,
    "summary": _SHOWN,
    "summary_digest": _SHOWN,
    "contract": Column(
        _D, _D, "Who must approve is asked anew, about the same object; a successor keeps `require_approval`."
    ),
    "risk": _DECLARED,
    "amount": _SHOWN,
    "currency": _SHOWN,
    "target": _SHOWN,
    "requested_by": Column(_F, _F, "Who asks for this one."),
    "on_behalf_of": Column(_I, _I, "It is still done for the same person, who does not approve it either."),
    "requesters": Column(
        _F, _F, "Who asks for this one may take it back. Who asked before is read where it is asked who may approve."
    ),
    "about_type": Column(_I, _I, "Permissions for one object, and `approval()`, are asked of the same object."),
    "about_id": Column(_I, _I, "As `about_type`."),
    "supersedes": Column(_F, _D, "A successor names the one whose key it took over."),
    "compensates": Column(_D, _I, "An undoing names what it undoes, and its successor undoes the same."),
    **dict.fromkeys(
        (
            "state", "reason", "revision", "receipt_count", "may_have_applied", "applied_evidence", "epoch",
            "lease_expires_at", "claimed_at", "due_at", "swept_until", "trouble_count", "trouble", "exposed_until",
            "first_sent_at", "expect_by", "attempts", "open_attempts", "lookups_spent", "lookups_unreachable", "output",
            "output_version", "items", "reference", "failure_code", "failure_message", "hook_due_at", "hook_failures",
            "hook_error", "created_at", "settled_at", "pruned_at", "ages_from",
        ),
        _HISTORY,
    ),
}  # fmt: skip

#: How an intent says a column; of the payload, the caller takes care, who knows the declaration.
_SAID: dict[str, tuple[str, Any]] = {
    "tenant": ("tenant", lambda row: row.tenant),
    "key": ("key", lambda row: row.key),
    "on_behalf_of": ("on_behalf_of", lambda row: Actor(**row.on_behalf_of) if row.on_behalf_of else None),
    "about_type": ("about", lambda row: (row.about_type, row.about_id) if row.about_type else None),
    "compensates": ("compensates", lambda row: row.compensates_id),
}


def undoing_of(original: Execution) -> dict[str, Any]:
    """Return what the intent to undo an execution says beside its payload and who asks."""
    inherited = {_SAID[name][0]: _SAID[name][1](original) for name in _SAID if COLUMNS[name].undoing is _I}
    key = f"compensate:{original.pk}:{original.generation}"
    told = (_told(original, COMPENSATES),)
    return {**inherited, "key": key, "compensates": original.pk, "derived_from": told}


def successor_of(predecessor: Execution) -> dict[str, Any]:
    """Return what the intent to supersede an execution says beside its payload and who asks."""
    inherited = {_SAID[name][0]: _SAID[name][1](predecessor) for name in _SAID if COLUMNS[name].successor is _I}
    required = bool(predecessor.contract.get("require_approval"))
    undone = (_told(predecessor.compensates, COMPENSATES),) if predecessor.compensates is not None else ()
    told = (*undone, _told(predecessor, SUPERSEDES))
    return {**inherited, "supersedes": predecessor.pk, "require_approval": required, "derived_from": told}


def _told(row: Execution, relation: str) -> Predecessor:
    """Return a row as people are told of it who decide about what is derived from it."""
    text = row.summary.get("title") or f"{row.operation} {row.key}"
    items = row.items or ()
    if relation == COMPENSATES and items:
        text += f" (of which {sum(bool(item['applied']) for item in items)} of {len(items)} items happened)"
    if relation == SUPERSEDES and row.state in (ExecutionState.FAILED, ExecutionState.REJECTED):
        text += f" ({row.state}: {row.failure_code or row.reason})".replace("_", " ")
    return Predecessor(relation, str(row.pk), text)


#: UNION, not UNION ALL: no execution is visited twice, whatever names whom.
_EARLIER = """
WITH RECURSIVE line (id) AS (
    SELECT unnest(%s::uuid[])
  UNION
    SELECT before.id
    FROM line
    JOIN effects_execution AS one ON one.id = line.id
    CROSS JOIN LATERAL (VALUES (one.supersedes_id), (one.compensates_id)) AS before (id)
    WHERE before.id IS NOT NULL
)
SELECT DISTINCT person ->> 'id'
FROM line
JOIN effects_execution AS one ON one.id = line.id
CROSS JOIN LATERAL jsonb_array_elements(one.requesters) AS person
"""


def earlier_requester_ids(*predecessors: UUID | None) -> frozenset[str]:
    """Return the ids of all who asked for these executions, or for one that they follow, at any depth.

    Who joined and who was acted for are among them. Read when it is needed, not copied: the original of an undoing
    may be joined later, by whom nobody knows yet. One statement; none where there is no predecessor.
    """
    before = [one for one in predecessors if one is not None]
    if not before:
        return frozenset()
    with journal().cursor() as cursor:
        cursor.execute(_EARLIER, [before])
        return frozenset(found for (found,) in cursor.fetchall())
