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
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("normal"), max_examples=63, stateful_step_count=50, derandomize=False,
    print_blob=True,
)  # fmt: skip
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
