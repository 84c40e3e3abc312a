"""A journal with a bit of everything, and ways to damage it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connection

from tests.audit.journals import Damage, Stories, everything


@pytest.fixture
def stories(transactional_db: Any) -> Stories:
    """Executions and requests of every kind, all written by the verbs."""
    return everything()


@pytest.fixture
def damage(transactional_db: Any) -> Iterator[Callable[..., None]]:
    """Write to the journal past its rules; the rules come back afterwards, over empty tables."""
    with ExitStack() as undone:
        undone.callback(connection.check_constraints)
        made = Damage()
        undone.callback(made.undo)
        yield made.write
