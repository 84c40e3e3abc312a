"""A journal with a bit of everything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit.journals import Stories, everything


@pytest.fixture
def stories(transactional_db: Any) -> Stories:
    """Executions and requests of every kind, all written by the verbs."""
    return everything()


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process write its heartbeats whenever a sweep runs."""
    monkeypatch.setattr("effects.sweeps._batches._last_done", {})
