"""What retention tells apart in a receipt: what proves something, which stays, and what somebody said in words."""

from __future__ import annotations

from typing import Any

__all__ = ["KEEP_WHAT_PROVES", "KEPT_EVIDENCE", "holds_words"]

#: What the audit, the replay and a successor read of a receipt, beside the rule or id of an approval; all else in its
#: evidence is in somebody's words.
KEPT_EVIDENCE = frozenset({
    "attempt", "code", "compensates", "decision", "digest", "late", "other_reference", "payload_digest", "pruned",
    "reference", "request", "rule", "successor", "summary_digest", "supersedes", "undone", "verdict",
})  # fmt: skip
_APPROVAL = "approval"

#: Drops the words from the receipts of executions: their ids, then `KEPT_EVIDENCE`. As `holds_words` tells them.
KEEP_WHAT_PROVES = f"""
UPDATE effects_receipt AS receipt SET evidence = proof.kept
FROM (
    SELECT one.id, (
        SELECT COALESCE(jsonb_object_agg(name, value), '{{}}') FROM jsonb_each(one.evidence) AS said (name, value)
        WHERE name = '{_APPROVAL}'
           OR name = ANY(%s) AND jsonb_typeof(value) IN ('string', 'number', 'boolean')
    ) AS kept
    FROM effects_receipt AS one WHERE one.execution_id = ANY(%s)
) AS proof
WHERE receipt.id = proof.id AND receipt.evidence <> proof.kept
"""  # noqa: S608 - a name of ours


def holds_words(evidence: dict[str, Any] | None) -> bool:
    """Return whether retention would drop something of a receipt's evidence."""
    return not all(
        name == _APPROVAL or (name in KEPT_EVIDENCE and isinstance(value, (str, int, float, bool)))
        for name, value in (evidence or {}).items()
    )
