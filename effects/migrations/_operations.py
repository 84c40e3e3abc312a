"""What the first migration does beyond tables: refuse other databases, append-only receipts, the journal's id."""

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


#: `SET LOCAL effects.journal_id = 'on'` passes, which `effects_journal_id` alone says. A test's flush truncates every
#: table: the row is put aside before and put back after, in the schema that is truncated, so that the id stays.
KEPT_ID = """
CREATE FUNCTION effects_journal_keeps_id() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    aside text := 'effects.journal_' || TG_RELID;
    kept jsonb;
BEGIN
    IF TG_OP = 'TRUNCATE' AND TG_WHEN = 'BEFORE' THEN
        EXECUTE format('SELECT to_jsonb(it) FROM %I.%I AS it', TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO kept;
        PERFORM set_config(aside, coalesce(kept::text, ''), true);
        RETURN NULL;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        kept := nullif(current_setting(aside, true), '')::jsonb;
        IF kept IS NOT NULL THEN
            EXECUTE format('INSERT INTO %1$I.%2$I SELECT * FROM jsonb_populate_record(NULL::%1$I.%2$I, $1)',
                           TG_TABLE_SCHEMA, TG_TABLE_NAME) USING kept;
        END IF;
        RETURN NULL;
    END IF;
    IF current_setting('effects.journal_id', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        -- what is loaded from a copy of itself changes no id; its instants are cut to milliseconds
        IF NEW.id = OLD.id AND NEW.former_ids = OLD.former_ids THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION 'the journal''s id does not change by itself: % refused; use manage.py effects_journal_id', TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER effects_journal_keeps_id BEFORE UPDATE OR DELETE ON effects_journal
    FOR EACH ROW EXECUTE FUNCTION effects_journal_keeps_id();
CREATE TRIGGER effects_journal_before_truncate BEFORE TRUNCATE ON effects_journal
    FOR EACH STATEMENT EXECUTE FUNCTION effects_journal_keeps_id();
CREATE TRIGGER effects_journal_after_truncate AFTER TRUNCATE ON effects_journal
    FOR EACH STATEMENT EXECUTE FUNCTION effects_journal_keeps_id();
"""
DROP_KEPT_ID = """
DROP TRIGGER IF EXISTS effects_journal_after_truncate ON effects_journal;
DROP TRIGGER IF EXISTS effects_journal_before_truncate ON effects_journal;
DROP TRIGGER IF EXISTS effects_journal_keeps_id ON effects_journal;
DROP FUNCTION IF EXISTS effects_journal_keeps_id();
"""
MADE_ID = """
INSERT INTO effects_journal (id, is_only, former_ids, since)
VALUES (gen_random_uuid(), true, '[]', clock_timestamp());
"""


def journal_id() -> RunSQL:
    """Return the operation that gives the journal of this schema its random id, and makes the database keep it."""
    return RunSQL(KEPT_ID + MADE_ID, DROP_KEPT_ID)
