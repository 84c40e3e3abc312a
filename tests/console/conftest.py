"""People with their permissions, and executions in the states that the console shows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import effects
from effects.testing import provider_says
from tests.console.chromium import Chromium, Person, executable, is_required
from tests.console.declared import PayOut, Payout
from tests.console.scene import Scene

EVERY = ("approve", "look_up", "resolve", "reopen", "order_resend", "cancel", "compensate", "supersede", "observe")
VIEW = ("view_execution", "view_request", "view_approval", "view_receipt")


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Make a member of staff who may view, and has the permissions named."""

    def make(name: str, *codenames: str, views: bool = True) -> User:
        user = User.objects.create_user(name, password="x", is_staff=True)
        wanted = [*(VIEW if views else ()), *codenames]
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="effects", codename__in=wanted))
        return user

    return make


@pytest.fixture
def browser() -> Callable[[User], Client]:
    """Log somebody in."""

    def make(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def ann(person: Callable[..., User]) -> User:
    """An approver."""
    return person("ann", "approve_execution")


@pytest.fixture
def ben(person: Callable[..., User]) -> User:
    """Another approver."""
    return person("ben", "approve_execution")


@pytest.fixture
def olga(person: Callable[..., User]) -> User:
    """An operator: everything but approving."""
    return person(
        "olga", "look_up_execution", "resolve_execution", "reopen_execution", "cancel_execution", "view_payload"
    )


@pytest.fixture
def waiting(ann: User, ben: User) -> Callable[..., effects.Outcome]:
    """Make an execution that waits for people."""

    def make(key: str = "p1", by: Any = "clerk", **fields: Any) -> effects.Outcome:
        payload = Payout(**{"account": "DE89", "amount": 125_000, "approvals": 1, **fields})
        return effects.perform(PayOut, payload=payload, key=key, requested_by=by)

    return make


@pytest.fixture
def doubtful(db: None) -> Callable[..., effects.Outcome]:
    """Make an execution of which nobody knows whether it happened."""

    def make(key: str = "d1", error: Exception | None = None, **fields: Any) -> effects.Outcome:
        payload = Payout(**{"account": "DE89", "amount": 5000, **fields})
        with provider_says(PayOut, error or TimeoutError("no answer")):
            return effects.perform(PayOut, payload=payload, key=key, requested_by="clerk")

    return make


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A browser, once for the run."""
    if not executable():
        missing = "no Chromium is on the PATH (Debian: apt-get install chromium)"
        pytest.fail(f"{missing}, and CI is set") if is_required() else pytest.skip(missing)
    started = Chromium()
    yield started
    started.stop()


@pytest.fixture
def seat(chromium: Chromium, live_server: Any) -> Iterator[Callable[..., Person]]:
    """Give people windows of their own; at the end no page of theirs may have failed at anything."""
    seated: list[Person] = []

    def make(user: User | None = None, **options: Any) -> Person:
        seated.append(chromium.seat(live_server.url, user, **options))
        return seated[-1]

    yield make
    for person in seated:
        person.leaves()
    assert [fault for person in seated for fault in person.faults] == []


@pytest.fixture
def chief(person: Callable[..., User]) -> User:
    """Somebody who may do everything."""
    return person("chief", "view_payload", *(f"{verb}_execution" for verb in EVERY))


@pytest.fixture
def scene(ann: User, ben: User, chief: User) -> Scene:
    """Something in every state."""
    return Scene(ann, ben)
