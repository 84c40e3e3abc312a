"""Threads that meet at a barrier, and connections that hold a row while another one waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

#: Longer than anything here takes; a test that needs it has failed.
PATIENCE = 20.0


class OnSend(list):  # type: ignore[type-arg]
    """Takes the place of a script's `sends`, and calls back when the provider is called, before it answers."""

    def __init__(self, callback: Callable[[], object]) -> None:
        super().__init__()
        self.callback = callback

    def append(self, item: Any) -> None:
        super().append(item)
        self.callback()


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at one instant, each in a thread and on a connection of its own; return results or exceptions."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(index: int, call: Callable[[], Any]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(PATIENCE)
            results[index] = call()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            results[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index, call)) for index, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return results


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Start a call on a connection of its own; its result, or exception, is the list's only item in the end."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(call())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            result.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, result


@contextmanager
def second_connection() -> Iterator[psycopg.Connection[Any]]:
    """A connection past Django, in a transaction that ends with the block."""
    connection.ensure_connection()
    parameters = connection.get_connection_params()
    known = {name: parameters[name] for name in ("dbname", "user", "password", "host", "port") if name in parameters}
    with psycopg.connect(**known) as second:
        yield second


@contextmanager
def held(table: str, row_id: Any) -> Iterator[psycopg.Connection[Any]]:
    """Hold a row from a second connection until the block ends."""
    with second_connection() as second:
        second.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR UPDATE", [row_id])  # type: ignore[arg-type]
        yield second


def wait_until_blocked(count: int = 1) -> None:
    """Return once `count` connections to this database wait for a lock."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            if cursor.fetchone()[0] >= count:
                return
    raise AssertionError(f"nobody waits: expected {count}")
