"""A type checker finds what is wrong in a call, also in a project without the stubs of Django."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_wrong_calls_are_found_without_djangos_stubs(tmp_path: Path) -> None:
    """The right calls pass, and of each wrong one an ignore is needed; with the stubs the whole code is checked so."""
    options = ["--config-file", str(HERE / "without_stubs.ini"), "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(HERE / "calls.py")],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
