"""Keep the transaction of a test case usable where REST framework marks every open block for rollback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from effects.journal.commits import inside_transaction

__all__ = ["unmarked_test_blocks"]


@contextmanager
def unmarked_test_blocks() -> Iterator[None]:
    """Undo marks that the block leaves on transactions of a test case alone.

    REST framework's exception handler calls `set_rollback()` on each alias with ATOMIC_REQUESTS that is in an atomic
    block. A protected method is in none of its own, but inside of Django's TestCase it meets the test's.
    """
    ours = [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block and not inside_transaction(connection) and not connection.needs_rollback
    ]
    try:
        yield
    finally:
        for connection in ours:
            if connection.in_atomic_block:
                connection.set_rollback(False)
