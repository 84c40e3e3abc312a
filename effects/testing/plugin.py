"""The pytest plugin: a fixture for `idempotency_probe`. pytest loads it by its entry point, before Django is set up."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["idempotency_probe"]


@pytest.fixture
def idempotency_probe(transactional_db: None) -> Any:  # noqa: ARG001 - threads see what is committed alone
    """Return `effects.testing.idempotency_probe`, on a database where requests can commit."""
    from effects.testing.probe import idempotency_probe as probe  # noqa: PLC0415 - Django is set up by now

    return probe
