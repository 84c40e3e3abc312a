"""`commits()`: a transaction whose commit is the point, proven before anybody acts on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS, DatabaseError, Error, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from effects._faults import commit_point, reach
from effects._logs import get_logger
from effects.conf import settings
from effects.exceptions import (
    CommitLostError,
    CommitUnknownError,
    JournalUnavailableError,
    MarkedForRollbackError,
    OpenTransactionError,
)

__all__ = [
    "after_commit",
    "commits",
    "committing",
    "inside_transaction",
    "journal",
    "note_xid",
    "reaching",
    "refuse_open_transactions",
]

log = get_logger("effects.commits")

#: How long the fate of a lost COMMIT is asked for: longer than a backend needs to finish one.
SETTLE_SECONDS = 10.0


@dataclass
class _Commit:
    """The transaction that `commits()` has open in this thread."""

    xid: str | None = None


_current: ContextVar[_Commit | None] = ContextVar("effects_commit", default=None)


def journal() -> BaseDatabaseWrapper:
    """Return this thread's connection to the journal."""
    return connections[settings.DATABASE]


def is_beside() -> bool:
    """Return whether the journal is another database than the project's own: no commit holds for both."""
    return settings.DATABASE != DEFAULT_DB_ALIAS


def committing() -> bool:
    """Return whether a `commits()` block is open in this thread or task."""
    return _current.get() is not None


def note_xid(xid: str | None) -> None:
    """Remember the transaction's id, so that the fate of a lost COMMIT can be asked for."""
    commit = _current.get()
    if commit is not None and xid:
        commit.xid = xid


def inside_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether `connection` is in an atomic block that is not a test case's own."""
    return connection.in_atomic_block and not all(
        getattr(block, "_from_testcase", False) for block in connection.atomic_blocks
    )


def refuse_open_transactions(what: str) -> None:
    """Refuse to go on inside a transaction of any alias, or with autocommit off.

    Raises:
        OpenTransactionError: `atomic(durable=True)` alone sees neither another alias nor autocommit.
    """
    for connection in connections.all(initialized_only=True):
        if inside_transaction(connection):
            raise OpenTransactionError(
                f"{what} inside an open transaction (database {connection.alias!r}): its record could be rolled back "
                "after the call. Call it outside of atomic(), or use effects.perform_later, which joins the "
                "transaction and is sent after its commit. Under ATOMIC_REQUESTS, put @transaction.non_atomic_requests "
                "on the view."
            )
        if not connection.in_atomic_block and not _autocommits(connection):
            raise OpenTransactionError(
                f"{what} with autocommit off (database {connection.alias!r}): nothing would be committed before the "
                "call. Remove AUTOCOMMIT=False, or set_autocommit(True) first."
            )


@contextmanager
def commits(what: str = "recording an effect", *, foreign: bool = False) -> Iterator[None]:
    """Run the block in a transaction of the journal; when it is left without an error, it has been committed.

    A COMMIT whose reply was lost is settled by `pg_xact_status` (PostgreSQL, "Transaction ID and Snapshot Information
    Functions") on a new connection: a plain SELECT can miss a commit in progress.

    What waits for the commit (`transaction.on_commit`) runs once it is proven; its errors are logged, never raised: the
    block has been committed, and whoever opened it must go on.

    Args:
        what: what it is for, in errors and in the names of its fault points.
        foreign: the block runs a handler, whose own database errors (a lock timeout, a deadlock) are not the journal's.

    Raises:
        OpenTransactionError: a transaction is open already.
        MarkedForRollbackError: the block ended normally, but was marked for rollback.
        CommitLostError: nothing was committed; it may be tried again.
        CommitUnknownError: nobody can say; act as if nothing was committed, and expect that it was.
        JournalUnavailableError: the database could not be reached before the COMMIT, or was too busy for it.
    """
    connection = journal()
    refuse_open_transactions(what)
    commit, finished = _Commit(), False
    hooks: list[Callable[[], None]] = []
    outer = _current.get()
    _current.set(commit)
    try:
        with transaction.atomic(using=connection.alias, durable=True):
            yield
            if connection.needs_rollback:
                raise MarkedForRollbackError(
                    f"{what}: the transaction was marked for rollback by a database error or set_rollback(True), so "
                    "nothing of it is committed. Catch database errors inside a nested atomic()."
                )
            reach(commit_point(what, "before"))
            hooks = _take_hooks(connection)
            finished = True
    except Error as error:
        # an OperationalError of COMMIT itself (a full disk) is settled too; a violated constraint says what it is
        if not _is_connection_failure(error) and not (finished and isinstance(error, OperationalError)):
            if foreign or not isinstance(error, OperationalError):
                raise
            raise JournalUnavailableError(f"{what}: the journal's database refused: {error}") from error
        connection.close()
        if not finished:
            raise JournalUnavailableError(f"The journal's database cannot be reached: {error}") from error
        _settle(commit, error)
    finally:
        # not by a token: in an async handler the block is left in another context than it was entered in
        _current.set(outer)
    reach(commit_point(what, "after"))
    for hook in hooks:
        _run_hook(hook)


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Say of the journal's own statements outside of `commits()` that it is out of reach, or too busy.

    Raises:
        JournalUnavailableError: a connection that broke, a lock timeout, a statement that took too long.
    """
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise JournalUnavailableError(f"{what}: the journal's database refused: {error}") from error


def after_commit(hint: Callable[[], None]) -> None:
    """Call `hint` once the running transaction has committed; its errors are logged, never raised."""

    def careful() -> None:  # Django's robust=True cannot log a functools.partial, which has no __qualname__
        _run_hook(hint)

    transaction.on_commit(careful, using=settings.DATABASE)


def _autocommits(connection: BaseDatabaseWrapper) -> bool:
    """Return whether `connection` is in autocommit mode, or will be once it is opened."""
    if connection.connection is None:
        return bool(connection.settings_dict["AUTOCOMMIT"])
    return connection.autocommit


def _take_hooks(connection: BaseDatabaseWrapper) -> list[Callable[[], None]]:
    """Take over what waits for the COMMIT: Django would drop it with a broken connection, though it was committed."""
    if len(connection.atomic_blocks) > 1:
        return []  # a test case's own block encloses ours: nothing is committed, and the test asks for its hooks
    hooks = [entry[1] for entry in connection.run_on_commit]
    connection.run_on_commit = []
    return hooks


def _run_hook(hook: Callable[[], None]) -> None:
    try:
        hook()
    except Exception:  # an observer's or the project's: the commit has happened
        log.exception("%r failed after the commit.", hook)


#: Read-only (a former primary), and connections that the server closed for being idle or long in a transaction.
_GONE = frozenset({"25006", "25P03", "25P04"})


def _is_connection_failure(error: Exception) -> bool:
    """Return whether the connection is gone, as against a statement that failed (a lock timeout, say)."""
    state = getattr(error.__cause__, "sqlstate", None)
    if state is None:
        return isinstance(error, (OperationalError, InterfaceError))  # the socket broke
    # class 08: connection exception; 57P: the server goes down
    return state.startswith(("08", "57P")) or state in _GONE


def _settle(commit: _Commit, error: Exception) -> None:
    """Find out what became of a COMMIT without an answer.

    Raises:
        CommitLostError: rolled back.
        CommitUnknownError: nobody can say.
    """
    if commit.xid is None:
        raise CommitUnknownError(f"COMMIT failed and the transaction has no known id: {error}") from error
    deadline = time.monotonic() + SETTLE_SECONDS
    status = None
    while time.monotonic() < deadline:
        try:
            with journal().cursor() as cursor:
                cursor.execute("SELECT pg_xact_status(%s::xid8)", [commit.xid])
                status = cursor.fetchone()[0]
        except (OperationalError, InterfaceError):
            journal().close()
            status = "unreachable"
        except DatabaseError:  # an id of the future: another server, which never heard of the transaction
            break
        if status == "committed":
            return
        if status == "aborted":
            raise CommitLostError(f"COMMIT failed and the transaction was rolled back: {error}") from error
        if status is None:
            break
        # the old backend may still be committing, or the server restarting; there is no event to wait for
        time.sleep(0.05)
    raise CommitUnknownError(
        f"COMMIT got no answer and the database does not say what became of it: {error}"
    ) from error
