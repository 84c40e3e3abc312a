"""README's quick start, by somebody who has nothing but the wheel, a PostgreSQL and a browser."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from project.services.processes import Processes
from tests.console.chromium import Chromium, is_required
from tests.console.conftest import chromium
from tests.docs.blocks import ROOT, Block, read_blocks
from tests.docs.reader import Reader, build_wheel

__all__ = ["chromium"]

README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-effect.md"
PROGRAMS = ("bash", "createdb", "curl")
MINUTE = 60
#: A paragraph that leads into the admin.
CLICKS = re.compile(r"^[^\n]+<http://localhost:8000/admin.*?(?=\n\n)", re.MULTILINE | re.DOTALL)


@pytest.fixture
def database_url() -> Iterator[str]:
    """The URL of a database that is not there yet; it is dropped at the end."""
    server, name = os.environ["DATABASE_URL"], f"effects_docs_{secrets.token_hex(6)}"
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def test_the_quick_start_leads_to_an_approved_refund(tmp_path: Path, database_url: str, chromium: Chromium) -> None:
    """README's own lines lead to a protected view within five minutes, to an approval within ten, and do what they say.

    Building the wheel and all waiting is part of that time.
    """
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        text = f"not on the PATH: {', '.join(missing)} (Debian: apt-get install curl postgresql-client)"
        pytest.fail(text) if is_required() else pytest.skip(text)
    began = monotonic()
    wheels = tmp_path / "wheels"
    build_wheel(wheels)
    with Processes() as processes:
        reader = Reader(tmp_path, wheels=wheels, database_url=database_url, processes=processes, chromium=chromium)
        for step in steps():
            reader.follows(step)
    answered = next(at for command, at in reader.done if command.startswith("curl "))
    approved = max(at for name, at in reader.done if name == "Approve")
    assert answered - began < 5 * MINUTE
    assert approved - began < 10 * MINUTE


def test_the_tutorial_has_the_same_shop() -> None:
    """Who goes on from README to the tutorial meets the same bank, settings and addresses."""
    files = [{block.title: block.text for block in read_blocks(page) if block.title} for page in (README, TUTORIAL)]
    quick, slow = files
    for name in ("mysite/settings.py", "mysite/urls.py", "shop/bank.py"):
        assert quick[name] == slow[name], name


def test_what_is_shown_before_the_quick_start_is_python() -> None:
    """The parts of files that README begins with compile."""
    shown = [block for block in read_blocks(README) if block.kind == "norun"]
    assert shown
    for block in shown:
        compile(block.text, f"{README}:{block.line}", "exec")


def steps() -> list[Block]:
    """Return the quick start's blocks and its paragraphs to click through, in order."""
    text = README.read_text(encoding="utf-8")
    start = text.index("\n## Quick start\n")
    end = text.index("\n## ", start + 1)
    first, last = (text[:place].count("\n") + 1 for place in (start, end))
    blocks = [block for block in read_blocks(README) if first < block.line < last]
    clicks = [Block("clicks", "", found[0], text[: found.start()].count("\n") + 1) for found in CLICKS.finditer(text)]
    assert len(clicks) == 1
    return sorted([*blocks, *clicks], key=lambda block: block.line)
