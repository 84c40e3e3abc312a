"""What a receipt tells of the rows that its commit wrote: a digest of each, so that a later change of them shows.

A row's columns are hashed in two halves: what stays for ever, and the words that retention drops. Instants are hashed
as their distance from the receipt's own, so that a journal whose instants are all moved alike is still the same. It
shows accidents and writes past the verbs; who owns the tables can compute each digest anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from django.db.models import Model

from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt, Request, RequestExecution, Resolution
from effects.transitions._words import holds_words

__all__ = [
    "OWN",
    "UNTOLD",
    "WORDS",
    "digest_of",
    "digest_of_body",
    "digest_of_end",
    "digest_of_receipt",
    "has_told",
    "name_of",
    "passed",
    "take_told",
    "tell",
    "tell_end",
    "tell_link",
    "tell_row",
]

#: The name of a receipt's own digest among its digests.
OWN = "receipt"
_PK = "It is only a number: nothing is derived from it, and no row of ours names it."
_SWEPT = "A mark of a sweep's: written without a receipt, and what it delays too long is found as overdue."
_DUE = "It moves without a receipt too; the receipt tells it by itself, as `due`."
_LEASE = "It is renewed or ended without a receipt; the receipt tells it by itself, as `lease`."
_TROUBLE = "What working on the row raised the last time: written without a receipt, and nothing is derived from it."
_HOOK = "A hook that fails is postponed without a receipt; that one is due is told as `hook`."
_END = "Written when the attempt has ended, or later; told as `end` and `outcome`."

#: The columns that no digest of the row covers, and why.
UNTOLD: dict[type[Model], dict[str, str]] = {
    Execution: {
        "payload": "Its own digest is covered.",
        "summary": "Its own digest is covered.",
        "receipt_count": "The number of receipts is counted.",
        "due_at": _DUE, "lease_expires_at": _LEASE, "swept_until": _SWEPT, "trouble_count": _TROUBLE,
        "trouble": _TROUBLE, "hook_due_at": _HOOK, "hook_failures": _HOOK, "hook_error": _HOOK,
    },
    Request: {
        "answer_body": "Told by itself, as `body`: it may be long.",
        "answer_error": "What `answer=` raised the last time: written without a receipt; nothing is derived from it.",
        "receipt_count": "The number of receipts is counted.",
        "due_at": _DUE, "lease_expires_at": _LEASE, "swept_until": _SWEPT,
    },
    Attempt: dict.fromkeys(("ended_at", "outcome", "reference", "failure_reason", "failure_code", "message"), _END),
    Approval: {"swept_until": _SWEPT},
    ApprovalVote: {"id": _PK},
    Resolution: {"id": _PK},
    RequestExecution: {"id": _PK},
}  # fmt: skip
#: The columns that retention changes: hashed by themselves, and compared until then.
WORDS: dict[type[Model], frozenset[str]] = {
    Execution: frozenset(
        {"output", "items", "target", "failure_message", "applied_evidence", "pruned_at", "ages_from"}
    ),
    Approval: frozenset({"summary"}),
    ApprovalVote: frozenset({"comment"}),
    Resolution: frozenset({"reason", "evidence"}),
}
_MICROSECOND = timedelta(microseconds=1)
#: Hexadecimal digits of each half: no accident meets the same 128 bits.
_LENGTH = 32


def digest_of(row: Model, at: datetime) -> str:
    """Return the digest of a row as it stands in memory: of its lasting columns, a dot, of its words."""
    lasting, words = _columns(type(row))
    return ".".join(_hash([getattr(row, name) for name in names], at) for names in (lasting, words))


def digest_of_end(attempt: Attempt, at: datetime) -> str:
    """Return the digest of how an attempt ended, but for outcome and reference, which late news may change."""
    return _digest_of_end(attempt.ended_at, attempt.failure_reason, attempt.failure_code, attempt.message, at)


def digest_of_receipt(receipt: Receipt, created_at: datetime) -> str:
    """Return the digest of a receipt and of all that it tells; in two halves, too."""
    words = {name: value for name, value in receipt.evidence.items() if holds_words({name: value})}
    kept = {name: value for name, value in receipt.evidence.items() if name not in words}
    told = {name: value for name, value in receipt.digests.items() if name != OWN}
    lasting = [
        receipt.execution_id, receipt.request_id, receipt.sequence, receipt.event, receipt.from_state,
        receipt.to_state, receipt.reason, receipt.revision, receipt.epoch, receipt.may_have_applied, receipt.actor_id,
        receipt.actor_label, receipt.at, kept, told,
    ]  # fmt: skip
    return f"{_hash(lasting, created_at)}.{_hash(words, created_at)}"


def digest_of_body(body: bytes) -> str:
    """Return the digest of an answer's bytes."""
    return hashlib.sha256(body).hexdigest()


def name_of(row: Model) -> str:
    """Return what a row is called among the digests of a receipt."""
    match row:
        case Attempt():
            return f"attempt {row.number}"
        case Approval():
            return f"approval {row.pk}"
        case ApprovalVote():
            return f"vote {row.approval_id} {row.actor_id}"
        case Resolution():
            return f"resolution {row.decision_id}"
    return "row"


def passed(instant: datetime | None, at: datetime) -> int | None:
    """Return how many microseconds after the receipt's instant another one is; None where there is none."""
    return None if instant is None else (_in_utc(instant) - _in_utc(at)) // _MICROSECOND


def _in_utc(instant: datetime) -> datetime:
    """Return an instant without a zone, as in UTC: a digest must not hang on the zone in which it was given."""
    try:
        return instant.astimezone(timezone.utc).replace(tzinfo=None)
    except OverflowError:  # at an end of the calendar; recording must not fail for it
        return instant.replace(tzinfo=None)


def tell(owner: Execution | Request, name: str, value: object) -> None:
    """Have the next receipt of a locked row tell this too."""
    owner.__dict__.setdefault("_told", {})[name] = value


def tell_row(owner: Execution | Request, row: Model) -> None:
    """Have the next receipt of a locked row tell the digest of another one, as it was just written."""
    tell(owner, name_of(row), digest_of(row, owner.locked_at))


def tell_end(
    owner: Execution,
    number: int,
    outcome: str,
    *,
    reference: str = "",
    reason: str = "",
    code: str = "",
    message: str = "",
) -> None:
    """Have the next receipt tell how an attempt has just ended; the texts as they were written."""
    tell(owner, f"outcome {number}", [outcome, reference])
    tell(owner, f"end {number}", _digest_of_end(owner.locked_at, reason, code, message, owner.locked_at))


def tell_link(owner: Execution, request_id: UUID, position: int, *, holds: bool) -> None:
    """Have the next receipt tell of a link; one that was there may keep the position that it had."""
    name = f"link {request_id}"
    told = owner.__dict__.get("_told", {}).get(name, {"positions": [], "holds": False})
    tell(owner, name, {"positions": [*told["positions"], position], "holds": told["holds"] or holds})


def has_told(owner: Execution | Request) -> bool:
    """Return whether something waits for the next receipt of a row."""
    return bool(owner.__dict__.get("_told"))


def take_told(owner: Execution | Request) -> dict[str, Any]:
    """Return what the receipt that is written now tells of its row and of others."""
    told: dict[str, Any] = owner.__dict__.pop("_told", {})
    # what retention changes of a row it does without reading it
    if owner.get_deferred_fields().isdisjoint(_read(type(owner))):
        told["row"] = digest_of(owner, owner.locked_at)
        told["due"] = passed(owner.due_at, owner.locked_at)
        told["lease"] = passed(owner.lease_expires_at, owner.locked_at)
    return {name: value for name, value in told.items() if value is not None}


def _digest_of_end(ended_at: datetime | None, reason: str, code: str, message: str, at: datetime) -> str:
    return f"{_hash([ended_at, str(reason), code], at)}.{_hash([message], at)}"


@functools.cache
def _columns(model: type[Model]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    told = [field for field in model._meta.concrete_fields if field.name not in UNTOLD.get(model, ())]
    words = WORDS.get(model, ())
    return (
        tuple(field.attname for field in told if field.name not in words),
        tuple(field.attname for field in told if field.name in words),
    )


@functools.cache
def _read(model: type[Model]) -> frozenset[str]:
    return frozenset({"due_at", "lease_expires_at"}.union(*_columns(model)))


def _hash(value: list[Any] | Mapping[str, Any], at: datetime) -> str:
    def plain(one: object) -> object:
        if isinstance(one, datetime):
            return passed(one, at)
        if isinstance(one, timedelta):
            return one // _MICROSECOND
        return str(one)

    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
