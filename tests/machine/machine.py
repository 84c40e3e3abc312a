"""The rules: what programs, workers, people, the provider, the network and time can do, in any order."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effects.journal.locks import now
from effects.models import Execution, Receipt, Request
from effects.runtime import operators
from effects.sweeps import SWEEPS
from effects.testing import run_due
from effects.transitions.resends import what_confirms
from effects.vocabulary.states import EXECUTION_IN_DOUBT, EXECUTION_SETTLED, ExecutionState, RequestState, values
from tests.machine.declared import EFFECTS, Machine
from tests.machine.oracle import Oracle, Violation
from tests.machine.provider import Answer, Look
from tests.machine.world import World

__all__ = ["EffectsMachine", "empty", "people"]

_S = ExecutionState
#: Divisible by most numbers of offers, so that each is as likely.
CHOICE = st.integers(0, 1679)
DOUBTS = (Answer.LOST, Answer.LATE, Answer.VANISHED, Answer.ORDER_LOST, Answer.LATE_ORDER)
KEY = st.sampled_from(["a", "bb", "ccc", "dddd", "eeeee"])
#: Two who may ask and approve, one who may approve, one who may not.
USER = st.integers(0, 3)
#: Doubt is what it is about.
ANSWER = st.sampled_from([*Answer, *DOUBTS, Answer.SUBMITTED, Answer.SUBMITTED, Answer.DECLINED])
#: No sum of these is near anything that the journal waits for: it must not depend on milliseconds.
TIME = st.sampled_from([
    timedelta(seconds=3.3), timedelta(seconds=17.9), timedelta(seconds=51.7), timedelta(minutes=6.1),
    timedelta(hours=2.1), timedelta(hours=25.3), timedelta(days=8.1),
])  # fmt: skip
#: Where a process may die while it works; mostly it does not.
POINTS = (
    "performing_an_effect.after_commit", "send.before_call", "send.replied", "recording_an_outcome.before_commit",
    "recording_an_outcome.after_commit", "hook.before", "hook.after", "sending_an_effect.before_commit",
    "sending_an_effect.after_commit", "look_up.before_call", "look_up.replied", "looking_up_an_effect.after_commit",
    "recording_a_look-up.before_commit", "recording_a_look-up.after_commit", "settling_a_request.before_commit",
)  # fmt: skip
DEATH = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(POINTS))
Offer = tuple[str, Callable[[], None]]
#: Surroundings are mostly time: nothing in doubt goes on without.
ACTORS = ("program", "process", "process", "worker", "person", "person", "surroundings", "surroundings")


@dataclass(frozen=True)
class Event:
    """One step: whose turn it is, a number that chooses among what they can do, and how it goes."""

    actor: str
    choice: int
    which: bool
    key: str
    user: int
    answer: Answer
    look: Look
    death: str | None
    delta: timedelta
    good: bool


EVENTS = st.builds(
    Event, actor=st.sampled_from(ACTORS), choice=CHOICE, which=st.booleans(), key=KEY, user=USER, answer=ANSWER,
    look=st.sampled_from([Look.TRUTH, Look.TRUTH, *Look]), death=DEATH, delta=TIME,
    good=st.sampled_from([True, True, False]),
)  # fmt: skip


class EffectsMachine(RuleBasedStateMachine):
    """Drives one world; the oracle looks after each step.

    What an actor can do just now is a list of offers, of which a number chooses one. There are no preconditions, so
    that what Hypothesis draws never depends on how far the machine's own clock got; and one rule, since of several
    Hypothesis leaves out half in each run, and without time, say, or people most stories do not go on.
    """

    #: Few effects in one world, so that the same execution is met again and again.
    effects: ClassVar[tuple[type[Machine], type[Machine]]] = EFFECTS[:2]
    #: Whether the provider tells by itself what it has, too.
    hears: ClassVar[bool] = False
    #: Verb → how often it was taken in this run: a machine that gets nowhere proves nothing.
    reached: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        empty()
        self.world = World(people())
        self.oracle = Oracle(self.world)
        self.sound = False

    @initialize(lag=st.sampled_from([0.0, 20.0, 240.0]))
    def begin(self, lag: float) -> None:
        self.world.provider.lag = lag

    @rule(event=EVENTS)
    def step(self, event: Event) -> None:
        self.sound = False
        self.world.provider.answer, self.world.provider.look = event.answer, event.look
        offers: list[Offer] = getattr(self, event.actor)(event)
        # an actor who has nothing to do leaves the step to a program
        offers = offers or self.program(event)
        name, take = offers[event.choice % len(offers)]
        note(f"    # {name}")
        with self.world.dying(event.death if event.actor in ("program", "worker") else None):
            take()
        self.world.provider.look = Look.TRUTH

    # -- programs and their processes ----------------------------------------------------------------------------

    def program(self, event: Event) -> list[Offer]:
        """Call `effects`, in a handler or outside of one."""
        world, effect, key = self.world, self.effects[event.which], event.key
        person = world.people[event.user]
        offers: list[Offer] = [
            ("perform", lambda: world.perform(effect, key, person)),
            ("record and hold the permit", lambda: world.record(effect, key, person)),
            ("record and hold the permit", lambda: world.record(effect, key, person)),
            ("perform later", lambda: world.perform_later(effect, key, person)),
            ("request of a declared view", lambda: world.open(key, person, opaque=False)),
            ("request of an opaque view", lambda: world.open(key, person, opaque=True)),
        ]
        for handler in world.handlers:
            offers += [
                ("handler performs", functools.partial(world.perform, effect, key, None, handler)),
                ("handler performs, without a key", functools.partial(world.perform, effect, None, None, handler)),
                ("handler records", functools.partial(world.record, effect, None, handler.handle.actor, handler)),
            ]
        return offers

    def process(self, event: Event) -> list[Offer]:
        """Go on with a call, a look-up or a handler that was begun."""
        world, offers = self.world, list[Offer]()
        newest = {row.pk: row.attempts for row in world.rows}
        for sender in world.senders:
            step = world.call if sender.report is None else world.report
            name = f"sender {'calls' if sender.report is None else 'reports'}"
            # late news while another attempt is open is what the fence is for, and rare
            late = sender.permit.number < newest.get(sender.execution, 0)
            offers += [(name, functools.partial(step, sender))] * (20 if late else 4)
            offers.append(("sender dies", functools.partial(world.senders.remove, sender)))
        for looker in world.lookers:
            go_on = world.read if looker.verdict is None else world.tell
            name = f"look-up {'reads' if looker.verdict is None else 'tells'}"
            offers += [(name, functools.partial(go_on, looker))] * 3
            offers.append(("look-up dies", functools.partial(world.lookers.remove, looker)))
        for handler in world.handlers:
            offers += [("handler returns", functools.partial(world.conclude, handler))] * 2
            offers.append(("lease renewed", functools.partial(world.renew, handler)))
            offers.append(("handler raises", functools.partial(world.abort, handler)))
            offers.append(("handler releases", functools.partial(world.release, handler)))
            offers.append(("handler dies", functools.partial(world.handlers.remove, handler)))
        return offers

    # -- workers -------------------------------------------------------------------------------------------------

    def worker(self, event: Event) -> list[Offer]:
        """Sweep, take messages, permit, claim."""
        world, offers = self.world, list[Offer]()
        if world.rows or world.requests:
            offers += [("all sweeps", self._sweep)] * 3
            offers += [(f"sweep {name}", functools.partial(world.sweep, name)) for name in sorted(SWEEPS)]
            offers.append(("sweeps publish", world.publish))
        for hint in world.hints:
            offers.append(("message delivered", functools.partial(world.deliver, hint, again=False)))
            offers.append(("message delivered, and once more later", functools.partial(world.deliver, hint)))
        overtaken = {sender.execution for sender in world.senders}
        for row in self._rows(_S.PENDING, _S.UNCERTAIN, _S.NEEDS_INTERVENTION):
            offers += [("hold the permit", functools.partial(world.permit, row))] * (12 if row.pk in overtaken else 3)
        for row in self._rows(_S.UNCERTAIN, _S.ACCEPTED):
            offers += [("hold the claim", functools.partial(world.claim, row, now=event.good))] * 3
        return offers

    def _sweep(self) -> None:
        self.world.sweep()
        self.oracle.check_leases(now())

    # -- people --------------------------------------------------------------------------------------------------

    def person(self, event: Event) -> list[Offer]:
        """Decide, by hand."""
        world, by, offers = self.world, self.world.people[event.user], list[Offer]()
        for row in self._rows(_S.AWAITING_APPROVAL, _S.NEEDS_INTERVENTION):
            offers += [("approve", functools.partial(world.vote, row, by, approves=True))] * 3
            offers.append(("deny", functools.partial(world.vote, row, by, approves=False)))
        for row in self._rows(_S.AWAITING_APPROVAL, _S.PENDING, _S.NEEDS_INTERVENTION):
            offers.append(("withdraw", functools.partial(world.take_back, operators.withdraw, row, by)))
            offers.append(("cancel", functools.partial(world.take_back, operators.cancel, row, by)))
        for row in self._rows(*EXECUTION_IN_DOUBT):
            offers += [("resolve", functools.partial(world.resolve, row, by, give_up=False))] * 2
            offers.append(("give up", functools.partial(world.resolve, row, by, give_up=True)))
            offers.append(("look up now", functools.partial(world.look_up_now, row)))
        for row in self._rows(_S.NEEDS_INTERVENTION):
            confirmed = functools.partial(operators.order_resend, confirm=what_confirms(row))
            offers += [("order a resend", functools.partial(world.by_hand, confirmed, row, by))] * 3
            offers += [("reopen", functools.partial(world.by_hand, operators.reopen, row, by))] * 3
        for row in self._rows(_S.FAILED, _S.REJECTED):
            offers.append(("ask again", functools.partial(world.supersede, row, by)))
        for row in self._rows(_S.COMPLETED, _S.PARTIALLY_COMPLETED):
            offers.append(("undo", functools.partial(world.compensate, row, by)))
        for row in world.rows:
            offers.append(("bring evidence", functools.partial(world.bring_evidence, row, by)))
        for request in world.requests:
            if request.state == RequestState.IN_DOUBT:
                offers.append(("resolve the request", functools.partial(world.resolve_request, request, by)))
        return offers

    # -- the provider, the network, the project, time ------------------------------------------------------------

    def surroundings(self, event: Event) -> list[Offer]:
        """The provider, the network, the project, operations, and time."""
        world, good = self.world, event.good
        offers: list[Offer] = [(f"{event.delta} pass", functools.partial(world.passes, event.delta))] * 12
        offers.append(("effects_doubt_since, and nothing was lost", world.doubt))
        offers += [("the project changes", functools.partial(world.change, hook_raises=not good))] * 3
        known = [row for row in world.rows if world.provider.known(row.provider_key)]
        offers += [("webhook", functools.partial(world.observe, row, undone=not good)) for row in known]
        if self.hears:
            offers += self._news()
        for flight in world.provider.flights:
            offers += [("a request lands", functools.partial(world.provider.land, flight, arrives=good))] * 3
        for order in world.provider.orders:
            if not order.refused:
                ends = ("applied", "refused" if good else "lost")
                offers += [
                    ("an order is carried out", functools.partial(world.provider.carry_out, order, how=how))
                    for how in ends
                ]
        return offers

    def _news(self) -> list[Offer]:
        world, offers = self.world, list[Offer]()
        for row in world.rows:
            if world.provider.things(row.provider_key):
                offers += [("the provider sends an event", functools.partial(world.announce, row))] * 2
        for event in world.events[-4:]:
            offers += [("an event arrives", functools.partial(world.hear, event, again=False))] * 3
            offers.append(("an event arrives, and once more later", functools.partial(world.hear, event, again=True)))
        return offers

    def _rows(self, *states: ExecutionState) -> list[Execution]:
        return [row for row in self.world.rows if row.state in states]

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def promises_hold(self) -> None:
        self.world.stand_still()
        self.oracle.check()
        self.sound = True

    def teardown(self) -> None:
        """When nothing goes wrong any more, everything comes to its end or to a person."""
        try:
            if self.sound:
                self._calm_down()
        finally:
            Machine.world = None

    def _calm_down(self) -> None:
        world = self.world
        world.provider.answer, world.provider.look, world.provider.lag = Answer.APPLIED, Look.TRUTH, 0.0
        world.hook_raises = world.not_yet = False
        world.senders.clear()
        world.lookers.clear()
        world.handlers.clear()
        for _ in range(12):
            world.passes(timedelta(hours=1))
            for order in [each for each in world.provider.orders if not each.refused]:
                world.provider.carry_out(order, how="applied")
            run_due()
            self.oracle.check()
            if not self._unfinished():
                break
        else:
            raise Violation(f"hangs: {self._unfinished()}")
        self.reached.update(Receipt.objects.values_list("event", flat=True))
        self.reached.update("hear" for _ in Receipt.objects.filter(evidence__has_key="says"))

    def _unfinished(self) -> list[Any]:
        waits = values({_S.AWAITING_APPROVAL, _S.NEEDS_INTERVENTION, *EXECUTION_SETTLED})
        hanging = list(Execution.objects.exclude(state__in=waits).values_list("operation", "state", "reason"))
        hooks = list(Execution.objects.filter(hook_due_at__isnull=False).values_list("operation", "state"))
        opened = Request.objects.filter(state__in=values({RequestState.RUNNING, RequestState.WAITING}))
        asked = Execution.objects.filter(state__in=waits).exclude(state__in=values(EXECUTION_SETTLED))
        return [*hanging, *hooks, *opened.exclude(executions__in=asked).values_list("operation", "state", "reason")]


def empty() -> None:
    """Forget all that is in the journal and in the project's table."""
    journal = [model._meta.db_table for model in apps.get_app_config("effects").get_models()]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE machine_row, {', '.join(journal)}")


def people() -> tuple[Any, ...]:
    """Return who asks and who approves; the last one is nobody's approver."""
    users = get_user_model().objects
    approves = Permission.objects.get(codename="approve_execution", content_type__app_label="effects")
    found = []
    for number in range(4):
        user, made = users.get_or_create(username=f"machine{number}")
        if made and number < 3:
            user.user_permissions.add(approves)
        found.append(user)
    return tuple(found)
