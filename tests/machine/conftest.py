"""How long the machine runs, and the project's own table."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.db import connection

hypothesis.settings.register_profile(
    "normal",
    max_examples=7,
    stateful_step_count=32,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("normal"), max_examples=63, stateful_step_count=60, derandomize=False,
    print_blob=True,
)  # fmt: skip
#: The planted mutations are found in the long run, or when they are asked for.
PLANTED = "planted"
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "normal")


@pytest.fixture
def profile() -> hypothesis.settings:
    """The settings that the environment asks for."""
    return hypothesis.settings.get_profile(PROFILE)


@pytest.fixture
def journal(transactional_db: Any) -> Iterator[None]:
    """An empty journal beside a table that the settled hooks write to."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE machine_row (id bigserial PRIMARY KEY, ref text NOT NULL, state text NOT NULL)")
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE machine_row")


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker of the planted mutations."""
    config.addinivalue_line("markers", f"{PLANTED}: a broken rule that the machine must find; minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the planted mutations to the long run, and to `-m planted`."""
    if PROFILE != "ci" and PLANTED not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker(PLANTED)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
