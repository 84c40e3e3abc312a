"""The innermost handler of a URL, and what a test does when a request enters or leaves it.

Decorators are what is tested, so the place to hold or to crash a request lies below all of them. It is watched with
`sys.setprofile` in the thread that serves the request: no view has to be changed for it.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from django.urls import resolve

from effects.journal import faults
from effects.testing.faults import Interrupted

__all__ = ["Meeting", "crash_at", "find_handler", "on_entry"]


def find_handler(method: str, path: str) -> CodeType | None:
    """Return the code of the function that serves a method of a path, below its decorators; None: not Python's own.

    Decorators are seen through by `__wrapped__`, which `functools.wraps` sets, and `@api_view` by its closure.
    """
    callback: Any = resolve(path).func
    view = getattr(callback, "view_class", None) or getattr(callback, "cls", None)
    if view is not None:
        name = (getattr(callback, "actions", None) or {}).get(method.lower(), method.lower())
        callback = inspect.getattr_static(view, name, None)
    for _ in range(20):
        inner = getattr(callback, "__wrapped__", None)
        if inner is None and getattr(callback, "__qualname__", "").startswith("api_view.<locals>"):
            inner = inspect.getclosurevars(callback).nonlocals.get("func")
        if inner is None:
            break
        callback = inner
    return getattr(callback, "__code__", None)


@contextmanager
def _watching(code: CodeType | None, event: str, react: Callable[[], None]) -> Iterator[None]:
    """Call `react` in this thread at each call of, or return from, a function."""
    if code is None:
        yield
        return

    def watch(frame: FrameType, what: str, _arg: object) -> None:
        if what == event and frame.f_code is code:
            react()

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


class Meeting:
    """Holds each request that gets into the handler until all others are in it as well, or have been answered.

    Args:
        requests: how many there are.
        patience: how long it holds one, in seconds: the others may be made to wait for that one.
    """

    def __init__(self, requests: int, patience: float) -> None:
        self._left, self._patience = requests, patience
        self._changed = threading.Condition()

    def arrive(self) -> None:
        """Say that one is in the handler, and hold it there."""
        deadline = time.monotonic() + self._patience
        with self._changed:
            self._left -= 1
            self._changed.notify_all()
            while self._left > 0 and (rest := deadline - time.monotonic()) > 0:
                self._changed.wait(rest)

    def end(self) -> None:
        """Say that one was answered without having been in the handler."""
        with self._changed:
            self._left -= 1
            self._changed.notify_all()


@contextmanager
def on_entry(code: CodeType | None, meeting: Meeting) -> Iterator[None]:
    """Let the request that this thread serves in the block take part in a meeting, once."""
    arrived: list[bool] = []

    def arrive() -> None:
        if not arrived:
            arrived.append(True)
            meeting.arrive()

    try:
        with _watching(code, "call", arrive):
            yield
    finally:
        if not arrived:
            meeting.end()


class _Dead:
    """A thread whose process is dead, as far as its journal is concerned: no commit after the crash takes place.

    Of this thread alone: others, such as the one that renews leases, live on.
    """

    def __init__(self) -> None:
        self._thread: int | None = None

    def crash(self, where: str) -> None:
        """Crash here.

        Raises:
            Interrupted: always.
        """
        self._thread = threading.get_ident()
        raise Interrupted(where)

    def watch(self, point: str, first: str | None) -> None:
        """Crash at the first point, and at all that follow it."""
        if point == first or self._thread == threading.get_ident():
            self.crash(point)


@contextmanager
def crash_at(point: str | None, code: CodeType | None) -> Iterator[None]:
    """Crash the request that this thread serves in the block, once and for good.

    Args:
        point: at this fault point; None: where the handler returns, when what it did is done and nobody above it has
            seen its answer.
        code: the handler's.
    """
    dead = _Dead()
    faults.arm(lambda reached: dead.watch(reached, point))
    try:
        with _watching(code if point is None else None, "return", lambda: dead.crash("the handler returned")):
            yield
    finally:
        faults.disarm()
