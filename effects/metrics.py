"""Prometheus metrics: what waits, what is in doubt, how old the oldest is. Read from the journal at each scrape.

from prometheus_client import REGISTRY
from effects.metrics import JournalCollector

REGISTRY.register(JournalCollector())
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, ExpressionWrapper, F, FloatField, Func, Max
from prometheus_client.core import GaugeMetricFamily, Metric

from effects.inspection.standstill import oldest_due
from effects.journal.locks import ClockTimestamp, now
from effects.models import Execution, Heartbeat, Journal
from effects.sweeps import SWEEPS
from effects.vocabulary.states import EXECUTION_IN_DOUBT, EXECUTION_OPEN, values

__all__ = ["JournalCollector"]


class _Seconds(Func):
    """The seconds of an interval."""

    template = "EXTRACT(EPOCH FROM %(expressions)s)"
    output_field = FloatField()


class JournalCollector:
    """Collects gauges of unsettled executions and of the sweeps; a dozen small queries a scrape, no commit."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they stand."""
        count = GaugeMetricFamily(
            "effects_unsettled", "Executions that are not settled.", labels=["operation", "state"]
        )
        oldest = GaugeMetricFamily(
            "effects_oldest_seconds", "Age of the oldest of them.", labels=["operation", "state"]
        )
        age = _Seconds(ExpressionWrapper(ClockTimestamp() - F("created_at"), output_field=FloatField()))
        unsettled = Execution.objects.filter(state__in=values(EXECUTION_OPEN | EXECUTION_IN_DOUBT))
        for row in unsettled.values("operation", "state").annotate(number=Count("pk"), oldest=Max(age)):
            labels = [row["operation"], row["state"]]
            count.add_metric(labels, row["number"])
            oldest.add_metric(labels, row["oldest"])
        hooks = GaugeMetricFamily("effects_hooks_due", "Settled hooks that have not run.")
        hooks.add_metric([], Execution.objects.filter(hook_due_at__isnull=False).count())
        yield from (count, oldest, hooks, *_sweeps())


def _sweeps() -> Iterator[Metric]:
    """Yield what tells that nobody sweeps, for each sweep, whether or not it ever ran."""
    at = now()
    age = GaugeMetricFamily(
        "effects_sweep_age_seconds",
        "Time since a sweep's heartbeat, or else since the journal began.",
        labels=["sweep"],
    )
    seen = dict(Heartbeat.objects.values_list("sweep", "at"))
    began = Journal.objects.values_list("since", flat=True).first()
    for sweep in SWEEPS:
        last = seen.get(sweep, began)
        age.add_metric([sweep], float("inf") if last is None else (at - last).total_seconds())
    overdue = GaugeMetricFamily(
        "effects_overdue_seconds", "How long the oldest thing has been due that nobody did.", labels=["sweep"]
    )
    for sweep, due in oldest_due():
        overdue.add_metric([sweep], max((at - due).total_seconds(), 0.0) if due else 0.0)
    yield from (age, overdue)
