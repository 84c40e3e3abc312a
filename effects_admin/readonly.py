"""Read-only ModelAdmins: lists that stay cheap on big tables, pages of ours, and an address for each verb."""

# Django's hooks are given more than each needs.
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString, mark_safe

from effects.models import Execution
from effects_admin import filters, views
from effects_admin.ballots import ballots_of, is_asked, is_named
from effects_admin.cases import ApprovalCase, Case, RequestCase, SeenAt
from effects_admin.display import visible
from effects_admin.permissions import may
from effects_admin.verbs import Verb

__all__ = ["BallotAdmin", "CaseAdmin", "ReadOnlyAdmin", "as_uuid"]

M = TypeVar("M", bound=Model)
C = TypeVar("C", Case, RequestCase, ApprovalCase)
if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin
else:

    class ModelAdmin(admin.ModelAdmin, Generic[M]):
        """Django's, which takes no type argument at run time."""


class ReadOnlyAdmin(ModelAdmin[M]):
    """Shows rows and changes none. Lists are cheap on big tables: no COUNT, no LIKE, no sorting but by age."""

    actions: Any = None
    list_per_page = 50
    list_max_show_all = 0
    paginator = filters.BoundedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    sortable_by = ()
    view_on_site = False
    change_list_template = "effects_admin/change_list.html"
    #: Columns that a search compares with, exactly; ids are compared where the words are one.
    exact_columns: ClassVar[tuple[str, ...]] = ()
    id_columns: ClassVar[tuple[str, ...]] = ("pk",)
    #: What orders the rows by time and has an index of its own.
    newest_column: ClassVar[str] = "id"
    #: States that few rows are in, with an index of them.
    rare_states: ClassVar[frozenset[str]] = frozenset()
    #: Filters that an index gives in order, alone or together.
    ordered_filters: ClassVar[frozenset[str]] = frozenset()
    #: Query parameters beside the filters' own; any other could ask for what a page hides (`payload__contains`).
    link_parameters: ClassVar[tuple[str, ...]] = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Rows come from verbs."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Rows change by verbs."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Rows stay."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """By the model's view permission, for everything or for this row."""
        return self.may_view(request, obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the app is listed: for whoever may see its rows."""
        return super().has_module_permission(request) or self.has_view_permission(request)

    def may_view(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Return whether they may see all rows, or all of this one, by the view permission."""
        return may(request.user, f"{self.opts.app_label}.view_{self.opts.model_name}", obj)

    def listed(self, request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
        """Return which of some rows a list shows this person."""
        return rows

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow the filters' own parameters alone."""
        own = {each.parameter_name for each in self.list_filter if isinstance(each, type)}  # type: ignore[attr-defined]
        return lookup in own or lookup in self.link_parameters

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[filters.BoundedChangeList]:
        """Return the list that no filter makes slow."""
        return filters.BoundedChangeList

    def is_answered_by_an_index(self, params: Mapping[str, Any]) -> bool:
        """Return whether these parameters of the list leave so few rows, or such an order, that it stays cheap."""
        own = {each.parameter_name for each in self.list_filter if isinstance(each, type)}  # type: ignore[attr-defined]
        chosen = {name: str(given[-1]) for name, given in params.items() if name in own and given}
        return chosen.keys() <= self.ordered_filters or chosen.get("state") in self.rare_states

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[M], search_term: str
    ) -> tuple[QuerySet[M], bool]:
        """Search by equality: an index answers it on ten million rows."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q()
        for column in self.exact_columns:
            found |= Q(**{column: term})
        as_id = as_uuid(term)
        if as_id is not None:
            for column in self.id_columns:
                found |= Q(**{column: as_id})
        found |= self.found_elsewhere(request, term)
        return (queryset.filter(found) if found else queryset.none()), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list under the rows' name; there is nothing to select."""
        title = str(self.opts.verbose_name_plural).capitalize()
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def action_checkbox(self, obj: M) -> SafeString:
        """Return the box that ticks a row, named as its row is."""
        box = forms.CheckboxInput({"class": "action-select", "aria-label": f"Tick {visible(obj)}"}, lambda _: False)
        return box.render(ACTION_CHECKBOX_NAME, str(obj.pk))

    action_checkbox.short_description = (  # type: ignore[attr-defined]
        mark_safe('<input type="checkbox" id="action-toggle" aria-label="Tick all rows of this page">')
    )

    def found_elsewhere(self, request: HttpRequest, term: str) -> Q:
        """Return what else a search finds, by a query of its own."""
        return Q()

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Refuse Django's own history, which is empty: receipts tell it, on the row's page."""
        raise Http404("The history of a row is on its page.")


class BallotAdmin(ReadOnlyAdmin[M]):
    """Shows whoever a rule entitles what they may decide, beside those who may view all."""

    def has_view_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """By the view permission; else of what an approval's rule names this person for."""
        if self.may_view(request, obj):
            return True
        named: Any = obj
        return is_asked(request) if named is None else is_named(request.user, named)

    def listed(self, request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
        """Return what waits for them, for those who may not view all."""
        if self.may_view(request):
            return rows
        waiting = ballots_of(request).approvals
        return rows.filter(pk__in=[each.execution_id if self.model is Execution else each.pk for each in waiting])


class CaseAdmin(ReadOnlyAdmin[M], Generic[M, C]):
    """A model whose rows have a page of ours, and verbs."""

    page_template: ClassVar[str]
    case_class: ClassVar[Callable[..., Any]]
    verbs: ClassVar[Sequence[Verb[Any]]] = ()

    def find(self, request: HttpRequest, object_id: str) -> C:
        """Return the case of a row that this person may see, read by the database's clock.

        Raises:
            Http404: there is none among the rows that `get_queryset` shows this person.
            PermissionDenied: they may not see it.
        """
        pk = as_uuid(object_id)
        row: Any = None
        if pk is not None:
            row = self.get_queryset(request).defer(None).annotate(seen_at=SeenAt()).filter(pk=pk).first()
        if row is None:
            raise Http404(f"There is no {self.opts.verbose_name} {object_id!r}.")
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        case: C = self.case_class(row, row.seen_at, request.user)
        return case

    def get_urls(self) -> list[URLPattern]:
        """Return an address for each verb before Django's own, which end in a catch-all."""
        ours: list[URLPattern] = [
            path(
                f"<path:object_id>/{verb.name}/",
                self._verb_view(verb),
                name=views.url_name(self.model, verb.name).removeprefix("admin:"),
            )
            for verb in self.verbs
        ]
        return [*ours, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the row's page; there is no form on it."""
        return views.show(self, request, object_id)

    def shown(self, request: HttpRequest, case: C) -> dict[str, Any]:
        """Return what a row's page and its verbs' pages both show."""
        raise NotImplementedError

    def page_context(self, request: HttpRequest, case: C) -> dict[str, Any]:
        """Return what its page shows."""
        raise NotImplementedError

    def told(self, case: C, before: C) -> str:
        """Return what a message says after a verb, from the row as it now stands."""
        raise NotImplementedError

    def _verb_view(self, verb: Verb[Any]) -> Any:
        def verb_view(request: HttpRequest, object_id: str) -> HttpResponse:
            return views.decide(self, verb, request, object_id)

        return self.own_commits(verb_view)

    def own_commits(self, view: Any) -> Any:
        """Return a page that decides: its commits are the point, so no transaction is around it (ATOMIC_REQUESTS)."""
        view._non_atomic_requests = set(connections.settings)
        return self.admin_site.admin_view(view)


def as_uuid(text: str) -> UUID | None:
    """Return the id that a text is; None if it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
