"""What is due and nobody does is said on the console, by the check and by the metrics."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from prometheus_client import CollectorRegistry

import effects
from effects.inspection.checks.recorded import check_standstill
from effects.inspection.standstill import LATE, standstills
from effects.journal.locks import now
from effects.metrics import JournalCollector
from effects.models import Execution, Heartbeat, PendingNotice, Request
from effects.sweeps import SWEEPS, _batches
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Approved, Charge, Noted, Plain
from tests.core.people import PAYLOAD, person
from tests.core.test_requests import answers, opened

__all__ = ["answers"]

pytestmark = pytest.mark.django_db(transaction=True)
HOURS = timedelta(hours=3)


@pytest.fixture(autouse=True)
def no_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may have written its heartbeats in another test within the minute."""
    monkeypatch.setattr(_batches, "_last_done", {})


def metric(name: str, sweep: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(JournalCollector())
    return registry.get_sample_value(name, {"sweep": sweep})


def said(client: Any) -> str:
    """Return the banner of the console's first page; empty: there is none."""
    page = client.get(reverse("admin:app_list", args=["effects"])).content.decode()
    _, found, rest = page.partition('role="alert">')
    return rest.partition("</div>")[0] if found else ""


def warnings() -> list[str]:
    found = check_standstill(databases=["default"])
    assert {each.id for each in found} <= {"effects.W012"}
    return [each.msg for each in found]


# -- what may be due -----------------------------------------------------------------------------------------------


def pending() -> Any:
    return Execution.objects.get(pk=effects.perform_later(Plain, payload=PAYLOAD, key="k").ref)


def uncertain() -> Any:
    with provider_says(Charge, TimeoutError()):
        return Execution.objects.get(pk=effects.perform(Charge, payload=PAYLOAD, key="k").ref)


def accepted() -> Any:
    with provider_says(Charge, effects.Submitted("ch_1")):
        return Execution.objects.get(pk=effects.perform(Charge, payload=PAYLOAD, key="k").ref)


def unwritten() -> Any:
    def then(context: Any, outcome: Any) -> None:
        raise LookupError("no such order")

    with pytest.MonkeyPatch.context() as patch, provider_says(Noted, effects.Applied()):
        patch.setattr(Noted, "then", staticmethod(then))
        return Execution.objects.get(pk=effects.perform(Noted, payload=PAYLOAD, key="k").ref)


def undecided() -> Any:
    person("bob")
    effects.perform(Approved, payload=PAYLOAD, key="k", requested_by="ann")
    time_passes(timedelta(days=30))


def running() -> Any:
    return Request.objects.get(pk=opened().pk)


def untold() -> Any:
    row = pending()
    PendingNotice.objects.create(key="k", event="needs_person", execution_id=row.pk, due_at=now(), created_at=now())
    Execution.objects.update(due_at=now() + timedelta(days=1))


DUE: list[tuple[Callable[[], Any], str]] = [
    (pending, "run_due"), (uncertain, "look_up_due"), (accepted, "look_up_due"), (unwritten, "run_hooks"),
    (undecided, "expire_approvals"), (running, "expire_leases"), (untold, "send_notices"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sweep"), DUE, ids=lambda each: getattr(each, "__name__", each))
def test_what_nobody_does_is_said_everywhere(make: Any, sweep: str, admin_client: Any) -> None:
    """No beat, no worker, ever: the first page, the row's page, the check and a metric name the sweep."""
    row = make()
    time_passes(HOURS)
    (found,) = standstills()
    assert (found.sweep, found.seen) == (sweep, None)
    for words in (said(admin_client), *warnings()):
        assert f"The sweep {sweep} has never run." in words
        assert "Something has been due since" in words
    assert len(warnings()) == 1
    assert "effects_sweep" in said(admin_client)
    assert (metric("effects_overdue_seconds", sweep) or 0) > 3600
    if row is not None:
        address = reverse(f"admin:effects_{row._meta.model_name}_change", args=[row.pk])
        assert "nobody has done it. The sweep" in admin_client.get(address).content.decode()


def test_a_fresh_journal_raises_no_alarm(admin_client: Any) -> None:
    """Nothing is due; the metrics exist for each sweep all the same, and count from the journal's beginning."""
    assert (standstills(), warnings(), said(admin_client)) == ([], [], "")
    for sweep in SWEEPS:
        age = metric("effects_sweep_age_seconds", sweep)
        assert age is not None
        assert age >= 0
        assert metric("effects_overdue_seconds", sweep) == (None if sweep == "prune" else 0)


@pytest.mark.parametrize("waited", [timedelta(0), LATE - timedelta(minutes=1)])
def test_what_is_due_just_now_raises_no_alarm(waited: timedelta, admin_client: Any) -> None:
    """A worker takes it up within seconds; five minutes are late."""
    row = pending()
    time_passes(waited)
    assert (standstills(), warnings(), said(admin_client)) == ([], [], "")
    page = admin_client.get(reverse("admin:effects_execution_change", args=[row.pk])).content.decode()
    assert "nobody has done it" not in page
    assert "a worker sends it next" in page
    time_passes(LATE)
    assert said(admin_client)


def test_what_is_due_later_raises_no_alarm(admin_client: Any) -> None:
    """A window that is not open yet."""
    row = pending()
    Execution.objects.update(due_at=now() + timedelta(days=1))
    assert (standstills(), said(admin_client)) == ([], "")
    page = admin_client.get(reverse("admin:effects_execution_change", args=[row.pk])).content.decode()
    assert "a worker sends it then" in page


def test_one_sweep_that_stopped_is_named(admin_client: Any) -> None:
    """The others run; since when it has not is said."""
    uncertain()
    time_passes(HOURS)
    for sweep in SWEEPS:
        Heartbeat.objects.create(sweep=sweep, at=now() - (timedelta(hours=2) if sweep == "look_up_due" else LATE / 2))
    (words,) = warnings()
    assert "The sweep look_up_due has not run to its end since" in words
    assert "run_due" not in said(admin_client)
    assert (metric("effects_sweep_age_seconds", "look_up_due") or 0) > 7000
    assert (metric("effects_sweep_age_seconds", "run_due") or 0) < 300


def test_hints_that_nobody_takes_are_said(admin_client: Any) -> None:
    """The sweep runs and hands out, and there is no worker."""
    row, published = pending(), []
    time_passes(HOURS)
    SWEEPS["run_due"].run_once(publish=published.append)
    assert published == [str(row.pk)]
    (words,) = warnings()
    assert "The sweep run_due runs, and what it finds is not done" in words
    page = admin_client.get(reverse("admin:effects_execution_change", args=[row.pk])).content.decode()
    assert "no worker takes it" in page


def test_a_sweep_without_celery_is_enough(admin_client: Any, settings: Any) -> None:
    """`effects_sweep` alone does what was due for hours; then there is nothing to tell."""
    settings.EFFECTS = {"DISPATCH": "none"}
    pending()
    time_passes(HOURS)
    with provider_says(Plain, effects.Applied()):
        call_command("effects_sweep")
    assert (standstills(), warnings(), said(admin_client)) == ([], [], "")


def test_what_was_tried_and_failed_is_trouble_and_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    """It backs off, and the console lists it; that nobody works would be wrong."""

    def describe(self: Any, context: Any) -> Any:
        raise LookupError("no such customer")

    pending()
    monkeypatch.setattr(Plain, "describe", describe)
    run_due()
    time_passes(HOURS)
    assert standstills() == []


def test_migrate_is_not_held_up() -> None:
    """Before the tables are there nothing can be asked; another database is not asked at all."""
    pending()
    time_passes(HOURS)
    assert check_standstill(databases=["other"]) == []
    assert check_standstill(databases=None) == []
