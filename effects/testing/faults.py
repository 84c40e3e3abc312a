"""Fault points in tests: count what was reached, interrupt the process at one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from effects.journal import faults

__all__ = ["POINTS", "Interrupted", "interrupt_at", "watch_points"]

POINTS = faults.POINTS


class Interrupted(BaseException):
    """The process ends here, as far as the runtime can tell: no `except Exception` stops it."""


@contextmanager
def watch_points() -> Iterator[Counter[str]]:
    """Count the fault points that the block reaches."""
    reached: Counter[str] = Counter()
    faults.arm(lambda point: reached.update([point]))
    try:
        yield reached
    finally:
        faults.disarm()


@contextmanager
def interrupt_at(point: str, *, nth: int = 1) -> Iterator[Counter[str]]:
    """Raise `Interrupted` when `point` is reached for the nth time in this process, and at every point after it.

    A process that has ended reaches nothing more, so that nothing is committed after that within the block.

    Args:
        point: a key of `POINTS`.
        nth: which time.

    Raises:
        ValueError: there is no such point.
    """
    if point not in POINTS:
        raise ValueError(f"{point!r} is no fault point; there are {', '.join(POINTS)}")
    reached: Counter[str] = Counter()

    def watch(name: str) -> None:
        reached[name] += 1
        if reached[point] >= nth:
            raise Interrupted(point)

    faults.arm(watch)
    try:
        yield reached
    finally:
        faults.disarm()
