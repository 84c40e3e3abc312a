"""The pytest plugin: a fixture for `idempotency_probe`, and a mark for tests that call providers.

pytest loads it by its entry point, before Django is set up.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

__all__ = ["idempotency_probe"]

MARK = "effects_real_calls"


@pytest.fixture
def idempotency_probe(transactional_db: None) -> Any:  # noqa: ARG001 - threads see what is committed alone
    """Return `effects.testing.idempotency_probe`, on a database where requests can commit."""
    from effects.testing.probe import idempotency_probe as probe  # noqa: PLC0415 - Django is set up by now

    return probe


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the mark."""
    config.addinivalue_line("markers", f"{MARK}: effects call their providers, in this test and its fixtures.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a marked test, with its fixtures, call providers."""
    if item.get_closest_marker(MARK) is None:
        return (yield)
    from effects.testing import real_calls  # noqa: PLC0415 - Django is set up by now

    with real_calls():
        return (yield)
