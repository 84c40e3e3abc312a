"""Counting what a path costs: queries, and transactions that got an id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext


@dataclass
class Counted:
    """What a block cost."""

    commits: int = 0
    statements: list[str] = field(default_factory=list)

    @property
    def queries(self) -> int:
        return len(self.statements)


@contextmanager
def counted() -> Iterator[Counted]:
    """Count statements other than BEGIN, COMMIT and ROLLBACK, and commits of transactions that got an id.

    The id is asked for just before each COMMIT, past Django, so that the question is not counted itself and assigns
    none. A statement outside of a transaction is a commit of its own unless it is a SELECT.
    """
    cost = Counted()
    connection.ensure_connection()
    commit = connection._commit

    def counting_commit() -> Any:
        row = connection.connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
        cost.commits += row[0] is not None
        return commit()

    def counting_statement(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        cost.commits += not connection.in_atomic_block and not sql.lstrip().upper().startswith("SELECT")
        return execute(sql, params, many, context)

    connection._commit = counting_commit
    try:
        with CaptureQueriesContext(connection) as captured, connection.execute_wrapper(counting_statement):
            yield cost
    finally:
        del connection._commit
    cost.statements = [
        query["sql"] for query in captured.captured_queries if query["sql"] not in ("BEGIN", "COMMIT", "ROLLBACK")
    ]
