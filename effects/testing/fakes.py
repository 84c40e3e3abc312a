"""A provider that remembers: it does what it is sent, loses what a test says, and answers look-ups truthfully."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from effects.declarations.effect import Effect, get_effect
from effects.testing.provider import speaks_for
from effects.testing.time import passed
from effects.vocabulary.failures import Declined, KeyReused
from effects.vocabulary.types import Applied, Context, Permit, Submitted
from effects.vocabulary.verdicts import Absent, Conflict, Found, InProgress, Verdict

__all__ = ["FakeOrder", "FakeProvider"]


@dataclass(frozen=True)
class FakeOrder:
    """One thing that the provider has done.

    Attributes:
        operation: of which effect.
        payload: what it was sent.
        ref: the execution's.
        key: the execution's own key.
        provider_key: under which it was sent; a second order under one key is what must not be.
        reference: the provider's own id of it.
        undoes: the reference of the order that it undoes; empty where it undoes none.
    """

    operation: str
    payload: Any
    ref: str
    key: str
    provider_key: str
    reference: str
    undoes: str = ""


class FakeProvider:
    """A provider with a memory, for tests that are about what happened and not about what was called.

    It carries out each send and remembers it. Told to lose a reply it carries out the send all the same; told to lose a
    request it does not. Look-ups say what is so. Where the effect declares `deduplicates`, a second send under one
    provider key is answered as the first was; otherwise it is carried out a second time, as most providers would, and
    `orders` shows it. Threads may share one.

    Args:
        lag: for how long a look-up does not see a new order; `time_passes` counts.
        output: makes the output of an answer of the order; without it there is none.

    Attributes:
        orders: what was done, in its order.
        sends, look_ups: how often it was called.
        away: while it is True nothing reaches it: sends and look-ups raise `ConnectionRefusedError`.
    """

    def __init__(self, *, lag: timedelta = timedelta(0), output: Callable[[FakeOrder], Any] | None = None) -> None:
        self.orders: list[FakeOrder] = []
        self.sends = self.look_ups = 0
        self.away = False
        self._lag, self._make_output = lag, output
        self._lock = threading.RLock()
        self._troubles: deque[Callable[[FakeOrder], Any]] = deque()
        self._delayed: list[FakeOrder] = []
        self._accepted: list[FakeOrder] = []
        self._seen_from: dict[str, timedelta] = {}

    @contextmanager
    def answers(self, *effects: type[Effect[Any]] | str) -> Iterator[FakeProvider]:
        """Let it answer for these effects in the block; everything else is the real runtime."""
        with ExitStack() as stack:
            for effect in map(get_effect, effects):
                send = partial(self._send, effect.deduplicates is not None)
                stack.enter_context(speaks_for(effect, send, self._look_up))
            yield self

    def lose_reply(self, times: int = 1) -> None:
        """Carry out the next sends, and let their replies be lost: a `TimeoutError`."""
        self._troubles.extend([self._do_and_lose] * times)

    def lose_request(self, times: int = 1) -> None:
        """Never hear of the next sends: a `TimeoutError`, too."""
        self._troubles.extend([_lose] * times)

    def delay_request(self, times: int = 1) -> None:
        """Let the next sends end in a `TimeoutError`, and reach it only with `deliver()`."""
        self._troubles.extend([self._delay] * times)

    def decline(self, message: str = "", code: str = "", times: int = 1) -> None:
        """Refuse the next sends for a business reason."""

        def refuse(_order: FakeOrder) -> Any:
            raise Declined(message, code=code)

        self._troubles.extend([refuse] * times)

    def accept(self, times: int = 1) -> None:
        """Only take the next orders, as `Submitted`; `finish()` carries them out."""
        self._troubles.extend([self._take] * times)

    def deliver(self) -> None:
        """Carry out what was delayed."""
        self._do_all(self._delayed)

    def finish(self) -> None:
        """Carry out what was only taken."""
        self._do_all(self._accepted)

    def _send(self, deduplicates: bool, context: Context[Any], permit: Permit) -> Any:
        with self._lock:
            self._refuse_while_away()
            self.sends += 1
            order = FakeOrder(
                operation=context.operation, payload=context.payload, ref=context.ref, key=context.key,
                provider_key=permit.provider_key, reference=f"fake_{self.sends}",
                undoes=next((each.reference for each in self.orders if each.ref == context.compensates), ""),
            )  # fmt: skip
            known = self._under(permit.provider_key) if deduplicates else []
            if known and known[0].payload != order.payload:
                raise KeyReused(f"{permit.provider_key} was used with another payload")
            if known:
                return self._answer(known[0])
            return self._troubles.popleft()(order) if self._troubles else self._do(order)

    def _look_up(self, context: Context[Any]) -> Verdict:
        with self._lock:
            self._refuse_while_away()
            self.look_ups += 1
            found = self._under(context.provider_key)
            if len(found) > 1:
                return Conflict(f"{len(found)} orders under one key: " + ", ".join(each.reference for each in found))
            taken = [each for each in self._accepted if each.provider_key == context.provider_key]
            if not found:
                return InProgress(taken[0].reference) if taken else Absent()
            return Found(found[0].reference, output=self._output(found[0]))

    def _under(self, provider_key: str) -> list[FakeOrder]:
        """Return the orders under a key that can be seen by now."""
        return [
            each for each in self.orders
            if each.provider_key == provider_key and self._seen_from[each.reference] <= passed()
        ]  # fmt: skip

    def _do(self, order: FakeOrder) -> Applied:
        self.orders.append(order)
        self._seen_from[order.reference] = passed() + self._lag
        return self._answer(order)

    def _answer(self, order: FakeOrder) -> Applied:
        return Applied(self._output(order), order.reference)

    def _output(self, order: FakeOrder) -> Any:
        return None if self._make_output is None else self._make_output(order)

    def _do_and_lose(self, order: FakeOrder) -> None:
        self._do(order)
        _lose(order)

    def _delay(self, order: FakeOrder) -> None:
        self._delayed.append(order)
        _lose(order)

    def _take(self, order: FakeOrder) -> Submitted:
        self._accepted.append(order)
        return Submitted(order.reference)

    def _do_all(self, waiting: list[FakeOrder]) -> None:
        with self._lock:
            while waiting:
                self._do(waiting.pop(0))

    def _refuse_while_away(self) -> None:
        if self.away:
            raise ConnectionRefusedError("the provider is away")


def _lose(_order: FakeOrder) -> None:
    raise TimeoutError("the provider's reply did not come")
