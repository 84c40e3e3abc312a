"""`idempotency_probe`: each probe can fail, and passes on ours."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

import effects
from effects import testing
from effects.models import Attempt
from effects.testing import ProbeError, provider_says
from effects.testing.handlers import find_handler
from effects.testing.probe import PROBES
from tests.core.declared import Charge
from tests.probe import views

ROOT = Path(__file__).parents[2]


def done() -> int:
    """What the provider has done."""
    return len(views.ledger)


@pytest.mark.parametrize("name", views.PLANTED)
def test_a_planted_fault_is_found_by_these_probes(idempotency_probe: Any, people: Any, name: str) -> None:
    """And by no other one; the report names each with what was seen."""
    client, other = people
    with pytest.raises(ProbeError) as raised:
        idempotency_probe(client, "POST", f"/{name}/", other=other, data={"amount": 5}, effects_done=done)
    report = raised.value.report
    assert {result.probe.partition(" ")[0] for result in report.failed} == views.PLANTED[name][1], str(report)
    for result in report.failed:
        assert f"FAIL  {result.probe}: answers " in str(raised.value)


def test_every_probe_is_shown_to_fail() -> None:
    """By a planted view that only few probes find."""
    assert set().union(*(found for _, found in views.PLANTED.values() if len(found) <= 2)) == set(PROBES)


@pytest.mark.parametrize("name", ["opaque", "transactional"])
def test_ours_pass(idempotency_probe: Any, people: Any, name: str) -> None:
    """Both modes; crashes at the handler's return and at each fault point that the request reaches."""
    client, other = people
    count = Group.objects.count if name == "transactional" else done
    report = idempotency_probe(client, "POST", f"/{name}/", other=other, data={"amount": 5}, effects_done=count)
    ran = [result.probe for result in report.results if not result.skipped]
    assert set(PROBES) == {probe.partition(" ")[0] for probe in ran}
    assert "crash at the handler's return" in ran
    assert len(ran) >= 7, str(report)


def test_a_view_that_performs_passes_with_rest_frameworks_client(idempotency_probe: Any, people: Any) -> None:
    """Counted by the provider's ledger, and by the journal's attempts, which is the default."""
    clients = [APIClient(), APIClient()]
    for client, user in zip(clients, User.objects.order_by("pk"), strict=True):
        client.force_authenticate(user)
    with provider_says(Charge, effects.Applied("ch_1", "ch_1"), look_up=effects.Found("ch_1")) as provider:
        report = idempotency_probe(clients[0], "post", "/declared/", other=clients[1], data={"amount": 5})
        idempotency_probe(
            clients[0], "POST", "/declared/", other=None, data={"amount": 5}, skip={"crash"},
            effects_done=lambda: len(provider.sends),
        )  # fmt: skip
    ran = [result.probe for result in report.results if not result.skipped]
    assert {"crash at send.before_call", "crash at send.replied", "crash at handler.returned"} <= set(ran)
    # two of its crashes came after the permit and before the call
    assert Attempt.objects.count() == len(provider.sends) + 2


def test_a_probe_that_was_not_run_says_so(idempotency_probe: Any, people: Any) -> None:
    """Skipped probes are said to be, and a view below `@api_view` is seen into."""
    client, _ = people
    report = idempotency_probe(client, "POST", "/function/", other=None, data={"amount": 5}, effects_done=done)
    assert [result.probe for result in report.results if result.skipped] == ["other_user"]
    assert (
        find_handler("POST", "/function/") is views.function.cls.post.__closure__[0].cell_contents.__wrapped__.__code__
    )


def test_urls_and_bodies_can_be_made_for_each_probe(idempotency_probe: Any, people: Any) -> None:
    """For what can be done only once."""
    client, other = people
    numbers = iter(range(1000))
    bodies: list[Any] = []

    def body() -> Any:
        bodies.append({"amount": next(numbers)})
        return bodies[-1]

    idempotency_probe(
        client, "POST", lambda: f"/opaque/?n={next(numbers)}", other=other, data=body,
        changed=lambda: {"amount": -1}, effects_done=done, skip={"crash"},
    )  # fmt: skip
    assert len(bodies) == 4


def test_a_request_that_does_not_work_probes_nothing(idempotency_probe: Any, people: Any) -> None:
    """A first answer of 400, and no effect, are failures that say so."""
    client, _ = people
    with pytest.raises(ProbeError, match="probe with one that works") as raised:
        idempotency_probe(client, "POST", "/declared/", other=None, data={"wrong": "x"})
    assert "0 effects are counted" in str(raised.value)


@pytest.mark.django_db
def test_a_test_without_commits_is_refused(client: Any) -> None:
    """Threads would see nothing of it."""
    with pytest.raises(RuntimeError, match="transactional_db"):
        testing.idempotency_probe(client, "POST", "/", other=None)


def test_a_probe_that_there_is_none_of_is_refused(idempotency_probe: Any, people: Any) -> None:
    """A misspelt `skip` would be one."""
    with pytest.raises(RuntimeError, match="probes are twice"):
        idempotency_probe(people[0], "POST", "/opaque/", other=None, skip={"crashes"})


def test_what_cannot_be_changed_has_to_be_said(idempotency_probe: Any, people: Any) -> None:
    """Bytes and lists."""
    with pytest.raises(RuntimeError, match="changed="):
        idempotency_probe(
            people[0], "POST", "/opaque/", other=None, data=b"[1]", effects_done=done, skip={"crash", "concurrent"}
        )


def test_the_plugin_is_an_entry_point_and_needs_no_django() -> None:
    """pytest loads it before Django is set up, in projects without Django too."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\neffects = "effects.testing.plugin"' in text
    assert import_module("effects.testing.plugin").idempotency_probe
    code = "import sys, effects.testing.plugin; print('django' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr


def test_every_name_of_the_kit_can_be_imported() -> None:
    """Lazily, from where it is."""
    for name in testing.__all__:
        assert getattr(testing, name).__doc__
    with pytest.raises(AttributeError):
        _ = testing.nothing
