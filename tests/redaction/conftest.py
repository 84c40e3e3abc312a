"""Fixtures of the tests of what must not be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.redaction.declared import CANARY, Wire


@pytest.fixture(autouse=True)
def plain_wire() -> Iterator[None]:
    """`Wire` as it is declared, whatever a test makes of it."""
    before = {name: Wire.__dict__[name] for name in ("then", "ready", "shows")}
    yield
    for name, value in before.items():
        setattr(Wire, name, value)


@pytest.fixture
def redactor(settings: Any) -> Callable[..., None]:
    """Let a test say what the project's redactor does; by default it masks the canary everywhere."""

    def use(redact: Any = lambda text, place: text.replace(CANARY, "***")) -> None:
        settings.EFFECTS = {"DISPATCH": "none", "REDACTOR": redact}

    return use
