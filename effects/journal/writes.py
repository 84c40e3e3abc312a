"""Writes around a call: what must be committed before it, and what is known after it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections

from effects.journal.commits import journal, start_over
from effects.journal.logs import get_logger
from effects.vocabulary.canonical import clean_error
from effects.vocabulary.exceptions import CommitLostError, JournalUnavailableError, OpenTransactionError
from effects.vocabulary.foreign import Try, hold_interrupt, is_interrupt, one_try, present_try

__all__ = ["away_from_event_loop", "write_before_send", "write_until_done", "write_with_one_try"]

log = get_logger("effects.writes")
T = TypeVar("T")

#: Waits between two tries to write an outcome while the database is away; the last one repeats.
WRITE_WAITS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)


def write_before_send(write: Callable[[], T]) -> T:
    """Write what must be committed before the call: once more if the database says that nothing was committed."""
    try:
        return write()
    except CommitLostError:
        return write()


def write_until_done(write: Callable[[], T]) -> T:
    """Write what is known after the call, on fresh connections, for as long as this process lives.

    The call is never repeated, and the project's code in the write gets one try. An interrupt, from that code or from
    outside, goes on once the write is committed; while the database is away it gets one more try, and goes on then.
    A transaction that the call left open is rolled back first.
    Inside a test case's transaction there is no fresh connection to hope for.
    """
    start_over("the call", only_left_open=True)
    return _write(write, known=True)


def write_with_one_try(write: Callable[[], T]) -> T:
    """Write what may run the project's code; where that breaks the transaction, once more without it.

    Within `write_until_done` it is part of that one's try.
    """
    return _write(write, known=False)


def away_from_event_loop(work: Callable[[], T]) -> T:
    """Do database work after a call although an event loop runs in this thread, which is then not our caller's.

    Under gevent every greenlet of a thread sees the loop that one of them runs, and Django refuses the database to all
    of them. Such work is done in another thread, on a connection of its own.
    """
    if asyncio._get_running_loop() is None:
        try:
            return work()
        except SynchronousOnlyOperation:  # a loop that began meanwhile
            log.warning("An event loop began in this thread while an outcome was written; a thread writes it.")

    def in_thread() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    carried = contextvars.copy_context()
    patching, gevent = sys.modules.get("gevent.monkey"), sys.modules.get("gevent")
    if patching is not None and gevent is not None and patching.is_module_patched("threading"):
        # a thread of its pool is a real one, and the other greenlets go on while this one waits for it
        result: T = gevent.get_hub().threadpool.apply(carried.run, (in_thread,))
        return result
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(carried.run, in_thread).result()


def _write(write: Callable[[], T], *, known: bool) -> T:
    if present_try() is not None:
        return write()
    with one_try() as tried:
        result = _write_again(write, tried, known=known)
    if tried.interrupt is not None:
        raise tried.interrupt
    return result


def _write_again(write: Callable[[], T], tried: Try, *, known: bool) -> T:
    """Write; where the project's code broke that, again on a new connection, in the end without it."""
    while True:
        alone = tried.left_out
        # a process that is to end does not wait for a database that is away
        patient = known and tried.interrupt is None
        try:
            if not known and not tried.count:
                return write()
            return away_from_event_loop(functools.partial(_patiently, write) if patient else write)
        except BaseException as error:
            # an interrupt from outside must not take a provider's answer along either
            foreign = tried.count > 0 or bool(tried.redacted) or (known and is_interrupt(error))
            # whoever is refused for a transaction of their own keeps it
            if alone or not foreign or isinstance(error, OpenTransactionError):
                if tried.interrupt not in (None, error):
                    raise tried.interrupt from error
                raise
            _blame(tried, error)
        start_over("the project's code")


def _blame(tried: Try, error: BaseException) -> None:
    hold_interrupt(error)
    if tried.finished and isinstance(error, JournalUnavailableError):
        return  # the database was away, or too busy: it may run once more with us
    tried.over = True
    if tried.count:
        tried.error = tried.error or clean_error(error)
        log.error("The project's code broke the transaction that it ran in: %s", tried.error)


def _patiently(write: Callable[[], T]) -> T:
    waits = iter(WRITE_WAITS)
    wait = 0.0
    while True:
        try:
            return write()
        except JournalUnavailableError:  # noqa: PERF203 - away, or too busy: a lock timeout, a full disk
            if journal().in_atomic_block:
                raise
            wait = next(waits, wait)
            log.exception("The outcome cannot be recorded yet; trying again in %s s.", wait)
            journal().close()
            # the database is away and nothing announces its return
            time.sleep(wait)
