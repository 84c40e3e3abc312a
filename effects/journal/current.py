"""The request that this thread or task works for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from uuid import UUID

from asgiref.sync import sync_to_async

from effects.declarations.operations import ProtectedOperation
from effects.journal.commits import commits, inside_transaction, is_beside, journal
from effects.vocabulary.exceptions import JournalBesideError, OpenTransactionError, UndeclaredEffectError
from effects.vocabulary.types import Actor

__all__ = ["Finishing", "RequestHandle", "current", "in_request", "without_request"]


class RequestHandle:
    """A running request, as its handler sees it: `effects.current()`.

    Not a row and not thread-safe: it belongs to the handler's own thread or task.
    """

    def __init__(
        self,
        *,
        id: UUID,  # noqa: A002
        epoch: int,
        operation: ProtectedOperation,
        tenant: str,
        subject: str,
        actor: Actor | None,
    ) -> None:
        self.id, self.epoch, self.operation = id, epoch, operation
        self.tenant, self.subject, self.actor = tenant, subject, actor
        self.performed = 0
        self.wants_release = False
        self.frozen_status: int | None = None
        self.wants_freeze = False
        self.block: AbstractContextManager[None] | None = None

    @property
    def ref(self) -> str:
        """The public operation_ref."""
        return str(self.id)

    def finishing(self) -> Finishing:
        """Write the handler's own rows; they commit together with the frozen answer. Async views: `async with`.

        Leaving the block does not commit yet: the decorator commits rows and answer after rendering. An exception
        inside undoes the rows.

        Raises:
            OpenTransactionError: on entering. A transaction is open already, or the view is transactional (write there
                directly).
            JournalBesideError: on entering. The journal is another database than the project's.
        """
        return Finishing(self)

    def open(self) -> None:
        """Open the transaction of `finishing()`.

        Raises:
            OpenTransactionError, JournalBesideError: as there.
        """
        if is_beside():
            raise JournalBesideError(
                "finishing() commits your rows together with the answer, and the journal is another database. Write "
                "them in the effect's settled(), keyed by context.ref."
            )
        if self.operation.mode == "transactional":
            raise OpenTransactionError("A transactional view commits its rows with its answer; leave finishing() out.")
        if self.block is not None or inside_transaction(journal()):
            raise OpenTransactionError(
                "finishing() opens the handler's last transaction, once and outside of atomic()."
            )
        block = commits("finishing a request", foreign=True)
        block.__enter__()
        self.block = block

    def close(self, error: BaseException | None = None) -> None:
        """Commit the open `finishing()` block, or undo it where there was an error.

        Raises:
            JournalUnavailableError: as `commits()`; whether the rows are there is then what it says.
        """
        block, self.block = self.block, None
        if block is None:
            return
        try:
            block.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except BaseException as raised:
            if raised is not error:
                raise

    def freeze(self, status: int | None = None) -> None:
        """Store the answer whatever its status is; with `status`, only if it has that one."""
        self.wants_freeze, self.frozen_status = True, status

    def release(self) -> None:
        """Say that nothing was sent and no answer is worth keeping, so that the key may be used again."""
        self.wants_release = True

    def check_declared(self, operation: str) -> None:
        """Refuse an effect that the view's `performs=` does not name.

        Raises:
            UndeclaredEffectError: with the fix.
        """
        declared = self.operation.performs
        if declared is not None and operation not in declared:
            raise UndeclaredEffectError(
                f"The view {self.operation.name!r} declares performs={list(declared)} and performs {operation!r}: add "
                "the effect to performs=, or what becomes of the request after a crash is decided without it."
            )


class Finishing:
    """The block of `RequestHandle.finishing()`, with and without `async`."""

    def __init__(self, handle: RequestHandle) -> None:
        self._handle = handle

    def __enter__(self) -> None:
        """Open the transaction.

        Raises:
            OpenTransactionError: as `finishing()`, and in async code, where it would be another thread's.
        """
        if _in_event_loop():
            raise OpenTransactionError("In an async view write `async with effects.current().finishing():`.")
        self._handle.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Undo the rows where there was an error; otherwise the decorator commits them."""
        if error is not None:
            self._handle.close(error)

    async def __aenter__(self) -> None:
        """Open the transaction in the thread that runs the handler's `sync_to_async` calls and records its answer."""
        await sync_to_async(self._handle.open, thread_sensitive=True)()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Undo the rows where there was an error."""
        if error is not None:
            await sync_to_async(self._handle.close, thread_sensitive=True)(error)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_handle: ContextVar[RequestHandle | None] = ContextVar("effects_request", default=None)


def current() -> RequestHandle | None:
    """Return the handle of the protected request that runs here; None outside of a handler, and in hooks."""
    return _handle.get()


@contextmanager
def in_request(handle: RequestHandle | None) -> Iterator[None]:
    """Run the block as a part of a request's handler."""
    token = _handle.set(handle)
    try:
        yield
    finally:
        _handle.reset(token)


def without_request() -> AbstractContextManager[None]:
    """Run the block outside of any request: hooks belong to the execution, not to who happened to settle it."""
    return in_request(None)
