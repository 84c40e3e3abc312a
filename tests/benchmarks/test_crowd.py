"""The soak's members: forks that are asked to end at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HASTY = """
import os, signal, sys
from pathlib import Path

import django

django.setup()
from benchmarks.crowd import Crowd


def leave(*_):
    raise SystemExit(143)  # as a program does that has servers to stop


signal.signal(signal.SIGTERM, leave)
crowd = Crowd(Path(sys.argv[1]), 1, 7)
try:
    for _ in range(25):
        crowd.start("client")
        assert crowd.end(), "it did not end"
finally:
    print("left by", os.getpid())
"""


def test_a_member_that_is_asked_to_end_before_it_began_runs_nothing_of_the_parents(tmp_path: Path) -> None:
    """Only the parent leaves the parent's context managers, which drop the database and stop the servers."""
    process = subprocess.Popen(
        [sys.executable, "-c", HASTY, str(tmp_path)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert printed.splitlines() == [f"left by {process.pid}"]
