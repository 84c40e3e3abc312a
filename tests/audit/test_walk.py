"""How the audit reads: beside live work, in bounded memory, and only what is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

import effects
from effects.inspection.audit import Scope, audit, cases
from effects.inspection.audit.instants import parse_duration, parse_instant, parse_since
from effects.journal import locks
from effects.models import Execution, Receipt
from effects.testing import provider_says, run_due, time_passes
from tests.audit.journals import PAYLOAD, Stories, audited, codes, damaged, perform
from tests.core.counting import counted
from tests.core.declared import Charge, Noted, Order, Plain, Ruled
from tests.core.people import approve, person

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def fetched() -> Iterator[list[int]]:
    """Record how many rows each statement of this thread brought into memory at once."""
    sizes: list[int] = []

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        cursor = context["cursor"].cursor
        if sql.startswith("SELECT") and not getattr(cursor, "name", None):  # one with a name stays on the server
            sizes.append(cursor.rowcount)
        return result

    with connection.execute_wrapper(count):
        yield sizes


def beside(call: Callable[[], Any]) -> Any:
    """Make a call in a thread, on connections of its own."""
    try:
        return call()
    finally:
        connections.close_all()


def test_a_busy_system_has_no_findings():
    """Whatever is being sent, looked up, approved and settled while the audit reads is no finding."""
    people = [person("one"), person("two")]
    rounds = 12

    def perform_and_meet() -> None:
        for number in range(rounds):
            effects.perform(Order, payload=PAYLOAD, key=f"order-{number}")
            effects.perform(Charge, payload=PAYLOAD, key=f"charge-{number}")

    def supersede() -> None:
        for number in range(rounds):
            first = effects.perform(Plain, payload=PAYLOAD, key=f"plain-{number}")
            effects.perform(Plain, payload=PAYLOAD, key=f"plain-{number}", supersede=first.ref)

    def decide() -> None:
        for number in range(rounds):
            asked = effects.perform(Ruled, payload=PAYLOAD, key=f"ruled-{number}", requested_by=people[0])
            approve(Execution.objects.get(pk=asked.ref), people[1])

    with (
        provider_says(Order, effects.Applied(1, "or_1")),
        provider_says(Charge, TimeoutError, look_up=effects.Found("ch_1")),
        provider_says(Plain, effects.Declined("no")),
        provider_says(Ruled, effects.Applied(1, "ru_1")),
    ):

        def sweep() -> None:
            for _ in range(rounds):
                run_due()

        works = (perform_and_meet, supersede, decide, sweep)
        with ThreadPoolExecutor(len(works)) as pool:
            running = [pool.submit(beside, work) for work in works]
            reports = [audited("--batch", "7")]
            while not all(work.done() for work in running):
                reports.append(audited("--batch", "7"))
            for work in running:
                work.result()
        run_due()
    reports.append(audited())
    assert [report["findings"] for report in reports if report["findings"]] == []
    assert reports[-1]["checked"]["executions"] == 5 * rounds


def test_a_commit_between_two_statements_of_a_batch_is_not_seen_by_halves():
    """Rows and receipts are read as of one instant; the control reads without that, and counts what is not there."""
    ref = effects.perform_later(Order, payload=PAYLOAD, key="k1").ref
    rows = list(Execution.objects.all())
    meanwhile = iter([lambda: effects.cancel(ref, by="me", reason="not any more")])

    def commit_before_receipts(execute: Any, sql: str, *context: Any) -> Any:
        call = next(meanwhile, None) if 'FROM "effects_receipt"' in sql else None
        if call is not None:
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(beside, call).result().state == "rejected"
        return execute(sql, *context)

    with connection.execute_wrapper(commit_before_receipts):
        assert list(audit(Scope(locks.now()), Counter())) == []
    assert next(meanwhile, None) is None
    assert [case.replay.count - case.row.receipt_count for case in cases.load(rows, Counter())] == [1]


def test_memory_is_bounded_by_the_batch():
    """However many rows there are, no statement brings more of them into memory than the batch allows."""
    with provider_says(Plain, effects.Applied(1, "pl_1")):
        for number in range(25):
            effects.perform(Plain, payload=PAYLOAD, key=f"plain-{number}")
    checked: Counter[str] = Counter()
    with fetched() as sizes:
        assert list(audit(Scope(locks.now(), batch=4), checked)) == []
    assert checked["executions"] == 25
    assert checked["receipts"] == 75
    assert max(sizes) == 4
    # 4 + 4 + 4 + 4 + 4 + 4 + 1: each batch brings its executions and, with one each, its attempts
    assert sizes.count(4) == 12


def test_the_audit_commits_and_locks_nothing():
    """It reads as of one instant for each batch, in transactions that cannot write."""
    perform(Plain, "k1", effects.Applied(1, "pl_1"))
    with counted() as cost:
        assert audited()["exit"] == 0
    assert cost.commits == 0
    assert not [sql for sql in cost.statements if "FOR UPDATE" in sql or "FOR NO KEY" in sql]
    assert sum(sql.endswith("REPEATABLE READ READ ONLY") for sql in cost.statements) > 10


def test_since_looks_at_what_was_touched_since(stories: Stories):
    """With --since only rows with a receipt since then are replayed, whenever they were made."""
    time_passes(timedelta(days=2))
    effects.cancel(stories.pending, by="me", reason="not any more")
    for since in ("24h", (locks.now() - timedelta(hours=24)).isoformat()):
        report = audited("--since", since)
        assert report["checked"]["executions"] == 1
        assert report["checked"]["receipts"] == Receipt.objects.filter(execution=stories.pending).count()
    with damaged("UPDATE effects_execution SET epoch = epoch + 1 WHERE id = %s", stories.completed):
        assert "receipts_end" not in codes(audited("--since", "24h"))
        assert "receipts_end" in codes(audited("--since", "3d"))


@pytest.mark.parametrize("failures", [1, 2])
def test_a_hook_that_failed_before_a_contradiction_is_no_finding(failures: int, monkeypatch: pytest.MonkeyPatch):
    """The row is unsettled again, so that nothing of it is due; nor is it once its hook ran for what was found."""

    def fail(_context: Any, _outcome: Any) -> None:
        raise ValueError("not today")

    monkeypatch.setattr(Noted, "then", staticmethod(fail))
    with provider_says(Noted, effects.Declined("no")):
        ref = effects.perform(Noted, payload=PAYLOAD, key="k1").ref
        for _ in range(1, failures):
            time_passes(timedelta(minutes=20))
            run_due()
    effects.observe(ref, reference="ch_1", evidence={"event": "evt_1"})
    row = Execution.objects.get(pk=ref)
    assert (row.hook_due_at, row.hook_failures, row.hook_error) == (None, 0, "")
    assert codes(audited()) == set()
    reopened = effects.reopen(ref, revision=effects.get(ref).revision, by="ops", reason="look again")
    assert codes(audited()) == set()
    monkeypatch.setattr(Noted, "then", staticmethod(lambda context, outcome: None))
    with provider_says(Noted, look_up=effects.Found("ch_1")):
        run_due()
    assert (effects.get(ref).state, reopened.state) == ("completed", "uncertain")
    assert codes(audited()) == set()


def test_what_hangs_is_found_whenever_it_was_touched(stories: Stories):
    """A row that hangs has no receipt since: that is the point."""
    time_passes(timedelta(days=2))
    report = audited("--since", "1h")
    assert report["checked"]["executions"] == 0
    assert {"overdue"} <= codes(report)


def test_the_allowance_says_what_is_late(stories: Stories):
    """What is due for less than the allowance is not late."""
    time_passes(timedelta(minutes=30))
    assert "overdue" not in codes(audited("--allowance", "1h"))
    assert "overdue" in codes(audited("--allowance", "20m"))


def test_times_are_read_as_people_type_them():
    """An instant has a zone, a duration a unit."""
    assert parse_since("7d") == parse_duration("7d") == timedelta(days=7)
    assert parse_since("2026-03-01T12:00:00Z") == parse_instant("2026-03-01T13:00:00+01:00")
    for wrong in ("7", "d", "7 d", "-7d", "2026-03-01T12:00:00"):
        with pytest.raises(ValueError, match="say"):
            parse_since(wrong)
