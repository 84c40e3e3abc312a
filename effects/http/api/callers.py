"""Who calls the API, for whom, and what they may see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models.functions import Now
from rest_framework.exceptions import NotAuthenticated, PermissionDenied

from effects.conf import settings
from effects.http.identity import identify
from effects.models import Approval, Execution
from effects.people.actors import actor_of, is_user
from effects.people.approvers import could_decide
from effects.people.eligibility import contents_for, eligibility, is_approver, may_take_back, requester_ids
from effects.vocabulary.exceptions import ExecutionNotFoundError
from effects.vocabulary.states import APPROVAL_LIVE
from effects.vocabulary.types import Actor

__all__ = ["CANCEL", "VIEW", "VIEW_PAYLOAD", "Caller", "Seen", "caller_of", "find_approval", "find_execution"]

VIEW = "effects.view_execution"
VIEW_PAYLOAD = "effects.view_payload"
CANCEL = "effects.cancel_execution"


@dataclass(frozen=True)
class Caller:
    """An account, the tenant in which it calls, and the person for whom it acts, if it is not that person's own."""

    user: Any
    actor: Actor
    tenant: str
    principal: Actor | None

    def may(self, permission: str, row: Execution) -> bool:
        """Return whether the account holds a permission, for everything or for this row."""
        return bool(self.user.has_perm(permission) or self.user.has_perm(permission, row))

    def asked_for(self, row: Execution) -> bool:
        """Return whether this is one of those who asked, or were acted for, here or for what it follows.

        An account that acts for many people is each time only the one of them.
        """
        return (self.principal or self.actor).id in requester_ids(row)

    @property
    def by(self) -> Any:
        """Who it is to the public verbs: the user; of an account in a table of its own, its actor."""
        return self.user if is_user(self.user) else self.actor

    def may_take_back(self, row: Execution) -> bool:
        """Return whether this is one of those who asked for this very execution."""
        return may_take_back(row, (self.principal or self.actor).id)

    def could_decide(self, approvers: str) -> bool:
        """Return whether the caller could meet a rule's text; programs that act for people never do."""
        return self.principal is None and could_decide(self.user, approvers)


@dataclass(frozen=True)
class Seen:
    """An execution and its live or newest approval, as a caller sees them at `at`, by the database's clock."""

    row: Execution
    approval: Approval | None
    caller: Caller
    at: datetime

    @property
    def is_visible(self) -> bool:
        """Whether the caller may know of it."""
        caller, approval = self.caller, self.approval
        if caller.asked_for(self.row) or caller.may(VIEW, self.row):
            return True
        return approval is not None and caller.principal is None and is_approver(self.row, approval, caller.user)

    @property
    def contents(self) -> Any:
        """The payload, for the caller who is to decide by it; None for others, and where the summary tells."""
        if self.approval is None:
            return None
        caller = self.caller
        found = contents_for(self.row, self.approval, caller.user, acting_for=caller.principal)
        return found.value if found is not None else None

    def why_not(self) -> str:
        """Return in words why the caller cannot decide it now; empty if they can."""
        if self.approval is None:
            return "Nobody was asked to approve it."
        caller = self.caller
        return eligibility(self.row, self.approval, caller.user, at=self.at, acting_for=caller.principal).text


def caller_of(request: Any) -> Caller:
    """Return who calls.

    Raises:
        NotAuthenticated: nobody does.
        PermissionDenied: no account is behind the request, so that nobody could be told apart from who asks.
    """
    who = identify(request)
    if who is None:
        raise NotAuthenticated
    if who.actor is None:
        raise PermissionDenied("An account of this site is needed.")
    principal = settings.ON_BEHALF_OF
    acted_for = actor_of(principal(request), "What ON_BEHALF_OF returned") if principal else None
    if acted_for is not None and acted_for.id == who.actor.id:
        acted_for = None
    return Caller(request.user, who.actor, who.tenant, acted_for)


def find_execution(caller: Caller, ref: UUID) -> Seen:
    """Return an execution of the caller's tenant that they may see.

    Raises:
        ExecutionNotFoundError: there is none, for them.
    """
    row: Any = Execution.objects.filter(pk=ref, tenant=caller.tenant).annotate(seen_at=Now()).first()
    approvals = Approval.objects.filter(execution_id=ref).order_by("-pk").prefetch_related("votes") if row else ()
    return _visible(
        row, next((it for it in approvals if it.state in APPROVAL_LIVE), next(iter(approvals), None)), caller
    )


def find_approval(caller: Caller, approval_id: UUID) -> Seen:
    """Return an approval of the caller's tenant that they may see, with its execution.

    Raises:
        ExecutionNotFoundError: there is none, for them.
    """
    found: Any = (
        Approval.objects.filter(pk=approval_id, execution__tenant=caller.tenant)
        .select_related("execution")
        .prefetch_related("votes")
        .annotate(seen_at=Now())
        .first()
    )
    if found is None:
        raise ExecutionNotFoundError
    found.execution.seen_at = found.seen_at
    return _visible(found.execution, found, caller)


def _visible(row: Any, approval: Approval | None, caller: Caller) -> Seen:
    if row is not None:
        seen = Seen(row, approval, caller, row.seen_at)
        if seen.is_visible:
            return seen
    raise ExecutionNotFoundError("It is not there, or not yours to see.")
