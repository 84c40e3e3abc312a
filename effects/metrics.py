"""Prometheus metrics: what waits, what is in doubt, how old the oldest is. Read from the journal at each scrape.

from prometheus_client import REGISTRY
from effects.metrics import JournalCollector

REGISTRY.register(JournalCollector())
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, ExpressionWrapper, F, FloatField, Func, Max
from prometheus_client.core import GaugeMetricFamily, Metric

from effects._locks import ClockTimestamp
from effects.models import Execution, Heartbeat
from effects.states import EXECUTION_IN_DOUBT, EXECUTION_OPEN, values

__all__ = ["JournalCollector"]


class _Seconds(Func):
    """The seconds of an interval."""

    template = "EXTRACT(EPOCH FROM %(expressions)s)"
    output_field = FloatField()


class JournalCollector:
    """Collects gauges of unsettled executions and of the sweeps' heartbeats; three queries a scrape, no commit."""

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
        beats = GaugeMetricFamily("effects_sweep_age_seconds", "Time since a sweep's heartbeat.", labels=["sweep"])
        beat_age = _Seconds(ExpressionWrapper(ClockTimestamp() - F("at"), output_field=FloatField()))
        for sweep, seconds in Heartbeat.objects.annotate(age=beat_age).values_list("sweep", "age"):
            beats.add_metric([sweep], seconds)
        yield from (count, oldest, hooks, beats)
