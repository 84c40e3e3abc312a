"""The diagrams of `docs/reference/states.md`, drawn from the tables of `effects.vocabulary.states`.

`python -m tests.docs.diagrams` writes them into the page; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from effects.vocabulary.states import (
    EXECUTION_EDGES,
    EXECUTION_IN_DOUBT,
    EXECUTION_OPEN,
    REQUEST_EDGES,
    REQUEST_ENDED,
    Edge,
    RequestState,
    Word,
)

__all__ = ["PAGE", "arrows", "diagrams", "write"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "states.md"
_PLACE = "<!-- diagram: {name} -->\n```mermaid\n{text}```\n"
_FIND = r"<!-- diagram: {name} -->\n```mermaid\n.*?```\n"


def diagrams() -> dict[str, str]:
    """Return each diagram's Mermaid text by its name on the page."""
    running = frozenset(RequestState) - REQUEST_ENDED
    return {
        "request": _draw(REQUEST_EDGES, running, created=True),
        "execution until it is sent": _draw(EXECUTION_EDGES, EXECUTION_OPEN, created=True),
        "execution in doubt": _draw(EXECUTION_EDGES, EXECUTION_IN_DOUBT, created=False),
    }


def arrows(edges: Mapping[str, Edge]) -> dict[tuple[str, str], list[str]]:
    """Return the verbs between any two different states; "" is the state before a row exists."""
    found: dict[tuple[str, str], list[str]] = {}
    for verb, edge in edges.items():
        for source in sorted(edge.sources) or [None]:
            targets = edge.leads(source) if source is not None else edge.targets
            for target in sorted(targets - {source}):
                found.setdefault((str(source or ""), str(target)), []).append(verb)
    return found


def write(page: str) -> str:
    """Return the page with its diagrams drawn anew."""
    for name, text in diagrams().items():
        page, count = re.subn(
            _FIND.format(name=name), lambda _, n=name, t=text: _PLACE.format(name=n, text=t), page, flags=re.DOTALL
        )
        assert count == 1, f"the page has {count} places for the diagram {name!r}"
    return page


def _draw(edges: Mapping[str, Edge], sources: frozenset[Word], *, created: bool) -> str:
    wanted = {str(source) for source in sources} | ({""} if created else set())
    lines = ["stateDiagram-v2"]
    for (source, target), verbs in arrows(edges).items():
        if source in wanted:
            lines.append(f"    {source or '[*]'} --> {target}: {', '.join(verbs)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
