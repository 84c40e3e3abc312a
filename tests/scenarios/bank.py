"""A provider that keeps its own books: what it was asked, what it applied, and what its look-up shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import effects
from effects.testing import provider_says
from tests.core.declared import Approved, Charge, Deduplicated, Plain

__all__ = ["Ledger", "opened"]


class Ledger:
    """Applies what it is sent, unless told otherwise, and answers look-ups from its books.

    Attributes:
        applied: the provider keys that were carried out, in order.
        asked: all provider keys that arrived.
        replies: what becomes of the next answers: an exception is raised after it was applied; the last one stays.
        refuses: raised before anything is applied, once.
        lags: the look-up does not see what was applied.
    """

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.asked: list[str] = []
        self.replies: list[BaseException | None] = [None]
        self.refuses: BaseException | None = None
        self.lags = False

    def send(self, context: Any, permit: Any) -> Any:
        """Carry it out, and perhaps lose the answer."""
        self.asked.append(permit.provider_key)
        if self.refuses is not None:
            refusal, self.refuses = self.refuses, None
            raise refusal
        self.applied.append(permit.provider_key)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply is not None:
            raise reply
        return effects.Applied({"id": "tx_1"}, "tx_1")

    def look_up(self, context: Any) -> Any:
        """Tell what the books show."""
        if context.provider_key in self.applied and not self.lags:
            return effects.Found("tx_1", {"id": "tx_1"})
        return effects.Absent()


def opened() -> Iterator[Ledger]:
    """Let the ledger stand behind the declared effects."""
    ledger = Ledger()
    with ExitStack() as stack:
        for effect in (Charge, Approved, Plain, Deduplicated):
            stack.enter_context(provider_says(effect, ledger.send, look_up=ledger.look_up))
        yield ledger
