"""The queue of what needs a person: oldest first, bounded, with a constant number of queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse

from effects.models import Approval, Execution, Heartbeat, Request
from effects.states import ApprovalState, ExecutionState, RequestState
from effects.transitions import TROUBLED_FROM
from effects.types import Actor
from effects_admin.cases import votes_of, why_no_vote
from effects_admin.display import distance, money, span, visible
from effects_admin.words import REASONS

__all__ = ["Entry", "Section", "show"]

#: Rows of a section; the lists have the rest.
LIMIT = 50
#: Undecided approvals that are looked through for those that this person may decide.
LOOKED_THROUGH = 200


@dataclass(frozen=True)
class Entry:
    """One thing that needs a person."""

    url: str
    title: str
    amount: str
    because: str
    since: datetime
    age: str
    left: str = ""


@dataclass
class Section:
    """One kind of them, oldest first."""

    title: str
    explanation: str
    more_url: str
    entries: list[Entry] = field(default_factory=list)


def show(console: admin.ModelAdmin[Execution], request: HttpRequest) -> HttpResponse:
    """Show what needs a person, as far as this one may see it."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not console.has_view_permission(request):
        raise PermissionDenied
    sections = [_approvals(console, request), _doubtful(console, request), _unwritten(console, request)]
    sections.append(_troubled(console, request))
    requests = console.admin_site.get_model_admin(Request)
    if requests.has_view_permission(request):
        sections.insert(2, _requests(requests, request))
    context = {
        **console.admin_site.each_context(request),
        "title": "Needs a person",
        "opts": console.opts,
        "sections": sections,
        "heartbeats": list(Heartbeat.objects.annotate(seen_at=Now()).order_by("sweep")),
    }
    return TemplateResponse(request, "effects_admin/queue.html", context)


def _approvals(console: admin.ModelAdmin[Execution], request: HttpRequest) -> Section:
    section = Section(
        "Waiting for your approval",
        "You may decide these, and have not yet.",
        reverse("admin:effects_approval_changelist") + f"?state={ApprovalState.REQUESTED}",
    )
    undecided = Approval.objects.filter(
        state=ApprovalState.REQUESTED.value, execution__in=console.get_queryset(request)
    )
    oldest = undecided.select_related("execution").defer("execution__payload", "execution__output")
    actor = Actor.of(request.user)
    for approval in oldest.annotate(seen_at=Now()).prefetch_related("votes").order_by("pk")[:LOOKED_THROUGH]:
        voted = any(actor is not None and vote.actor_id == actor.id for vote in votes_of(approval))
        expired = approval.decide_by <= approval.seen_at
        if len(section.entries) < LIMIT and not (
            voted or expired or why_no_vote(approval.execution, approval, request.user)
        ):
            left = f"expires {distance(approval.decide_by, approval.seen_at)}"
            section.entries.append(_entry(approval.execution, approval.created_at, approval.seen_at, left))
    return section


def _doubtful(console: admin.ModelAdmin[Execution], request: HttpRequest) -> Section:
    section = Section(
        "It may have happened, and nobody knows",
        "No look-up decides these; nothing happens on its own.",
        reverse("admin:effects_execution_changelist") + f"?state={ExecutionState.NEEDS_INTERVENTION}",
    )
    rows: Any = console.get_queryset(request).filter(state=ExecutionState.NEEDS_INTERVENTION.value)
    for row in rows.annotate(seen_at=Now()).order_by("created_at")[:LIMIT]:
        section.entries.append(_entry(row, row.created_at, row.seen_at))
    return section


def _unwritten(console: admin.ModelAdmin[Execution], request: HttpRequest) -> Section:
    section = Section(
        "Settled, but the project's own rows could not be written",
        "The outcome is known; the code that writes the project's rows raised an error and is tried again.",
        reverse("admin:effects_execution_changelist") + "?state=settled",
    )
    rows: Any = console.get_queryset(request).filter(hook_due_at__isnull=False)
    for row in rows.annotate(seen_at=Now()).order_by("hook_due_at")[:LIMIT]:
        left = f"next try {distance(row.hook_due_at, row.seen_at)}"
        section.entries.append(_entry(row, row.settled_at or row.created_at, row.seen_at, left, row.hook_error))
    return section


def _troubled(console: admin.ModelAdmin[Execution], request: HttpRequest) -> Section:
    section = Section(
        "Working on them raises an error each time",
        "The code or its settings need mending; they are tried again, ever more rarely.",
        reverse("admin:effects_execution_changelist"),
    )
    rows: Any = console.get_queryset(request).filter(trouble_count__gte=TROUBLED_FROM)
    for row in rows.annotate(seen_at=Now()).order_by("created_at")[:LIMIT]:
        left = f"next try {distance(row.swept_until, row.seen_at)}" if row.swept_until else ""
        section.entries.append(_entry(row, row.created_at, row.seen_at, left, row.trouble))
    return section


def _requests(console: admin.ModelAdmin[Request], request: HttpRequest) -> Section:
    section = Section(
        "Requests in doubt",
        "Their handlers were cut short and may have called out; a retry is told so.",
        reverse("admin:effects_request_changelist") + f"?state={RequestState.IN_DOUBT}",
    )
    rows: Any = console.get_queryset(request).filter(state=RequestState.IN_DOUBT.value)
    for row in rows.annotate(seen_at=Now()).order_by("created_at")[:LIMIT]:
        section.entries.append(
            Entry(
                url=reverse("admin:effects_request_change", args=[row.pk]),
                title=f"{row.operation} {visible(row.key)}",
                amount="",
                because=REASONS.get(row.reason, ""),
                since=row.created_at,
                age=span(row.seen_at - row.created_at),
                left=f"tried again {distance(row.due_at, row.seen_at)}" if row.due_at else "",
            )
        )
    return section


def _entry(row: Execution, since: datetime, now: datetime, left: str = "", because: str = "") -> Entry:
    return Entry(
        url=reverse("admin:effects_execution_change", args=[row.pk]),
        title=visible(row.summary.get("title") or row),
        amount=money(row.amount, row.currency),
        because=visible(because) or REASONS.get(row.reason, ""),
        since=since,
        age=span(now - since),
        left=left,
    )
