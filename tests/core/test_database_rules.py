"""The rules that the database repeats: against `update()`, the shell and raw SQL."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

import effects
from effects.models import Approval, Attempt, Execution, Receipt, Request, RequestExecution
from effects.models.base import new_id
from effects.testing import provider_says
from effects.transitions import Opening, open_request
from effects.vocabulary.states import EXECUTION_SETTLED, NOTHING_HAPPENED, REQUEST_ENDED, ExecutionState, RequestState
from tests.core.declared import Approved, ChargePayload, Plain

PAYLOAD = ChargePayload("c1", 1000)
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.django_db


@contextmanager
def refused(constraint: str):
    """The database refuses the block by the constraint of that name."""
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        yield


def sql(statement: str, *params: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.fixture
def row() -> Execution:
    """An execution that completed."""
    with provider_says(Plain, effects.Applied(1, "ch_1")):
        return Execution.objects.get(pk=effects.perform(Plain, payload=PAYLOAD, key="k").ref)


def put(row: Execution, **values: object) -> None:
    """Write columns past everything that is ours."""
    columns = ", ".join(f"{name} = %s" for name in values)
    sql(f"UPDATE effects_execution SET {columns} WHERE id = %s", *values.values(), row.pk)


def columns_of(state: ExecutionState) -> dict[str, object]:
    """Return columns that satisfy every constraint in that state."""
    executing = state is ExecutionState.EXECUTING
    return {
        "state": str(state),
        "attempts": 0,
        "may_have_applied": False,
        "open_attempts": int(executing),
        "lease_expires_at": "2026-01-01T00:00:00Z" if executing else None,
        "settled_at": "2026-01-01T00:00:00Z" if state in EXECUTION_SETTLED else None,
        "ages_from": "2026-01-01T00:00:00Z" if state in EXECUTION_SETTLED else None,
    }


class TestExecutions:
    @pytest.mark.parametrize("state", ExecutionState)
    def test_doubt_stands_beside_every_state_but_those_that_say_nothing_happened(self, row, state):
        """`may_have_applied` is refused exactly beside NOTHING_HAPPENED."""
        put(row, **columns_of(state))
        if state in NOTHING_HAPPENED:
            with refused("effects_execution_doubt_is_sticky"):
                put(row, may_have_applied=True)
        else:
            put(row, may_have_applied=True)

    def test_rejected_was_never_sent(self, row):
        """`rejected` with an attempt is refused."""
        with refused("effects_execution_rejected_never_sent"):
            put(row, **{**columns_of(ExecutionState.REJECTED), "attempts": 1})

    @pytest.mark.parametrize("state", ExecutionState)
    def test_executing_is_one_open_attempt(self, row, state):
        """The count of open attempts is 1 exactly while executing, never 2."""
        columns = columns_of(state)
        for wrong in {0, 1, 2} - {columns["open_attempts"]}:
            with refused("effects_execution_one_open_attempt"):
                put(row, **{**columns, "open_attempts": wrong})

    def test_executing_has_a_lease(self, row):
        """Without a lease nobody would ever find a dead sender."""
        with refused("effects_execution_executing_has_lease"):
            put(row, **{**columns_of(ExecutionState.EXECUTING), "lease_expires_at": None})

    @pytest.mark.parametrize("state", ExecutionState)
    def test_settled_has_its_time(self, row, state):
        """`settled_at` is set exactly in settled states."""
        columns = columns_of(state)
        other = None if columns["settled_at"] else "2026-01-01T00:00:00Z"
        with refused("effects_execution_settled_has_time"):
            put(row, **{**columns, "settled_at": other, "ages_from": other})

    @pytest.mark.parametrize("state", ExecutionState)
    def test_what_is_settled_and_whole_ages(self, row, state):
        """Retention counts from some instant exactly while a whole row is settled."""
        columns = columns_of(state)
        other = None if columns["ages_from"] else "2026-01-01T00:00:00Z"
        with refused("effects_execution_settled_ages"):
            put(row, **{**columns, "ages_from": other})

    def test_unknown_words_are_refused(self, row):
        """A state or a reason that is no word of ours is refused."""
        with refused("effects_execution_state"):
            put(row, state="lost", settled_at=None, ages_from=None)
        with refused("effects_execution_reason"):
            put(row, reason="bad luck")

    def test_one_row_holds_a_key(self, row):
        """A second row under the binding is refused until the first one has given the key away."""
        with provider_says(Plain, effects.Applied(1, "ch_2")):
            other = Execution.objects.get(pk=effects.perform(Plain, payload=PAYLOAD, key="other").ref)
        with refused("effects_execution_one_per_key"):
            put(other, binding=row.binding)
        put(row, holds_key=False)
        put(other, binding=row.binding)

    def test_one_row_sends_under_a_provider_key(self, row):
        """Two rows never share the key that the provider deduplicates by."""
        with provider_says(Plain, effects.Applied(1, "ch_2")):
            other = Execution.objects.get(pk=effects.perform(Plain, payload=PAYLOAD, key="other").ref)
        with refused("effects_execution_provider_key"):
            put(other, provider_key=row.provider_key)


class TestAttempts:
    def test_one_is_open(self, row):
        """A second open attempt of one execution is refused."""
        attempt = Attempt.objects.get()
        Attempt.objects.filter(pk=attempt.pk).update(outcome="open")
        attempt.pk, attempt.number, attempt.outcome = new_id(), 2, "open"
        with refused("effects_attempt_one_open"):
            attempt.save(force_insert=True)

    def test_a_number_stands_for_one(self, row):
        """Attempts are counted, each number once."""
        attempt = Attempt.objects.get()
        attempt.pk = new_id()
        with refused("effects_attempt_number"):
            attempt.save(force_insert=True)

    def test_unknown_outcomes_are_refused(self, row):
        """An outcome that is no word of ours is refused."""
        with refused("effects_attempt_outcome"):
            Attempt.objects.update(outcome="maybe")


class TestApprovals:
    @pytest.fixture
    def approval(self, django_user_model) -> Approval:
        django_user_model.objects.create_superuser("approver", password="x")
        outcome = effects.perform(Approved, payload=PAYLOAD, key="k", requested_by="clerk")
        assert isinstance(outcome, effects.AwaitingApproval)
        return Approval.objects.get()

    def test_one_is_live(self, approval):
        """A second live approval of one execution is refused; one that is over does not count."""
        approval.pk = new_id()
        with refused("effects_approval_one_live"):
            approval.save(force_insert=True)
        Approval.objects.update(state="lapsed")
        approval.save(force_insert=True)

    @pytest.mark.parametrize("changes", [{"state": "spent"}, {"spent_at": "2026-01-01T00:00:00Z"}])
    def test_spent_has_its_time(self, approval, changes):
        """`spent_at` is set exactly when it is spent."""
        with refused("effects_approval_spent_has_time"):
            Approval.objects.update(**changes)


class TestRequests:
    @pytest.fixture
    def request_row(self) -> Request:
        opening = Opening(
            operation="o", mode="journaled", tenant="", subject="", scope="", key="k", fingerprint={},
            fingerprint_version=1, declared=None, local_writes=False,
        )  # fmt: skip
        return Request.objects.get(pk=open_request(opening).row.pk)

    @pytest.mark.parametrize("state", [state for state in RequestState if state in REQUEST_ENDED])
    def test_an_end_has_its_time(self, request_row, state):
        """An ended request without `ended_at` would never be pruned."""
        with refused("effects_request_ended_has_time"):
            Request.objects.update(state=str(state), lease_expires_at=None, holds_key=False)

    def test_released_frees_the_key(self, request_row):
        """A released request that keeps its key is refused."""
        with refused("effects_request_released_frees_key"):
            Request.objects.update(state="released", lease_expires_at=None, ended_at="2026-01-01T00:00:00Z")

    def test_running_has_a_lease(self, request_row):
        """Without a lease nobody would find a lost handler."""
        with refused("effects_request_running_has_lease"):
            Request.objects.update(lease_expires_at=None)

    def test_one_row_holds_a_key(self, request_row):
        """A second request under the binding is refused."""
        request_row.pk = new_id()
        with refused("effects_request_one_per_key"):
            request_row.save(force_insert=True)

    def test_a_link_stands_once(self, request_row, row):
        """A request and an execution are linked once."""
        RequestExecution.objects.create(request=request_row, execution=row, position=0, holds=True)
        with refused("effects_link_once"):
            RequestExecution.objects.create(request=request_row, execution=row, position=1, holds=True)


class TestTombstones:
    def test_only_a_tombstone_has_no_payload(self, row):
        """An empty payload needs the time at which retention dropped it, and that needs an empty payload."""
        with refused("effects_execution_pruned_has_no_payload"):
            put(row, payload="")
        with refused("effects_execution_pruned_has_no_payload"):
            put(row, pruned_at="2026-01-01T00:00:00Z")


class TestReceipts:
    @pytest.mark.parametrize("statement", ["UPDATE effects_receipt SET event = 'x'", "DELETE FROM effects_receipt"])
    def test_are_append_only(self, row, statement):
        """UPDATE and DELETE are refused by a trigger, whoever asks."""
        with refused("append-only"):
            sql(statement)
        assert Receipt.objects.count() == 3

    def test_retention_has_a_door(self, row):
        """Within a transaction that says so, receipts may go."""
        with transaction.atomic():
            sql("SET LOCAL effects.retention = 'on'")
            sql("DELETE FROM effects_receipt")
            sql("SET LOCAL effects.retention = 'off'")
        assert not Receipt.objects.exists()

    def test_truncate_is_allowed(self, row):
        """Test suites flush their tables."""
        sql("SET CONSTRAINTS ALL IMMEDIATE")
        sql("TRUNCATE effects_receipt")
        assert not Receipt.objects.exists()

    def test_name_one_target(self, row):
        """A receipt belongs to a request or to an execution, never to both or none."""
        with refused("effects_receipt_one_target"):
            Receipt.objects.create(sequence=1, event="x", to_state="x", revision=1, epoch=1, at="2026-01-01T00:00:00Z")

    def test_a_sequence_number_stands_once(self, row):
        """Two writers that both believe to be next cannot both be right."""
        receipt = Receipt.objects.order_by("sequence").last()
        receipt.pk = None
        with refused("effects_receipt_execution_sequence"):
            receipt.save(force_insert=True)


class TestMigrations:
    def test_another_vendor_is_refused_in_one_sentence(self, tmp_path):
        """On SQLite the first migration says what to do, before it makes a table."""
        (tmp_path / "lite_settings.py").write_text(
            "SECRET_KEY = 'x'\n"
            "INSTALLED_APPS = ['django.contrib.contenttypes', 'django.contrib.auth', 'effects']\n"
            "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}\n"
            "USE_TZ = True\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "django", "migrate", "effects", "--settings=lite_settings", "--skip-checks"],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "DJANGO_SETTINGS_MODULE": ""},
            capture_output=True, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        last = done.stderr.strip().splitlines()[-1]
        assert "django-effects keeps its journal in PostgreSQL 14 or newer" in last
        assert "EFFECTS['DATABASE']" in last

    def test_models_and_migrations_agree(self):
        """`makemigrations --check` has nothing to add."""
        call_command("makemigrations", "effects", check=True, dry_run=True, verbosity=0)
