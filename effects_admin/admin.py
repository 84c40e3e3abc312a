"""The journal on Django's default admin site."""

# Django's hooks are given more than each needs.
# ruff: noqa: ARG002

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from effects.models import Approval, Execution, Request, RequestExecution
from effects.people.approvers import in_words
from effects.vocabulary.frozen_rules import rule_from_json
from effects.vocabulary.states import APPROVAL_LIVE, EXECUTION_IN_DOUBT, EXECUTION_OPEN, RequestState, values
from effects_admin import bulk, filters, overview, queue, views
from effects_admin.cases import ApprovalCase, Case, History, RequestCase, votes_of, why_no_vote
from effects_admin.display import age, laid_out, money, money_of, pretty, visible
from effects_admin.evidence import read_evidence
from effects_admin.findings import meaning_of
from effects_admin.outlook import next_steps, next_steps_of_request, steps_of_ballot
from effects_admin.permissions import LOOK_UP, VIEW_PAYLOAD, VIEW_REQUEST, may
from effects_admin.readonly import BallotAdmin, CaseAdmin, as_uuid
from effects_admin.receipts import ReceiptAdmin
from effects_admin.templatetags.effects_admin import badge, time
from effects_admin.timeline import lines
from effects_admin.verbs import EXECUTION_VERBS, REQUEST_VERBS
from effects_admin.words import APPROVAL_MEANINGS, REASONS, REQUEST_MEANINGS, headline, label

__all__ = ["ApprovalAdmin", "ExecutionAdmin", "ReceiptAdmin", "RequestAdmin"]

#: Executions of one subject's requests that a search for the subject finds, the newest.
SUBJECT_LIMIT = 500


@admin.register(Execution)
class ExecutionAdmin(BallotAdmin[Execution], CaseAdmin[Execution, Case]):
    """Executions: what was to be done outside, and what is known of it."""

    page_template = "effects_admin/execution.html"
    case_class = Case
    verbs = EXECUTION_VERBS
    actions = ("approve_together", "look_up_together")
    list_display = ("what", "state_shown", "amount_shown", "created")
    list_display_links = None
    list_filter = (
        filters.ExecutionStateFilter, filters.ExecutionOperationFilter, filters.ProviderFilter, filters.RiskFilter,
        filters.AgeFilter, filters.AmountFilter, filters.ExecutionReasonFilter,
    )  # fmt: skip
    newest_column = "created_at"
    ordered_filters = frozenset({"age"})
    rare_states = frozenset({"in_doubt", "open", *values(EXECUTION_OPEN | EXECUTION_IN_DOUBT)})
    ordering = ("-created_at", "-id")
    search_fields = ("key", "reference", "provider_key")
    exact_columns = ("key", "reference", "provider_key")
    search_help_text = "Exactly: a ref, a key, a provider's reference or key, or the subject of a request."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Execution]:
        """Return the rows without what only their pages show."""
        return super().get_queryset(request).defer("payload", "output", "items")

    def found_elsewhere(self, request: HttpRequest, term: str) -> Q:
        """Find the executions of a subject's newest requests, for whoever may see requests."""
        if not may(request.user, VIEW_REQUEST):
            return Q()
        links = RequestExecution.objects.filter(request__subject=term).order_by("-pk")
        found = list(links.values_list("execution_id", flat=True)[:SUBJECT_LIMIT])
        return Q(pk__in=found) if found else Q()

    def get_urls(self) -> list[URLPattern]:
        """Add the queue of what needs a person, the overview, and the pages that decide several rows."""
        site = self.admin_site
        ours = [
            path("needs-a-person/", site.admin_view(self.queue_view), name="effects_needs_a_person"),
            path("overview/", site.admin_view(self.overview_view), name="effects_overview"),
            *(
                path(f"bulk-{name}/", self.own_commits(self._bulk_view(name)), name=f"effects_bulk_{verb}")
                for name, verb in ((name, name.replace("-", "_")) for name in bulk.BULK_VERBS)
            ),
        ]
        return [*ours, *super().get_urls()]

    def queue_view(self, request: HttpRequest) -> HttpResponse:
        """Show what needs a person."""
        return queue.show(self, request)

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Show how many are in which state, and how the providers do."""
        return overview.show(self, request)

    def _bulk_view(self, name: str) -> Any:
        return lambda request: bulk.decide(self, name, request)

    def has_look_up_permission(self, request: HttpRequest) -> bool:
        """Whether the list offers to ask the provider about several."""
        return may(request.user, LOOK_UP)

    @admin.action(description="Approve together…")
    def approve_together(self, request: HttpRequest, _queryset: QuerySet[Execution]) -> HttpResponse:
        """Lead to the page that shows what would be approved: of the ticked rows, filtered away meanwhile or not."""
        return bulk.choose(request, "approve", request.POST.getlist(ACTION_CHECKBOX_NAME), request.get_full_path())

    @admin.action(description="Look up together…", permissions=["look_up"])
    def look_up_together(self, request: HttpRequest, _queryset: QuerySet[Execution]) -> HttpResponse:
        """Lead to the page that shows about which rows the provider would be asked."""
        return bulk.choose(request, "look-up", request.POST.getlist(ACTION_CHECKBOX_NAME), request.get_full_path())

    @admin.display(description="what")
    def what(self, row: Execution) -> SafeString:
        """The summary's title, which leads to the row; the operation, and who asked first."""
        by = visible((row.requested_by or {}).get("label") or "nobody known")
        url = reverse(views.url_name(row, "change"), args=[row.pk])
        title = visible(row.summary.get("title") or str(row))
        return format_html('<a href="{}">{}</a><br><span class="fx-quiet">{}, {}</span>', url, title, row.operation, by)

    @admin.display(description="state", ordering="state")
    def state_shown(self, row: Execution) -> SafeString:
        """The state, coloured, and the reason."""
        return _state(row)

    @admin.display(description="amount")
    def amount_shown(self, row: Execution) -> str:
        """The amount, where there is one."""
        return money(row.amount, row.currency)

    @admin.display(description="recorded", ordering="created_at")
    def created(self, row: Execution) -> SafeString | str:
        """How long ago it was recorded, and when."""
        return _age(row.created_at)

    def shown(self, request: HttpRequest, case: Case) -> dict[str, Any]:
        """Return the execution as an approver sees it."""
        return {
            "meaning": meaning_of(case.row),
            "because": REASONS.get(case.row.reason, ""),
            "summary": case.summary,
            "payload": laid_out(case.contents.value) if case.contents is not None else None,
            "payload_permission": VIEW_PAYLOAD,
        }

    def page_context(self, request: HttpRequest, case: Case) -> dict[str, Any]:
        """Return the rest of its page."""
        history = History(case.row)
        sees = may(request.user, VIEW_PAYLOAD, case.row)
        return {
            "next_steps": next_steps(case) if self.may_view(request, case.row) else steps_of_ballot(case),
            **views.offers(self.verbs, case),
            "timeline": list(lines(history.receipts, request.user, case.row)),
            "timeline_is_cut": history.is_cut,
            "output": pretty(case.row.output) if sees else None,
            "proof": case.row.applied_evidence and read_evidence(case.row.applied_evidence, request.user, case.row),
            "approvals": [(each, votes_of(each)) for each in case.approvals],
            "is_ballot": not self.may_view(request, case.row),
            "links": case.row.links.select_related("request").order_by("-pk")[:100]
            if may(request.user, VIEW_REQUEST)
            else (),
        }

    def told(self, case: Case, before: Case) -> str:
        """Return what the newest receipt says, and what happens next."""
        newest = case.row.receipts.order_by("-sequence").first()
        known = before.row.receipt_count if before.row.pk == case.row.pk else 0
        news = newest is not None and newest.sequence > known
        state = f"It is {label(case.row.state)}."
        return " ".join([f"{headline(newest)}." if news and newest else "", state, *next_steps(case)[:1]]).strip()


@admin.register(Request)
class RequestAdmin(CaseAdmin[Request, RequestCase]):
    """Protected HTTP requests."""

    page_template = "effects_admin/request.html"
    case_class = RequestCase
    verbs = REQUEST_VERBS
    list_display = ("ref", "state_shown", "operation", "subject_shown", "key_shown", "answer_status",
                    "created")  # fmt: skip
    list_filter = (filters.RequestStateFilter, filters.RequestOperationFilter, filters.AgeFilter,
                   filters.RequestReasonFilter)  # fmt: skip
    newest_column = "created_at"
    ordered_filters = frozenset({"state", "age"})
    rare_states = frozenset({RequestState.RUNNING.value, RequestState.WAITING.value, RequestState.IN_DOUBT.value})
    ordering = ("-created_at", "-id")
    search_fields = ("key", "subject")
    exact_columns = ("key", "subject")
    search_help_text = "Exactly: an operation_ref, a client's key or a subject."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Request]:
        """Return the rows without what only their pages show."""
        return super().get_queryset(request).defer("answer_body", "answer_headers", "fingerprint")

    @admin.display(description="operation ref")
    def ref(self, row: Request) -> str:
        """The public reference."""
        return str(row.pk)

    @admin.display(description="state")
    def state_shown(self, row: Request) -> SafeString:
        """The state, coloured, and the reason."""
        return _state(row)

    @admin.display(description="subject")
    def subject_shown(self, row: Request) -> str:
        """Who asked."""
        return visible(row.subject)

    @admin.display(description="key")
    def key_shown(self, row: Request) -> str:
        """The client's key."""
        return visible(row.key)

    @admin.display(description="opened", ordering="created_at")
    def created(self, row: Request) -> SafeString | str:
        """How long ago it was opened, and when."""
        return _age(row.created_at)

    def shown(self, request: HttpRequest, case: RequestCase) -> dict[str, Any]:
        """Return the request as its page and its verbs' pages show it."""
        return {"meaning": REQUEST_MEANINGS.get(case.row.state, ""), "because": REASONS.get(case.row.reason, "")}

    def page_context(self, request: HttpRequest, case: RequestCase) -> dict[str, Any]:
        """Return the rest of its page."""
        history = History(case.row)
        body = bytes(case.row.answer_body or b"").decode("utf-8", "replace")
        return {
            "next_steps": next_steps_of_request(case),
            **views.offers(self.verbs, case),
            "timeline": list(lines(history.receipts, request.user, case.row)),
            "timeline_is_cut": history.is_cut,
            "answer": visible(body) if may(request.user, VIEW_PAYLOAD, case.row) else None,
            "payload_permission": VIEW_PAYLOAD,
        }

    def told(self, case: RequestCase, before: RequestCase) -> str:
        """Return how it now stands."""
        return f"It is {label(case.row.state)}. {REQUEST_MEANINGS.get(case.row.state, '')}"


@admin.register(Approval)
class ApprovalAdmin(BallotAdmin[Approval], CaseAdmin[Approval, ApprovalCase]):
    """Approvals; they are decided on their execution's pages."""

    page_template = "effects_admin/approval.html"
    case_class = ApprovalCase
    list_display = ("what", "state_shown", "amount_shown", "decided_by", "decide_by_shown", "created")
    list_filter = (filters.ApprovalStateFilter, filters.PurposeFilter)
    rare_states = frozenset(values(APPROVAL_LIVE))
    list_select_related = ("execution",)
    actions = ("approve_together",)
    # ids are made in the order of time, and the primary key has an index
    ordering = ("-id",)
    search_fields = ("execution__id",)
    id_columns = ("pk", "execution_id")
    search_help_text = "Exactly: the ref of an execution, or of an approval."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Approval]:
        """Return the rows with their executions, without the payloads."""
        return (
            super().get_queryset(request).select_related("execution").defer("execution__payload", "execution__output")
        )

    @admin.action(description="Approve together…")
    def approve_together(self, request: HttpRequest, _queryset: QuerySet[Approval]) -> HttpResponse:
        """Lead to the page that shows what would be approved."""
        ticked = Approval.objects.filter(pk__in=_uuids(request.POST.getlist(ACTION_CHECKBOX_NAME)))
        executions = ticked.order_by("pk").values_list("execution_id", flat=True)
        return bulk.choose(request, "approve", executions, request.get_full_path())

    @admin.display(description="what")
    def what(self, row: Approval) -> str:
        """The title that approvers see."""
        return visible(row.summary.get("title") or str(row.execution))

    @admin.display(description="state")
    def state_shown(self, row: Approval) -> SafeString:
        """The state, coloured."""
        return badge(row)

    @admin.display(description="amount")
    def amount_shown(self, row: Approval) -> str:
        """The amount that approvers see."""
        return money_of(row.summary)

    @admin.display(description="decide by")
    def decide_by_shown(self, row: Approval) -> SafeString | str:
        """When it expires undecided."""
        return time(row.decide_by)

    @admin.display(description="decided by")
    def decided_by(self, row: Approval) -> str:
        """How many people decide, and who they are."""
        rule = rule_from_json(row.rule)
        return f"{row.quorum} from {in_words(rule)}" if rule else "whoever ordered it"

    @admin.display(description="requested", ordering="created_at")
    def created(self, row: Approval) -> SafeString | str:
        """How long ago it was requested, and when."""
        return _age(row.created_at)

    def shown(self, request: HttpRequest, case: ApprovalCase) -> dict[str, Any]:
        """Return the approval."""
        return {"meaning": APPROVAL_MEANINGS.get(case.row.state, ""), "summary": case.row.summary}

    def page_context(self, request: HttpRequest, case: ApprovalCase) -> dict[str, Any]:
        """Return its votes, its sends, and whether this person may decide."""
        row = case.row
        return {
            "votes": votes_of(row),
            "attempts": list(row.attempts.order_by("number")),
            "why_not": why_no_vote(row.execution, row, request.user),
            "is_ballot": not self.may_view(request, row),
        }


def _uuids(texts: list[str]) -> list[UUID]:
    return [found for found in map(as_uuid, texts) if found is not None]


def _age(at: datetime) -> SafeString:
    return format_html('{} ago<br><span class="fx-quiet">{}</span>', age(at), time(at))


def _state(row: Execution | Request) -> SafeString:
    return format_html('{}<br><span class="fx-quiet">{}</span>', badge(row), REASONS.get(row.reason, ""))
