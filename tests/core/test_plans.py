"""How PostgreSQL finds what is due: by the partial index that is there for it, on tables full of what is over."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

import effects
from effects.models import Approval, Execution, Request
from effects.sweeps import SWEEPS
from effects.transitions import list_prunable, open_request
from tests.core.declared import Approved, Plain
from tests.core.people import PAYLOAD, asked, person
from tests.core.test_requests import opening

pytestmark = pytest.mark.django_db
ROWS = 4000
#: A scan of all rows, or of an index of all rows.
WHOLE = re.compile(r"Seq Scan on effects_(?:execution|request|approval)\b|using effects_(?:execution|request)_pkey")


def multiply(model: type[models.Model], pk: Any, count: int, **changes: str) -> None:
    """Copy a row `count` times, each with an id and keys of its own; `changes` are SQL, g being its number."""
    own = {"id": "gen_random_uuid()", "binding": "md5(random()::text || g)", "provider_key": "md5(random()::text || g)"}
    own |= changes
    names = [str(field.column) for field in model._meta.concrete_fields]
    sql = (
        f"INSERT INTO {model._meta.db_table} ({', '.join(names)}) "
        f"SELECT {', '.join(own.get(name, name) for name in names)} FROM {model._meta.db_table} AS one, "
        f"generate_series(1, {count}) AS g WHERE one.id = %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("SELECT id", "SELECT one.id"), [pk])


@pytest.fixture
def old_journal() -> None:
    """A journal of things long over: settled and pruned, answered and dropped, approved and spent."""
    person("bob")
    approval = Approval.objects.get(execution=asked(Approved, by=person("ann"), key="asked"))
    multiply(Approval, approval.pk, ROWS, state="'spent'", spent_at="now()")
    # what is old was dropped already, what is there still is too young: a lot passes in each column by itself
    recent, old = "now()", "now() - interval '1 year' - g * interval '1 minute'"
    execution = effects.perform_later(Plain, payload=PAYLOAD, key="k").ref
    settled = {"state": "'completed'", "due_at": "NULL"}
    multiply(Execution, execution, ROWS, **settled, settled_at=old, ages_from="NULL", pruned_at="now()", payload="''")
    multiply(Execution, execution, ROWS // 10, **settled, settled_at=recent, ages_from=recent)
    request = open_request(opening()).row.pk
    answered = {"state": "'answered'", "lease_expires_at": "NULL"}
    multiply(Request, request, ROWS, **answered, ended_at=old, holds_key="false")
    multiply(Request, request, ROWS // 10, **answered, ended_at=recent, answer_body="'x'::bytea")
    Execution.objects.filter(state="pending").update(due_at=None)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE effects_execution; ANALYZE effects_request; ANALYZE effects_approval")


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_with_nothing_to_do_reads_no_whole_table(name: str, old_journal: None, settings: Any) -> None:
    """On ten million rows it is as quick as on ten."""
    settings.EFFECTS = {"EXECUTION_RETENTION": timedelta(days=30)}
    with CaptureQueriesContext(connection) as captured:
        SWEEPS[name].run_once()
    due = [query["sql"] for query in captured.captured_queries if "STATEMENT_TIMESTAMP" in query["sql"]]
    assert due
    for sql in due:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}")
            plan = [line for (line,) in cursor.fetchall()]
        # sub-plans look at one candidate's links each, and there is none
        scans = [line for line in plan if "Scan" in line]
        assert not WHOLE.search(scans[0]), "\n".join(plan)


def test_what_is_past_its_retention_is_found_row_by_row(old_journal: None, settings: Any) -> None:
    """Each by the index that is there for it, and its requests and relatives by theirs, however many there are."""
    settings.EFFECTS = {"EXECUTION_RETENTION": timedelta(days=30)}
    Execution.objects.filter(settled_at__isnull=False).update(ages_from=models.F("settled_at"))
    plain = Execution.objects.get(key="k", settled_at__isnull=True)
    multiply(Execution, plain.pk, ROWS)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE effects_execution")
    with CaptureQueriesContext(connection) as captured:
        assert len(list_prunable(100)) == 100
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {captured.captured_queries[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "effects_execution_prunable" in plan
    assert "Seq Scan on effects_execution" not in plan, plan
