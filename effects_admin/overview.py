"""The overview: what is open and how old it is, how the providers answer, whether the sweeps run, and how it went.

Every number is bounded: a count stops at `COUNTED`, and what is charted is of the newest rows alone, so that the page
costs the same on a journal of ten million executions. Nothing here counts a table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.db.models import Count, DateTimeField, F, Func, QuerySet, Value
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from effects.conf import settings
from effects.models import Approval, Attempt, Execution, Heartbeat, Journal, Request
from effects.runtime.orphans import list_orphans
from effects.transitions import TROUBLED_FROM
from effects.vocabulary.states import (
    EXECUTION_IN_DOUBT,
    EXECUTION_OPEN,
    ApprovalState,
    AttemptOutcome,
    ExecutionState,
    RequestState,
)
from effects_admin.display import distance, moment, span, totals
from effects_admin.words import EXECUTION_MEANINGS, REQUEST_MEANINGS, label, tone

if TYPE_CHECKING:
    from effects_admin.readonly import ReadOnlyAdmin

__all__ = ["COUNTED", "Chart", "Health", "Standing", "show"]

#: Where counting stops: "1000+".
COUNTED = 1000
#: Executions that the first chart is made of, and sends that the providers' health is judged by: the newest.
CHARTED, SENDS = 5000, 2000
#: No chart goes back further.
LONGEST = timedelta(days=30)
#: Widths of a bar, and how many of them a chart has at most.
STEPS = (
    timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1), timedelta(hours=6),
    timedelta(days=1),
)  # fmt: skip
BARS = 48
#: A sweep that was not heard of for so long has stopped: they run every few seconds and sign once a minute.
SILENT = timedelta(minutes=5)

_S, _O = ExecutionState, AttemptOutcome
#: What becomes of an execution, as the chart tells it: the series of its states.
_BECAME = {
    **dict.fromkeys((_S.COMPLETED, _S.PARTIALLY_COMPLETED), "happened"),
    **dict.fromkeys((_S.FAILED, _S.REJECTED), "did not happen"),
    **dict.fromkeys((*EXECUTION_IN_DOUBT, _S.ABANDONED), "in doubt"),
    **dict.fromkeys(EXECUTION_OPEN, "open"),
}
_SERIES = (("happened", "good"), ("did not happen", "plain"), ("in doubt", "alarm"), ("open", "people"))
_TOOK = (("half of them within", "good"), ("19 of 20 within", "doubt"))


@dataclass(frozen=True)
class Standing:
    """How many rows are in a state, and since when the oldest one."""

    title: str
    meaning: str
    tone: str
    url: str
    count: str
    is_none: bool
    oldest: str = ""
    at_stake: list[str] = field(default_factory=list)


@dataclass
class Health:
    """How one provider answered the newest sends."""

    provider: str
    outcomes: Counter[str] = field(default_factory=Counter)
    took: list[timedelta] = field(default_factory=list)
    last_applied: datetime | None = None

    @property
    def sends(self) -> int:
        """How many."""
        return sum(self.outcomes.values())

    @property
    def happened(self) -> int:
        """Of how many the answer was a yes."""
        return self.outcomes[_O.APPLIED] + self.outcomes[_O.SUBMITTED]

    @property
    def refused(self) -> int:
        """Of how many it is proven that nothing happened."""
        return self.outcomes[_O.NOT_APPLIED] + self.outcomes[_O.NOT_SENT]

    @property
    def unknown(self) -> int:
        """Of how many nobody knows."""
        return self.outcomes[_O.UNKNOWN]

    @property
    def half_within(self) -> str:
        """Within which time half of the answers came."""
        return _seconds(self.took, 0.5)

    @property
    def most_within(self) -> str:
        """Within which time 19 of 20 came."""
        return _seconds(self.took, 0.95)

    @property
    def verdict(self) -> tuple[str, str]:
        """How it does, in a word and its tone."""
        if self.unknown * 2 > self.sends:
            return "mostly in doubt", "alarm"
        if self.refused * 2 > self.sends:
            return "mostly refusing", "doubt"
        return ("some doubt", "doubt") if self.unknown * 20 > self.sends else ("answers", "good")


@dataclass(frozen=True)
class Chart:
    """Numbers over time, drawn by the page's script, and a table of the same ones."""

    name: str
    title: str
    note: str
    unit: str
    series: tuple[tuple[str, str], ...]
    rows: list[tuple[datetime, list[float]]]
    step: timedelta
    is_stacked: bool

    @property
    def data(self) -> dict[str, Any]:
        """What the script draws: seconds since 1970, and a column for each series."""
        columns = [[numbers[i] for _, numbers in self.rows] for i in range(len(self.series))]
        return {
            "times": [at.timestamp() for at, _ in self.rows],
            "series": [{"label": name, "tone": tone} for name, tone in self.series],
            "columns": columns,
            "unit": self.unit,
            "stacked": self.is_stacked,
            "step": self.step.total_seconds(),
            "zone": timezone.get_current_timezone_name(),
        }


def show(console: ReadOnlyAdmin[Execution], request: HttpRequest) -> HttpResponse:
    """Show the overview, of the rows that this person may see."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not console.may_view(request):
        raise PermissionDenied
    rows = console.get_queryset(request)
    beats = list(Heartbeat.objects.annotate(seen_at=Now()).order_by("sweep"))
    now: datetime = _now()
    sends = _newest_sends(rows)
    context = {
        **console.admin_site.each_context(request),
        "title": "Overview",
        "opts": console.opts,
        "executions": _executions(rows, now),
        "requests": _requests(console, request, now),
        "health": _health(sends),
        "sends_are": SENDS,
        "heartbeats": [(beat, beat.seen_at - beat.at > SILENT) for beat in beats],
        "charts": [_recorded(rows, now), _durations(sends)],
        "journal": Journal.objects.first(),
        "orphans": list(list_orphans()),
        "now": now,
    }
    return TemplateResponse(request, "effects_admin/overview.html", context)


def _executions(rows: QuerySet[Execution], now: datetime) -> list[Standing]:
    address = reverse("admin:effects_execution_changelist")
    # each in the order of the partial index that has it
    orders = {_S.PENDING: "due_at", _S.EXECUTING: "lease_expires_at"}
    standings = []
    for state in (*(s for s in _S if s in EXECUTION_OPEN), *(s for s in _S if s in EXECUTION_IN_DOUBT)):
        found = rows.filter(state=state.value).order_by(orders.get(state, "created_at"))
        standings.append(
            _standing(label(state), EXECUTION_MEANINGS[state], tone(state), f"{address}?state={state}", found, now)
        )
    queue = reverse("admin:effects_needs_a_person")
    unwritten = rows.filter(hook_due_at__isnull=False).order_by("hook_due_at")
    troubled = rows.filter(trouble_count__gte=TROUBLED_FROM).order_by("created_at")
    return [
        *standings,
        _standing("rows not written", "Settled, but the project's own rows could not be written.", "doubt",
                  f"{queue}#unwritten", unwritten, now),
        _standing("in trouble", "Working on them fails each time.", "alarm", f"{queue}#troubled", troubled,
                  now),
    ]  # fmt: skip


def _standing(
    title: str, meaning: str, tone: str, url: str, found: QuerySet[Execution], now: datetime
) -> Standing:  # fmt: skip
    read = list(found.values_list("created_at", "amount", "currency")[: COUNTED + 1])
    oldest = min((at for at, *_ in read), default=None)
    return Standing(
        title, meaning, tone, url, _count(len(read)), not read, span(now - oldest) if oldest else "",
        [] if len(read) > COUNTED else totals((amount, currency) for _, amount, currency in read),
    )  # fmt: skip


def _requests(console: admin.ModelAdmin[Execution], request: HttpRequest, now: datetime) -> list[Standing]:
    standings = []
    requests: Any = console.admin_site.get_model_admin(Request)
    if requests.has_view_permission(request):
        for state in (RequestState.RUNNING, RequestState.WAITING, RequestState.IN_DOUBT):
            found = requests.get_queryset(request).filter(state=state.value).order_by("created_at")
            read = list(found.values_list("created_at", flat=True)[: COUNTED + 1])
            url = reverse("admin:effects_request_changelist") + f"?state={state}"
            standings.append(
                Standing(
                    f"request {label(state)}",
                    REQUEST_MEANINGS[state],
                    tone(state),
                    url,
                    _count(len(read)),
                    not read,
                    span(now - read[0]) if read else "",
                )
            )
    approvals: Any = console.admin_site.get_model_admin(Approval)
    if approvals.may_view(request):
        open_ones = approvals.get_queryset(request).filter(state=ApprovalState.REQUESTED.value).order_by("decide_by")
        times = list(open_ones.values_list("created_at", "decide_by")[: COUNTED + 1])
        next_ends = f"; the next one expires {distance(times[0][1], now)}" if times else ""
        url = reverse("admin:effects_approval_changelist") + f"?state={ApprovalState.REQUESTED}"
        standings.append(
            Standing(
                "approval undecided",
                f"People have not decided yet{next_ends}.",
                tone(ApprovalState.REQUESTED),
                url,
                _count(len(times)),
                not times,
                span(now - min(at for at, _ in times)) if times else "",
            )
        )
    return standings


def _newest_sends(rows: QuerySet[Execution]) -> list[tuple[str, str, datetime, datetime | None]]:
    """Return provider, outcome, permit and end of the newest sends. Their ids are made in the order of time."""
    newest = Attempt.objects.order_by("-pk").values("pk")[:SENDS]
    sends = Attempt.objects.filter(pk__in=newest, execution__in=rows)
    return list(sends.order_by("pk").values_list("execution__provider", "outcome", "permitted_at", "ended_at"))


def _health(sends: Iterable[tuple[str, str, datetime, datetime | None]]) -> list[Health]:
    found: dict[str, Health] = {}
    for provider, outcome, permitted_at, ended_at in sends:
        health = found.setdefault(provider, Health(provider))
        health.outcomes[outcome] += 1
        if ended_at is not None and outcome != _O.UNKNOWN:
            health.took.append(ended_at - permitted_at)
        if outcome in (_O.APPLIED, _O.SUBMITTED):
            health.last_applied = ended_at
    return sorted(found.values(), key=lambda health: health.provider)


def _recorded(rows: QuerySet[Execution], now: datetime) -> Chart:
    """Count the newest executions by when they were recorded and what became of them."""
    edge = Execution.objects.order_by("-created_at", "-id").values_list("created_at", flat=True)
    horizon = edge[CHARTED : CHARTED + 1].first()
    since = max(horizon or now - LONGEST, now - LONGEST)
    recent = rows.filter(created_at__gt=since)
    first = recent.order_by("created_at").values_list("created_at", flat=True).first() or now
    step = _step(now - first)
    start = _floor(first, step)
    bar = Func(Value(step), F("created_at"), Value(start), function="date_bin", output_field=DateTimeField())
    counts: dict[datetime, Counter[str]] = defaultdict(Counter)
    for at, state, number in recent.annotate(bar=bar).order_by().values_list("bar", "state").annotate(n=Count("pk")):
        counts[at][_BECAME[_S(state)]] += number
    bars = [start + step * i for i in range(int((now - start) / step) + 1)]
    series = [name for name, _ in _SERIES]
    cut = f"The newest {CHARTED:,}" if horizon is not None and horizon >= since else "All"
    return Chart(
        "recorded", "Executions, by what became of them", f"{cut}, in bars of {span(step)}, since {moment(start)}.", "",
        _SERIES, [(at, [counts[at][name] for name in series]) for at in bars], step, is_stacked=True,
    )  # fmt: skip


def _durations(sends: list[tuple[str, str, datetime, datetime | None]]) -> Chart:
    """Say how long the newest sends took, over time."""
    ended = [(at, until - at) for _, outcome, at, until in sends if until is not None and outcome != _O.UNKNOWN]
    step = _step(ended[-1][0] - ended[0][0]) if ended else STEPS[0]
    bars: dict[datetime, list[timedelta]] = defaultdict(list)
    for at, took in ended:
        bars[_floor(at, step)].append(took)
    rows = [
        (at, [round(_part(took, part).total_seconds(), 3) for part in (0.5, 0.95)]) for at, took in sorted(bars.items())
    ]
    note = f"The newest {SENDS:,} sends at most, in steps of {span(step)}; those without an answer are not among them."
    return Chart("durations", "How long answers took", note, " s", _TOOK, rows, step, is_stacked=False)


def _step(length: timedelta) -> timedelta:
    return next((step for step in STEPS if length / step <= BARS), STEPS[-1])


def _floor(at: datetime, step: timedelta) -> datetime:
    return at - timedelta(seconds=at.timestamp() % step.total_seconds())


def _part(lengths: list[timedelta], part: float) -> timedelta:
    """Return the length that this part of them does not exceed."""
    return sorted(lengths)[max(ceil(len(lengths) * part) - 1, 0)]


def _seconds(lengths: list[timedelta], part: float) -> str:
    return f"{_part(lengths, part).total_seconds():.2f} s" if lengths else "none"


def _count(found: int) -> str:
    return f"{COUNTED:,}+" if found > COUNTED else f"{found:,}"


def _now() -> datetime:
    with connections[settings.DATABASE].cursor() as cursor:
        cursor.execute("SELECT now()")
        (now,) = cursor.fetchone()
    return now  # type: ignore[no-any-return]
