"""Break each rule in a copy of the tree, and see that its test turns red.

Run `python -m tests.mutations [word ...]`; with words only the mutations whose name has one of them. Ends with 1 if a
mutation survives, if a named test is red without it, or if the code that it changes is not there any more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from project.services import postgres
from project.services.processes import Processes, ServiceError
from tests.mutations import answering, deciding, sending
from tests.mutations.rule import Mutation, PatchError

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("effects", "effects_admin", "project", "tests", "manage.py", "pyproject.toml")
MUTATIONS = (*sending.MUTATIONS, *deciding.MUTATIONS, *answering.MUTATIONS)
#: Seconds for one test: a rule that is broken may hang it, which is no way to notice.
PATIENCE = 120


def main(words: Sequence[str]) -> int:
    """Run the mutations that are asked for; return the exit code."""
    chosen = [one for one in MUTATIONS if not words or any(word in one.name for word in words)]
    started = time.monotonic()
    with Processes() as processes, tempfile.TemporaryDirectory(prefix="effects-mutations-") as directory:
        tree = _copy(Path(directory))
        try:
            server = postgres.start(processes, fsync=False)
        except ServiceError as error:
            print(error, file=sys.stderr)
            return 1
        with postgres.scratch_database(server.url, "effects_mutations") as url:
            # the suite's own database is named after the settings, so a server of somebody else's would share it
            environ = {**os.environ, "DATABASE_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
            code = _run_all(chosen, tree, environ)
    print(f"{len(chosen)} mutations in {time.monotonic() - started:.0f} s")
    return code


def _copy(directory: Path) -> Path:
    """Copy what the tests need; the checkout is never changed."""
    tree = directory / "tree"
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    return tree


def _run_all(chosen: Sequence[Mutation], tree: Path, environ: Mapping[str, str]) -> int:
    rotten = _find_rotten(chosen, tree)
    if rotten:
        print("\n".join(rotten), file=sys.stderr)
        return 1
    # compiled once; a source is compared by its contents, since a mutation may not change its size or second
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
    subprocess.run(compiling, cwd=tree, check=True)
    green = _pytest(tree, environ, *sorted({one.test for one in chosen}), "--create-db", patience=PATIENCE * 5)
    if green.returncode:
        print(green.stdout[-5000:], green.stderr[-2000:], "Not green without any mutation.", sep="\n", file=sys.stderr)
        return 1
    width = max(len(one.name) for one in chosen)
    survivors = 0
    for one in chosen:
        noticed = _try(one, tree, environ)
        survivors += noticed != "caught"
        print(f"{noticed:8} {one.name:{width}}  {one.rule}  {one.test}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} caught")
    return 1 if survivors else 0


def _find_rotten(chosen: Sequence[Mutation], tree: Path) -> list[str]:
    """Return what cannot be applied any more, before any test is run."""
    rotten = []
    for one in chosen:
        try:
            _restore(one.apply(tree))
        except PatchError as error:
            rotten.append(f"{one.name}: {error}")
    return rotten


def _try(one: Mutation, tree: Path, environ: Mapping[str, str]) -> str:
    originals = one.apply(tree)
    try:
        run = _pytest(tree, environ, one.test, "-x")
    except subprocess.TimeoutExpired:
        return "HUNG"
    finally:
        _restore(originals)
    # any other end, a code that cannot be imported say, is no test that noticed
    failed = re.search(rf"^FAILED {re.escape(one.test)}\b", run.stdout, re.MULTILINE)
    if run.returncode == 1 and failed:
        return "caught"
    if run.returncode:
        print(run.stdout[-3000:], file=sys.stderr)
        return "BROKEN"
    return "SURVIVED"


def _pytest(
    tree: Path, environ: Mapping[str, str], *arguments: str, patience: int = PATIENCE
) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "-rf",
        "--reuse-db",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    return subprocess.run(
        command, cwd=tree, env=dict(environ), capture_output=True, text=True, timeout=patience, check=False
    )


def _restore(originals: Mapping[Path, str]) -> None:
    for path, text in originals.items():
        path.write_text(text)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
