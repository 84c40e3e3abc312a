"""The journal's id: who gives it one, and when it may get another."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from effects.conf import settings
from effects.journal.commits import commits, journal
from effects.models import Journal

__all__ = ["name_journal", "name_new_journal"]

#: A journal without a row gets one, unless executions are there: those were named by an id that is lost.
_NAME_NEW = """
INSERT INTO effects_journal (id, is_only, former_ids, since)
SELECT gen_random_uuid(), true, '[]', clock_timestamp()
WHERE NOT EXISTS (SELECT FROM effects_journal) AND NOT EXISTS (SELECT FROM effects_execution)
"""
_NAME = """
INSERT INTO effects_journal AS it (id, is_only, former_ids, since)
VALUES (%s, true, '[]', clock_timestamp())
ON CONFLICT (is_only) DO UPDATE SET
    id = excluded.id, since = excluded.since, former_ids = it.former_ids || to_jsonb(it.id)
WHERE it.id <> excluded.id
"""


def name_new_journal(*, using: str, **_kwargs: Any) -> None:
    """Give an empty journal that has no id a random one: tests may make the tables without migrations.

    A receiver of `post_migrate`. Joins the caller's transaction, if there is one. An id that is there stays, and one
    that is lost while executions are there is not replaced: that is for `effects_journal_id`.
    """
    if using != settings.DATABASE or journal().vendor != "postgresql":
        return
    with journal().cursor() as cursor:
        cursor.execute("SELECT to_regclass('effects_journal'), to_regclass('effects_execution')")
        if None not in cursor.fetchone():
            cursor.execute(_NAME_NEW)


def name_journal(new: UUID) -> Journal:
    """*Commits.* Give the journal this id; the one it had is kept among the former ones, since rows keep their keys.

    What is recorded by then has its provider key already. Repeated with the same id it changes nothing.
    """
    with commits("giving the journal an id"), journal().cursor() as cursor:
        cursor.execute("SET LOCAL effects.journal_id = 'on'")
        cursor.execute(_NAME, [new])
        return Journal.objects.get()
