"""What the console's pages cost on a big journal."""

from __future__ import annotations

import statistics
import time
from datetime import timedelta
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from effects.models import Execution

__all__ = ["measure"]

#: What a list and the overview may take.
BOUND = timedelta(milliseconds=300)
ROUNDS = 5


def _pages() -> dict[str, str]:
    """Return what is measured; a star marks what `BOUND` is for."""

    row = Execution.objects.filter(state="completed").order_by("-created_at")[1000]
    old = Execution.objects.filter(state="uncertain").order_by("created_at")[0]

    def listed(model: str, **query: str) -> str:
        return reverse(f"admin:effects_{model}_changelist") + ("?" + urlencode(query) if query else "")

    queue = reverse("admin:effects_needs_a_person")
    return {
        "queue*": queue,
        "queue, narrowed*": f"{queue}?provider=bank/bench&amount=1000&age=over-day",
        "queue, searched*": f"{queue}?q={old.key}",
        "overview*": reverse("admin:effects_overview"),
        "executions*": listed("execution"),
        "executions, page 20*": listed("execution", p="20"),
        **{f"executions, {name}*": listed("execution", **query) for name, query in {
            "in doubt": {"state": "in_doubt"}, "failed": {"state": "failed"}, "settled": {"state": "settled"},
            "by reason": {"reason": "denied"}, "no such operation": {"operation": "payments.refund"},
            "by provider": {"provider": "bank/bench"}, "by amount": {"amount": "1000"}, "rare risk": {"risk": "low"},
            "a month old": {"age": "over-month"}, "failed, a month old": {"state": "failed", "age": "over-month"},
        }.items()},
        **{f"executions, search by {name}*": listed("execution", q=str(term)) for name, term in {
            "ref": row.pk, "key": row.key, "provider key": row.provider_key, "reference": row.reference,
            "subject": "user:17", "nothing": "no-such-thing",
        }.items()},
        "approvals*": listed("approval"),
        "approvals, undecided*": listed("approval", state="requested"),
        "approvals, lapsed*": listed("approval", state="lapsed"),
        "requests*": listed("request"),
        "requests, answered*": listed("request", state="answered"),
        "requests, by reason*": listed("request", reason="no_answer"),
        "requests, by subject*": listed("request", q="user:17"),
        "receipts*": listed("receipt"),
        "receipts, rare*": listed("receipt", event="supersede"),
        "an execution": reverse("admin:effects_execution_change", args=[row.pk]),
        "one in doubt": reverse("admin:effects_execution_change", args=[old.pk]),
        "resolve it": reverse("admin:effects_execution_resolve", args=[old.pk]),
    }  # fmt: skip


def measure() -> int:
    """Open every page several times, print what it took, and return how many took longer than `BOUND`."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    late = 0
    # the processor's own time beside the clock's: on a busy machine a page waits for its turn
    print(f"{'page':<40}{'median':>10}{'processor':>11}{'slowest':>10}{'queries':>9}{'slowest query':>15}")
    for name, address in _pages().items():
        client.get(address)
        rounds = [_open(client, address) for _ in range(ROUNDS)]
        median, processor = (statistics.median(times) for times in zip(*rounds, strict=True))
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        slowest, longest = max(took for took, _ in rounds), max(float(query["time"]) for query in queries)
        is_late = name.endswith("*") and median > BOUND.total_seconds()
        late += is_late
        figures = "".join(f"{seconds * 1000:>7.0f} ms" for seconds in (median, processor, slowest))
        end = f"{len(queries):>9}{longest * 1000:>12.0f} ms{'  LATE' if is_late else ''}"
        print(f"{name.rstrip('*'):<40}{figures}{end}", flush=True)
    return late


def _open(client: Client, address: str) -> tuple[float, float]:
    """Return how long a page took, by the clock and of the processor, in seconds; the database is in the first."""
    started, used = time.perf_counter(), time.process_time()
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code)
    return time.perf_counter() - started, time.process_time() - used
