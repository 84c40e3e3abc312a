"""The console's filters: what `display` and `words` do, for templates. All return plain text, which is escaped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.contrib.admin.sites import all_sites
from django.db.models import Model
from django.db.models.options import Options
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from effects.models import Approval, Execution, Request
from effects_admin import bulk, display, queue, words
from effects_admin.ballots import is_asked

register = template.Library()
_LISTED = ("execution", "approval", "request", "receipt")
register.filter("moment", display.moment)
register.filter("distance", display.distance)
register.filter("visible", display.visible)
register.filter("short", display.short)
register.filter("money", display.money_of)
register.filter("label", words.label)


@dataclass(frozen=True)
class Tab:
    """One of the console's lists, as its pages name them on top."""

    title: str
    url: str
    is_here: bool


@register.simple_tag(takes_context=True)
def tabs(context: dict[str, Any]) -> list[Tab]:
    """Return the lists that this person may see."""
    request = context["request"]
    places = [("execution", "Needs a person", "needs_a_person"), ("execution", "Overview", "overview")]
    places += [(name, f"{name.capitalize()}s", f"{name}_changelist") for name in _LISTED]
    found = [(title, reverse(f"admin:effects_{view}")) for name, title, view in places if _sees(request, name, view)]
    is_first_page = request.path == reverse("admin:app_list", args=["effects"])  # the queue too
    here = reverse("admin:effects_needs_a_person") if is_first_page else request.path
    return [Tab(title, url, here == url) for title, url in found]


@register.simple_tag(takes_context=True)
def sees_queue(context: dict[str, Any]) -> bool:
    """Return whether the app's own page shows the queue: to whoever may see executions, or is asked to decide some."""
    return bool(_executions(context).has_view_permission(context["request"]))


@register.simple_tag(takes_context=True)
def work_queue(context: dict[str, Any]) -> dict[str, Any] | None:
    """Return the queue for the app's own page; None for somebody to whom it is not shown."""
    return queue.context(_executions(context), context["request"]) if sees_queue(context) else None


def _executions(context: dict[str, Any]) -> Any:
    site = next(site for site in all_sites if site.name == context["request"].current_app)
    return site.get_model_admin(Execution)


@register.filter
def bulk_word(kind: str) -> str:
    """Return what a bulk decision's result is called."""
    return bulk.KINDS[kind]


def _sees(request: Any, name: str, view: str) -> bool:
    if request.user.has_perm(f"effects.view_{name}"):
        return True
    # what an approver finds: what waits for them, by the queue and the two lists of it
    return name in ("execution", "approval") and view != "overview" and is_asked(request)


@register.filter
def time(at: datetime | None) -> SafeString | str:
    """Return an instant as a `<time>` element."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), display.moment(at)) if at else ""


@register.filter
def badge(row: Execution | Request | Approval) -> SafeString:
    """Return a row's state, coloured; the colour only repeats what the word says."""
    return format_html('<span class="fx-state fx-{}">{}</span>', words.tone(row.state), words.label(row.state))


@register.filter
def changelist(opts: Options[Model]) -> str:
    """Return the name of a model's list in the admin."""
    return f"admin:{opts.app_label}_{opts.model_name}_changelist"


@register.filter
def milliseconds(length: timedelta) -> str:
    """Return how long a send took."""
    return f"{length.total_seconds() * 1000:,.0f} ms"
