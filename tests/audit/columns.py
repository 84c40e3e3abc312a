"""Every column of every table of the journal: whether the audit finds it changed, and if not, why nobody can know."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLUMNS", "Found", "Unknown"]


@dataclass(frozen=True)
class Found:
    """A change of the column is found in each row of the table.

    Args:
        code: what it is found as, beside others.
        also: what it may be found as instead.
        unless: SQL on the table's row, and why it cannot be known there; empty: it always is.
    """

    code: str
    unless: str = ""
    why: str = ""
    also: str = ""


@dataclass(frozen=True)
class Unknown:
    """Nobody can know that the column was changed.

    Args:
        why: in a plain sentence.
    """

    why: str


_ROW = Found("row_altered")
_GONE = Found("receipts_end")
_SWEPT = Unknown("A mark of a sweep's, written without a receipt; a row that it holds back too long is overdue.")
_TROUBLE = Unknown("What working on the row raised the last time: no receipt tells of it, and nothing depends on it.")
_NUMBER = Unknown("A number that the database gave; no row names it, and nothing is derived from it.")
_ATTEMPT, _APPROVAL, _VOTE = Found("attempt_altered"), Found("approval_altered"), Found("vote_altered")
_RECEIPT, _RESOLUTION, _LINK = Found("receipt_altered"), Found("resolution_altered"), Found("link_altered")
_NOTICE = Found("notice_altered")
_RAISED = "How often telling people raised, and what: written without a receipt, and gone when they were told."

#: Model → column → what a change of it is.
COLUMNS: dict[str, dict[str, Found | Unknown]] = {
    "Execution": {
        "id": _GONE,
        **dict.fromkeys(
            (
                "operation", "tenant", "key", "binding", "holds_key", "generation", "provider", "provider_key",
                "payload_digest", "payload_version", "safety_version", "summary_digest", "contract", "risk", "amount",
                "currency", "target", "state", "reason", "revision", "may_have_applied", "applied_evidence", "epoch",
                "claimed_at", "exposed_until", "first_sent_at", "expect_by", "attempts", "open_attempts",
                "lookups_spent", "lookups_unreachable", "output", "output_version", "items", "reference",
                "failure_code", "failure_message", "requested_by", "on_behalf_of", "requesters", "about_type",
                "about_id", "supersedes", "compensates", "created_at", "settled_at", "pruned_at", "ages_from",
            ),
            _ROW,
        ),
        "payload": Found("payload_digest", "pruned_at IS NOT NULL", "A tombstone has none: the database refuses one."),
        "summary": Found("summary_digest"),
        "receipt_count": Found("receipts_count"),
        "lease_expires_at": Found("lease_altered"),
        "due_at": Found("due_altered"),
        "swept_until": _SWEPT,
        "trouble_count": _TROUBLE,
        "trouble": _TROUBLE,
        "hook_due_at": Found("hook_altered"),
        "hook_failures": Found(
            "hook_altered",
            "hook_due_at IS NOT NULL OR state = 'completed' AND failure_code = ''",
            "A hook that fails is postponed without a receipt; once it has run, how often it had failed is history.",
        ),
        "hook_error": Unknown("What the hook raised the last time: written without a receipt, and shown only."),
    },
    "Request": {
        "id": _GONE,
        **dict.fromkeys(
            (
                "operation", "mode", "tenant", "subject", "scope", "key", "binding", "holds_key", "fingerprint",
                "fingerprint_version", "declared", "local_writes", "state", "reason", "revision", "epoch",
                "handler_until", "handler_returned", "answer_status", "answer_headers", "answer_size", "answer_missing",
                "created_at", "ended_at",
            ),
            _ROW,
        ),
        "receipt_count": Found("receipts_count"),
        "lease_expires_at": Found("lease_altered"),
        "due_at": Found("due_altered"),
        "swept_until": _SWEPT,
        "answer_body": Found("answer_altered"),
        "answer_error": Unknown("What `answer=` raised the last time: written without a receipt, and shown only."),
    },
    "Attempt": {
        **dict.fromkeys(
            (
                "id", "execution", "number", "epoch", "provider_key", "payload_digest", "approval", "permitted_at",
                "deadline", "ended_at", "outcome", "reference", "failure_reason", "failure_code", "message",
            ),
            _ATTEMPT,
        ),
    },
    "Approval": {
        **dict.fromkeys(
            (
                "id", "execution", "purpose", "digest", "summary", "rule", "approvers", "quorum", "covers_retries",
                "decide_by", "not_before", "use_within", "use_by", "state", "created_at", "decided_at", "spent_at",
            ),
            _APPROVAL,
        ),
        "swept_until": _SWEPT,
    },
    "ApprovalVote": {
        "id": _NUMBER,
        **dict.fromkeys(
            ("approval", "actor_id", "actor_label", "decision", "comment", "digest_seen", "by_login", "at"), _VOTE
        ),
    },
    "Receipt": {
        "id": _NUMBER,
        "request": Found("receipt_altered", also="receipts_count"),
        "execution": Found("receipt_altered", also="receipts_count"),
        "sequence": Found("receipts_gap"),
        **dict.fromkeys(
            (
                "event", "from_state", "to_state", "reason", "revision", "epoch", "may_have_applied", "actor_id",
                "actor_label", "evidence", "at", "digests",
            ),
            _RECEIPT,
        ),
    },
    "Resolution": {
        "id": _NUMBER,
        **dict.fromkeys(
            (
                "request", "execution", "decision_id", "decision", "revision", "actor_id", "actor_label", "reason",
                "evidence", "at",
            ),
            _RESOLUTION,
        ),
    },
    "RequestExecution": {
        "id": _NUMBER,
        **dict.fromkeys(("request", "execution", "position", "holds"), _LINK),
    },
    "PendingNotice": {
        "id": _NUMBER,
        **dict.fromkeys(("key", "event", "execution", "approval", "due_at", "created_at"), _NOTICE),
        "swept_until": _SWEPT,
        "failures": Found("notice_altered", "due_at <= now() + interval '1 hour'", _RAISED),
        "error": Unknown(_RAISED),
    },
    "Journal": {
        "id": Found("provider_key"),
        "is_only": Unknown("It is always true: the database refuses anything else, and a second row."),
        "former_ids": Unknown(
            "An earlier id that is lost shows in the rows that have their keys from it; one that is added names no row."
        ),
        "since": Unknown("When the id was given is shown to people; nothing is derived from it."),
    },
    "Heartbeat": {
        "sweep": Unknown("One without a row counts as one that never ran, and is found when something of it is late."),
        "at": Found("heartbeat_ahead"),
        "counts": Unknown("What a sweep did the last time: written without a receipt, and shown to people only."),
    },
}  # fmt: skip
