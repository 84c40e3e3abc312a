"""Fixtures of the stories: people, senders of requests, and the ledger of a provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.core.conftest import no_hook_calls, pg_proxy
from tests.http.conftest import approver, atomic_requests, in_thread, protected_views, send, user
from tests.scenarios import bank

__all__ = ["approver", "atomic_requests", "in_thread", "no_hook_calls", "pg_proxy", "protected_views", "send", "user"]


@pytest.fixture
def ledger() -> Iterator[bank.Ledger]:
    """A provider that keeps its own books, empty."""
    yield from bank.opened()
