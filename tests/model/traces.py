"""The traces of `docs/explanation/what-can-still-go-wrong.md`, printed by the model.

`python -m tests.model.traces` writes them into the page; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.model.execution import Config, check

__all__ = ["PAGE", "TRACES", "traces", "write"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "what-can-still-go-wrong.md"
#: The name on the page → the configuration in which one assumption does not hold.
TRACES = {
    "a process stalls": Config(stalls=True),
    "a request lands late": Config(lands_late=True),
    "a look-up misses what has landed": Config(misses=True),
    "the journal forgets a commit": Config(forgets=True),
}
_PLACE = "<!-- trace: {name} -->\n```text\n{text}```\n"
_FIND = r"<!-- trace: {name} -->\n```text\n.*?```\n"


def traces() -> dict[str, str]:
    """Return each trace by its name on the page: the shortest order of events by which it is applied twice."""
    return {name: _number(check(config).wrong["applied twice"]) for name, config in TRACES.items()}


def write(page: str) -> str:
    """Return the page with its traces printed anew."""
    for name, text in traces().items():
        before = re.findall(_FIND.format(name=name), page, flags=re.DOTALL)
        assert len(before) == 1, f"the page has {len(before)} places for the trace {name!r}"
        page = page.replace(before[0], _PLACE.format(name=name, text=text))
    return page


def _number(steps: tuple[str, ...]) -> str:
    return "".join(f"{number:2}. {step}\n" for number, step in enumerate(steps, 1))


if __name__ == "__main__":
    PAGE.write_text(write(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
