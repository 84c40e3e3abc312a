"""Watch the statements of a handler on the journal's alias: tell reads from writes.

What an execute wrapper does not see, this does not see: COPY, the driver's own connection, functions that write, other
aliases, other threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from effects._commits import committing
from effects._current import RequestHandle, current
from effects.exceptions import LocalWriteError, MarkedForRollbackError

__all__ = ["ReadOnly", "Watch", "is_broken", "is_read", "marked_for_rollback"]

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
#: Statements that change no row. Savepoints and SET LOCAL belong to blocks that the watched statements are in.
_HARMLESS = ("SAVEPOINT ", "RELEASE ", "ROLLBACK TO ", "SET LOCAL ", "SET CONSTRAINTS ", "SHOW ")
_WRITES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE|INTO)\b")
#: The journal's own tables: `perform_later` writes them in the caller's transaction.
_OURS = re.compile(r"(?:INSERT\s+INTO|UPDATE)\s+\"?effects_", re.IGNORECASE)
#: psycopg's and libpq's PQTRANS_INERROR.
_IN_ERROR = 3


def is_read(sql: object) -> bool:
    """Return whether a statement is plainly a read: one SELECT (also `FOR UPDATE`), or no change at all."""
    text = _LITERAL.sub("''", _COMMENT.sub(" ", _text(sql))).strip().rstrip(";").upper()
    if ";" in text:
        return False
    if text.startswith(_HARMLESS):
        return True
    if text.startswith("SELECT"):
        return "INTO" not in text or re.search(r"\bINTO\b", text) is None
    # a common table expression may hide a write; FOR UPDATE in one is taken for it, which errs on the safe side
    return text.startswith("WITH") and _WRITES.search(text) is None


def is_broken(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the open block can only be rolled back: marked so, or a statement in it failed."""
    if connection.needs_rollback:
        return True
    info = getattr(connection.connection, "info", None)
    return info is not None and int(info.transaction_status) == _IN_ERROR


def marked_for_rollback() -> MarkedForRollbackError:
    """Return the error for a success that stands on rows which cannot be committed."""
    return MarkedForRollbackError(
        "The view answered with success, but a database error that it caught, or set_rollback(True), has marked its "
        "transaction for rollback: the rows would be missing. Catch database errors around a block of their own, "
        "`with transaction.atomic(): …`, or answer with an error."
    )


class Watch:
    """Remembers whether the handler wrote."""

    def __init__(self) -> None:
        self.wrote = False

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Pass a statement on."""
        if not self.wrote and current() is not None and not is_read(sql):
            self.wrote = True
        return execute(sql, params, many, context)


class ReadOnly:
    """Refuses writes of a declared journaled view outside of `finishing()`; the library's own pass."""

    def __init__(self, handle: RequestHandle) -> None:
        self.handle = handle

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Pass a statement on, or refuse it.

        Raises:
            LocalWriteError: with the fix.
        """
        if current() is self.handle and not committing() and not is_read(sql) and not _OURS.match(_text(sql)):
            raise LocalWriteError(
                f"The view {self.handle.operation.name!r} declares performs= and writes outside of finishing(): "
                f"{_text(sql)[:120]!r}. After a crash such a row would stand without its effect, or be written twice. "
                "Write it in the effect's settled(), or in `with effects.current().finishing():`, or give the view "
                "local_writes=True, which gives up that its key is freed where nothing was sent."
            )
        return execute(sql, params, many, context)


def _text(sql: object) -> str:
    if isinstance(sql, str):
        return sql
    if isinstance(sql, bytes):
        return sql.decode("utf-8", "replace")
    return str(sql.as_string(None)) if hasattr(sql, "as_string") else str(sql)
