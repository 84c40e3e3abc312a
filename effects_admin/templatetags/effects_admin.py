"""The console's filters: what `display` and `words` do, for templates. All return plain text, which is escaped."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.db.models import Model
from django.db.models.options import Options
from django.utils.html import format_html
from django.utils.safestring import SafeString

from effects.models import Approval, Execution, Request
from effects_admin import display, words

register = template.Library()
register.filter("moment", display.moment)
register.filter("distance", display.distance)
register.filter("visible", display.visible)
register.filter("short", display.short)
register.filter("label", words.label)


@register.filter
def time(at: datetime | None) -> SafeString | str:
    """Return an instant as a `<time>` element."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), display.moment(at)) if at else ""


@register.filter
def badge(row: Execution | Request | Approval) -> SafeString:
    """Return a row's state, coloured; the colour only repeats what the word says."""
    return format_html('<span class="fx-state fx-{}">{}</span>', words.tone(row.state), words.label(row.state))


@register.filter
def money(summary: dict[str, object]) -> str:
    """Return a summary's amount."""
    amount = summary.get("amount")
    return display.money(amount if isinstance(amount, int) else None, str(summary.get("currency", "")))


@register.filter
def changelist(opts: Options[Model]) -> str:
    """Return the name of a model's list in the admin."""
    return f"admin:{opts.app_label}_{opts.model_name}_changelist"


@register.filter
def milliseconds(length: timedelta) -> str:
    """Return how long a send took."""
    return f"{length.total_seconds() * 1000:,.0f} ms"
