"""Run the code of a documentation page, as a reader would.

`run_blocks(page)` makes a project with `startproject` and an app `shop` in a directory of its own, on a database of
its own, and follows the page in a process of its own:

- ```` ```python title="shop/effects.py" ```` is added to that file of the project, before anything runs;
- ```` ```python ```` is executed, as in `manage.py shell`; all blocks of a page share their names;
- ```` ```python norun ```` must compile, and so must what a page shows before the first file of its own project;
- ```` ```console ```` runs its `$ curl` and `$ python manage.py` lines and compares what they print (see `console`);
- `<!-- run` … `-->` is executed like a python block, and is not shown to the reader.

A page may build on the tutorial: then its files and its people are there, and the database is migrated, before it
begins.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from django.core.management import call_command
from psycopg import sql

__all__ = ["ROOT", "Block", "migrated_database", "read_blocks", "run_blocks"]

ROOT = Path(__file__).resolve().parents[2]
SESSION = Path(__file__).with_name("session.py")

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>\S.*)?$")
_TITLE = re.compile(r'title="([^"]+)"')

#: What the harness adds to the page's own settings: where the tests' database is, and what a test client needs.
_SETTINGS = """
from mysite.settings import *
import dj_database_url
DATABASES["default"] = {**dj_database_url.parse(%r), "ENGINE": DATABASES["default"]["ENGINE"]}
ALLOWED_HOSTS = [".localhost", "testserver"]
import django
if django.VERSION < (6, 1) and "MAILERS" in globals():
    EMAIL_BACKEND = MAILERS["default"]["BACKEND"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""


@dataclass(frozen=True)
class Block:
    """One fenced block, or one hidden one.

    Args:
        kind: the language, "norun" for python that is only compiled, "run" for a hidden one.
        title: the file that it belongs to, or "".
        text: its lines.
        line: the page's line on which it begins.
    """

    kind: str
    title: str
    text: str
    line: int


def read_blocks(page: Path) -> list[Block]:
    """Return the blocks of a Markdown page, in order."""
    blocks = list(_blocks(page.read_text(encoding="utf-8").splitlines()))
    titles = [number for number, block in enumerate(blocks) if block.title == "mysite/settings.py"]
    before = titles[0] if titles else 0
    return [_shown(block) if number < before else block for number, block in enumerate(blocks)]


def run_blocks(
    page: Path,
    directory: Path,
    database_url: str,
    *,
    on: Sequence[Path] = (),
    template: str = "",
) -> str:
    """Follow a page, and return what its process printed.

    Args:
        page: a Markdown file.
        directory: an empty one, where the project is made.
        database_url: a PostgreSQL on which databases can be made.
        on: pages whose files are there before.
        template: a database to begin with a copy of, as `migrated_database` gives it; "" for an empty one.

    Raises:
        AssertionError: something on the page is not so; the message names the page's line.
    """
    before = [block for other in on for block in read_blocks(other)]
    blocks = read_blocks(page)
    make_project(directory, [*before, *blocks])
    steps = [asdict(block) for block in blocks if not block.title]
    plan = {"page": str(page), "prepare": bool(on), "steps": steps}
    (directory / "steps.json").write_text(json.dumps(plan), encoding="utf-8")
    with _database(database_url, template) as url:
        return _run(directory, url, str(SESSION), f"{page} does something else than it says")


@contextlib.contextmanager
def migrated_database(directory: Path, database_url: str, page: Path) -> Iterator[str]:
    """Give the name of a database with the tables of a page's apps, except its own: to make copies of.

    Making the tables takes longer than following most pages.
    """
    make_project(directory, [block for block in read_blocks(page) if block.title == "mysite/settings.py"])
    with _database(database_url) as url:
        _run(directory, url, "manage.py", "the tables could not be made", "migrate", "--verbosity=0")
        yield urlsplit(url).path.removeprefix("/")


def _run(directory: Path, url: str, program: str, otherwise: str, *arguments: str) -> str:
    (directory / "docs_settings.py").write_text(_SETTINGS % url, encoding="utf-8")
    path = os.pathsep.join([str(directory), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-W", "error", program, *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "docs_settings"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{otherwise}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def _database(server_url: str, template: str = "template1") -> Iterator[str]:
    """Make a database on a server, give its URL, drop it at the end."""
    name = f"effects_docs_{secrets.token_hex(6)}"
    made, source = sql.Identifier(name), sql.Identifier(template or "template1")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(made, source))
        try:
            yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(made))


def _blocks(lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        fence = _FENCE.match(line)
        if line.strip() == "<!-- run":
            body, end = _until(lines, number, "-->")
            yield Block("run", "", "\n".join(body), number + 1)
        elif fence:
            body, end = _until(lines, number, "```")
            indent = len(fence["indent"])
            yield _block(fence["info"] or "", "\n".join(text[indent:] for text in body), number + 1)
        else:
            continue
        number = end + 1


def _shown(block: Block) -> Block:
    return replace(block, kind="norun") if block.kind == "python" and not block.title else block


def _until(lines: list[str], start: int, mark: str) -> tuple[list[str], int]:
    for number in range(start, len(lines)):
        if lines[number].strip() == mark:
            return lines[start:number], number
    raise AssertionError(f"line {start}: the block that begins here has no end")


def _block(info: str, text: str, line: int) -> Block:
    words = info.split()
    title = _TITLE.search(info)
    kind = "norun" if "norun" in words else (words or [""])[0]
    return Block(kind, title[1] if title else "", text, line)


def make_project(directory: Path, blocks: Sequence[Block]) -> None:
    """Make a project with an app `shop`, and write the blocks that have a title into its files."""
    call_command("startproject", "mysite", str(directory))
    _make_app(directory / "shop")
    for block in blocks:
        if block.kind == "python" and block.title:
            target = directory / block.title
            if not target.parent.exists():
                _make_app(target.parent)
            earlier = target.read_text(encoding="utf-8") if target.exists() else ""
            target.write_text(f"{earlier}\n{block.text}\n" if earlier else f"{block.text}\n", encoding="utf-8")


def _make_app(directory: Path) -> None:
    for place in (directory, directory / "migrations"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").touch()
