"""Evidence as one person may read it: what came from outside may repeat what was sent."""

from __future__ import annotations

from typing import Any

from effects.models import Execution, Receipt, Request
from effects_admin.permissions import VIEW_PAYLOAD, may

__all__ = ["read_evidence"]

#: What our own verbs write; a webhook, a look-up's proof or an operator's attachment may say anything else.
_OURS = frozenset({
    "approval", "attempt", "code", "comment", "compensates", "decision", "declared", "digest", "expect_by", "forgotten",
    "from",
    "late", "message", "mode", "operation", "other_reference", "payload_digest", "pruned", "quorum", "reason",
    "reference", "references", "request", "rule", "since", "successor", "summary_digest", "supersedes", "undone",
    "unchecked_word_of", "verdict",
    "votes", "was", "why",
})  # fmt: skip
_HIDDEN = f"hidden: seeing it takes the permission “{VIEW_PAYLOAD}”"


def read_evidence(evidence: Any, user: Any, of: Execution | Request | Receipt) -> dict[str, Any]:
    """Return what a receipt or a row has on file, foreign values hidden from whoever may not see payloads.

    Args:
        evidence: as it is stored.
        user: who reads.
        of: the row that it belongs to, for permissions on single objects.
    """
    kept = evidence if isinstance(evidence, dict) else {"evidence": evidence}
    row = (of.execution or of.request) if isinstance(of, Receipt) else of
    if may(user, VIEW_PAYLOAD, row):
        return kept
    return {name: _own(name, value) for name, value in kept.items()}


def _own(name: str, value: Any) -> Any:
    if name == "on_file" and isinstance(value, dict):
        return {inner: _own(inner, told) for inner, told in value.items()}
    return value if name in _OURS or value in (None, "", [], {}) else _HIDDEN
