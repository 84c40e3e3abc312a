"""Watch the statements of a handler on the journal's alias: tell reads from writes.

What an execute wrapper does not see, this does not see: COPY, the driver's own connection, functions that write, other
aliases, other threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from effects.journal.commits import committing
from effects.journal.current import RequestHandle, current
from effects.journal.statements import is_cache_write, is_read, text_of, why_no_read
from effects.vocabulary.exceptions import LocalWriteError, MarkedForRollbackError

__all__ = ["ReadOnly", "Watch", "is_broken", "is_read", "marked_for_rollback"]

#: psycopg's and libpq's PQTRANS_INERROR.
_IN_ERROR = 3


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
            self.wrote = not is_cache_write(sql, context["connection"])
        return execute(sql, params, many, context)


class ReadOnly:
    """Refuses writes of a declared journaled view outside of `finishing()`; the library's own commit by themselves."""

    def __init__(self, handle: RequestHandle) -> None:
        self.handle = handle

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Pass a statement on, or refuse it.

        Raises:
            LocalWriteError: with the fix.
        """
        refused = current() is self.handle and not committing() and (why := why_no_read(sql))
        if refused and not is_cache_write(sql, context["connection"]):
            raise LocalWriteError(
                f"The view {self.handle.operation.name!r} declares performs= and {why} outside of finishing(): "
                f"{text_of(sql)[:120]!r}. After a crash such a row would stand without its effect, or be written "
                "twice. Write it in the effect's settled(), or in `with effects.current().finishing():`, or give the "
                "view local_writes=True, which gives up that its key is freed where nothing was sent."
            )
        return execute(sql, params, many, context)
