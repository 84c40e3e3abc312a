"""The list of all receipts, and the page of each."""

# Django's hooks are given more than each needs.

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
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
    readonly_fields = ("of_what", "at_shown", "said", "actor_id_shown", "actor_label_shown", "evidence_shown")

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

    @admin.display(description="evidence")
    def evidence_shown(self, row: Receipt) -> SafeString:
        """What it has on file."""
        return format_html('<pre class="fx-pre">{}</pre>', pretty(json.dumps(row.evidence)))

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
