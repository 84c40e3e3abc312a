"""A reader who follows a page by its own lines: a directory, an editor, terminals and a browser.

Unlike `blocks.run_blocks`, nothing of the page is played inside of the test's process. Three things are not as on the
reader's machine, so that the test needs no network and meets nothing that is there already:

- `pip install` finds the wheel in a directory, and what the wheel requires in the environment of the tests, which the
  reader's own environment is laid over. pip reads the wheel's requirements and extras all the same;
- the database has a name of its own, and `PGHOST` and its like lead `createdb` and Django to the tests' server;
- the server listens on a free port.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from urllib.parse import unquote, urlsplit

from project.services.processes import Processes
from tests.console.chromium import Chromium
from tests.docs.blocks import ROOT, Block
from tests.docs.console import commands, compare_answer, compare_text

__all__ = ["Reader", "build_wheel"]

#: What the page calls the server, and the command that starts it.
ADDRESS, SERVER = "localhost:8000", "python manage.py runserver"


def build_wheel(directory: Path) -> None:
    """Build the wheel of the present tree into a directory; from the network only if its build backend is not here."""
    isolation = ["--no-isolation"] if find_spec("hatchling") else []
    command = [sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", str(directory), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Reader:
    """Somebody in an empty directory.

    Args:
        directory: an empty one.
        wheels: where the wheel is.
        database_url: the tests' server, and the database to make for the page's `shop`.
        processes: what the server belongs to that the page starts.
        chromium: their browser.

    Attributes:
        done: what they typed and clicked, in order, each with the monotonic time at which it had its result.
    """

    def __init__(
        self, directory: Path, *, wheels: Path, database_url: str, processes: Processes, chromium: Chromium
    ) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        self.done: list[tuple[str, float]] = []
        self._environment = _environment(directory / "environment", wheels, database_url)
        self._database = urlsplit(database_url).path.removeprefix("/")
        self._processes, self._chromium, self._port = processes, chromium, 0

    def follows(self, block: Block) -> None:
        """Do what one block says: add it to a file, type its commands, or click through its links and buttons.

        Raises:
            AssertionError: something prints something else than the page shows.
        """
        if block.title:
            self._writes(block)
        elif block.kind == "console":
            for command, shown in commands(block.text):
                self._types(command, shown)
        elif block.kind == "clicks":
            self._clicks(block.text)
        else:
            raise AssertionError(f"line {block.line}: nobody can follow a block of the kind {block.kind!r}")

    def _writes(self, block: Block) -> None:
        target = self.project / block.title
        text = block.text.replace('"NAME": "shop"', f'"NAME": "{self._database}"')
        earlier = target.read_text(encoding="utf-8") if target.exists() else ""
        target.write_text(f"{earlier}\n{text}\n", encoding="utf-8")

    def _types(self, command: str, shown: str) -> None:
        if command.startswith("export "):
            self._environment.update(word.split("=", 1) for word in shlex.split(command)[1:])  # type: ignore[arg-type]
        elif command == SERVER:
            environment = ["env", "-i", *(f"{name}={value}" for name, value in self._environment.items())]
            _, self._port = self._processes.start_on_port(
                "runserver", lambda port: [*environment, *SERVER.split(), str(port)], cwd=self.project
            )
        else:
            printed = self._run(command.replace(ADDRESS, f"localhost:{self._port}"))
            compare = compare_answer if command.startswith("curl ") else compare_text
            compare(shown, printed, command)
        self.done.append((command, monotonic()))

    def _run(self, command: str) -> str:
        command = f"createdb {self._database}" if command == "createdb shop" else command
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.project,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout.replace("\r\n", "\n")

    def _clicks(self, paragraph: str) -> None:
        """Open the paragraph's address, log in with the words in backticks, click what is bold, in order."""
        address = re.search(rf"<http://{ADDRESS}(/\S*)>", paragraph)
        assert address is not None, paragraph
        user, password = re.findall(r"`(.+?)`", paragraph)
        person = self._chromium.seat(f"http://localhost:{self._port}", None).opens(address[1])
        person.types("Username:", user).types("Password:", password)
        for name in re.findall(r"\*\*(.+?)\*\*", paragraph):
            is_button = person.sees(f'input[type="submit"][value="{name}"], button:text-is("{name}")')
            person.clicks(name, "button" if is_button else "link")
            assert person.status == 200, f"{name}: {person.status}\n{person.text}"
            self.done.append((name, monotonic()))
        assert person.faults == []
        person.leaves()


def _environment(directory: Path, wheels: Path, database_url: str) -> dict[str, str]:
    """Make a Python environment over the present one; return the variables of somebody who works in it."""
    venv.create(directory)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(directory)})
    (Path(packages) / "tests.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    server = urlsplit(database_url)
    return {
        "PATH": os.pathsep.join([str(directory / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(directory),
        "LANG": "C.UTF-8",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PGHOST": server.hostname or "",
        "PGPORT": str(server.port or 5432),
        "PGUSER": unquote(server.username or ""),
        "PGPASSWORD": unquote(server.password or ""),
    }
