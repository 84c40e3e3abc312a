"""Async views of Django: the journal's work in a thread, the handler on its own event loop.

The thread that opens the request waits while the handler runs, and does the handler's thread-sensitive `sync_to_async`
calls meanwhile: `aperform`, the async ORM, `finishing()`. So they share one connection, the read-only rule sees them,
and what such a call has begun it ends before the request is closed. Under ASGI it is the request's own thread, which
Django keeps for it anyway.

A cancellation (the client hung up, the server stops) reaches the handler alone, never the recording.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.http.response import HttpResponseBase

from effects.journal.current import current
from effects.journal.logs import get_logger

__all__ = ["Handler", "refuse_rest_framework", "shielded"]

log = get_logger("effects.http")
T = TypeVar("T")


class Handler:
    """An async view, as the thread sees it that records its request."""

    def __init__(self, view: Callable[[], Awaitable[HttpResponseBase]]) -> None:
        self.view = view
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def run(self) -> HttpResponseBase:
        """Run the view on the request's event loop, and wait for it.

        Raises:
            CancelledError: it was cancelled.
        """
        return async_to_sync(self._run)()

    def cancel(self) -> None:
        """Cancel the view, on its event loop; one that has not begun never does."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> HttpResponseBase:
        if self._cancelled:
            handle = current()
            if handle is not None:
                handle.release()  # even an opaque view did nothing: it was not called
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            return await self.view()
        finally:
            self._task = None


async def shielded(work: Callable[[], T], handler: Handler) -> T:
    """Run `work` in the request's thread to its end; a cancellation goes to the handler and then on.

    Raises:
        CancelledError: somebody cancelled; what `work` had to record is recorded.
    """
    done = asyncio.ensure_future(sync_to_async(work, thread_sensitive=True)())
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError as error:  # noqa: PERF203 - a server that stops may cancel again and again
            cancelled = error
            handler.cancel()
    if cancelled is None:
        return done.result()
    if not done.cancelled() and done.exception() is not None:
        log.error("A cancelled request ended with an error.", exc_info=done.exception())
    raise cancelled


def refuse_rest_framework(operation: str) -> NoReturn:
    """Refuse an async method of a view that is not Django's own.

    Raises:
        ImproperlyConfigured: with the fix.
    """
    raise ImproperlyConfigured(
        f"@idempotent({operation!r}) on an async method of REST framework, which awaits nothing. Make it a plain "
        "`def`, or a plain Django view: `async def view(request): …`."
    )
