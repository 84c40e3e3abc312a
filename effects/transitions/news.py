"""News: what a provider tells by itself of an execution, twice, late or out of order, as webhooks do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID

from effects.journal.commits import commits
from effects.journal.locks import lock_execution
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.models import Execution
from effects.transitions._rows import advance, is_due, is_leased
from effects.transitions.attempts import is_undone, references_on_file
from effects.transitions.evidence import TWO_REFERENCES, contradict_row, observe_row, undo_row
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import TooSoonError
from effects.vocabulary.states import ExecutionReason, ExecutionState

__all__ = ["News", "Says", "hear"]

_S, _R = ExecutionState, ExecutionReason
_HAPPENED = (_S.COMPLETED, _S.PARTIALLY_COMPLETED)
_LOOKED_UP = (_S.UNCERTAIN, _S.ACCEPTED)
#: The provider has nothing of these: none of their sends reached it, or none was made.
_NOWHERE = (_S.PENDING, _S.AWAITING_APPROVAL, _S.REJECTED)
#: Failed so, it may have had something, and news of that may be older than the failure.
_REFUSED = (
    _R.DECLINED, _R.INVALID_REQUEST, _R.UNAUTHENTICATED, _R.FORBIDDEN, _R.STALE, _R.PROVEN_FAILED, _R.OPERATOR,
)  # fmt: skip
#: The verbs that keep news in their receipts.
_KEEPING = ("observe", "contradict", "escalate")


class Says(Enum):
    """What news says of an execution."""

    HAPPENED = "happened"
    UNDONE = "undone"  # it did not happen, and if it had, it was undone; final
    UNDER_WAY = "under way"  # the provider has it and has not carried it out; soon out of date
    CHANGED = "changed"  # something that only a look-up can tell the meaning of


@dataclass(frozen=True)
class News:
    """One piece of news.

    Args:
        id: the provider's own id of it: the same news of the same thing changes nothing a second time.
        says: what it says.
        reference: the provider's id of what it is about.
        evidence: what is kept of it; cleaned when it is.
    """

    id: str
    says: Says
    reference: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> dict[str, Any]:
        """What a receipt keeps."""
        said = {"event": self.id, "says": self.says.value}
        # first, since long evidence is cut
        return said | self.evidence | said


def hear(execution_id: UUID, news: News) -> ExecutionSnapshot | None:
    """*Commits.* Weigh news from the provider: a hint that is looked into, and never the last word.

    Something in doubt is due for a look-up now; proof of success goes on file beside it, as `observe` puts it there.
    What contradicts the state (it happened after all, is under way, was undone, has two references) is a person's. News
    that is known changes nothing and leaves no receipt.

    Locked: the execution, so that a sender or a look-up that ends at the same instant comes before or after.

    Args:
        execution_id: which.
        news: what was told.

    Returns:
        The execution; None where nothing was new.

    Raises:
        TooSoonError: it says "undone" of something that is being sent or looked up. Hear it again once that has ended:
            whoever is at work may have asked before it was undone. Nothing was recorded.
    """
    with commits("recording evidence"):
        row = lock_execution(execution_id)
        receipts = row.receipt_count
        if not _is_known(row, news):
            _HEARD[news.says](row, news)
        return None if row.receipt_count == receipts else snapshot(row)


def _is_known(row: Execution, news: News) -> bool:
    """Return whether a receipt has these news already."""
    if canonical.clean_text(news.id) != news.id:
        return False  # the project redacts such ids: two of them may look alike
    kept = row.receipts.filter(event__in=_KEEPING, evidence__event=news.id)
    return kept.filter(evidence__reference=canonical.clean_reference(news.reference)).exists()


def _happened(row: Execution, news: News) -> None:
    proven = row.state in _HAPPENED or row.applied_evidence is not None
    if not (proven and _is_on_file(row, news)):
        observe_row(row, reference=news.reference, evidence=news.kept)
    elif row.state in _LOOKED_UP:
        _hasten(row, news)


def _undone(row: Execution, news: News) -> None:
    known = _is_on_file(row, news) and (is_undone(row) or row.reason == _R.UNDONE)
    if row.state == _S.EXECUTING or (row.state in _LOOKED_UP and is_leased(row)):
        raise TooSoonError(
            f"{row.operation} {row.pk} is being sent or looked up; say again that it was undone once that ended"
        )
    if row.state in _LOOKED_UP:
        _hasten(row, news)
    elif row.state in _HAPPENED or (row.state == _S.NEEDS_INTERVENTION and row.applied_evidence is not None):
        if not known:
            undo_row(row, reference=news.reference, evidence=news.kept)
    elif row.state == _S.NEEDS_INTERVENTION:
        # nothing says that it ever happened, so this is no proof of it: only a line for the person who decides
        advance(row, "observe", evidence=_noted(news))


def _under_way(row: Execution, news: News) -> None:
    second = bool(references_on_file(row)) and not _is_on_file(row, news)
    if second and row.state in _HAPPENED:
        observe_row(row, reference=news.reference, evidence=news.kept)
    elif second and row.state in _LOOKED_UP:
        # no proof that it happened, which a person who finds out that neither did could not pass
        advance(
            row, "escalate", _S.NEEDS_INTERVENTION, reason=_R.CONFLICT, may_have_applied=True,
            evidence={**_noted(news), "why": TWO_REFERENCES}, lease_expires_at=None, due_at=None,
        )  # fmt: skip
    elif row.state in _NOWHERE or (row.state == _S.FAILED and row.reason not in _REFUSED):
        # an absence that was believed and was none, or a journal that forgot: nothing more is sent
        contradict_row(row, {**_noted(news), "why": f"{row.state}, but the provider has it"}, None)
    elif row.state == _S.UNCERTAIN:
        _hasten(row, news)


def _changed(row: Execution, news: News) -> None:
    if row.state in _LOOKED_UP:
        _hasten(row, news)


_HEARD = {Says.HAPPENED: _happened, Says.UNDONE: _undone, Says.UNDER_WAY: _under_way, Says.CHANGED: _changed}


def _hasten(row: Execution, news: News) -> None:
    """Make the look-up due now; one that is due or under way is soon enough."""
    if row.contract["lookup"] is None:
        # due would mean sent again: it is only a line for the person whose matter it becomes
        advance(row, "observe", evidence=_noted(news))
    elif not is_leased(row) and not is_due(row):
        # the look-up that it has done spends nothing of the budget: a provider that tells much uses up no patience
        spent = max(row.lookups_spent - 1, 0)
        advance(row, "observe", evidence=_noted(news), revises=False, due_at=row.locked_at, lookups_spent=spent)


def _noted(news: News) -> dict[str, Any]:
    return {**news.kept, "reference": canonical.clean_reference(news.reference)}


def _is_on_file(row: Execution, news: News) -> bool:
    return canonical.clean_reference(news.reference) in references_on_file(row)
