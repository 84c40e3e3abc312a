"""The mutations follow the code: what they change is there, and so is the test that must notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.__main__ import MUTATIONS, ROOT
from tests.mutations.rule import Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_what_a_mutation_changes_is_there(mutation: Mutation) -> None:
    """Each edit fits the code as it stands, exactly once, and changes it; the named test exists."""
    texts: dict[Path, str] = {}
    for edit in mutation.edits:
        path = ROOT / edit.file
        before = texts.get(path) or path.read_text()
        texts[path] = edit.applied(before)
        assert texts[path] != before
    file, _, test = mutation.test.partition("::")
    assert f"def {test.rpartition('::')[2].partition('[')[0]}(" in (ROOT / file).read_text()


def test_names_tell_mutations_apart() -> None:
    """`python -m tests.mutations WORD` runs what it names."""
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
