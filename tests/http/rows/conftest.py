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

from effects.inspection import audit
from effects.inspection.audit.walk import walk
from effects.journal.locks import now
from effects.models import Execution, Request
from project.services.processes import Processes
from tests.crash import provider
from tests.http.rows import server, shop
from tests.http.rows.server import PASSWORD, Server

#: What a test leaves undone is late, and no fault of the journal.
_LATE = {"lease_overrun", "overdue", "approval_overdue", "hook_overdue", "notice_overdue", "sweep_stopped"}


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
    assert not [each for each in _findings() if each.code not in _LATE]


def _findings() -> Iterator[audit.Finding]:
    """Audit the journal; where nothing was performed there are requests alone to look at."""
    if Execution.objects.exists():
        yield from audit.audit(audit.Scope(now()), Counter())
    elif Request.objects.exists():
        yield from walk(audit._REQUESTS, audit.Scope(now()), Counter())


@pytest.fixture
def ledger(protected_views: None) -> Iterator[Ledger]:
    """What has happened, seen from outside."""
    known = connection.get_connection_params()
    names = {name: known[name] for name in ("dbname", "user", "password", "host", "port") if known.get(name)}
    with psycopg.connect(**names, autocommit=True) as database:
        yield Ledger(database)


@pytest.fixture(scope="session")
def _server(processes: Processes, provider_process: str, django_db_setup: None) -> Iterator[Server]:
    started = server.start(processes)
    yield started
    started.process.kill()  # its database is thrown away
    processes.stop_one(started.process)


@pytest.fixture
def live(protected_views: None, password: None, atomic_requests: bool, _server: Server) -> Server:
    """A gunicorn with four workers, which reads ATOMIC_REQUESTS from each request as the test has it."""
    return _server.with_setting(atomic_requests)


@pytest.fixture(scope="session")
def _async_server(processes: Processes, provider_process: str, django_db_setup: None) -> Iterator[Server]:
    started = server.start_async(processes)
    yield started
    started.process.kill()
    processes.stop_one(started.process)


@pytest.fixture
def live_async(protected_views: None, atomic_requests: bool, _async_server: Server) -> Server:
    """Four uvicorns under a gunicorn."""
    return _async_server.with_setting(atomic_requests)


@pytest.fixture
def password(user: User) -> None:
    """Give the user the password that the client of the server sends."""
    user.password = make_password(PASSWORD)
    user.save()


def trouble(what: str) -> None:
    """Let the provider make trouble with the next order."""
    provider.ask("reset", deduplicates=False, lag=0.0, trouble=what)


def end(pid: int, number: int) -> None:
    """Signal a worker of the server."""
    os.kill(pid, number)
