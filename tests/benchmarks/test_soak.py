"""The soak, for a moment: that it runs, harms, judges and leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import psycopg
import pytest

BROKEN = (
    "duplicates", "lost", "unsettled", "rows_missing", "rows_doubled", "wire", "audit_findings", "surprises",
)  # fmt: skip


@pytest.fixture(scope="module")
def marked() -> str:
    """What the environment of all processes of this soak has in it."""
    return f"SOAK_TEST={uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def finished(marked: str) -> subprocess.CompletedProcess[str]:
    """A soak of some seconds."""
    name, value = marked.split("=")
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--seconds", "5", "--seed", "4", "--json"],
        env={**os.environ, name: value}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_short_soak_breaks_no_promise(finished: subprocess.CompletedProcess[str]) -> None:
    """Processes are killed and connections cut, and nothing is doubled or lost."""
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads(finished.stdout.splitlines()[-1])
    assert {kind: found[kind] for kind in BROKEN} == dict.fromkeys(BROKEN, 0)
    assert found["operations"] > 0
    assert sum(found["kills"].values()) > 0
    assert found["provider_applied"] == found["states"]["completed"]


def test_a_soak_leaves_nothing(finished: subprocess.CompletedProcess[str], marked: str) -> None:
    """No process of it is left, and no database."""
    assert not [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if marked in _read(path)]
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        names = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'effects_soak%'").fetchall()
    assert not names


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
