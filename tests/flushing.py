"""A fast flush between transactional tests.

Django's own TRUNCATEs every table and makes content types and permissions anew: 0.6 s a test on two busy cores, ten
minutes over the suite. The tables hold a handful of rows, so deleting those takes some ten milliseconds. The rules of
the database (append-only receipts, foreign keys) are off for this one statement, as they are for TRUNCATE.
"""

from __future__ import annotations

from functools import cache

from django.db import connections
from django.test import TransactionTestCase

__all__ = ["install"]

#: Made by migrations, never by tests.
KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission", "effects_journal"})

_by_truncation = TransactionTestCase._fixture_teardown


def install() -> None:
    """Let transactional tests end with the fast flush, where the test database's user may do that."""
    TransactionTestCase._fixture_teardown = _fixture_teardown


def _fixture_teardown(case: TransactionTestCase) -> None:
    for alias in case._databases_names(include_mirrors=False):
        statement = _statement(alias)
        if statement is None or case.available_apps is not None or case.reset_sequences:
            _by_truncation(case)
            return
        with connections[alias].cursor() as cursor:
            cursor.execute(statement)


@cache
def _statement(alias: str) -> str | None:
    """Return the one statement that empties the tables; None where this user may not switch the rules off."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        if not cursor.fetchone()[0]:
            return None
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    deletes = " ".join(f'DELETE FROM "{table}";' for table in tables)
    return f"BEGIN; SET LOCAL session_replication_role = replica; {deletes} COMMIT;"
