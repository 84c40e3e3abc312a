"""A journal with a bit of everything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit.journals import Stories, everything


@pytest.fixture
def stories(transactional_db: Any) -> Stories:
    """Executions and requests of every kind, all written by the verbs."""
    return everything()
