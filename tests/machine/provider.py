"""A provider with a truthful ledger, a bad network before it, and a clock that the test turns.

Within the four assumptions: what is under way lands before the barrier of its attempt or never, and a look-up that lags
has caught up by then. `clock()` runs with the machine's own and leaps with `passes`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import effects
from effects.vocabulary import canonical
from effects.vocabulary.failures import Declined, NotNow, NotSent
from effects.vocabulary.types import monotonic

__all__ = ["Answer", "Entry", "Look", "Order", "Provider"]


class Answer(Enum):
    """What becomes of one request to the provider, and of its reply."""

    APPLIED = "applied, and says so"
    PARTIAL = "one of two items applied, and says so"
    SUBMITTED = "takes the order, and says so"
    LOST = "applied, the reply is lost"
    GARBLED = "applied, the reply cannot be read"
    ORDER_LOST = "takes the order, the reply is lost"
    LATE = "under way when the sender gives up; lands later"
    LATE_ORDER = "under way when the sender gives up; taken as an order later"
    VANISHED = "never arrives, and nobody hears of it"
    DECLINED = "not applied, and says so"
    NOT_NOW = "not applied, try later"
    NOT_SENT = "no connection"


class Look(Enum):
    """How a look-up gets through."""

    TRUTH = "reads the ledger"
    UNREACHABLE = "no connection"
    INCONCLUSIVE = "cannot decide"


@dataclass
class Entry:
    """One application: money moved."""

    key: str
    reference: str
    visible_at: float
    partial: bool = False
    undone: bool = False


@dataclass
class Order:
    """Taken and not yet carried out, or refused for good."""

    key: str
    reference: str
    visible_at: float
    refused: bool = False


@dataclass
class Flight:
    """A request under way: lands, or not, before `latest`."""

    key: str
    latest: float
    lands: bool
    as_order: bool
    lifetime: float | None


@dataclass(frozen=True)
class Wire:
    """What one request to the provider carried."""

    key: str
    number: int
    payload: str
    shown: str
    undoes: bool


@dataclass
class Provider:
    """The ledger, and what is on its way to it."""

    entries: list[Entry] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)
    wire: list[Wire] = field(default_factory=list)
    answer: Answer = Answer.APPLIED
    look: Look = Look.TRUTH
    lag: float = 0.0
    leaped: float = 0.0
    first_use: dict[str, float] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def clock(self) -> float:
        """Return seconds on the world's clock."""
        return self.leaped + monotonic()

    def passes(self, seconds: float) -> None:
        """Let time pass: what should have landed by then has, or never will."""
        self.leaped += seconds
        self.settle()

    def settle(self) -> None:
        """Let what is overdue meet its fate."""
        for flight in [each for each in self.flights if each.latest <= self.clock()]:
            self.land(flight, arrives=flight.lands)

    # -- requests ------------------------------------------------------------------------------------------------

    def send(
        self, effect: effects.Effect[Any], context: Any, permit: Any, shown: str, latest: float, *, undoes: bool
    ) -> Any:
        """Take one request, as `answer` says; `latest` is its attempt's barrier."""
        self.wire.append(Wire(permit.provider_key, permit.number, canonical.dump(context.payload), shown, undoes))
        key, lifetime = permit.provider_key, self._lifetime(effect)
        match self.answer:
            case Answer.DECLINED:
                raise Declined("insufficient funds", code="declined")
            case Answer.NOT_NOW:
                raise NotNow("busy", retry_after=None)
            case Answer.NOT_SENT:
                raise NotSent("connection refused")
            case Answer.VANISHED:
                raise TimeoutError
            case Answer.LATE | Answer.LATE_ORDER:
                order = self.answer is Answer.LATE_ORDER and effect.lookup is not None
                self.flights.append(Flight(key, latest, len(self.wire) % 2 == 0, order, lifetime))
                raise TimeoutError
            case Answer.SUBMITTED | Answer.ORDER_LOST if effect.lookup is not None:
                reference = self._take(key, lifetime, latest)
                if self.answer is Answer.ORDER_LOST:
                    raise ConnectionResetError
                return effects.Submitted(reference)
        entry = self._apply(key, lifetime, latest, partial=self.answer is Answer.PARTIAL)
        if self.answer is Answer.LOST:
            raise ConnectionResetError
        if self.answer is Answer.GARBLED:
            return {"status": "?"}
        if entry.partial:
            return effects.Partial(items_of(entry), reference=entry.reference)
        return effects.Applied({"id": entry.reference}, entry.reference)

    def land(self, flight: Flight, *, arrives: bool = True) -> None:
        """Let a request under way arrive, or get lost for good."""
        self.flights.remove(flight)
        if arrives and flight.as_order:
            self._take(flight.key, flight.lifetime, flight.latest)
        elif arrives:
            self._apply(flight.key, flight.lifetime, flight.latest)

    def carry_out(self, order: Order, *, how: str) -> None:
        """Carry out an order, refuse it for good, or lose it without a trace."""
        if how == "refused":
            order.refused = True
            return
        self.orders.remove(order)
        if how == "applied":
            self.entries.append(Entry(order.key, order.reference, order.visible_at))

    # -- look-ups ------------------------------------------------------------------------------------------------

    def look_up(self, key: str) -> Any:
        """Answer a look-up, as `look` says."""
        self.settle()
        if self.look is Look.UNREACHABLE:
            raise ConnectionRefusedError
        if self.look is Look.INCONCLUSIVE:
            return effects.Inconclusive("the page is empty")
        seen = [entry for entry in self.entries if entry.key == key and entry.visible_at <= self.clock()]
        if len(seen) > 1:
            return effects.Conflict("two of them", reference=seen[0].reference)
        if seen and seen[0].undone:
            return effects.Conflict("it was returned", reference=seen[0].reference)
        if seen:
            items = items_of(seen[0]) if seen[0].partial else ()
            return effects.Found(seen[0].reference, output={"id": seen[0].reference}, items=items)
        orders = [order for order in self.orders if order.key == key and order.visible_at <= self.clock()]
        for order in orders:
            if not order.refused:
                return effects.InProgress(order.reference)
        return effects.ProvenFailed("refused", reference=orders[0].reference) if orders else effects.Absent()

    # -- the truth -----------------------------------------------------------------------------------------------

    def applied(self, *keys: str) -> int:
        """Return how often something was applied under these keys."""
        return sum(entry.key in keys for entry in self.entries)

    def under_way(self, key: str) -> bool:
        """Return whether something can still be applied without another send."""
        self.settle()
        waiting = any(order.key == key and not order.refused for order in self.orders)
        return waiting or any(flight.key == key for flight in self.flights)

    def known(self, key: str) -> list[Entry]:
        """Return the ledger's entries under a key."""
        return [entry for entry in self.entries if entry.key == key]

    def things(self, key: str) -> list[Entry | Order]:
        """Return all that the provider has under a key."""
        return [*self.known(key), *(order for order in self.orders if order.key == key)]

    def _lifetime(self, effect: effects.Effect[Any]) -> float | None:
        if effect.repeatable:
            return math.inf
        return effect.deduplicates.lifetime.total_seconds() if effect.deduplicates else None

    def _is_repeated(self, key: str, lifetime: float | None) -> bool:
        first = self.first_use.setdefault(key, self.clock())
        return lifetime is not None and self.clock() < first + lifetime

    def _apply(self, key: str, lifetime: float | None, latest: float, *, partial: bool = False) -> Entry:
        known = self.known(key)
        if self._is_repeated(key, lifetime) and known:
            return known[0]
        entry = Entry(key, f"re_{next(self.numbers)}", self._visible(latest), partial)
        self.entries.append(entry)
        return entry

    def _take(self, key: str, lifetime: float | None, latest: float) -> str:
        if self._is_repeated(key, lifetime):
            references = [entry.reference for entry in self.known(key)]
            references += [order.reference for order in self.orders if order.key == key]
            if references:
                return references[0]
        order = Order(key, f"or_{next(self.numbers)}", self._visible(latest))
        self.orders.append(order)
        return order.reference

    def _visible(self, latest: float) -> float:
        # what lands when its time is over has landed by then: the clock may have leapt
        return min(self.clock() + self.lag, latest)


def items_of(entry: Entry) -> tuple[effects.Item, ...]:
    """Return the items of an itemised effect of which one was refused."""
    return (effects.Item("first", True, entry.reference), effects.Item("second", False, code="refused"))
