"""What the matrix has done: how many cells, and which points were reached."""

from __future__ import annotations

from collections import Counter
from typing import Any

from effects.testing.faults import POINTS

__all__ = ["WIRE", "Tally"]

#: Places in the tests' own effect, between the runtime's `send.before_call` and `send.replied`.
WIRE = {
    "wire.connected": "the connection is made, nothing is sent",
    "wire.sent": "all bytes are sent, the provider's answer not read",
    "wire.answered": "the provider has applied it and answered",
}


class Tally:
    """Counts; those of several processes add up."""

    def __init__(self) -> None:
        self.cells: Counter[str] = Counter()

    def add(self, fault: str) -> None:
        """Count a cell whose fault was met, and whose journal the audit found nothing in."""
        self.cells[fault] += 1

    def merge(self, told: dict[str, int]) -> None:
        """Add what another process counted."""
        self.cells.update(told)

    @property
    def reached(self) -> set[str]:
        """The points at which a process was killed."""
        return {fault for fault in self.cells if "@" not in fault}

    @property
    def unreached(self) -> list[str]:
        """The points at which none was."""
        return sorted({*POINTS, *WIRE} - self.reached)

    def lines(self) -> list[str]:
        """Return what is printed at the end."""
        lost = sum(times for fault, times in self.cells.items() if "@" in fault)
        total = sum(self.cells.values())
        lines = [
            f"{total} cells: {total - lost} with SIGKILL, {lost} with a lost COMMIT; no findings in the audit of each",
            f"{len(self.reached)} of {len({*POINTS, *WIRE})} points reached",
        ]
        return lines + [f"never reached: {name}" for name in self.unreached]

    def as_json(self) -> dict[str, Any]:
        """Return what another process may merge."""
        return dict(self.cells)
