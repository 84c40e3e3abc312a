"""The console's pages: GET shows, POST decides. Nothing here writes a row; the verbs' public functions do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from effects.vocabulary.exceptions import (
    EffectsError,
    ExecutionNotFoundError,
    JournalUnavailableError,
    NotEntitledError,
)
from effects.vocabulary.outcomes import Outcome
from effects_admin.cases import Case, RequestCase
from effects_admin.display import visible
from effects_admin.findings import changes_since, finding_of
from effects_admin.forms import DecisionForm
from effects_admin.verbs import Verb
from effects_admin.verbs.evidence import BringEvidence

if TYPE_CHECKING:
    from effects_admin.readonly import CaseAdmin

__all__ = ["Offer", "decide", "offers", "show"]

C = TypeVar("C", Case, RequestCase)

#: Statuses of refusals, by error; whatever else a verb refuses conflicts with how the row stands.
_STATUSES: tuple[tuple[type[EffectsError], int], ...] = (
    (NotEntitledError, 403),
    (ExecutionNotFoundError, 404),
    (JournalUnavailableError, 503),
)
CONFLICT, FORBIDDEN, INVALID = 409, 403, 400


class Offer:
    """A verb as a page offers it to one person: where it is, or why it is not theirs now."""

    def __init__(self, verb: Verb[Any], case: Any) -> None:
        self.verb = verb
        self.why_not = verb.why_not(case)
        self.url = reverse(url_name(case.row, verb.name), args=[case.row.pk])


def offers(verbs: Sequence[Verb[C]], case: C) -> dict[str, list[Offer]]:
    """Return what the page offers this person, and what it does not, each with the reason."""
    every = [Offer(verb, case) for verb in verbs]
    return {
        "offered": [offer for offer in every if not offer.why_not],
        "not_offered": [offer for offer in every if offer.why_not],
    }


def url_name(row: Any, name: str) -> str:
    """Return the name of a row's page in the admin; `change` is the page itself."""
    return f"admin:{row._meta.app_label}_{row._meta.model_name}_{name.replace('-', '_')}"


def show(console: CaseAdmin[Any, Any], request: HttpRequest, object_id: str) -> HttpResponse:
    """Show a row's page."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    case = console.find(request, object_id)
    context = {**_context(console, request, case), **console.page_context(request, case)}
    return TemplateResponse(request, console.page_template, context)


def decide(console: CaseAdmin[Any, Any], verb: Verb[Any], request: HttpRequest, object_id: str) -> HttpResponse:
    """Show a verb's page, which says what will be done; by POST, do it.

    Answers 403 where the person is not entitled, 409 where the page is stale or the matter was decided, 400 where the
    form is incomplete, 503 where the journal is away; each is the same page with the reason on it.
    """
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    case = console.find(request, object_id)
    forbidden = verb.not_permitted(case)
    if request.method != "POST":
        why_not = forbidden or verb.not_possible(case)
        return _verb_page(console, verb, request, case, None, why_not=why_not, status=FORBIDDEN if forbidden else 200)
    form = verb.form(case, request.POST)
    if forbidden:
        return _verb_page(console, verb, request, case, form, why_not=forbidden, status=FORBIDDEN)
    if not form.is_valid():
        why_not = verb.not_possible(case)
        told, status = (f"{why_not} Nothing was done.", CONFLICT) if why_not else ("", INVALID)
        return _verb_page(console, verb, request, case, form, why_not=told, status=status)
    return _carry_out(console, verb, request, case, form)


def _carry_out(
    console: CaseAdmin[Any, Any], verb: Verb[Any], request: HttpRequest, case: Any, form: DecisionForm
) -> HttpResponse:
    """Do it and go to the row's page, or show the same page with the reason why not."""
    page = reverse(url_name(case.row, "change"), args=[case.row.pk])
    if verb.was_done(case, form.cleaned_data):
        messages.info(request, "This decision was recorded before; sending it again changed nothing.")
        return HttpResponseRedirect(page)
    try:
        result = verb.decide(case, form.cleaned_data)
    except EffectsError as error:
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), CONFLICT)
        fresh = console.find(request, str(case.row.pk))
        why_not = verb.not_possible(fresh)
        return _verb_page(console, verb, request, fresh, form, why_not=why_not, error=str(error), status=status)
    # what was undone or asked for again is an execution of its own: that is where the news is
    now = console.find(request, result.ref if isinstance(result, Outcome) else str(case.row.pk))
    messages.success(request, visible(f"{verb.done} {console.told(now, case)}"))
    return HttpResponseRedirect(reverse(url_name(now.row, "change"), args=[now.row.pk]))


def _verb_page(
    console: CaseAdmin[Any, Any], verb: Verb[Any], request: HttpRequest, case: Any, form: DecisionForm | None, *,
    why_not: str = "", error: str = "", status: int = 200,
) -> HttpResponse:  # fmt: skip
    """Show what the verb will do, and its form where this person can do it now."""
    sent = form
    context = _context(console, request, case)
    if form is None or error:
        # after a refusal the page shows the row anew: its form carries what it shows, and keeps what was typed
        typed = {field.name: field.value() for field in form.visible_fields()} if form else {}
        form = verb.form(case, initial={**verb.initial(case), **typed})
    context.update(
        title=f"{verb.title}: {context['title']}", verb=verb, form=form, why_not=why_not, error=error,
        consequences=verb.consequences(case), page_url=reverse(url_name(case.row, "change"), args=[case.row.pk]),
    )  # fmt: skip
    if console.may_view(request, case.row):
        context.update(_known(verb, request, case, sent, is_refused=bool(why_not or error)))
    if sent is not None and why_not:
        context.update(typed=list(_typed(sent)), instead=_instead(console, verb, case, sent))
    return TemplateResponse(request, "effects_admin/verb.html", context, status=status)


def _known(
    verb: Verb[Any], request: HttpRequest, case: Any, sent: DecisionForm | None, *, is_refused: bool
) -> dict[str, Any]:
    """Return what a page that decides in doubt shows beside its form: what was found, and what changed meanwhile."""
    known: dict[str, Any] = {}
    if verb.finds(case):
        known["finding"] = finding_of(case, request.user)
    if sent is not None and is_refused:
        known["changed"] = changes_since(case.row, _revision_of(sent), request.user)
    return known


def _revision_of(sent: DecisionForm) -> int | None:
    """Return the revision that the page showed on which a form was filled in."""
    try:
        return int(sent.data["revision"])
    except (KeyError, ValueError):
        return None


def _typed(sent: DecisionForm) -> Iterator[tuple[str, str]]:
    """Yield what a person typed on a page whose verb is no longer theirs: their words are not lost."""
    for field in sent.visible_fields():
        value = field.value()
        choices = dict(getattr(field.field, "choices", ()))
        if value not in (None, "", False):
            yield str(field.label), visible(choices.get(value, "yes" if value is True else value))


def _instead(console: CaseAdmin[Any, Any], verb: Verb[Any], case: Any, sent: DecisionForm) -> dict[str, Any] | None:
    """Return the form for evidence, filled in with what was typed, where this person may bring some."""
    other = next((each for each in console.verbs if isinstance(each, BringEvidence)), None)
    if other is None or isinstance(verb, BringEvidence) or other.why_not(case):
        return None
    said = {field.name: field.value() for field in sent.visible_fields()}
    words = {"reason": said.get("reason") or said.get("comment"), "statement": said.get("decision")}
    words |= {name: said.get(name) for name in ("reference", "no_reference")}
    form = other.form(case, initial={**{name: word for name, word in words.items() if word}, **other.initial(case)})
    return {"verb": other, "form": form, "url": reverse(url_name(case.row, other.name), args=[case.row.pk])}


def _context(console: CaseAdmin[Any, Any], request: HttpRequest, case: Any) -> dict[str, Any]:
    """Return what all pages of a row need."""
    return {
        **console.admin_site.each_context(request),
        **console.shown(request, case),
        "title": visible(case.row),
        "opts": console.opts,
        "case": case,
        "row": case.row,
        "now": case.seen_at,
    }
