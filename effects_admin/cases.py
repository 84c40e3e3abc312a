"""What a page shows of one row, read with a constant number of queries."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Q
from django.db.models.functions import Now

from effects import transitions
from effects.declarations.effect import get_effect
from effects.http.fingerprints import is_known
from effects.journal.logs import get_logger
from effects.journal.snapshots import barrier, outcome_of
from effects.journal.summaries import Contents, contents_of, is_bare
from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt, Request, RequestExecution, Resolution
from effects.people.eligibility import contents_for, may_take_back
from effects.vocabulary.exceptions import EffectDefinitionError, PayloadUnreadableError, PolicyChangedError
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.states import APPROVAL_LIVE, EXECUTION_SETTLED, ApprovalState
from effects.vocabulary.types import Actor
from effects_admin.display import moment, money_of, visible
from effects_admin.permissions import VIEW_PAYLOAD, may

__all__ = [
    "LONGEST_TIMELINE",
    "ApprovalCase",
    "Case",
    "History",
    "RequestCase",
    "SeenAt",
    "decided_before",
    "why_no_vote",
]

log = get_logger("effects.admin")

#: Receipts on one page; an order that is in progress for weeks has more, and the list of receipts has them all.
LONGEST_TIMELINE = 200
#: The reading's own time by the database's clock, so that "in 5 min" is not this machine's opinion.
SeenAt = Now


@dataclass
class Case:
    """An execution, its approvals with their votes, and its attempts, as `user` reads them at `seen_at`."""

    row: Execution
    seen_at: datetime
    user: Any

    @cached_property
    def approvals(self) -> list[Approval]:
        """All of them, newest first."""
        return list(self.row.approvals.order_by("-pk").prefetch_related("votes"))

    @cached_property
    def attempts(self) -> list[Attempt]:
        """All of them, in order."""
        return list(self.row.attempt_rows.order_by("number"))

    @cached_property
    def sequels(self) -> list[Execution]:
        """What supersedes or undoes it, the oldest first."""
        followed = Execution.objects.filter(Q(supersedes=self.row) | Q(compensates=self.row))
        return list(followed.defer("payload", "output", "items").order_by("pk")[:20])

    @property
    def approval(self) -> Approval | None:
        """The live approval, else the newest one."""
        live = (approval for approval in self.approvals if approval.state in APPROVAL_LIVE)
        return next(chain(live, self.approvals), None)

    @property
    def summary(self) -> dict[str, Any]:
        """What people are shown: of a live approval what it is about, which may be a second send; else the row's."""
        approval = self.approval
        shown: dict[str, Any] = (
            approval.summary if approval is not None and approval.state in APPROVAL_LIVE else self.row.summary
        )
        return shown

    @property
    def title(self) -> str:
        """The summary's title, or what stands for one that retention dropped."""
        return visible(self.summary.get("title") or self.row)

    @cached_property
    def contents(self) -> Contents | None:
        """The payload as this person may see it; None where it is hidden from them, or gone.

        They may see payloads, or are to decide by it, since the summary tells no amount and no facts.
        """
        if may(self.user, VIEW_PAYLOAD, self.row):
            with suppress(PayloadUnreadableError):
                return contents_of(self.row.payload)
        if self.approval is not None:
            return contents_for(self.row, self.approval, self.user)
        return None

    @property
    def is_bare(self) -> bool:
        """Whether the summary tells nothing of the contents: no amount, and no fact that says anything."""
        return is_bare(self.summary)

    @property
    def amount(self) -> str:
        """The summary's amount, as people write it."""
        return money_of(self.summary)

    @property
    def votes(self) -> list[ApprovalVote]:
        """The votes on that approval."""
        return votes_of(self.approval)

    @property
    def approvals_missing(self) -> int:
        """How many more people have to approve."""
        if self.approval is None:
            return 0
        return max(self.approval.quorum - sum(vote.decision == "approve" for vote in self.votes), 0)

    @cached_property
    def outcome(self) -> Outcome:
        """What it stands for, as callers get it."""
        return outcome_of(self.row)

    @property
    def provider_url(self) -> str:
        """Where people see it at the provider; empty where the effect, or the provider, has no such address."""
        return self.url_of(self.row.reference)

    def url_of(self, reference: str) -> str:
        """Where people see a reference at the provider; empty where there is no such address."""
        if not reference:
            return ""
        try:
            url = get_effect(self.row.operation).provider_url(reference, tenant=self.row.tenant)
            return url if urlsplit(url).scheme in ("http", "https") else ""
        except EffectDefinitionError:
            return ""
        except Exception:  # the project's code: a page is shown without its link
            log.exception("provider_url of %s failed; its page has no link.", self.row.operation)
            return ""

    @property
    def is_gone(self) -> bool:
        """Whether this site's code does not declare its effect (any more)."""
        try:
            get_effect(self.row.operation)
        except EffectDefinitionError:
            return True
        return False

    @property
    def foreign_code(self) -> str:
        """Why this site's code may not work on it while it is unsettled, in words; empty where it may."""
        if self.is_gone:
            return f"This site's code does not declare {self.row.operation} (any more), so it cannot ask or send."
        try:
            transitions.effect_of(self.row)
        except PolicyChangedError as error:
            return str(error)
        return ""

    @property
    def barrier_at(self) -> datetime | None:
        """From when on "not found" is evidence."""
        return barrier(self.row)

    @property
    def is_before_barrier(self) -> bool:
        """Whether a request may still land at the provider."""
        return self.barrier_at is not None and self.barrier_at >= self.seen_at

    @property
    def is_leased(self) -> bool:
        """Whether a sender or a look-up is at work."""
        return self.row.lease_expires_at is not None and self.row.lease_expires_at > self.seen_at

    @property
    def is_settled(self) -> bool:
        """Whether the outside world's answer is known, or given up."""
        return self.row.state in EXECUTION_SETTLED

    @property
    def has_asked(self) -> bool:
        """Whether the reader is one of those who asked for this very one, or whom it was asked for."""
        actor = Actor.of(self.user)
        return actor is not None and may_take_back(self.row, actor.id)


@dataclass
class RequestCase:
    """A protected request and the executions that it performed, as `user` reads them at `seen_at`."""

    row: Request
    seen_at: datetime
    user: Any

    @cached_property
    def links(self) -> list[RequestExecution]:
        """Its executions, in the order in which they were performed."""
        return list(self.row.links.select_related("execution").order_by("position"))

    @property
    def is_comparable(self) -> bool:
        """Whether this code can tell that a retry is the same request."""
        return is_known(self.row.fingerprint_version)

    @property
    def unsettled(self) -> list[Execution]:
        """The executions that hold back its answer."""
        return [link.execution for link in self.links if link.holds and link.execution.state not in EXECUTION_SETTLED]


@dataclass
class ApprovalCase:
    """An approval with its execution, as `user` reads them at `seen_at`."""

    row: Approval
    seen_at: datetime
    user: Any


@dataclass
class History:
    """The receipts and resolutions of a row: its timeline."""

    row: Execution | Request
    receipts: list[Receipt] = field(init=False)
    is_cut: bool = field(init=False)

    def __post_init__(self) -> None:
        newest = list(self.row.receipts.order_by("-sequence")[: LONGEST_TIMELINE + 1])
        self.is_cut = len(newest) > LONGEST_TIMELINE
        self.receipts = newest[:LONGEST_TIMELINE]

    @cached_property
    def resolutions(self) -> list[Resolution]:
        """What people decided about it."""
        return list(self.row.resolutions.order_by("pk"))


def votes_of(approval: Approval | None) -> list[ApprovalVote]:
    """Return an approval's votes in the order in which they were given."""
    return sorted(approval.votes.all(), key=lambda vote: vote.pk) if approval else []


def why_no_vote(row: Execution, approval: Approval, user: Any) -> str:
    """Return in words why `user` is not entitled to decide an approval; empty if they are."""
    try:
        return transitions.why_not(row, approval, user)
    except EffectDefinitionError as error:
        return str(error)


def decided_before(approval: Approval, attempts: list[Attempt]) -> str:
    """Return what became of an approval that is no longer open: by whom, when, and when it was sent."""
    votes = votes_of(approval)
    match ApprovalState(approval.state):
        case ApprovalState.REQUESTED:
            return ""
        case ApprovalState.DENIED:
            return f"Already denied by {_people(votes, 'deny')}. Nothing was sent under it."
        case ApprovalState.GRANTED:
            return f"Already approved by {_people(votes, 'approve')}; not sent yet."
        case ApprovalState.SPENT:
            sent = [attempt.permitted_at for attempt in attempts if attempt.approval_id == approval.pk]
            at = moment(sent[0] if sent else approval.spent_at)
            return f"Already approved by {_people(votes, 'approve')}; sent at {at}."
        case _:
            return f"This approval is {approval.state} since {moment(approval.decided_at)}. Nothing was sent under it."


def _people(votes: list[ApprovalVote], decision: str) -> str:
    named = [f"{vote.actor_label or vote.actor_id} ({moment(vote.at)})" for vote in votes if vote.decision == decision]
    return " and ".join(named) or "the order to send it again"
