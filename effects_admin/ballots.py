"""Ballots: the undecided approvals that one person may decide, also where they may view nothing else of the journal.

Whoever an approval's rule names has to reach it: with the permission that the rule asks for, for everything or for one
object, as a member of its group, or named by its function. They see that row and its approval, as far as a decision
needs it; the lists show them what waits for them, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from effects.journal.logs import get_logger
from effects.models import Approval, Execution
from effects.people.approvers import could_decide, is_entitled
from effects.people.eligibility import is_approver
from effects.vocabulary.exceptions import EffectsError
from effects.vocabulary.states import APPROVAL_LIVE, ApprovalState
from effects.vocabulary.types import ApprovalRule
from effects_admin.cases import why_no_vote

__all__ = ["LOOKED_THROUGH", "Ballots", "ballots_of", "find_ballots", "is_asked", "is_named"]

log = get_logger("effects.admin")

#: Undecided approvals that are looked through for those that a person may decide, of the rules that they could meet.
LOOKED_THROUGH = 200


@dataclass(frozen=True)
class Ballots:
    """Undecided approvals that a person is entitled to decide, the oldest first.

    Attributes:
        approvals: with their executions and votes, bounded by `LOOKED_THROUGH`.
        is_cut: whether more than that had to be looked through.
    """

    approvals: list[Any]
    is_cut: bool = False


def find_ballots(user: Any, approvals: QuerySet[Approval]) -> Ballots:
    """Return those of some approvals that wait for this person's vote, or for others' beside theirs.

    Rows of rules that they cannot meet are left out by the database, so that a queue of other people's hides none.
    Rules that they meet whatever it is about come first; of those that only the row can tell (a function, a permission
    for one object) the oldest are asked.
    """
    undecided = approvals.filter(state=ApprovalState.REQUESTED.value)
    # a handful of rules stand behind any number of rows, and a permission is asked of the backends, not of SQL
    rules = [rule for rule in undecided.order_by().values_list("approvers", flat=True).distinct() if rule]
    sure = {rule for rule in rules if _meets_always(user, rule)}
    perhaps = {rule for rule in rules if rule not in sure and could_decide(user, rule)}
    found, is_cut = [], False
    for group in filter(None, (sure, perhaps)):
        mine = undecided.filter(approvers__in=group).select_related("execution")
        oldest = mine.defer("execution__payload", "execution__output").annotate(seen_at=Now()).prefetch_related("votes")
        looked = list(oldest.order_by("pk")[: LOOKED_THROUGH + 1])
        is_cut = is_cut or len(looked) > LOOKED_THROUGH
        found += [each for each in looked[:LOOKED_THROUGH] if not why_no_vote(each.execution, each, user)]
    return Ballots(sorted(found, key=lambda each: each.pk), is_cut)


def _meets_always(user: Any, rule: str) -> bool:
    """Return whether a person meets a rule whatever it is asked about."""
    try:
        return is_entitled(user, ApprovalRule(rule))
    except EffectsError:
        return False


def ballots_of(request: HttpRequest) -> Ballots:
    """Return what waits for whoever makes a request, asked once for each request.

    The admin's first page asks it for every member of staff: a journal that is away must not take that page along.
    """
    found: Ballots | None = getattr(request, "_effects_ballots", None)
    if found is None:
        try:
            found = find_ballots(request.user, Approval.objects.all())
        except DatabaseError:
            log.exception("What waits for %s cannot be told; their lists show nothing.", request.user.pk)
            found = Ballots([])
        request._effects_ballots = found  # type: ignore[attr-defined]
    return found


def is_asked(request: HttpRequest) -> bool:
    """Return whether this person is asked to decide things: something waits for them, or newest rules name them.

    The second keeps the console open to approvers who have just decided the last thing that waited.
    """
    if ballots_of(request).approvals:
        return True
    try:
        newest = set(Approval.objects.order_by("-pk").values_list("approvers", flat=True)[:LOOKED_THROUGH])
    except DatabaseError:
        return False
    return any(rule and _meets_always(request.user, rule) for rule in newest)


def is_named(user: Any, row: Execution | Approval) -> bool:
    """Return whether the rule of a row's live or newest approval names this person: they may see how it stands."""
    approval: Approval | None
    if isinstance(row, Approval):
        return is_approver(row.execution, row, user)
    approvals = Approval.objects.filter(execution_id=row.pk).order_by("-pk")
    approval = approvals.filter(state__in=[str(state) for state in APPROVAL_LIVE]).first() or approvals.first()
    return approval is not None and is_approver(row, approval, user)
