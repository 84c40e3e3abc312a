"""The table of rows and the tests belong together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.http.rows.table import ROWS

HERE = Path(__file__)
_NAME = re.compile(r"test_row_(\d\d)_\w+")


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the tests of this package, by the source: nothing that is skipped or deselected hides."""
    for path in sorted(HERE.parent.glob("test_*.py")):
        if path != HERE:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                    yield path.name, node


def test_every_row_has_a_test() -> None:
    """Each row has one or more, and each test names a row that there is."""
    named = {node.name: _NAME.fullmatch(node.name) for _, node in functions()}
    assert not [name for name, found in named.items() if found is None]
    assert {int(found[1]) for found in named.values() if found} == set(ROWS)
    assert sorted(ROWS) == list(range(1, 52))


def test_no_row_is_skipped() -> None:
    """No test of a row is skipped or expected to fail; each says in a sentence what is so."""
    for path, node in functions():
        assert not re.search(r"pytest\.(mark\.)?(skip|xfail|importorskip)", ast.unparse(node)), (path, node.name)
        assert ast.get_docstring(node), (path, node.name)
