"""What retention tells apart in a receipt: what proves something, which stays, and what somebody said in words."""

from __future__ import annotations

from typing import Any

__all__ = ["KEPT_EVIDENCE", "holds_words", "kept_of"]

#: What the audit, the replay and a successor read of a receipt, beside the rule or id of an approval; all else in its
#: evidence is in somebody's words.
KEPT_EVIDENCE = frozenset({
    "attempt", "code", "compensates", "decision", "digest", "late", "other_reference", "payload_digest", "pruned",
    "reference", "request", "rule", "successor", "summary_digest", "supersedes", "undone", "verdict",
})  # fmt: skip


def kept_of(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return what of a receipt's evidence stays for ever."""
    return {name: value for name, value in evidence.items() if _is_kept(name, value)}


def holds_words(evidence: dict[str, Any] | None) -> bool:
    """Return whether retention would drop something of a receipt's evidence."""
    return not all(_is_kept(name, value) for name, value in (evidence or {}).items())


def _is_kept(name: str, value: Any) -> bool:
    return name == "approval" or (name in KEPT_EVIDENCE and isinstance(value, (str, int, bool)))
