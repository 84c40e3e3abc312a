"""Deciding several rows on one page: approving, and asking the provider. Nothing else is done in bulk.

The rows are named one by one, each with the digest and the revision that the page showed; "all that match" is no
choice, since it would reach rows that nobody saw. Each row is decided by itself, by the same verb as on its own page,
and the answer names every row: done, done before, changed meanwhile, refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode

from effects.vocabulary.exceptions import EffectsError, NotEntitledError
from effects_admin.cases import Case
from effects_admin.display import totals, visible
from effects_admin.findings import changes_since
from effects_admin.forms import MOST_ITEMS, BulkForm, new_decision_id
from effects_admin.verbs import Verb
from effects_admin.verbs.approvals import Approve
from effects_admin.verbs.doubts import LookUp

if TYPE_CHECKING:
    from effects_admin.admin import ExecutionAdmin

__all__ = ["BULK_VERBS", "KINDS", "MOST", "choose", "decide", "is_foreign_choice"]

MOST = MOST_ITEMS
#: How long one page asks providers; the rows that it does not reach are offered again.
ASKING = timedelta(seconds=20)
BULK_VERBS: dict[str, Verb[Case]] = {"approve": Approve(), "look-up": LookUp()}
_ALL = "“Select all” reaches rows that nobody has looked at. Tick the ones that you mean; nothing was done."
_CHANGED = "It changed since this page was made; look at it again."
_NONE = "Tick at least one row; nothing was done."
_MANY = f"At most {MOST} rows are decided together; nothing was done."


@dataclass(frozen=True)
class Row:
    """One row of the page before the decision."""

    case: Case
    why_not: str
    item: str


@dataclass(frozen=True)
class Result:
    """What became of one row."""

    kind: str
    title: str
    url: str
    amount: str
    said: str


#: Kinds of results, in the order of the heading.
KINDS = {
    "done": "done",
    "before": "done before",
    "changed": "changed meanwhile",
    "refused": "refused",
    "unreached": "not reached in time",
}


def choose(request: HttpRequest, name: str, refs: Iterable[Any], back: str) -> HttpResponse:
    """Lead from ticked rows to the page that says what would be done to them; refuse a choice that nobody looked at."""
    ticked = [str(ref) for ref in refs]
    refused = _ALL if is_foreign_choice(request) else _NONE if not ticked else _MANY if len(ticked) > MOST else ""
    if refused:
        messages.error(request, refused)
        return HttpResponseRedirect(back)
    address = reverse(f"admin:effects_bulk_{name.replace('-', '_')}")
    return HttpResponseRedirect(f"{address}?{urlencode([('ref', ref) for ref in ticked])}")


def is_foreign_choice(request: HttpRequest) -> bool:
    """Return whether "all across pages" was chosen, which this console does not offer."""
    return request.POST.get("select_across", "0") not in ("", "0")


def decide(console: ExecutionAdmin, name: str, request: HttpRequest) -> HttpResponse:
    """Show what would be done to the rows that were ticked; by POST, do it and say what became of each."""
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if not console.has_view_permission(request):
        raise PermissionDenied
    verb = BULK_VERBS[name]
    if request.method == "POST":
        again = request.POST.getlist("again")
        if again:
            # rows of an answer, to be looked at once more with what was typed about them
            return _page(console, verb, request, _offered(console, verb, request, again[:MOST], request.POST))
        form = BulkForm(request.POST)
        if not form.is_valid():
            shown = [str(item.ref) for item in form.items if len(form.items) <= MOST]
            offered = _offered(console, verb, request, shown, request.POST) if shown else {}
            return _page(console, verb, request, {**offered, "error": " ".join(form.incomplete())}, 400)
        results = _carry_out(console, verb, request, form)
        return _page(console, verb, request, _told(results, form))
    refs = request.GET.getlist("ref")
    if not refs or len(refs) > MOST:
        return _page(console, verb, request, {"error": _MANY if refs else _NONE}, 400)
    return _page(console, verb, request, _offered(console, verb, request, refs))


def _offered(
    console: ExecutionAdmin, verb: Verb[Case], request: HttpRequest, refs: list[str], typed: Any = None
) -> dict[str, Any]:
    rows, unknown = [], 0
    for ref in dict.fromkeys(refs):
        case = _find(console, request, ref)
        if case is None:
            unknown += 1
            continue
        shown = verb.initial(case)
        item = f"{case.row.pk}:{shown['revision']}:{shown.get('approval', '')}:{shown.get('digest', '')}"
        rows.append(Row(case, verb.why_not(case) or verb.not_together(case), item))
    ready = [row for row in rows if not row.why_not]
    return {
        "ready": ready,
        "not_ready": [row for row in rows if row.why_not],
        "unknown": unknown,
        "totals": _totals(row.case for row in ready),
        "form": BulkForm(initial={"comment": (typed or {}).get("comment", "")}),
    }


def _carry_out(console: ExecutionAdmin, verb: Verb[Case], request: HttpRequest, form: BulkForm) -> list[Result]:
    until, results = time.monotonic() + ASKING.total_seconds(), []
    for item in form.items:
        case = _find(console, request, str(item.ref))
        if case is None:
            url = reverse("admin:effects_execution_changelist")
            results.append(Result("refused", str(item.ref), url, "", "There is no such row among those you may see."))
        elif isinstance(verb, LookUp) and time.monotonic() > until:
            results.append(_result(case, "unreached", "The page asked for as long as it may; send it again."))
        else:
            results.append(_decide_one(console, verb, request, case, {**item.as_data(), **form.said()}))
    return results


def _decide_one(
    console: ExecutionAdmin, verb: Verb[Case], request: HttpRequest, case: Case, data: dict[str, Any]
) -> Result:
    forbidden = verb.not_permitted(case) or verb.not_together(case)
    if forbidden:
        return _result(case, "refused", forbidden)
    data = {**data, "decision_id": new_decision_id()}
    if data["approval"] is not None and verb.was_done(case, data):
        return _result(case, "before", "You decided it before; sending it again changed nothing.")
    stale = verb.not_possible(case) if data["approval"] is None else ""
    if stale or (data["revision"] != case.row.revision and data["approval"] is None):
        return _result(case, "changed", f"{stale or _CHANGED}{_since(console, request, case, data)}")
    try:
        verb.decide(case, data)
    except EffectsError as error:
        kind = "refused" if isinstance(error, NotEntitledError) else "changed"
        now = console.find(request, str(case.row.pk))
        return _result(case, kind, f"{error}{_since(console, request, now, data)}")
    return _result(case, "done", console.told(console.find(request, str(case.row.pk)), case))


def _told(results: list[Result], form: BulkForm) -> dict[str, Any]:
    counts = {kind: sum(result.kind == kind for result in results) for kind in KINDS}
    pairs = list(zip(form.items, results, strict=True))
    again = [item.ref for item, result in pairs if result.kind == "unreached"]
    return {
        "changed": [item.ref for item, result in pairs if result.kind == "changed"],
        "comment": form.cleaned_data["comment"],
        "results": results,
        "heading": ", ".join(f"{counts[kind]} {KINDS[kind]}" for kind in KINDS if counts[kind] or kind == "done"),
        "again": again,
    }


def _since(console: ExecutionAdmin, request: HttpRequest, case: Case, data: dict[str, Any]) -> str:
    """Return what changed in a row since the page was made, for whoever may view it."""
    if not console.may_view(request, case.row):
        return ""
    lines = changes_since(case.row, data["revision"], request.user)
    said = [f"{line.headline}{f' by {visible(line.who)}' if line.who else ''}" for line in lines]
    return f" Since then, the newest first: {'; '.join(said)}." if said else ""


def _result(case: Case, kind: str, said: str) -> Result:
    row = case.row
    url = reverse("admin:effects_execution_change", args=[row.pk])
    return Result(kind, case.title, url, case.amount, said)


def _totals(cases: Iterable[Case]) -> list[str]:
    """Return what the rows are worth, what is undone apart: a charge and its undoing are not twice the money."""
    done: list[tuple[int | None, str]] = []
    undone: list[tuple[int | None, str]] = []
    for case in cases:
        (done if case.row.compensates_id is None else undone).append((case.row.amount, case.row.currency))
    return [*totals(done), *(f"undoing {amount}" for amount in totals(undone))]


def _find(console: ExecutionAdmin, request: HttpRequest, ref: str) -> Case | None:
    try:
        return console.find(request, ref)
    except (Http404, PermissionDenied):
        return None


def _page(
    console: ExecutionAdmin, verb: Verb[Case], request: HttpRequest, more: dict[str, Any], status: int = 200
) -> HttpResponse:
    context = {
        **console.admin_site.each_context(request),
        "title": f"{verb.title}: several",
        "opts": console.opts,
        "verb": verb,
        "sends": isinstance(verb, Approve),
        **more,
    }
    return TemplateResponse(request, "effects_admin/bulk.html", context, status=status)
