"""The work queue: what needs a person, oldest first, bounded, with a constant number of queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse

from effects.declarations.effect import registered
from effects.declarations.operations import operations
from effects.inspection.standstill import START, standstills
from effects.models import Approval, Execution, Request
from effects.transitions import TROUBLED_FROM
from effects.vocabulary.states import ApprovalState, ExecutionReason, ExecutionState, RequestReason, RequestState
from effects.vocabulary.types import Actor
from effects_admin.ballots import LOOKED_THROUGH, find_ballots
from effects_admin.cases import votes_of
from effects_admin.display import distance, money, money_of, span, visible
from effects_admin.filters import age_choices, amount_choices, of_age, of_amount, with_name
from effects_admin.words import REASONS, label

if TYPE_CHECKING:
    from effects_admin.readonly import ReadOnlyAdmin

__all__ = ["Entry", "QueueForm", "Section", "context", "show"]

#: Rows of a section; the lists have the rest.
LIMIT = 50


@dataclass(frozen=True)
class Entry:
    """One thing that needs a person."""

    ref: str
    url: str
    title: str
    amount: str
    because: str
    since: datetime
    age: str
    left: str = ""


@dataclass
class Section:
    """One kind of them, oldest first.

    Attributes:
        bulk_url: where those that are ticked can be decided together; empty: only one at a time.
        note: what the section does not show.
    """

    name: str
    title: str
    explanation: str
    more_url: str
    entries: list[Entry] = field(default_factory=list)
    bulk_url: str = ""
    bulk_title: str = ""
    note: str = ""


def _choices(words: Mapping[str, str]) -> list[tuple[str, str]]:
    return [("", "any"), *words.items()]


class NameField(forms.ChoiceField):
    """Names that the code declares; any other narrows too, since rows outlive the code that declared theirs."""

    def valid_value(self, value: Any) -> bool:
        """Take every name that a row may have."""
        return "\x00" not in str(value)


def _operations() -> list[tuple[str, str]]:
    names = {effect.operation for effect in registered()} | set(operations())
    return _choices({name: name for name in sorted(names)})


def _providers() -> list[tuple[str, str]]:
    return _choices({name: name for name in sorted({effect.provider for effect in registered()})})


class QueueForm(forms.Form):
    """What the queue is narrowed to."""

    q = forms.CharField(label="Search", required=False, max_length=255, help_text="Exactly: ref, key, provider "
                        "reference or key, subject.")  # fmt: skip
    state = forms.ChoiceField(required=False, choices=_choices({str(s): label(s) for s in ExecutionState}))
    reason = forms.ChoiceField(
        required=False,
        choices=_choices({str(r): REASONS.get(r, label(r)) for r in (*ExecutionReason, *RequestReason) if r}),
    )
    provider = NameField(required=False, choices=_providers)
    operation = NameField(required=False, choices=_operations)
    age = forms.ChoiceField(required=False, choices=_choices(dict(age_choices())))
    amount = forms.ChoiceField(required=False, choices=_choices(dict(amount_choices())))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("provider", "operation"):
            field: Any = self.fields[name]
            field.choices = with_name(field.choices, self.data.get(name))

    def chosen(self) -> dict[str, str]:
        """Return what was chosen; what is no choice narrows nothing."""
        self.is_valid()
        return {name: value.strip() for name, value in self.cleaned_data.items() if value and value.strip()}


@dataclass(frozen=True)
class _Reader:
    """Whoever reads the queue, and what they narrowed it to."""

    console: admin.ModelAdmin[Execution]
    request: HttpRequest
    chosen: Mapping[str, str]

    def executions(self, **kind: Any) -> QuerySet[Execution]:
        """Return the rows of one kind that this person may see and asked for."""
        rows: QuerySet[Execution] = self.console.get_queryset(self.request).filter(**kind)
        exact = {
            name: self.chosen[name] for name in ("state", "reason", "provider", "operation") if name in self.chosen
        }
        rows = rows.filter(self._bounds(), of_amount(self.chosen.get("amount", "")), **exact)
        if "q" in self.chosen:
            rows, _ = self.console.get_search_results(self.request, rows, self.chosen["q"])
        return rows

    def requests(self, console: admin.ModelAdmin[Request]) -> QuerySet[Request]:
        """Return the requests in doubt that this person may see and asked for."""
        rows: QuerySet[Request] = console.get_queryset(self.request).filter(state=RequestState.IN_DOUBT.value)
        if self.chosen.keys() & {"state", "provider", "amount"}:
            return rows.none()  # a request has none of them
        exact = {name: self.chosen[name] for name in ("reason", "operation") if name in self.chosen}
        rows = rows.filter(self._bounds(), **exact)
        if "q" in self.chosen:
            rows, _ = console.get_search_results(self.request, rows, self.chosen["q"])
        return rows

    def _bounds(self) -> Q:
        return of_age(self.chosen.get("age", ""))


def show(console: ReadOnlyAdmin[Execution], request: HttpRequest) -> HttpResponse:
    """Show what needs a person, as far as this one may see it."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not console.has_view_permission(request):
        raise PermissionDenied
    shown = {"title": "Needs a person", "opts": console.opts, **context(console, request)}
    return TemplateResponse(request, "effects_admin/queue.html", {**console.admin_site.each_context(request), **shown})


def context(console: ReadOnlyAdmin[Execution], request: HttpRequest) -> dict[str, Any]:
    """Return the queue's sections and its filters; for somebody who may see executions."""
    form = QueueForm(request.GET)
    reader = _Reader(console, request, form.chosen())
    sections = [_approvals(reader)]
    if console.may_view(request):
        sections += [_doubtful(reader), _unwritten(reader), _troubled(reader)]
    requests: Any = console.admin_site.get_model_admin(Request)
    if requests.has_view_permission(request):
        sections.insert(2, _requests(reader, requests))
    return {
        "sections": sections,
        "standstills": standstills() if console.may_view(request) else [],
        "start": START,
        "queue_form": form,
        "is_narrowed": bool(reader.chosen),
        "queue_url": reverse("admin:effects_needs_a_person"),
        "waiting": sum(len(section.entries) for section in sections),
    }


def _approvals(reader: _Reader) -> Section:
    section = Section(
        "approvals",
        "Waiting for your approval",
        "You may decide these, and have not yet.",
        reverse("admin:effects_approval_changelist") + f"?state={ApprovalState.REQUESTED}",
        bulk_url=reverse("admin:effects_bulk_approve"),
        bulk_title="Approve the ticked ones together…",
    )
    ballots = find_ballots(reader.request.user, Approval.objects.filter(execution__in=reader.executions()))
    actor = Actor.of(reader.request.user)
    for approval in ballots.approvals:
        voted = any(actor is not None and vote.actor_id == actor.id for vote in votes_of(approval))
        if voted or approval.decide_by <= approval.seen_at or len(section.entries) >= LIMIT:
            continue
        left = f"expires {distance(approval.decide_by, approval.seen_at)}"
        entry = _entry(approval.execution, approval.created_at, approval.seen_at, left)
        # what is decided about may be a second send, which the row itself is not
        title = visible(approval.summary.get("title", entry.title))
        section.entries.append(replace(entry, title=title, amount=money_of(approval.summary)))
    if ballots.is_cut:
        section.note = f"Only the oldest {LOOKED_THROUGH} undecided approvals were looked through."
    return section


def _doubtful(reader: _Reader) -> Section:
    section = Section(
        "doubtful",
        "It may have happened, and nobody knows",
        "No look-up decides these; nothing happens on its own.",
        reverse("admin:effects_execution_changelist") + f"?state={ExecutionState.NEEDS_INTERVENTION}",
    )
    rows = reader.executions().filter(state=ExecutionState.NEEDS_INTERVENTION.value)
    for row in rows.annotate(seen_at=Now()).order_by("created_at")[:LIMIT]:
        section.entries.append(_entry(row, row.created_at, row.seen_at))
    return section


def _unwritten(reader: _Reader) -> Section:
    section = Section(
        "unwritten",
        "Settled, but the project's own rows could not be written",
        "The outcome is known; the code that writes the project's rows raised an error and is tried again.",
        reverse("admin:effects_execution_changelist") + "?state=settled",
    )
    for row in reader.executions(hook_due_at__isnull=False).annotate(seen_at=Now()).order_by("hook_due_at")[:LIMIT]:
        left = f"next try {distance(row.hook_due_at or row.seen_at, row.seen_at)}"
        section.entries.append(_entry(row, row.settled_at or row.created_at, row.seen_at, left, row.hook_error))
    return section


def _troubled(reader: _Reader) -> Section:
    section = Section(
        "troubled",
        "Working on them fails each time",
        "The code or its settings need mending; they are tried again, ever more rarely.",
        reverse("admin:effects_execution_changelist"),
    )
    rows = reader.executions(trouble_count__gte=TROUBLED_FROM)
    for row in rows.annotate(seen_at=Now()).order_by("created_at")[:LIMIT]:
        left = f"next try {distance(row.swept_until, row.seen_at)}" if row.swept_until else ""
        section.entries.append(_entry(row, row.created_at, row.seen_at, left, row.trouble))
    return section


def _requests(reader: _Reader, console: admin.ModelAdmin[Request]) -> Section:
    section = Section(
        "requests",
        "Requests in doubt",
        "Their handlers were cut short and may have called out; a retry is told so.",
        reverse("admin:effects_request_changelist") + f"?state={RequestState.IN_DOUBT}",
    )
    for row in reader.requests(console).annotate(seen_at=Now()).order_by("created_at")[:LIMIT]:
        section.entries.append(
            Entry(
                ref=str(row.pk),
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
        ref=str(row.pk),
        url=reverse("admin:effects_execution_change", args=[row.pk]),
        title=visible(row.summary.get("title") or row),
        amount=money(row.amount, row.currency),
        because=visible(because) or REASONS.get(row.reason, ""),
        since=since,
        age=span(now - since),
        left=left,
    )
