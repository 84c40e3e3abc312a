"""Fixtures of the core's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from effects.testing.provider import provider_says
from tests.core.declared import hook_calls
from tests.core.pg_proxy import PgProxy

__all__ = ["provider_says"]


@pytest.fixture(autouse=True)
def no_hook_calls() -> Iterator[list[tuple[str, str]]]:
    """What the settled hooks of `declared` were told in this test."""
    hook_calls.clear()
    yield hook_calls
    hook_calls.clear()


@pytest.fixture
def pg_proxy(transactional_db: Any) -> Iterator[PgProxy]:
    """A proxy that every new connection of Django goes through."""
    address = connections.settings["default"]
    real = {name: address[name] for name in ("HOST", "PORT", "OPTIONS")}
    proxy = PgProxy(real["HOST"], int(real["PORT"] or 5432))
    connection.close()
    # without TLS the proxy can read what goes through it
    address.update(HOST="127.0.0.1", PORT=proxy.port, OPTIONS={**real["OPTIONS"], "sslmode": "disable"})
    try:
        yield proxy
    finally:
        connection.close()
        address.update(real)
        proxy.close()
