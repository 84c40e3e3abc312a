"""People of the API's tests, and what they send."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client
from django.urls import clear_url_caches

from effects.vocabulary.types import Actor
from tests.api import declared  # noqa: F401 - the effects that are proposed

keys = count()


def tenant_of(request: Any) -> str:
    """The tenant is a header, as a subdomain would be."""
    return request.META.get("HTTP_X_TENANT", "")


def person_behind(request: Any) -> Actor | None:
    """The assistant's login says for whom it acts: here a header, in life its token."""
    pk = request.META.get("HTTP_X_PERSON")
    return Actor.of(User.objects.get(pk=pk)) if pk else None


class Api:
    """Calls the API as one user."""

    def __init__(self, user: User | None, **headers: str) -> None:
        self.user, self.headers = user, headers

    def __call__(self, method: str, url: str, data: Any = None, **headers: str) -> Any:
        client = Client()
        if self.user is not None:
            client.force_login(self.user)
        all_headers = {**self.headers, **headers}
        body = json.dumps(data).encode() if data is not None else b""
        return client.generic(method, f"/effects/{url}", body, "application/json", headers=all_headers)

    def propose(self, operation: str = "api.gift", key: str | None = None, **payload: Any) -> Any:
        """Propose, under a new key unless said otherwise."""
        fields = {"to": "ada", "amount": 5, **payload}
        name = key if key is not None else f"key-{next(keys)}"
        return self("POST", "proposals/", {"operation": operation, "payload": fields}, **{"Idempotency-Key": name})

    def proposed(self, operation: str = "api.gift", **payload: Any) -> dict[str, Any]:
        """Propose, and return the proposal."""
        answer = self.propose(operation, **payload)
        assert answer.status_code == 201, answer.content
        return answer.json()

    def vote(self, proposal: dict[str, Any], decision: str = "approve", **data: Any) -> Any:
        """Vote on what the proposal showed."""
        approval = proposal["approval"]
        body = {"decision": decision, "digest": approval["digest"], "revision": proposal["revision"], **data}
        return self("POST", f"approvals/{approval['id']}/vote/", body)

    def poll(self, proposal: dict[str, Any], **headers: str) -> Any:
        """Ask where it stands."""
        return self("GET", f"proposals/{proposal['ref']}/", **headers)

    def withdraw(self, proposal: dict[str, Any]) -> Any:
        """Take it back."""
        return self("POST", f"proposals/{proposal['ref']}/withdraw/", {"reason": "not needed"})


@pytest.fixture
def api(request: Any, settings: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> type[Api]:
    """The API under `/effects/`, with ATOMIC_REQUESTS as the test is parametrised, off by default."""
    settings.ROOT_URLCONF = "tests.api.urls"
    settings.EFFECTS = {"TENANT": tenant_of, "ON_BEHALF_OF": person_behind}
    clear_url_caches()
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", bool(getattr(request, "param", False)))
    return Api


@pytest.fixture
def person(transactional_db: None) -> Callable[..., User]:
    """Make a user with permissions, named as in `app.codename`."""

    def make(name: str, *permissions: str) -> User:
        user = User.objects.create_user(name)
        for permission in permissions:
            label, _, codename = permission.partition(".")
            user.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label=label))
        return User.objects.get(pk=user.pk)

    return make


@pytest.fixture
def agent(api: type[Api], person: Callable[..., User]) -> Api:
    """An assistant's account: it may propose."""
    return api(person("agent", "auth.add_group"))


@pytest.fixture
def approver(api: type[Api], person: Callable[..., User]) -> Api:
    """A person who may approve."""
    return api(person("grace", "effects.approve_execution"))
