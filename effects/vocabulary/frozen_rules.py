"""An approval's rule in the form in which rows keep it: what people agreed to does not change with the code."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from effects.vocabulary.types import ApprovalRule

__all__ = ["rule_as_json", "rule_from_json"]


def rule_as_json(rule: ApprovalRule | None) -> dict[str, Any] | None:
    """Return an approval rule in the form that is frozen on rows."""
    if rule is None:
        return None
    return {
        "approvers": rule.approvers,
        "quorum": rule.quorum,
        "decide_within": rule.decide_within.total_seconds(),
        "use_within": rule.use_within.total_seconds(),
        "not_before": rule.not_before.isoformat() if rule.not_before else None,
        "four_eyes": rule.four_eyes,
        "covers_retries": rule.covers_retries,
        "recheck_approvers": rule.recheck_approvers,
    }


def rule_from_json(data: dict[str, Any] | None) -> ApprovalRule | None:
    """Return the approval rule that a row froze."""
    if not data:
        return None
    times = {name: timedelta(seconds=data[name]) for name in ("decide_within", "use_within")}
    not_before = datetime.fromisoformat(data["not_before"]) if data["not_before"] else None
    return ApprovalRule(**{**data, **times, "not_before": not_before})
