"""Two people and the views of the probe's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.urls import clear_url_caches

from effects.testing.plugin import idempotency_probe  # noqa: F401 - a fixture
from tests.probe import views


@pytest.fixture
def people(settings: Any, transactional_db: None) -> Iterator[tuple[Client, Client]]:
    """The clients of two users."""
    settings.ROOT_URLCONF = "tests.probe.views"
    settings.EFFECTS = {}
    clear_url_caches()
    views.ledger.clear()
    clients = Client(), Client()
    for name, client in zip(("ada", "grace"), clients, strict=True):
        client.force_login(User.objects.create_user(name))
    yield clients
    cache.clear()
