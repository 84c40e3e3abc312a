"""What a mutation is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Edit", "Mutation", "PatchError", "restore"]


class PatchError(Exception):
    """The code that a mutation changes is not there, or not once: the mutation has to follow the code."""


@dataclass(frozen=True)
class Edit:
    """One change: `old`, which stands exactly once in `file`, becomes `new`."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the changed text.

        Raises:
            PatchError: `old` is not there exactly once.
        """
        found = text.count(self.old)
        if found != 1:
            raise PatchError(f"{self.file}: found {found} times, not once:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutation:
    """A rule, how it is broken, and the test that must notice.

    Args:
        name: what the broken code does.
        rule: of the design: a promise or a section.
        test: `file::test`, which is red with the mutation and green without.
        edits: how the rule is broken.
    """

    name: str
    rule: str
    test: str
    edits: tuple[Edit, ...]

    def apply(self, tree: Path) -> dict[Path, str]:
        """Break the rule in a copy of the tree; return the original texts.

        Raises:
            PatchError: the code has changed; nothing was written.
        """
        originals: dict[Path, str] = {}
        changed: dict[Path, str] = {}
        for edit in self.edits:
            path = tree / edit.file
            text = path.read_text()
            originals.setdefault(path, text)
            changed[path] = edit.applied(changed.get(path, text))
        for path, text in changed.items():
            path.write_text(text)
        return originals


def restore(originals: Mapping[Path, str]) -> None:
    """Undo what `Mutation.apply` wrote."""
    for path, text in originals.items():
        path.write_text(text)
