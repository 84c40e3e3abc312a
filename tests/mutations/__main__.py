"""Break each rule in a copy of the tree, and see that its test turns red.

Ends with 1 if a mutation survives, if a named test is red without it, or if the code that it changes is not there any
more.
"""

from __future__ import annotations

import argparse
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from project.services import postgres
from project.services.processes import Processes, ServiceError
from tests.mutations import (
    answering,
    asking,
    auditing,
    deciding,
    describing,
    hearing,
    keeping,
    knowing,
    meaning,
    minding,
    naming,
    parsing,
    proposing,
    rehearsing,
    sending,
    serving,
    showing,
    watching,
)
from tests.mutations.lane import Lane
from tests.mutations.rule import Mutation

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("effects", "effects_admin", "project", "tests", "manage.py", "pyproject.toml")
MUTATIONS = (
    *sending.MUTATIONS,
    *deciding.MUTATIONS,
    *describing.MUTATIONS,
    *answering.MUTATIONS,
    *asking.MUTATIONS,
    *proposing.MUTATIONS,
    *keeping.MUTATIONS,
    *auditing.MUTATIONS,
    *serving.MUTATIONS,
    *hearing.MUTATIONS,
    *knowing.MUTATIONS,
    *naming.MUTATIONS,
    *parsing.MUTATIONS,
    *meaning.MUTATIONS,
    *minding.MUTATIONS,
    *watching.MUTATIONS,
    *rehearsing.MUTATIONS,
    *showing.MUTATIONS,
)
#: Two copies side by side: a test waits for its database about half of the time.
LANES = 2


def main() -> int:
    """Run the mutations that are asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="only the mutations whose name has one of these")
    parser.add_argument("--list", action="store_true", help="print their names and run nothing")
    options = parser.parse_args()
    chosen = [one for one in MUTATIONS if not options.words or any(word in one.name for word in options.words)]
    if not chosen:
        parser.error(f"no mutation has {' or '.join(map(repr, options.words))} in its name; see --list")
    if options.list:
        print(*(one.name for one in chosen), sep="\n")
        return 0
    started = time.monotonic()
    with ExitStack() as stack:
        processes = stack.enter_context(Processes())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="effects-mutations-")))
        try:
            server = postgres.start(processes, fsync=False)
        except ServiceError as error:
            print(error, file=sys.stderr)
            return 1
        trees = _copy(directory)
        urls = [stack.enter_context(postgres.scratch_database(server.url, "effects_mutations")) for _ in trees]
        lanes = [stack.enter_context(closing(Lane(tree, url))) for tree, url in zip(trees, urls, strict=True)]
        code = _run(lanes, chosen)
    print(f"{len(chosen)} mutations in {time.monotonic() - started:.0f} s")
    return code


def _copy(directory: Path) -> list[Path]:
    """Copy what the tests need, once for each lane, compiled."""
    first, *others = [directory / f"lane-{number}" for number in range(LANES)]
    first.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, first / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, first / name)
    # a mutation may change neither the size nor the second of a source, so that only its hash tells it apart
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
    subprocess.run(compiling, cwd=first, check=True)
    for other in others:
        shutil.copytree(first, other)
    return [first, *others]


def _run(lanes: Sequence[Lane], chosen: Sequence[Mutation]) -> int:
    problems = lanes[0].find_rotten(chosen)
    with ThreadPoolExecutor(len(lanes)) as pool:
        if not problems:
            shares = [chosen[number :: len(lanes)] or chosen for number in range(len(lanes))]
            problems = [red for red in pool.map(Lane.find_red, lanes, shares) if red]
        if problems:
            print("Before any mutation:", *problems, sep="\n", file=sys.stderr)
            return 1
        free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        for lane in lanes:
            free.put(lane)
        width, survivors = max(len(one.name) for one in chosen), 0
        for one, end in pool.map(lambda one: (one, _attempt(free, one)), chosen):
            survivors += end != "caught"
            print(f"{end:8}  {one.name:{width}}  {one.rule:30}  {one.test}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} caught")
    return 1 if survivors else 0


def _attempt(free: queue.SimpleQueue[Lane], one: Mutation) -> str:
    lane = free.get()
    try:
        return lane.attempt(one)
    finally:
        free.put(lane)


if __name__ == "__main__":
    raise SystemExit(main())
