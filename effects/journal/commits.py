"""`commits()`: a transaction whose commit is the point, proven before anybody acts on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from django.apps import apps
from django.core.exceptions import SynchronousOnlyOperation
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    Error,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from effects.conf import settings
from effects.journal.faults import commit_point, reach
from effects.journal.logs import get_logger
from effects.vocabulary.exceptions import (
    CommitLostError,
    CommitUnknownError,
    EffectsError,
    JournalNotMigratedError,
    JournalUnavailableError,
    MarkedForRollbackError,
    OpenTransactionError,
)
from effects.vocabulary.foreign import is_interrupt, no_try

__all__ = [
    "after_commit",
    "commits",
    "committing",
    "inside_transaction",
    "journal",
    "journal_place",
    "leave_blocks",
    "note_xid",
    "reaching",
    "refuse_open_transactions",
    "start_over",
    "tell",
    "telling",
]

log = get_logger("effects.commits")

#: How long the fate of a lost COMMIT is asked for: longer than a backend needs to finish one.
SETTLE_SECONDS = 10.0


@dataclass
class _Commit:
    """The transaction that `commits()` has open in this thread."""

    xid: str | None = None


_current: ContextVar[_Commit | None] = ContextVar("effects_commit", default=None)


#: PostgreSQL's undefined_table and undefined_column.
_NOT_THERE = ("42P01", "42703")


@dataclass
class _Told:
    """What is said of the execution that the present work is about."""

    may_have_happened: bool = False


_told: ContextVar[_Told | None] = ContextVar("effects_told", default=None)


def journal() -> BaseDatabaseWrapper:
    """Return this thread's connection to the journal."""
    return connections[settings.DATABASE]


def journal_place() -> tuple[str, str]:
    """Return where this thread's journal is: its alias, and the schema where a backend has one for each tenant."""
    connection = journal()
    return connection.alias, str(getattr(connection, "schema_name", None) or "")


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
    waiting = len(connection.run_on_commit)
    outer = _current.get()
    _current.set(commit)
    try:
        with transaction.atomic(using=connection.alias, durable=True):
            depth = len(connection.atomic_blocks)
            with telling():
                yield
            _refuse_rollback(connection, depth, what)
            reach(commit_point(what, "before"))
            hooks = _take_hooks(connection, waiting)
            finished = True
    except Error as error:
        _refuse_unmigrated(error)
        # an OperationalError of COMMIT itself (a full disk) is settled too; a violated constraint says what it is
        if not _is_connection_failure(error) and not (finished and isinstance(error, OperationalError)):
            if foreign or not isinstance(error, OperationalError):
                raise
            raise JournalUnavailableError(f"{what}: the journal's database refused: {error}") from error
        connection.close()
        if not finished:
            raise JournalUnavailableError(f"The journal's database cannot be reached: {error}") from error
        _settle(commit, error)
    except SynchronousOnlyOperation:
        # an event loop began in this thread meanwhile: Django could not even roll back, and would keep our locks
        _drop(connection)
        raise
    finally:
        # not by a token: in an async handler the block is left in another context than it was entered in
        _current.set(outer)
    reach(commit_point(what, "after"))
    with no_try():  # what follows the commit is no part of the write
        for hook in hooks:
            _run_hook(hook)


def _refuse_rollback(connection: BaseDatabaseWrapper, depth: int, what: str) -> None:
    """Refuse to go on to a COMMIT that would commit nothing and not say so."""
    # a block that was left open would turn our COMMIT into the release of a savepoint
    if leave_blocks(connection, depth) or connection.needs_rollback or _is_aborted(connection):
        raise MarkedForRollbackError(
            f"{what}: the transaction was marked for rollback by a database error or set_rollback(True), or a "
            "nested atomic() was left open, so nothing of it is committed. Catch database errors inside a "
            "nested atomic()."
        )


@contextmanager
def telling(may_have_happened: bool = False) -> Iterator[None]:
    """Let each error that leaves the block say of the execution that it is about whether it may have happened.

    An error's class cannot know; the row does. Within `commits()` that is the row that was locked last, as it was then.
    """
    told, outer = _Told(may_have_happened), _told.get()
    _told.set(told)
    try:
        yield
    except EffectsError as error:
        error.effect_may_have_happened = error.effect_may_have_happened or told.may_have_happened
        raise
    finally:
        _told.set(outer)


def tell(may_have_happened: bool) -> None:
    """Say of the execution that the present work is about now whether it may have happened."""
    told = _told.get()
    if told is not None:
        told.may_have_happened = may_have_happened


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Say of the journal's own statements outside of `commits()` that it is out of reach, or too busy.

    Raises:
        JournalUnavailableError: a connection that broke, a lock timeout, a statement that took too long.
    """
    try:
        yield
    except ProgrammingError as error:
        _refuse_unmigrated(error)
        raise
    except (OperationalError, InterfaceError) as error:
        raise JournalUnavailableError(f"{what}: the journal's database refused: {error}") from error


def _refuse_unmigrated(error: Error) -> None:
    """Say which command makes the table or column of ours that a statement did not find."""
    said = str(error).partition("\n")[0].replace('"', "")
    if getattr(error.__cause__, "sqlstate", None) in _NOT_THERE and " effects_" in said:
        add = "" if apps.is_installed("effects") else "Add 'effects' and 'effects_admin' to INSTALLED_APPS. "
        raise JournalNotMigratedError(
            f"The journal's tables in the database {settings.DATABASE!r} are missing or older than this code ({said}). "
            f"{add}Run manage.py migrate effects --database {settings.DATABASE}."
        ) from error


def leave_blocks(connection: BaseDatabaseWrapper, depth: int) -> bool:
    """Roll back the blocks that were entered beyond `depth` and not left; return whether there were any."""
    left_open = len(connection.atomic_blocks) > depth
    error = MarkedForRollbackError("a nested atomic() was left open")
    while len(connection.atomic_blocks) > depth:
        with suppress(Error):
            connection.atomic_blocks[-1].__exit__(type(error), error, None)
    return left_open


def start_over(who: str, *, only_left_open: bool = False) -> None:
    """Take this thread's connections out of the transactions that foreign code left open, and renew the journal's.

    Args:
        who: left them open, for the log.
        only_left_open: the journal's connection is kept where nothing is open on it.
    """
    for connection in connections.all(initialized_only=True):
        if not inside_transaction(connection) and (connection.in_atomic_block or _autocommits(connection)):
            continue
        log.error("%s left a transaction of database %r open; it is rolled back.", who, connection.alias)
        tests = sum(bool(getattr(block, "_from_testcase", False)) for block in connection.atomic_blocks)
        if tests:
            leave_blocks(connection, tests)
        else:
            _drop(connection)
    if not only_left_open and not journal().in_atomic_block:
        _drop(journal())


def after_commit(hint: Callable[[], None], *, observes: bool = False) -> None:
    """Call `hint` once the running transaction has committed; its errors are logged, never raised.

    Args:
        hint: what is called.
        observes: it only tells observers; they hear of what `commits()` ends within a test case's transaction, too.
    """

    def careful() -> None:  # Django's robust=True cannot log a functools.partial, which has no __qualname__
        _run_hook(hint)

    careful.observes = observes  # type: ignore[attr-defined]
    transaction.on_commit(careful, using=settings.DATABASE)


def _autocommits(connection: BaseDatabaseWrapper) -> bool:
    """Return whether `connection` is in autocommit mode, or will be once it is opened."""
    if connection.connection is None:
        return bool(connection.settings_dict["AUTOCOMMIT"])
    return connection.autocommit


def _is_aborted(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a statement failed and the server will answer COMMIT by a ROLLBACK, which is no error."""
    raw = connection.connection
    return raw is not None and raw.info.transaction_status == TransactionStatus.INERROR


def _drop(connection: BaseDatabaseWrapper) -> None:
    """Close a connection past its blocks, which then have nothing to end any more."""
    with suppress(Error):
        if connection.connection is not None:
            connection._close()  # type: ignore[attr-defined]
    connection.connection = None
    connection.in_atomic_block = connection.needs_rollback = connection.closed_in_transaction = False
    connection.atomic_blocks, connection.savepoint_ids, connection.run_on_commit = [], [], []


def _take_hooks(connection: BaseDatabaseWrapper, waiting: int) -> list[Callable[[], None]]:
    """Take over what waits for the COMMIT: Django would drop it with a broken connection, though it was committed."""
    entries, taken = connection.run_on_commit, connection.run_on_commit
    if len(connection.atomic_blocks) > 1:
        # a test case's own block encloses ours: nothing is committed, and the test asks for its hooks
        taken = [entry for entry in entries[waiting:] if getattr(entry[1], "observes", False)]
    connection.run_on_commit = [entry for entry in entries if entry not in taken]
    return [entry[1] for entry in taken]


def _run_hook(hook: Callable[[], None]) -> None:
    try:
        hook()
    except Exception as error:  # an observer's or the project's: the commit has happened
        if is_interrupt(error):
            raise
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
