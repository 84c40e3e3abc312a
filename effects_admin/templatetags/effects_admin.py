"""The console's filters: what `display` and `words` do, for templates. All return plain text, which is escaped."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from effects.models import Approval, Execution, Request
from effects.states import ApprovalState, ExecutionState, RequestState
from effects_admin import display, words

register = template.Library()
register.filter("moment", display.moment)
register.filter("distance", display.distance)
register.filter("visible", display.visible)
register.filter("short", display.short)
register.filter("label", words.label)

KINDS = {Execution: ExecutionState, Request: RequestState, Approval: ApprovalState}


@register.filter
def time(at: datetime | None) -> SafeString | str:
    """Return an instant as a `<time>` element."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), display.moment(at)) if at else ""


@register.filter
def badge(row: Execution | Request | Approval) -> SafeString:
    """Return a row's state, coloured; the colour only repeats what the word says."""
    tone = words.tone(row.state, KINDS[type(row)])
    return format_html('<span class="fx-state fx-{}">{}</span>', tone, words.label(row.state))


@register.filter
def money(summary: dict[str, object]) -> str:
    """Return a summary's amount."""
    amount = summary.get("amount")
    return display.money(amount if isinstance(amount, int) else None, str(summary.get("currency", "")))
