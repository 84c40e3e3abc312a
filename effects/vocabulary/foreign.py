"""The project's code between what is known and its commit: it gets one try, and its interrupts wait for the commit.

A settled hook, an `answer=`, a redactor, an output's class may raise anything, end the process, or break the
transaction that they run in. None of it may take what the provider answered along. So a write of ours that may run such
code is tried with it, and where it cannot be committed so, once more without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

__all__ = ["Try", "hold_interrupt", "is_interrupt", "no_try", "one_try", "present_try"]


@dataclass
class Try:
    """The one try that the project's code gets within one write of ours; a second one where only our COMMIT was lost.

    Attributes:
        count: how often the hook, or `answer=`, has begun.
        finished: it ended well, the last time: its rows stand if the transaction does.
        over: it is left out of what follows.
        error: what it raised, or what broke after it, in words; empty: nothing is known against it.
        redacted: what the project's redactor made of which text at which place; it is asked once.
        interrupt: what ends the process or the task, held back until the write is committed.
    """

    count: int = 0
    finished: bool = False
    over: bool = False
    error: str = ""
    redacted: dict[tuple[str, str], str] = field(default_factory=dict)
    interrupt: BaseException | None = None

    @property
    def left_out(self) -> bool:
        """Whether the project's code does not run any more in this write."""
        return self.over or (self.count > 0 and not self.finished) or self.count > 1

    @property
    def blame(self) -> str:
        """Why it is left out, in words; empty where it is not to blame."""
        return self.error or ("its rows could not be committed" if self.count > 1 else "")


_present: ContextVar[Try | None] = ContextVar("effects_foreign_try", default=None)


def present_try() -> Try | None:
    """Return the try of the write that is under way, or None outside of one."""
    return _present.get()


@contextmanager
def one_try() -> Iterator[Try]:
    """Give the project's code one try within the block."""
    tried = Try()
    with _trying(tried):
        yield tried


def no_try() -> AbstractContextManager[None]:
    """Run the block outside of any write that is under way."""
    return _trying(None)


@contextmanager
def _trying(tried: Try | None) -> Iterator[None]:
    outer = _present.get()
    _present.set(tried)
    try:
        yield
    finally:
        _present.set(outer)


def is_interrupt(error: BaseException) -> bool:
    """Return whether `error` ends the process or its task, so that it goes on after its doubt was recorded."""
    # Celery is not imported here: its soft time limit is an Exception like any other, and known by its name
    return not isinstance(error, Exception) or any(
        kind.__name__ == "SoftTimeLimitExceeded" for kind in type(error).__mro__
    )


def hold_interrupt(error: BaseException) -> None:
    """Hold an interrupt back that foreign code raised, until what is known is committed; call it in the handler.

    Outside of such a write it goes on at once. What is no interrupt is left to the caller.
    """
    if not is_interrupt(error):
        return
    tried = _present.get()
    if tried is None:
        raise error
    tried.interrupt = tried.interrupt or error
