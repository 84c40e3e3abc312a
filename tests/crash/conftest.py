"""The processes of the crash matrix, and what it says at the end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, connections
from django.urls import clear_url_caches

from tests.crash.cells import APPROVERS
from tests.crash.forks import Forks
from tests.crash.provider import ADDRESS


@pytest.fixture(scope="session")
def provider_process() -> Iterator[str]:
    """The provider; its address in the environment."""
    process = subprocess.Popen([sys.executable, "-m", "tests.crash.provider"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        os.environ[ADDRESS] = process.stdout.readline().strip()
        yield os.environ[ADDRESS]
    finally:
        os.environ.pop(ADDRESS, None)
        process.kill()
        process.wait()
        process.stdout.close()


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
