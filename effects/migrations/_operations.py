"""What the first migration does beyond tables: refuse other databases, and make receipts append-only."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.migrations import RunPython, RunSQL

MINIMUM_VERSION = 14


def refuse_other_databases() -> RunPython:
    """Return the operation that stops on anything but PostgreSQL 14 or newer, before a table is made."""
    return RunPython(_refuse, RunPython.noop, elidable=False)


def _refuse(_apps: Any, editor: Any) -> None:
    connection = editor.connection
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"django-effects keeps its journal in PostgreSQL {MINIMUM_VERSION} or newer, and the database "
            f"{connection.alias!r} is {connection.vendor}; name the alias of a PostgreSQL in EFFECTS['DATABASE']."
        )
    version = connection.pg_version // 10000
    if version < MINIMUM_VERSION:
        raise ImproperlyConfigured(
            f"django-effects needs PostgreSQL {MINIMUM_VERSION} or newer, and the database {connection.alias!r} is "
            f"PostgreSQL {version}; upgrade it, or name another alias in EFFECTS['DATABASE']."
        )


#: Retention alone passes: `SET LOCAL effects.retention = 'on'`. TRUNCATE is allowed, for test flushes.
APPEND_ONLY = """
CREATE FUNCTION effects_receipt_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('effects.retention', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'effects receipts are append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER effects_receipt_append_only BEFORE UPDATE OR DELETE ON effects_receipt
    FOR EACH ROW EXECUTE FUNCTION effects_receipt_append_only();
"""
DROP_APPEND_ONLY = """
DROP TRIGGER IF EXISTS effects_receipt_append_only ON effects_receipt;
DROP FUNCTION IF EXISTS effects_receipt_append_only();
"""


def append_only_receipts() -> RunSQL:
    """Return the operation that makes the database refuse UPDATE and DELETE on receipts."""
    return RunSQL(APPEND_ONLY, DROP_APPEND_ONLY)
