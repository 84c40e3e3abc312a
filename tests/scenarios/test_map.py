"""The list of stories names tests that exist, and names all of this directory."""

from __future__ import annotations

import re
from pathlib import Path

import tests.scenarios

HERE = Path(__file__).parent
NAMED = set(re.findall(r"([\w/]+\.py)::(\w+)", tests.scenarios.__doc__ or ""))


def defined(path: Path) -> set[str]:
    """Return the names of the tests in a file."""
    return set(re.findall(r"def (test_\w+)", path.read_text()))


def test_every_story_has_its_test() -> None:
    """A story whose test was renamed or deleted is not told any more."""
    missing = [
        f"{file}::{name}"
        for file, name in sorted(NAMED)
        if name not in defined((HERE.parent if "/" in file else HERE) / file)
    ]
    assert missing == []


def test_every_test_here_is_in_the_list() -> None:
    """Whoever looks for a behaviour finds it there."""
    here = {
        (path.name, name) for path in HERE.glob("test_*.py") for name in defined(path) if path.name != "test_map.py"
    }
    assert sorted(here - NAMED) == []
