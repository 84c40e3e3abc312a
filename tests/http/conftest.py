"""Clients, users and the two settings of ATOMIC_REQUESTS for the tests of protected views."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, connections
from django.test import Client
from django.urls import clear_url_caches

from tests.http import async_shop, does, views


class Sender:
    """Sends requests as one user, from any thread."""

    def __init__(self, user: User | None) -> None:
        self.user, self._session = user, SimpleCookie[str]()
        if user is not None:
            browser = Client()
            browser.force_login(user)
            self._session = browser.cookies

    def __call__(
        self, url: str, key: str | None = "k", *, method: str = "POST", headers: dict[str, str] | None = None,
        raises: bool = False, content_type: str = "application/json", body: bytes | None = None, **data: Any,
    ) -> Any:  # fmt: skip
        client = Client(raise_request_exception=raises)
        client.cookies.update(self._session)
        all_headers = {**({"Idempotency-Key": key} if key is not None else {}), **(headers or {})}
        raw = body if body is not None else json.dumps(data).encode()
        return client.generic(method, url, raw, content_type, headers=all_headers)


@pytest.fixture
def protected_views(settings: Any) -> Iterator[None]:
    """The URLs of `tests.http.views`, their memory empty."""
    settings.ROOT_URLCONF = "tests.http.views"
    settings.EFFECTS = {}
    clear_url_caches()
    does.reset()
    views.handled.clear()
    yield
    does.gate.opened.set()


@pytest.fixture
def async_views(settings: Any) -> Iterator[None]:
    """The URLs of `tests.http.async_shop`, their memory empty."""
    settings.ROOT_URLCONF = "tests.http.async_shop"
    settings.EFFECTS = {}
    clear_url_caches()
    async_shop.reset()
    yield
    async_shop.gate.open()


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark."""
    config.addinivalue_line("markers", "one_setting: is about ATOMIC_REQUESTS itself, or of no request at all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that sends requests with ATOMIC_REQUESTS off and on."""
    sends = {"send", "protected_views"} & set(metafunc.fixturenames)
    marks = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if sends and "atomic_requests" not in marks and not metafunc.definition.get_closest_marker("one_setting"):
        metafunc.parametrize("atomic_requests", [False, True], indirect=True, ids=["", "atomic"])


@pytest.fixture(autouse=True)
def atomic_requests(request: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """ATOMIC_REQUESTS as the test is parametrised, off by default; Django asks for it with each request."""
    value = bool(getattr(request, "param", False))
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", value)
    return value


@pytest.fixture
def user(transactional_db: None) -> User:
    """Who sends."""
    return User.objects.create_user("ada")


@pytest.fixture
def approver(transactional_db: None) -> User:
    """Another person, who may approve."""
    person = User.objects.create_user("grace")
    person.user_permissions.add(Permission.objects.get(codename="approve_execution"))
    return User.objects.get(pk=person.pk)


@pytest.fixture
def send(protected_views: None, user: User) -> Sender:
    """Send a request as the user."""
    return Sender(user)


class DyingCommits:
    """Lets the server end the session at the COMMIT of a request that gets into a state."""

    def __call__(self, state: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION die_at_commit() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            cursor.execute(
                "CREATE CONSTRAINT TRIGGER die_at_commit AFTER INSERT OR UPDATE ON effects_request DEFERRABLE "
                f"INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = '{state}') EXECUTE FUNCTION die_at_commit()"
            )

    def heal(self) -> None:
        """Let COMMIT live again."""
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION IF EXISTS die_at_commit CASCADE")


@pytest.fixture
def commit_dies(transactional_db: None) -> Iterator[DyingCommits]:
    """Let COMMITs die, until the test ends."""
    dying = DyingCommits()
    yield dying
    connection.close()
    dying.heal()


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Any]]:
    """Run a call in a thread with connections of its own; the returned function waits for its result."""
    threads: list[threading.Thread] = []

    def start(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
        result: dict[str, Any] = {}

        def run() -> None:
            try:
                result["value"] = call(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - handed to the waiting test
                result["error"] = error
            finally:
                connections.close_all()

        def wait() -> Any:
            thread.join(30)
            assert not thread.is_alive()
            if "error" in result:
                raise result["error"]
            return result["value"]

        thread = threading.Thread(target=run)
        threads.append(thread)
        thread.start()
        return wait

    yield start
    does.gate.opened.set()
    for thread in threads:
        thread.join(30)
