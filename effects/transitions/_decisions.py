"""Decisions: what a person decided about a locked row, kept once under the id that their page or program made."""

from __future__ import annotations

from typing import Any

from effects.models import Execution, Request
from effects.transitions import digests
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import StaleRevisionError
from effects.vocabulary.names import check_name
from effects.vocabulary.types import Actor

__all__ = ["check_revision", "is_taken", "keep"]

#: The column's width.
LONGEST_ID = 100


def is_taken(row: Execution | Request, decision_id: str) -> bool:
    """Return whether this very decision was taken already: a page posted twice decides once.

    Raises:
        NameUnusableError: the id does not fit its column.
    """
    check_name("decision_id=", decision_id, LONGEST_ID)
    return row.resolutions.filter(decision_id=decision_id).exists()


def check_revision(row: Execution | Request, revision: int | None) -> None:
    """Refuse a decision about what has changed since the person looked; None: they saw no page.

    Raises:
        StaleRevisionError: with both revisions.
    """
    if revision is not None and row.revision != revision:
        raise StaleRevisionError(
            f"{row.operation} {row.pk} is at revision {row.revision}, you saw {revision}; look at it again."
        )


def keep(
    row: Execution | Request,
    decision: str,
    *,
    revision: int,
    decision_id: str,
    actor: Actor,
    reason: str,
    evidence: dict[str, Any] | None = None,
) -> None:
    """Keep a decision with its person, their words and what they base it on, before the receipt that tells of it.

    Joins the commit of what it decides.
    """
    kept = row.resolutions.create(
        decision_id=decision_id, decision=decision, revision=revision, actor_id=actor.id, actor_label=str(actor),
        reason=canonical.clean_text(reason), evidence=canonical.clean_json(evidence or {}), at=row.locked_at,
    )  # fmt: skip
    digests.tell_row(row, kept)
