"""The list of all receipts, and the page of each."""

# Django's hooks are given more than each needs.
# ruff: noqa: ARG002

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import label_for_field, lookup_field, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from effects.models import Receipt
from effects_admin import filters, views
from effects_admin.display import pretty, visible
from effects_admin.evidence import read_evidence
from effects_admin.readonly import ReadOnlyAdmin
from effects_admin.templatetags.effects_admin import time
from effects_admin.timeline import change
from effects_admin.words import headline

__all__ = ["ReceiptAdmin"]


@admin.register(Receipt)
class ReceiptAdmin(ReadOnlyAdmin[Receipt]):
    """Receipts, all of them: append-only lines of evidence."""

    list_display = ("at_shown", "said", "change", "actor", "of_what")
    list_filter = (filters.EventFilter,)
    list_select_related = ("execution", "request")
    ordering = ("-id",)
    search_fields = ("execution__id",)
    id_columns = ("execution_id", "request_id")
    search_help_text = "Exactly: the ref of an execution or of a request."
    fields = ("of_what", "sequence", "at_shown", "event", "said", "from_state", "to_state", "reason", "revision",
              "epoch", "may_have_applied", "actor_id_shown", "actor_label_shown", "evidence_shown")  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Receipt]:
        """Return the rows with what they are of, without the payloads."""
        rows = super().get_queryset(request).select_related("execution", "request")
        return rows.defer("execution__payload", "execution__output", "request__answer_body")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Receipt | None:
        """Return a receipt with its evidence as this person may read it."""
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            row.evidence = read_evidence(row.evidence, request.user, row)
        return row

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the receipt's page; there is no form on it, and no history but itself."""
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            raise Http404(f"There is no receipt {object_id!r}.")
        facts = [
            (label_for_field(name, Receipt, self), _shown(lookup_field(name, row, self)[2])) for name in self.fields
        ]
        title = f"{headline(row)}, receipt {row.sequence}"
        context = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "facts": facts}
        return TemplateResponse(request, "effects_admin/receipt.html", context)

    @admin.display(description="evidence")
    def evidence_shown(self, row: Receipt) -> SafeString:
        """What it has on file."""
        return format_html(
            '<pre class="fx-pre" tabindex="0" role="region" aria-label="Evidence">{}</pre>',
            pretty(json.dumps(row.evidence)),
        )

    @admin.display(description="at")
    def at_shown(self, row: Receipt) -> SafeString | str:
        """When."""
        return time(row.at)

    @admin.display(description="what it says")
    def said(self, row: Receipt) -> str:
        """The verb in words."""
        return headline(row)

    @admin.display(description="state")
    def change(self, row: Receipt) -> str:
        """How the state moved."""
        return change(row)

    @admin.display(description="who")
    def actor(self, row: Receipt) -> str:
        """Who did it; empty: the machine."""
        return visible(row.actor_label or row.actor_id)

    @admin.display(description="actor id")
    def actor_id_shown(self, row: Receipt) -> str:
        """The id of who did it."""
        return visible(row.actor_id)

    @admin.display(description="actor label")
    def actor_label_shown(self, row: Receipt) -> str:
        """Their name at that time."""
        return visible(row.actor_label)

    @admin.display(description="of")
    def of_what(self, row: Receipt) -> SafeString:
        """The row that it is of."""
        target: Any = row.execution or row.request
        url = reverse(views.url_name(target, "change"), args=[target.pk])
        return format_html('<a href="{}">{}</a>', url, visible(target))


def _shown(value: Any) -> str:
    """Return one fact as people read it."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, SafeString) else visible(value)
