"""Who can decide an approval now, and why somebody cannot: one answer for every path, in words that can be translated.

The verbs refuse by what is said here, under the row's lock; pages and APIs show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from effects.declarations.effect import get_effect
from effects.journal.lineage import earlier_requester_ids
from effects.journal.locks import now
from effects.journal.snapshots import context_of
from effects.journal.summaries import Contents, contents_of, is_bare
from effects.models import Approval, Execution
from effects.people.actors import are_named, is_user, names_of
from effects.people.approvers import (
    in_words,
    is_entitled,
    list_people,
    only_login_entitles,
    somebody_can_decide,
    still_entitled,
)
from effects.vocabulary.exceptions import EffectsError, PayloadUnreadableError
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.states import APPROVAL_LIVE, ApprovalPurpose, ApprovalState
from effects.vocabulary.types import Actor, ApprovalRule, Context

__all__ = [
    "CANCEL",
    "Eligibility",
    "contents_for",
    "context_for",
    "count_missing",
    "eligibility",
    "entitled_people",
    "entitlement",
    "is_approver",
    "is_by_login",
    "may_take_back",
    "outlook",
    "requester_ids",
    "valid_voters",
    "why_not_end",
]

_A = ApprovalState
#: Who may end what others asked for.
CANCEL = "effects.cancel_execution"


@dataclass(frozen=True)
class Eligibility:
    """Whether a person can decide an approval, and why not.

    Attributes:
        code: "" if they can; otherwise one of `anonymous`, `acts_for_another`, `nobody_asked`, `requester_unknown`,
            `asked`, `asked_for_you`, `joined`, `asked_before`, `not_an_approver`, `undecidable`, `unseen` (about the
            person), `voted`, `decided`, `expired` (about the approval).
        text: the same for a person, in the active language.
    """

    code: str = ""
    text: str = ""

    @property
    def can_decide(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.code

    @property
    def is_personal(self) -> bool:
        """Whether it is the person who is not entitled, as against an approval that is over."""
        return self.code not in ("", "voted", "decided", "expired")


def eligibility(
    row: Execution, approval: Approval, user: Any, *, at: datetime | None = None, acting_for: Actor | None = None
) -> Eligibility:
    """Return whether `user` can decide this approval now. Reads; a vote is checked again under the lock.

    Args:
        row: the execution.
        approval: one of its approvals; votes that were prefetched are used.
        user: a user object.
        at: the database's clock; None: asked here.
        acting_for: the person on whose behalf an account calls: people decide for themselves.
    """
    about_person = entitlement(row, approval, user, acting_for=acting_for)
    if not about_person.can_decide:
        return about_person
    at = at or now()
    actor = Actor.of(user)
    mine = next((vote for vote in approval.votes.all() if actor and vote.actor_id == actor.id), None)
    if mine is not None and approval.state in APPROVAL_LIVE:
        said = _("You approved it.") if mine.decision == "approve" else _("You denied it.")
        return Eligibility("voted", f"{said} {outlook(row, approval, at=at)}".strip())
    if approval.state != _A.REQUESTED:
        return Eligibility("decided", _over(approval, at))
    if approval.decide_by <= at:
        return Eligibility(
            "expired", _("It expired %(ago)s; nothing was sent.") % {"ago": _ago(approval.decide_by, at)}
        )
    if is_bare(approval.summary) and _contents(row) is None:
        text = _("Its effect describes no amount and no facts, and its payload cannot be shown: nobody decides unseen.")
        return Eligibility("unseen", text)
    return Eligibility()


def contents_for(row: Execution, approval: Approval, user: Any, *, acting_for: Actor | None = None) -> Contents | None:
    """Return the payload for somebody who is to decide by it: the summary tells them no amount and no facts.

    None where the summary does tell, where nothing is open to be decided, or where they are not entitled.
    """
    if approval.state != _A.REQUESTED or not is_bare(approval.summary):
        return None
    if not entitlement(row, approval, user, acting_for=acting_for).can_decide:
        return None
    return _contents(row)


def entitlement(row: Execution, approval: Approval, user: Any, *, acting_for: Actor | None = None) -> Eligibility:
    """Return whether `user` may decide this approval at all, whatever became of it."""
    actor, rule = Actor.of(user) if is_user(user) else None, rule_from_json(approval.rule)
    if actor is None:
        return Eligibility("anonymous", _("An approval is decided by a person who is logged in."))
    if acting_for is not None and acting_for != actor:
        return Eligibility(
            "acts_for_another", _("You act for %(person)s; people decide for themselves.") % {"person": acting_for}
        )
    if rule is None:
        return Eligibility("nobody_asked", _("It was ordered by a person; nobody else is asked."))
    if rule.four_eyes and not row.requesters:
        return Eligibility(
            "requester_unknown", _("Nobody knows who asked for it, so nobody can be told apart from them.")
        )
    if rule.four_eyes and are_named(names_of(user), requester_ids(row)):
        return _asked(row, approval, names_of(user))
    try:
        entitled = is_entitled(user, rule, context_for(row, rule))
    except EffectsError as error:
        return Eligibility("undecidable", _("It cannot be told who may decide: %(error)s") % {"error": error})
    if entitled:
        return Eligibility()
    who = {"approvers": rule.approvers, "people": in_words(rule)}
    return Eligibility(
        "not_an_approver", _("It takes “%(approvers)s”, which you do not have: %(people)s decide.") % who
    )


def is_approver(row: Execution, approval: Approval, user: Any) -> bool:
    """Return whether the approval's rule names `user`, also if they asked for it themselves: who may see it."""
    rule = rule_from_json(approval.rule)
    try:
        return rule is not None and is_entitled(user, rule, context_for(row, rule))
    except EffectsError:
        return False


def entitled_people(row: Execution, approval: Approval, *, limit: int) -> list[Any]:
    """Return users who can still vote: entitled, none of the requesters, not among those who voted; at most `limit`."""
    rule = rule_from_json(approval.rule)
    if rule is None or approval.state != _A.REQUESTED:
        return []
    but = {vote.actor_id for vote in approval.votes.all()} | (requester_ids(row) if rule.four_eyes else set())
    found = list_people(rule, but, context_for(row, rule))
    return [user for _number, user in zip(range(limit), found, strict=False)]


def outlook(row: Execution, approval: Approval, *, at: datetime | None = None) -> str:
    """Return in words what an approval waits for, or how it ended: "It needs one more from Finance, …"."""
    at, rule = at or now(), rule_from_json(approval.rule)
    if approval.state != _A.REQUESTED or rule is None or approval.decide_by <= at:
        return _over(approval, at)
    try:
        possible = somebody_can_decide(rule, requester_ids(row), context_for(row, rule))
    except EffectsError as error:
        return _("It cannot be told who may decide: %(error)s") % {"error": error}
    missing = count_missing(row, approval)
    words = {"missing": missing, "people": in_words(rule), "time": timeuntil(approval.decide_by, at)}
    if not possible:
        return _(
            "Nobody can approve this: it takes %(quorum)d of %(people)s who did not ask for it, and there are not that "
            "many active ones."
        ) % {**words, "quorum": rule.quorum}
    return (
        ngettext(
            "It needs one more from %(people)s, within %(time)s.",
            "It needs %(missing)d more from %(people)s, within %(time)s.",
            missing,
        )
        % words
    )


def count_missing(row: Execution, approval: Approval) -> int:
    """Return how many people have still to agree."""
    return max(0, approval.quorum - len(_voters(row, approval)))


def valid_voters(row: Execution, approval: Approval, rule: ApprovalRule) -> set[str]:
    """Return the ids of those whose approval counts now: they are entitled still, and did not ask for it since."""
    voters = _voters(row, approval)
    if not rule.recheck_approvers:
        return voters
    by_login = frozenset(vote.actor_id for vote in approval.votes.all() if vote.by_login)
    return still_entitled(voters, rule, context_for(row, rule), by_login=by_login)


def is_by_login(row: Execution, approval: Approval, user: Any) -> bool:
    """Return whether only the login of `user`, who may decide, says so: the votes are counted when it is not there."""
    rule = rule_from_json(approval.rule)
    return rule is not None and only_login_entitles(user, rule, context_for(row, rule))


def requester_ids(row: Execution) -> set[str]:
    """Return the ids of all who asked for an execution, or for one that it follows; who joined, or were acted for.

    None of them approves it under four eyes. One statement for what follows another, none for all others.
    """
    return _own_requester_ids(row) | earlier_requester_ids(row.supersedes_id, row.compensates_id)


def may_take_back(row: Execution, actor_id: str) -> bool:
    """Return whether they asked for this very execution: what is undone was asked for by others, who cannot stop it."""
    if row.compensates_id is None or (row.requested_by or {}).get("id") == actor_id:
        return actor_id in _own_requester_ids(row)
    return actor_id in _own_requester_ids(row) - earlier_requester_ids(row.compensates_id)


def why_not_end(row: Execution, approvals: Iterable[Approval], user: Any) -> str:
    """Return in words why `user` may not take this execution back before it is sent; empty if they may.

    They may who asked for this one or were acted for, whose own approval licenses it, and who may cancel.
    """
    actor = Actor.of(user)
    if actor is None:
        return _("You are not logged in.")
    if not getattr(user, "is_active", False):
        return _("Your account is not active.")
    live = [approval for approval in approvals if approval.state in APPROVAL_LIVE]
    if may_take_back(row, actor.id) or any(actor.id in _voters(row, approval) for approval in live):
        return ""
    ask = getattr(user, "has_perm", None)  # a user model of the project's may have no permissions at all
    if ask is not None and (ask(CANCEL) or ask(CANCEL, row)):
        return ""
    return _("You neither asked for it nor approved it, and do not have the permission “%(permission)s”.") % {
        "permission": CANCEL
    }


def context_for(row: Execution, rule: ApprovalRule) -> Context[Any]:
    """Return what the rule is asked with; the payload is loaded where a function of the project may look at it.

    Raises:
        EffectDefinitionError, PayloadUnreadableError: a function is to be asked, and there is nothing to ask it about.
    """
    payload = get_effect(row.operation).load(row.payload, row.payload_version) if rule.functions else None
    return context_of(row, payload)


def _contents(row: Execution) -> Contents | None:
    try:
        return contents_of(row.payload)
    except PayloadUnreadableError:
        return None


def _asked(row: Execution, approval: Approval, names: frozenset[str]) -> Eligibility:
    """Return how a requester came to be one."""
    if row.requested_by and are_named(names, [row.requested_by["id"]]):
        return Eligibility("asked", _("You asked for this one; somebody else has to decide."))
    if row.on_behalf_of and are_named(names, [row.on_behalf_of["id"]]):
        return Eligibility("asked_for_you", _("It was asked for on your behalf; somebody else has to decide."))
    if not are_named(names, _own_requester_ids(row)):
        what = _("undoes") if row.compensates_id is not None else _("asks for again")
        text = _(
            "You asked for what this one %(does)s, or it was asked for on your behalf; somebody else has to decide."
        )
        return Eligibility("asked_before", text % {"does": what})
    if approval.purpose == ApprovalPurpose.RESEND:
        text = _("You asked for this one to be sent again, or joined it from another request; somebody else decides.")
    else:
        text = _("You joined it from another request; somebody else has to decide.")
    return Eligibility("joined", text)


def _own_requester_ids(row: Execution) -> set[str]:
    return {requester["id"] for requester in row.requesters}


def _voters(row: Execution, approval: Approval) -> set[str]:
    """Return the ids of those who approved; under four eyes, who joined as a requester since does not count."""
    voters = {vote.actor_id: vote.actor_label for vote in approval.votes.all() if vote.decision == "approve"}
    if not approval.rule.get("four_eyes", True):
        return set(voters)
    asked = requester_ids(row)
    return {actor_id for actor_id, label in voters.items() if not are_named((actor_id, label), asked)}


def _over(approval: Approval, at: datetime) -> str:
    """Return how an approval stands that nobody can vote on any more."""
    words = {"ago": _ago(approval.decided_at or approval.decide_by, at)}
    match _A(approval.state):
        case _A.GRANTED:
            return _("This approval is granted already; it is not sent yet.")
        case _A.SPENT:
            return _("This approval is spent already: it was sent under it.")
        case _A.DENIED:
            return _("This approval is denied already, %(ago)s; nothing was sent under it.") % words
        case _A.WITHDRAWN:
            return _("This approval was withdrawn %(ago)s; nothing was sent under it.") % words
        case _A.LAPSED:
            return _("This approval lapsed %(ago)s; nothing was sent under it.") % words
        case _:
            return _("It expired %(ago)s; nothing was sent.") % {"ago": _ago(approval.decide_by, at)}


def _ago(then: datetime, at: datetime) -> str:
    if (at - then).total_seconds() < 60:
        return _("just now")
    return _("%(time)s ago") % {"time": timesince(then, at, depth=1)}
