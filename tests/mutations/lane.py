"""A copy of the tree with a database of its own, in which one mutation after the other is tried."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.rule import Mutation, PatchError, restore

__all__ = ["Lane"]

#: Seconds for one test, and for all of them: a rule that is broken may hang it, which is no way to notice.
PATIENCE, PATIENCE_FOR_ALL = 120, 900
OPTIONS = ("-n", "0", "-q", "-rf", "--reuse-db", "--ds", "tests.mutations.settings", "-p", "no:cacheprovider")


class Lane:
    """Runs named tests in a copy of the tree.

    Args:
        tree: the copy; the checkout is never changed.
        url: of an empty database.
    """

    def __init__(self, tree: Path, url: str) -> None:
        self.tree = tree
        self.output = tree / "output"
        # bytecode is compared by the hash of its source, and none is written for what is changed
        environ = {**os.environ, "DATABASE_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
        self.runner = subprocess.Popen(
            [sys.executable, str(tree / "tests" / "mutations" / "warm.py")],
            cwd=tree, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def close(self) -> None:
        """End the process that runs the tests."""
        self.runner.communicate()

    def find_rotten(self, mutations: Sequence[Mutation]) -> list[str]:
        """Return which mutations cannot be applied any more, and why."""

        def why(one: Mutation) -> str:
            try:
                restore(one.apply(self.tree))
            except PatchError as error:
                return f"{one.name}: {error}"
            return ""

        return [reason for one in mutations if (reason := why(one))]

    def find_red(self, mutations: Sequence[Mutation]) -> str:
        """Return what the named tests say that are red without any mutation; empty if none is. Makes the database."""
        tests = sorted({one.test for one in mutations})
        code = self._pytest(*tests, "--create-db", patience=PATIENCE_FOR_ALL)
        return (self.output.read_text()[-5000:] or f"pytest ended with {code}") if code else ""

    def attempt(self, one: Mutation) -> str:
        """Return what became of one mutation: caught, SURVIVED, HUNG or BROKEN."""
        originals = one.apply(self.tree)
        try:
            code = self._pytest(one.test, "-x")
        finally:
            restore(originals)
        if code == 0:
            return "SURVIVED"
        if code == -signal.SIGALRM:
            return "HUNG"
        # any other end, a code that cannot be imported say, is no test that noticed
        text = self.output.read_text()
        if code == 1 and re.search(rf"^FAILED {re.escape(one.test)}(?!\w)", text, re.MULTILINE):
            return "caught"
        print(text[-3000:], file=sys.stderr)
        return "BROKEN"

    def _pytest(self, *arguments: str, patience: int = PATIENCE) -> int:
        """Run pytest; return its exit code."""
        order = {"arguments": [*OPTIONS, *arguments], "output": str(self.output), "patience": patience}
        if self.runner.stdin is None or self.runner.stdout is None:
            raise RuntimeError("the runner has no pipes")
        self.runner.stdin.write(json.dumps(order) + "\n")
        self.runner.stdin.flush()
        return int(self.runner.stdout.readline())
