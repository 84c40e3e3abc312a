"""One change of each column of each table, past the verbs and the database's own rules: found, or known why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.db import connection, models, transaction

import effects
from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.inspection import audit as audits
from effects.inspection.audit import CODES, Scope, audit, notices
from effects.journal import locks
from effects.models import Execution
from effects.sweeps import SWEEPS
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.types import Actor
from tests.audit.columns import COLUMNS, Found, Unknown
from tests.audit.journals import OPENING, damaged, everything, opened, perform
from tests.core.declared import Charge, Ruled
from tests.core.people import approve, asked, person

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = {model.__name__: model for model in apps.get_app_config("effects").get_models()}
CASES = [(model, column) for model, columns in COLUMNS.items() for column in columns]
#: What the database refuses by itself is planted without its rules: the audit sees it all the same.
_RULES = """
SELECT format('ALTER TABLE %%I DROP CONSTRAINT %%I CASCADE', conrelid::regclass, conname) FROM pg_constraint
WHERE contype IN ('c', 'u', 'f') AND conrelid::regclass::text LIKE 'effects\\_%%'
UNION ALL
SELECT format('DROP INDEX IF EXISTS %%I', indexrelid::regclass) FROM pg_index
WHERE indisunique AND NOT indisprimary AND indrelid::regclass::text LIKE 'effects\\_%%'
UNION ALL
SELECT format('ALTER TABLE %%I DISABLE TRIGGER USER', relname) FROM pg_class
WHERE relkind = 'r' AND relname LIKE 'effects\\_%%'
"""
#: Model → SQL of the row that its change is found in, as the audit calls it.
_OWNERS = {
    "Execution": "id", "Request": "id", "Attempt": "execution_id", "Approval": "execution_id",
    "ApprovalVote": "(SELECT execution_id FROM effects_approval WHERE id = approval_id)",
    "Receipt": "COALESCE(execution_id, request_id)", "Resolution": "COALESCE(execution_id, request_id)",
    "RequestExecution": "execution_id", "PendingNotice": "id", "Journal": "NULL", "Heartbeat": "sweep",
}  # fmt: skip

#: Model → the checks that look at its rows, where it is not the one of executions alone.
_BOTH = (audits._EXECUTIONS, audits._REQUESTS)
_LOOKED_AT = {
    "Request": (audits._REQUESTS,), "Receipt": _BOTH, "Resolution": _BOTH, "PendingNotice": notices.CHECKS,
}  # fmt: skip


def test_each_column_of_each_table_is_decided():
    """A new column fails this until somebody says how its change is found, or why nobody can know of it."""
    assert {name: {field.name for field in model._meta.concrete_fields} for name, model in MODELS.items()} == {
        name: set(columns) for name, columns in COLUMNS.items()
    }
    for columns in COLUMNS.values():
        for said in columns.values():
            assert said.code in CODES if isinstance(said, Found) else said.why.endswith(".")


def test_a_change_of_any_column_is_found_in_each_row(
    beating: None, subtests: pytest.Subtests, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    """In whatever state its row is: it is found under its code; of what cannot be known the audit says nothing."""
    _journal(settings, monkeypatch)
    assert _found() == set()
    with _without_rules():
        for model, column in CASES:
            with subtests.test(f"{model}.{column}"):
                _check(model, column)
        assert _found() == set()


@pytest.mark.parametrize(
    "change",
    [
        "effects_execution SET output = '1'",
        "effects_execution SET target = 'c2'",
        "effects_execution SET failure_message = 'no'",
        'effects_execution SET summary = \'{"title": "Charge"}\'',
        "effects_execution SET ages_from = settled_at",
        "effects_execution SET pruned_at = pruned_at - interval '1 second'",
        "effects_execution SET reference = 'ch_9'",
        "effects_execution SET settled_at = settled_at - interval '1 year'",
        "effects_attempt SET message = 'no'",
        "effects_attempt SET deadline = deadline - interval '1 minute'",
        'effects_approval SET summary = \'{"title": "Charge"}\'',
        "effects_approval SET quorum = 0",
        "effects_approvalvote SET comment = 'yes'",
        "effects_approvalvote SET actor_id = 'user:0'",
        "effects_receipt SET actor_id = 'user:0'",
        "effects_receipt SET evidence = evidence || '{\"attempt\": 7}'",
        "effects_receipt SET at = at + interval '1 second'",
    ],
)
def test_what_stays_of_a_tombstone_is_still_compared(change: str, settings: Any):
    """Retention empties words and leaves the rest: a change of the rest is found, and words that come back."""
    approver, row = person("approver"), asked(Ruled, by=person("clerk"), key="pruned")
    with provider_says(Ruled, effects.Applied({"id": "ch"}, "ch_1")):
        approve(row, approver)
        run_due()
    settings.EFFECTS = {"EXECUTION_RETENTION": timedelta(days=1)}
    time_passes(timedelta(days=2))
    assert SWEEPS["prune"].run_once()["executions"] == 1
    assert _found() == set()
    with damaged(f"UPDATE {change}"):
        assert str(row.pk) in {ref for _, ref in _found()}


@pytest.mark.parametrize(
    "at",
    [
        datetime(2031, 3, 30, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2031, 10, 26, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2031, 6, 1, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
    ],
)
def test_an_instant_is_the_same_in_any_zone(at: datetime):
    """In whatever zone the project says until when it expects something, the audit reads what was recorded."""
    perform(Charge, "order", effects.Submitted("or_1", expect_by=at))
    assert _found() == set()


def test_what_claims_to_be_made_later_is_looked_at():
    """A row that is made while the audit reads is the next one's; one of the year after next hides in no audit."""
    ref = perform(Charge, "later", effects.Applied(1, "ch_1"))
    with damaged("UPDATE effects_execution SET created_at = now() + interval '2 years' WHERE id = %s", ref):
        assert ("row_altered", str(ref)) in _found()


def test_what_retention_did_to_requests_is_told():
    """A key that is free and bytes that are gone have their receipts; the same without them is found."""
    dropped, freed = _answered("dropped"), _answered("freed")
    time_passes(timedelta(days=4))
    assert SWEEPS["prune"].run_once()["answers"] == 2
    assert _found() == set()
    for change, code in (
        ("holds_key = false", "row_altered"),
        ("answer_missing = ''", "row_altered"),
        ("answer_body = 'x'", "answer_altered"),
    ):
        with damaged(f"UPDATE effects_request SET {change} WHERE id = %s", dropped):
            assert (code, str(dropped)) in _found()
    time_passes(timedelta(days=40))
    assert SWEEPS["prune"].run_once()["keys"] == 2
    assert _found() == set()
    with damaged("UPDATE effects_request SET holds_key = true WHERE id = %s", freed):
        assert ("row_altered", str(freed)) in _found()


@pytest.mark.parametrize("ends", [transitions.freeze, None])
def test_a_request_in_its_handlers_own_transaction_is_sound(ends: Any):
    """Opened and answered in one commit, or opened and cut short, it is as its receipts tell."""
    with transaction.atomic():
        row = transitions.open_request(replace(OPENING, key="one commit"), joins=True)
        if ends is not None:
            ends(row, StoredAnswer(201, (("Location", "/x"),), b"{}", 2))
    assert _found() == set()


@pytest.mark.parametrize("change", ["answer_body = NULL", "answer_body = NULL, answer_missing = 'expired'"])
def test_bytes_that_retention_did_not_drop_are_missed(change: str):
    """An answer that is gone before its time is found, whatever the row says of it."""
    request = _answered("gone")
    with damaged(f"UPDATE effects_request SET {change}"):
        assert ("answer_altered", str(request)) in _found()


def _answered(key: str) -> Any:
    handle = opened(key)
    transitions.conclude(handle.id, epoch=handle.epoch, answer=StoredAnswer(201, (), b"{}", 2))
    return handle.id


def _check(model: str, column: str) -> None:
    said, table = COLUMNS[model][column], MODELS[model]._meta.db_table
    field = MODELS[model]._meta.get_field(column)
    unless = said.unless if isinstance(said, Found) else ""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT {_OWNERS[model]}::text FROM {table} WHERE NOT ({unless or 'false'})")
        owners = {owner for (owner,) in cursor.fetchall()}
        assert owners, "no row of the journal shows it"
        cursor.execute(f"UPDATE {table} SET {field.column} = {_other(field)} WHERE NOT ({unless or 'false'})")
        assert cursor.rowcount > 0
        found = _found() if isinstance(said, Unknown) else _found_by(said, model)
        transaction.set_rollback(True)
    if isinstance(said, Unknown):
        assert found == set()
    elif field.primary_key or owners == {None}:
        assert said.code in {code for code, _ in found}
    else:
        refs = {ref for code, ref in found if code in (said.code, said.also)}
        assert owners <= refs, f"not found in {len(owners - refs)} of {len(owners)}"


def _other(field: Any) -> str:
    """Return SQL for another value of a column, whatever it holds."""
    name = field.column
    if field.is_relation:
        table, ours = field.related_model._meta.db_table, f"{field.model._meta.db_table}.{name}"
        return f"(SELECT id FROM {table} AS other WHERE other.id IS DISTINCT FROM {ours} LIMIT 1)"
    return {
        models.UUIDField: "gen_random_uuid()",
        models.BooleanField: f"NOT {name}",
        models.DateTimeField: f"COALESCE({name}, now()) + interval '3 years'",
        models.DurationField: f"{name} + interval '1 hour'",
        models.JSONField: "'[\"planted\"]'::jsonb",
        models.BinaryField: f"COALESCE({name}, '') || 'x'::bytea",
        models.TextField: f"CASE WHEN {name} LIKE 'x%%' THEN 'y' ELSE 'x' END || COALESCE(substr({name}, 2), '')",
        models.CharField: f"CASE WHEN {name} LIKE 'x%%' THEN 'y' ELSE 'x' END || substr({name}, 2)",
    }.get(type(field), f"COALESCE({name}, 0) + 1000")


def _found_by(said: Found, model: str) -> set[tuple[str, str]]:
    """Return what the checks find that look at whole rows; what is found by none of them takes the whole audit."""
    if said.code == "heartbeat_ahead":
        return _found()
    scope, checks = Scope(locks.now()), _LOOKED_AT.get(model, (audits._EXECUTIONS,))
    looked = [check.examine(list(check.rows(scope)), Counter()) for check in checks]
    return {(one.code, one.ref) for found in looked for one in found}


def _found() -> set[tuple[str, str]]:
    return {(one.code, one.ref) for one in audit(Scope(locks.now()), Counter())}


@contextmanager
def _without_rules() -> Iterator[None]:
    """Let anything be written, in a transaction that is rolled back with the rules that it dropped."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(_RULES.replace("%%", "%"))
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)
        yield
        transaction.set_rollback(True)


def _journal(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write one of everything, with people's decisions, notices and hooks that failed."""
    settings.EFFECTS = {"NOTIFY": "tests.audit.test_columns.notify"}
    _resolve(perform(Charge, "for a person", TimeoutError))
    everything()
    request = opened("cut short")
    transitions.doubt_request_since(request.id, since=locks.now() - timedelta(hours=1), until=locks.now())
    transitions.resolve_request(
        request.id, decision="applied", revision=2, decision_id="d1", actor=Actor("user:9", "nine"), reason="I saw it",
        answer=StoredAnswer(200, (), b"seen"),
    )  # fmt: skip
    opened("running")
    asked(Ruled, by=person("second clerk"), key="noticed")
    with monkeypatch.context() as broken:
        broken.setattr(Charge, "settled", _fail)
        perform(Charge, "its hook fails", effects.Applied(1, "ch_7"))
    for sweep in SWEEPS.values():
        sweep.run_once()


def _resolve(ref: Any) -> None:
    row = Execution.objects.get(pk=ref)
    time_passes(timedelta(minutes=10))
    transitions.resolve(
        ref, decision="not_applied", revision=row.revision, decision_id="d2", actor=Actor("user:9", "nine"),
        reason="not in the ledger", evidence={"page": 4},
    )  # fmt: skip


def _fail(*_arguments: Any) -> None:
    raise RuntimeError("the project's rows cannot be written")


def notify(notice: Any) -> None:
    """Fail, so that what people are to be told waits."""
    raise RuntimeError("nobody is there")
