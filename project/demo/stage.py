"""What a story plays on: the cluster, the provider, the people, and the journal to look into."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from effects.models import Execution, Request
from project.payments.models import Order, Refund
from project.services.faults import Faults

from .browsers import Browser
from .clients import Answer, Client, Conversations
from .cluster import Cluster, Note
from .people import People, Person
from .provider import Provider

__all__ = ["Stage", "Telling", "counted", "new_key"]

#: Between two looks into the journal, in seconds.
PAUSE = 0.05


@dataclass(slots=True)
class Telling:
    """What a story has to tell.

    Attributes:
        happened: What was done and what became of it.
        saw: What the client was answered, line by line.
        provider: What Stripe's ledger has of it.
        shop: What the shop's tables have of it.
        failures: What did not come out as it has to.
    """

    happened: str = ""
    saw: tuple[str, ...] = ()
    provider: str = ""
    shop: str = ""
    failures: list[str] = field(default_factory=list)

    def expect(self, holds: object, what: str) -> None:
        """Note a failure unless something holds."""
        if not holds:
            self.failures.append(what)

    def expect_answer(self, answer: Answer, words: str) -> None:
        """Note a failure unless the client was answered like that."""
        self.expect(answer.words == words, f"the client was answered {answer.words}, not {words}")

    def expect_one_refund(self, stage: Stage, order: Order) -> None:
        """Say what Stripe and the shop have of an order, and note a failure unless it is one refund."""
        there, here = len(stage.provider.refunds(order.number)), Refund.objects.filter(order=order).count()
        self.provider, self.shop = counted(there, "refund"), counted(here, "refund")
        self.expect(there == 1, f"Stripe has {counted(there, 'refund')} of {order.number}")
        self.expect(here == 1, f"the shop has {counted(here, 'refund')} of {order.number}")

    def expect_replayed(self, stage: Stage, key: str, answer: Answer) -> None:
        """Note a failure unless an answer is a replayed 201, and every success under its key was the same bytes."""
        self.expect_answer(answer, "201")
        self.expect(answer.replayed, "the last answer is no replay")
        others = [each for each in stage.conversations.under(key) if each.is_success]
        self.expect(all(each.same_as(answer) for each in others), "the replays differ")


@dataclass(slots=True)
class Stage:
    """The cluster, and who acts on it.

    Attributes:
        cluster: The processes.
        provider: Stripe's own ledger.
        people: Who can log in.
        conversations: Every answer that a client was given.
        note: Told what is going on.
    """

    cluster: Cluster
    provider: Provider
    people: People
    conversations: Conversations
    note: Note
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1001))

    @property
    def client(self) -> Client:
        """The customer's program."""
        person = self.people.client
        return Client(self.cluster.url, person.name, person.password, self.conversations)

    @property
    def faults(self) -> Faults:
        """The bad network before Stripe."""
        return self.cluster.faults

    def browser(self, person: Person) -> Browser:
        """Log somebody in at the admin."""
        return Browser(self.cluster.url, person.name, person.password)

    def order(self, amount: int) -> Order:
        """Order something through the shop's API; `amount` counts minor units."""
        number = f"A-{next(self._numbers)}"
        data = {"number": number, "amount": amount, "currency": "eur"}
        answer = self.client.post("/orders/", data, new_key())
        if not answer.is_success:
            raise RuntimeError(f"order {number} was answered {answer.words}: {answer.body!r}")
        return Order.objects.get(number=number)

    def paid_order(self, amount: int) -> Order:
        """Order something and pay for it, through the shop's API."""
        order = self.order(amount)
        answer = self.client.post(f"/orders/{order.pk}/pay/", {}, new_key())
        if not answer.is_success:
            raise RuntimeError(f"paying {order.number} was answered {answer.words}: {answer.body!r}")
        order.refresh_from_db()
        return order

    def execution_of(self, request_ref: str) -> Execution:
        """Return the one execution that a protected request performed."""
        return Execution.objects.get(links__request_id=request_ref)

    def execution_about(self, order: Order) -> Execution:
        """Return the one execution about an order."""
        return Execution.objects.get(about_id=str(order.pk), operation="payments.refund")

    def request_under(self, key: str) -> Request:
        """Return the protected request under a client's key."""
        return Request.objects.get(key=key)

    def wait_until(self, what: str, holds: Callable[[], bool], *, within: float = 30.0) -> None:
        """Look into the journal until something holds there.

        Raises:
            TimeoutError: It does not.
        """
        deadline = time.monotonic() + within
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {within:g} s")
            # other processes do it, and a journal announces nothing
            time.sleep(PAUSE)


def new_key() -> str:
    """Return an idempotency key, as a client makes it: new for each thing that it wants done."""
    return secrets.token_hex(8)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
