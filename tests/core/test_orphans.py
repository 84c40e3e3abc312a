"""Rows that this code cannot go on with: a renamed operation, a removed alias, contents that nobody can read."""

from __future__ import annotations

import logging
from io import StringIO
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

import effects
from effects import transitions
from effects.declarations.effect import _registry, get_effect
from effects.models import Execution, Request
from effects.models.base import new_id
from effects.sweeps import SWEEPS, _batches
from effects.testing import provider_says, run_due
from effects.transitions.intents import make_intent
from effects.vocabulary.types import monotonic
from tests.core.declared import Approved, Charge, ChargePayload, Plain, Renamed
from tests.core.people import asked, person
from tests.core.test_requests import conclude, handled, opened

PAYLOAD = ChargePayload("c1", 1000)
ORPHANS = ("effects.E020", "effects.E021", "effects.W020")

pytestmark = pytest.mark.django_db(transaction=True)


def findings(*ids: str) -> list[Any]:
    """What the checks of rows say where the database is asked."""
    return [one for one in run_checks(databases=["default"]) if one.id in (ids or ORPHANS)]


@pytest.fixture
def deploy(monkeypatch: Any) -> Any:
    """Let new code declare an effect otherwise: its names, its versions, or nothing any more."""

    def change(effect: type[effects.Effect[Any]], *, gone: bool = False, **declared: Any) -> None:
        for name in (effect.operation, *effect.aliases):
            monkeypatch.delitem(_registry, name, raising=False)
        for name, value in declared.items():
            monkeypatch.setattr(effect, name, value)
        if not gone:
            instance = effect()
            for name in (effect.operation, *effect.aliases):
                monkeypatch.setitem(_registry, name, instance)

    return change


def pending() -> None:
    effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")


def uncertain() -> None:
    with provider_says(Charge, TimeoutError()):
        effects.perform(Charge, payload=PAYLOAD, key="payout-11")


def accepted() -> None:
    with provider_says(Charge, effects.Submitted("ch_1")):
        effects.perform(Charge, payload=PAYLOAD, key="payout-11")


def needs_intervention() -> None:
    with provider_says(Charge, effects.KeyReused("other contents")):
        effects.perform(Charge, payload=PAYLOAD, key="payout-11")


def executing() -> None:
    intent = make_intent(
        get_effect(Charge), PAYLOAD, key="payout-11", request=None, tenant="", requested_by=None, on_behalf_of=None,
        about=None, require_approval=False,
    )  # fmt: skip
    transitions.record(intent, handle=None, attempt=new_id(), started=monotonic())


def hook_due() -> None:
    with provider_says(Charge, effects.Applied(1, "ch_1")):
        done = effects.perform(Charge, payload=PAYLOAD, key="payout-11")
    Execution.objects.filter(pk=done.ref).update(hook_due_at="2020-01-01T00:00:00Z")


class TestRenamed:
    """An operation that is not declared any more."""

    @pytest.mark.parametrize("state", [pending, uncertain, accepted, needs_intervention, executing, hook_due])
    def test_a_renamed_operation_is_an_error_with_the_line_to_add(self, deploy, state):
        """In every unsettled state, and with a hook due: operation, count and line."""
        state()
        assert findings() == []
        deploy(Charge, operation="bank.charge_anew")
        (found,) = findings("effects.E020")
        assert "1 unsettled executions are of the operation 'bank.charge'" in found.msg
        assert 'aliases = ("bank.charge",)' in found.hint
        assert "bank.charge_anew" in found.hint

    def test_one_that_waits_for_people_is_found_as_well(self, deploy):
        """So is what nobody has approved yet."""
        person("bob")
        asked(Approved, by=person("ann"))
        deploy(Approved, operation="bank.approved_anew")
        (found,) = findings("effects.E020")
        assert "'bank.approved'" in found.msg

    def test_the_line_mends_it(self, deploy):
        """With the line that the hint gives, the row is met, and the check is clean."""
        uncertain()
        deploy(Charge, operation="bank.charge_anew")
        deploy(Charge, aliases=("bank.charge",))
        assert findings() == []
        with provider_says(Charge) as said:
            assert effects.perform(Charge, payload=PAYLOAD, key="payout-11").state == "uncertain"
        assert said.sends == []

    def test_an_effect_that_was_deleted_is_an_error(self, deploy):
        """Nobody is left to send, look up or settle its rows; each operation is named, with how many."""
        for key in ("a", "b", "c"):
            effects.perform_later(Plain, payload=PAYLOAD, key=key)
        pending()
        deploy(Plain, gone=True)
        deploy(Charge, gone=True)
        assert [one.msg[:50] for one in findings("effects.E020")] == [
            "1 unsettled executions are of the operation 'bank.",
            "3 unsettled executions are of the operation 'bank.",
        ]

    @pytest.mark.parametrize("is_settled", [False, True])
    def test_an_alias_that_was_taken_away_is_named(self, deploy, is_settled):
        """Its rows are known by their operation, and keyed under a name that nothing derives any more."""
        with provider_says(Renamed, effects.Applied(1, "ch_1")):
            effects.perform_later(Renamed, payload=PAYLOAD, key="payout-11")
            if is_settled:
                run_due()
        deploy(Renamed, aliases=())
        (found,) = findings()
        assert found.id == ("effects.W020" if is_settled else "effects.E020")
        assert "'bank.new_name' were keyed under another name" in found.msg
        deploy(Renamed, aliases=("bank.old_name",))
        assert findings() == []

    def test_an_alias_in_the_wrong_order_is_named_with_the_line(self, deploy):
        """The oldest name keys them; an older alias that is put in front later hides what was keyed before."""
        effects.perform_later(Renamed, payload=PAYLOAD, key="payout-11")
        deploy(Renamed, aliases=("bank.even_older", "bank.old_name"))
        (found,) = findings()
        assert "were keyed under 'bank.old_name', and new ones are keyed under 'bank.even_older'" in found.msg
        assert 'aliases = ("bank.old_name", "bank.even_older")' in found.hint

    def test_what_is_settled_under_a_lost_name_is_a_warning(self, deploy):
        """Its key protects nothing: the same key is paid once more under the new name."""
        with provider_says(Plain, effects.Applied(1, "ch_1")):
            effects.perform(Plain, payload=PAYLOAD, key="payout-11")
        deploy(Plain, operation="bank.plain_anew")
        (found,) = findings()
        assert found.id == "effects.W020"
        assert "1 settled executions are of the operation 'bank.plain'" in found.msg
        assert 'aliases = ("bank.plain",)' in found.hint

    def test_a_renamed_provider_pays_nothing_twice(self, deploy):
        """No key hangs on it alone: an unsettled row refuses other terms, a settled one is met."""
        uncertain()
        deploy(Charge, provider="bank/acct_other")
        with provider_says(Charge) as said, pytest.raises(effects.EffectsError, match="acct"):
            effects.perform(Charge, payload=PAYLOAD, key="payout-11")
        assert said.sends == []
        assert findings("effects.E020") == []

    def test_a_view_that_lost_its_name_is_an_error(self):
        """Its unfinished requests can be answered by nobody."""
        request = opened()
        with provider_says(Charge, TimeoutError()):
            handled(request, lambda: effects.perform(Charge, payload=PAYLOAD, key="payout-11"))
        conclude(request)
        Request.objects.update(operation="charges.renamed")
        (found,) = findings("effects.E020")
        assert "unfinished requests are of the operation 'charges.renamed'" in found.msg


class TestUnreadable:
    """Contents that this code cannot read."""

    def test_a_payload_of_newer_code(self, deploy):
        """A deploy was taken back."""
        deploy(Charge, payload_version=2)
        pending()
        deploy(Charge, payload_version=1)
        (found,) = findings()
        assert found.id == "effects.E021"
        assert "1 unsettled executions of 'bank.charge' have a payload of version 2" in found.msg

    def test_a_payload_that_nothing_upgrades(self, deploy):
        """The version was raised, and no `upgrade` reads the older one."""
        uncertain()
        deploy(Charge, payload_version=2)
        (found,) = findings()
        assert found.id == "effects.E021"
        assert "Define upgrade(self, payload, version)" in found.hint
        deploy(Charge, upgrade=lambda self, payload, version: payload)
        assert findings() == []

    @pytest.mark.parametrize("versions", [{}, {"payload_version": 2}])
    def test_a_payload_that_does_not_fit_its_class(self, deploy, versions):
        """The class was changed: with a broken `upgrade`, or without another version."""
        pending()
        Execution.objects.update(payload='{"customer":"c1"}')
        deploy(Charge, upgrade=lambda self, payload, version: payload, **versions)
        (found,) = findings()
        assert found.id == "effects.E021"
        assert "One of them: " in found.msg

    @pytest.mark.parametrize(("stored", "present"), [(2, 1), (1, 2)])
    def test_an_output(self, deploy, stored, present):
        """So are outputs, of what has a hook due."""
        deploy(Charge, output_version=stored)
        hook_due()
        deploy(Charge, output_version=present)
        (found,) = findings()
        assert found.id == "effects.E021"
        assert f"have an output of version {stored}" in found.msg


class TestSweeps:
    """The first sweep says it, and goes on."""

    @pytest.fixture(autouse=True)
    def _first_sweep(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(_batches, "_last_done", {})

    def test_the_first_sweep_says_it_once_and_goes_on(self, deploy, caplog):
        """One error in the log of each process; other operations' rows are sent all the same."""
        effects.perform_later(Plain, payload=PAYLOAD, key="orphan")
        deploy(Plain, operation="bank.plain_anew")
        effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")
        with provider_says(Charge, effects.Applied(1, "ch_1")), caplog.at_level(logging.ERROR):
            for sweep in SWEEPS.values():
                sweep.run_once()
        assert caplog.text.count('aliases = ("bank.plain",)') == 1
        assert effects.get(Execution.objects.get(key="payout-11").pk).state == "completed"

    def test_the_command_starts_and_says_it(self, deploy, caplog):
        """`effects_sweep` checks the database, and stops for no row."""
        effects.perform_later(Plain, payload=PAYLOAD, key="orphan")
        deploy(Plain, operation="bank.plain_anew")
        effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")
        with provider_says(Charge, effects.Applied(1, "ch_1")):
            call_command("effects_sweep", skip_checks=False, stdout=StringIO())
        assert 'aliases = ("bank.plain",)' in caplog.text
        assert Execution.objects.get(key="payout-11").state == "completed"


def test_the_overview_says_it(deploy, admin_client):
    """People see it beside the sweeps."""
    pending()
    deploy(Charge, operation="bank.charge_anew")
    page = admin_client.get("/admin/effects/execution/overview/").content.decode()
    assert "1 unsettled executions are of the operation" in page


def test_no_query_reads_the_settled_rows(deploy):
    """Each question is answered from partial indexes, or reads a bounded number of rows: no sequential scan."""
    with provider_says(Plain, effects.Applied(1, "ch_1")):
        effects.perform(Plain, payload=PAYLOAD, key="payout-11")
    deploy(Plain, operation="bank.plain_anew")
    pending()
    with CaptureQueriesContext(connection) as asked_for:
        assert findings()
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        try:
            for query in asked_for.captured_queries:
                if "effects_execution" in query["sql"]:
                    cursor.execute(f"EXPLAIN {query['sql']}")
                    plan = "\n".join(row[0] for row in cursor.fetchall())
                    assert "Seq Scan on effects_execution" not in plan, plan
        finally:
            cursor.execute("SET enable_seqscan = on")
