"""The processes of the crash matrix, and what it says at the end."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, connections
from django.urls import clear_url_caches

from tests.crash.cells import APPROVERS
from tests.crash.forks import Forks
from tests.crash.provider import ADDRESS
from tests.crash.tally import Tally

TALLY = pytest.StashKey[Tally]()
_SENT = "crash_cells"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full`."""
    parser.addoption("--full", action="store_true", help="the whole crash matrix, not only its cross-section")


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark, and begin to count."""
    config.addinivalue_line("markers", "full: only with --full")
    config.stash.setdefault(TALLY, Tally())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the whole matrix out of an ordinary run."""
    if config.getoption("--full", False):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker of pytest-xdist counted."""
    node.config.stash[TALLY].merge(getattr(node, "workeroutput", {}).get(_SENT, {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the worker's counts home; fail a whole run that leaves a point unreached."""
    config = session.config
    tally = config.stash[TALLY]
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SENT] = tally.as_json()
    elif _is_whole(config) and tally.unreached and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many cells ran, and how many points were reached."""
    tally = config.stash[TALLY]
    if tally.cells:
        terminalreporter.section("crash matrix")
        for line in tally.lines():
            terminalreporter.line(line)


def _is_whole(config: pytest.Config) -> bool:
    directory = Path(__file__).parent
    asked = [Path(argument).resolve() for argument in config.args]
    return directory in asked and not (config.option.keyword or config.option.collectonly)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """What counts the cells."""
    return request.config.stash[TALLY]


@pytest.fixture(scope="session")
def forks(provider_process: str, django_db_setup: None) -> Iterator[Forks]:
    """What forks the children, on this worker's test database."""
    name = connections["default"].settings_dict["NAME"]
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    forking = Forks({"DATABASE_URL": url, ADDRESS: provider_process})
    yield forking
    forking.close()


@pytest.fixture
def journal(transactional_db: Any, settings: Any, forks: Forks) -> Iterator[Forks]:
    """An empty journal, the project's two tables, its views, and two people who may approve."""
    settings.ROOT_URLCONF = "tests.crash.views"
    clear_url_caches()
    permission = Permission.objects.get(codename="approve_execution", content_type__app_label="effects")
    for name in APPROVERS:
        User.objects.create_user(name).user_permissions.add(permission)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE crash_row (ref text NOT NULL)")
        cursor.execute("CREATE TABLE crash_note (request text NOT NULL)")
    logging.disable(logging.CRITICAL)
    try:
        yield forks
    finally:
        logging.disable(logging.NOTSET)
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE crash_row, crash_note")
