"""The shop, its provider's ledger, and the web servers of the rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import connection
from django.urls import clear_url_caches

from effects import audit
from effects._locks import now
from project.services.processes import Processes
from tests.crash import provider
from tests.http.rows import server, shop
from tests.http.rows.server import PASSWORD, Server

#: What a test leaves undone is late, and no fault of the journal.
_LATE = {"lease_overrun", "overdue", "approval_overdue", "hook_overdue", "sweep_stopped"}


class Ledger:
    """What has happened, seen from outside: the provider's own books, and the rows that are committed."""

    def __init__(self, database: psycopg.Connection[Any]) -> None:
        self._database = database

    def applied(self) -> int:
        """Count what the provider has carried out."""
        return len(provider.ask("books")["applied"])

    def rows(self) -> int:
        """Count the rows that handlers have written, by a connection that Django knows nothing of."""
        found = self._database.execute("SELECT count(*) FROM auth_group WHERE name NOT LIKE 'paid %'").fetchone()
        return int(found[0]) if found else 0

    def of(self, kind: str) -> int:
        """Count the effects of a kind of view."""
        return self.rows() if kind == "transactional" else self.applied()


@pytest.fixture
def protected_views(settings: Any, transactional_db: None, provider_process: str) -> Iterator[None]:
    """The shop, and a provider without trouble; at the end the audit finds nothing in the journal."""
    settings.ROOT_URLCONF = "tests.http.rows.shop"
    settings.EFFECTS = {"DISPATCH": "none"}
    clear_url_caches()
    provider.ask("reset", deduplicates=False, lag=0.0, trouble="")
    shop.seen.clear()
    yield
    provider.ask("release")
    found = [each for each in audit.audit(audit.Scope(now()), Counter()) if each.code not in _LATE]
    assert not found


@pytest.fixture
def ledger(protected_views: None) -> Iterator[Ledger]:
    """What has happened, seen from outside."""
    known = connection.get_connection_params()
    names = {name: known[name] for name in ("dbname", "user", "password", "host", "port") if known.get(name)}
    with psycopg.connect(**names, autocommit=True) as database:
        yield Ledger(database)


@pytest.fixture(scope="session")
def _servers(processes: Processes, provider_process: str, django_db_setup: None) -> Iterator[dict[bool, Server]]:
    found: dict[bool, Server] = {}
    yield found
    for each in found.values():
        processes.stop_one(each.process)


@pytest.fixture
def live(
    protected_views: None, user: User, atomic_requests: bool, processes: Processes, _servers: dict[bool, Server]
) -> Server:
    """A gunicorn with four workers, as the test's ATOMIC_REQUESTS has it."""
    user.password = make_password(PASSWORD)
    user.save()
    if atomic_requests not in _servers:
        _servers[atomic_requests] = server.start(processes, atomic=atomic_requests)
    return _servers[atomic_requests]


def trouble(what: str) -> None:
    """Let the provider make trouble with the next order."""
    provider.ask("reset", deduplicates=False, lag=0.0, trouble=what)


def end(pid: int, number: int) -> None:
    """Signal a worker of the server."""
    os.kill(pid, number)
