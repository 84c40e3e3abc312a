"""The rules: what programs, workers, people, the provider, the network and time can do, in any order."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effects import operators
from effects._locks import now
from effects.models import Execution, Receipt, Request
from effects.reconcilers import SWEEPS
from effects.states import EXECUTION_IN_DOUBT, EXECUTION_SETTLED, ExecutionState, RequestState, values
from effects.testing import run_due
from tests.machine.declared import EFFECTS, Machine
from tests.machine.oracle import Oracle, Violation
from tests.machine.provider import Answer, Look
from tests.machine.world import World

__all__ = ["EffectsMachine"]

_S = ExecutionState
Rule = Callable[..., None]
KEYS = st.sampled_from(["a", "bb"])
PICK = st.integers(0, 3)
#: The asker, the approvers; the last one may not approve.
USER = st.integers(0, 3)
ANSWERS = st.sampled_from(Answer)
TIMES = st.sampled_from([
    timedelta(seconds=3), timedelta(seconds=17), timedelta(seconds=50), timedelta(minutes=6), timedelta(hours=2),
    timedelta(hours=25), timedelta(days=8),
])  # fmt: skip
SENDING = (
    "performing_an_effect.after_commit", "send.before_call", "send.replied", "recording_an_outcome.before_commit",
    "recording_an_outcome.after_commit", "hook.before", "hook.after",
)  # fmt: skip
WORKING = (
    *SENDING[1:], "sending_an_effect.before_commit", "sending_an_effect.after_commit", "look_up.before_call",
    "look_up.replied", "looking_up_an_effect.after_commit", "recording_a_look-up.before_commit",
    "recording_a_look-up.after_commit", "settling_a_request.before_commit",
)  # fmt: skip
#: Mostly nobody dies.
DEATH_SENDING = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(SENDING))
DEATH_WORKING = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(WORKING))


def needs(holds: Callable[[Any], object]) -> Callable[[Rule], Rule]:
    """Let a rule pass where it has nothing to do.

    Not a precondition: which rules Hypothesis draws would depend on how far the machine's own clock got meanwhile.
    """

    def decorate(function: Rule) -> Rule:
        @functools.wraps(function)
        def step(self: Any, **arguments: Any) -> None:
            if holds(self):
                self.idle = False
                function(self, **arguments)

        return step

    return decorate


def any_row(*states: ExecutionState) -> Callable[[Rule], Rule]:
    """Let a rule pass where no execution is in one of these states."""
    wanted = frozenset(map(str, states))
    return needs(lambda self: any(row.state in wanted for row in self.world.rows))


class EffectsMachine(RuleBasedStateMachine):
    """Drives one world; the oracle looks after each step."""

    effects: ClassVar[tuple[type[Machine], ...]] = EFFECTS
    #: Verb → how often it was taken in this run: a machine that gets nowhere proves nothing.
    reached: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        _empty()
        self.world = World(_people())
        self.oracle = Oracle(self.world)
        self.chosen: tuple[type[Machine], ...] = ()
        self.idle = False

    @initialize(first=st.integers(0, 7), second=st.integers(0, 7), lag=st.sampled_from([0.0, 20.0, 240.0]))
    def choose(self, first: int, second: int, lag: float) -> None:
        """Few effects in one world, so that the same execution is met again and again."""
        self.chosen = tuple(self.effects[number % len(self.effects)] for number in (first, second))
        self.world.provider.lag = lag

    # -- programs ------------------------------------------------------------------------------------------------

    @rule(which=st.booleans(), key=KEYS, user=USER, answer=ANSWERS, death=DEATH_SENDING)
    @needs(lambda self: True)
    def perform(self, which: bool, key: str, user: int, answer: Answer, death: str | None) -> None:
        self.world.provider.answer = answer
        with self.world.dying(death):
            self.world.perform(self.chosen[which], key, self.world.people[user])

    @rule(which=st.booleans(), key=KEYS, user=USER)
    @needs(lambda self: True)
    def perform_later(self, which: bool, key: str, user: int) -> None:
        self.world.perform_later(self.chosen[which], key, self.world.people[user])

    @rule(which=st.booleans(), key=KEYS, user=USER)
    @needs(lambda self: True)
    def record(self, which: bool, key: str, user: int) -> None:
        self.world.record(self.chosen[which], key, self.world.people[user])

    @rule(pick=PICK)
    @any_row(_S.PENDING, _S.UNCERTAIN, _S.NEEDS_INTERVENTION)
    def permit(self, pick: int) -> None:
        self.world.permit(self._row(pick, _S.PENDING, _S.UNCERTAIN, _S.NEEDS_INTERVENTION))

    @rule(pick=PICK, answer=ANSWERS)
    @needs(lambda self: any(sender.report is None for sender in self.world.senders))
    def sender_calls(self, pick: int, answer: Answer) -> None:
        self.world.provider.answer = answer
        waiting = [sender for sender in self.world.senders if sender.report is None]
        self.world.call(waiting[pick % len(waiting)])

    @rule(pick=PICK)
    @needs(lambda self: any(sender.report is not None for sender in self.world.senders))
    def sender_reports(self, pick: int) -> None:
        ready = [sender for sender in self.world.senders if sender.report is not None]
        self.world.report(ready[pick % len(ready)])

    @rule(pick=PICK)
    @needs(lambda self: self.world.senders)
    def sender_dies(self, pick: int) -> None:
        self.world.senders.pop(pick % len(self.world.senders))

    # -- look-ups ------------------------------------------------------------------------------------------------

    @rule(pick=PICK, person=st.booleans())
    @any_row(_S.UNCERTAIN, _S.ACCEPTED)
    def claim(self, pick: int, person: bool) -> None:
        self.world.claim(self._row(pick, _S.UNCERTAIN, _S.ACCEPTED), now=person)

    @rule(pick=PICK)
    @needs(lambda self: any(looker.verdict is None for looker in self.world.lookers))
    def looker_reads(self, pick: int) -> None:
        waiting = [looker for looker in self.world.lookers if looker.verdict is None]
        self.world.read(waiting[pick % len(waiting)])

    @rule(pick=PICK)
    @needs(lambda self: any(looker.verdict is not None for looker in self.world.lookers))
    def looker_tells(self, pick: int) -> None:
        ready = [looker for looker in self.world.lookers if looker.verdict is not None]
        self.world.tell(ready[pick % len(ready)])

    @rule(pick=PICK)
    @needs(lambda self: self.world.lookers)
    def looker_dies(self, pick: int) -> None:
        self.world.lookers.pop(pick % len(self.world.lookers))

    # -- workers -------------------------------------------------------------------------------------------------

    @rule(answer=ANSWERS, look=st.sampled_from([Look.TRUTH, Look.TRUTH, *Look]), death=DEATH_WORKING)
    @needs(lambda self: self.world.rows or self.world.requests)
    def sweep(self, answer: Answer, look: Look, death: str | None) -> None:
        self.world.provider.answer, self.world.provider.look = answer, look
        with self.world.dying(death):
            self.world.sweep()
            self.oracle.check_leases(now())
        self.world.provider.look = Look.TRUTH

    @rule(name=st.sampled_from(sorted(SWEEPS)), answer=ANSWERS)
    @needs(lambda self: self.world.rows)
    def one_sweep(self, name: str, answer: Answer) -> None:
        self.world.provider.answer = answer
        self.world.sweep(name)

    @rule()
    @needs(lambda self: self.world.rows)
    def sweep_publishes(self) -> None:
        self.world.publish()

    @rule(pick=PICK, answer=ANSWERS, again=st.booleans(), death=DEATH_WORKING)
    @needs(lambda self: self.world.hints)
    def worker_runs(self, pick: int, answer: Answer, again: bool, death: str | None) -> None:
        self.world.provider.answer = answer
        hint = self.world.hints[pick % len(self.world.hints)]
        if not again:
            self.world.hints.remove(hint)
        with self.world.dying(death):
            self.world.deliver(hint)

    # -- people --------------------------------------------------------------------------------------------------

    @rule(pick=PICK, user=USER, approves=st.sampled_from([True, True, True, False]))
    @any_row(_S.AWAITING_APPROVAL, _S.NEEDS_INTERVENTION)
    def vote(self, pick: int, user: int, approves: bool) -> None:
        row = self._row(pick, _S.AWAITING_APPROVAL, _S.NEEDS_INTERVENTION)
        self.world.vote(row, self.world.people[user], approves=approves)

    @rule(pick=PICK, user=USER, cancels=st.booleans())
    @any_row(_S.AWAITING_APPROVAL, _S.PENDING, _S.NEEDS_INTERVENTION)
    def take_back(self, pick: int, user: int, cancels: bool) -> None:
        row, verb = self._row(pick, _S.AWAITING_APPROVAL, _S.PENDING, _S.NEEDS_INTERVENTION), operators.withdraw
        with self.world.refusals():
            (operators.cancel if cancels else verb)(row.pk, by=self.world.people[user], reason="changed my mind")

    @rule(pick=PICK, user=USER, give_up=st.sampled_from([False, False, False, True]))
    @any_row(*EXECUTION_IN_DOUBT)
    def resolve(self, pick: int, user: int, give_up: bool) -> None:
        self.world.resolve(self._row(pick, *EXECUTION_IN_DOUBT), self.world.people[user], give_up=give_up)

    @rule(pick=PICK, user=USER)
    @any_row(_S.NEEDS_INTERVENTION)
    def reopen(self, pick: int, user: int) -> None:
        self.world.by_hand(operators.reopen, self._row(pick, _S.NEEDS_INTERVENTION), self.world.people[user])

    @rule(pick=PICK, user=USER)
    @any_row(_S.NEEDS_INTERVENTION)
    def order_resend(self, pick: int, user: int) -> None:
        self.world.by_hand(operators.order_resend, self._row(pick, _S.NEEDS_INTERVENTION), self.world.people[user])

    @rule(pick=PICK, user=USER, answer=ANSWERS)
    @any_row(_S.FAILED, _S.REJECTED)
    def supersede(self, pick: int, user: int, answer: Answer) -> None:
        self.world.provider.answer = answer
        self.world.supersede(self._row(pick, _S.FAILED, _S.REJECTED), self.world.people[user])

    @rule(pick=PICK, user=USER, answer=ANSWERS)
    @any_row(_S.COMPLETED, _S.PARTIALLY_COMPLETED)
    def compensate(self, pick: int, user: int, answer: Answer) -> None:
        self.world.provider.answer = answer
        self.world.compensate(self._row(pick, _S.COMPLETED, _S.PARTIALLY_COMPLETED), self.world.people[user])

    # -- the provider, the network, time -------------------------------------------------------------------------

    @rule(pick=PICK, undone=st.sampled_from([False, False, False, True]))
    @needs(lambda self: self.world.provider.entries)
    def webhook(self, pick: int, undone: bool) -> None:
        entry = self.world.provider.entries[pick % len(self.world.provider.entries)]
        for row in self.world.rows:
            if row.provider_key == entry.key:
                self.world.observe(row, undone=undone)

    @rule(pick=PICK, arrives=st.sampled_from([True, True, False]))
    @needs(lambda self: self.world.provider.flights)
    def request_lands(self, pick: int, arrives: bool) -> None:
        flights = self.world.provider.flights
        self.world.provider.land(flights[pick % len(flights)], arrives=arrives)

    @rule(pick=PICK, how=st.sampled_from(["applied", "applied", "refused", "lost"]))
    @needs(lambda self: any(not order.refused for order in self.world.provider.orders))
    def order_is_carried_out(self, pick: int, how: str) -> None:
        orders = [order for order in self.world.provider.orders if not order.refused]
        self.world.provider.carry_out(orders[pick % len(orders)], how=how)

    @rule(delta=TIMES)
    @needs(lambda self: self.world.rows or self.world.requests)
    def time_passes(self, delta: timedelta) -> None:
        self.world.passes(delta)

    @rule(price=st.integers(10, 11), hook_raises=st.sampled_from([False, False, True]))
    @needs(lambda self: True)
    def the_project_changes(self, price: int, hook_raises: bool) -> None:
        self.world.price, self.world.hook_raises = price, hook_raises

    # -- requests ------------------------------------------------------------------------------------------------

    @rule(key=KEYS, user=st.integers(0, 1), opaque=st.sampled_from([False, False, True]))
    @needs(lambda self: True)
    def request(self, key: str, user: int, opaque: bool) -> None:
        self.world.open(key, self.world.people[user], opaque=opaque)

    @rule(pick=PICK, which=st.booleans(), key=st.sampled_from([None, "a", "bb"]), answer=ANSWERS, death=DEATH_SENDING)
    @needs(lambda self: self.world.handlers)
    def handler_performs(self, pick: int, which: bool, key: str | None, answer: Answer, death: str | None) -> None:
        handler = self.world.handlers[pick % len(self.world.handlers)]
        self.world.provider.answer = answer
        with self.world.dying(death):
            self.world.perform(self.chosen[which], key, None, handler)

    @rule(pick=PICK, which=st.booleans(), key=st.sampled_from([None, "a"]))
    @needs(lambda self: self.world.handlers)
    def handler_records(self, pick: int, which: bool, key: str | None) -> None:
        handler = self.world.handlers[pick % len(self.world.handlers)]
        self.world.record(self.chosen[which], key, handler.handle.actor, handler)

    @rule(pick=PICK, how=st.sampled_from(["conclude", "conclude", "abort", "release", "die"]))
    @needs(lambda self: self.world.handlers)
    def handler_ends(self, pick: int, how: str) -> None:
        handler = self.world.handlers[pick % len(self.world.handlers)]
        {"conclude": self.world.conclude, "abort": self.world.abort, "release": self.world.release}.get(
            how, self.world.handlers.remove
        )(handler)

    @rule(pick=PICK, user=USER)
    @needs(lambda self: any(row.state == RequestState.IN_DOUBT for row in self.world.requests))
    def resolve_request(self, pick: int, user: int) -> None:
        doubtful = [row for row in self.world.requests if row.state == RequestState.IN_DOUBT]
        self.world.resolve_request(doubtful[pick % len(doubtful)], self.world.people[user])

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def promises_hold(self) -> None:
        if not self.idle:
            self.world.stand_still()
            self.oracle.check()
        self.idle = True

    def teardown(self) -> None:
        """When nothing goes wrong any more, everything comes to its end or to a person."""
        if self.chosen:
            try:
                self._calm_down()
            finally:
                Machine.world = None

    def _calm_down(self) -> None:
        world = self.world
        world.provider.answer, world.provider.look, world.provider.lag = Answer.APPLIED, Look.TRUTH, 0.0
        world.hook_raises = False
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
        self.oracle.audit(now())
        self.reached.update(Receipt.objects.values_list("event", flat=True))

    def _unfinished(self) -> list[Any]:
        waits = values({_S.AWAITING_APPROVAL, _S.NEEDS_INTERVENTION, *EXECUTION_SETTLED})
        hanging = list(Execution.objects.exclude(state__in=waits).values_list("operation", "state", "reason"))
        hooks = list(Execution.objects.filter(hook_due_at__isnull=False).values_list("operation", "state"))
        opened = Request.objects.filter(state__in=values({RequestState.RUNNING, RequestState.WAITING}))
        asked = Execution.objects.filter(state__in=waits).exclude(state__in=values(EXECUTION_SETTLED))
        return [*hanging, *hooks, *opened.exclude(executions__in=asked).values_list("operation", "state", "reason")]

    def _row(self, pick: int, *states: ExecutionState) -> Execution:
        rows = [row for row in self.world.rows if row.state in states]
        return rows[pick % len(rows)]


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE machine_row, effects_receipt, effects_resolution, effects_requestexecution, effects_request, "
            "effects_attempt, effects_approvalvote, effects_approval, effects_execution, effects_heartbeat"
        )


def _people() -> tuple[Any, ...]:
    """Return who asks and who approves; the last one is nobody's approver."""
    users = get_user_model().objects
    approves = Permission.objects.get(codename="approve_execution", content_type__app_label="effects")
    people = []
    for number in range(4):
        user, made = users.get_or_create(username=f"machine{number}")
        if made and number < 3:
            user.user_permissions.add(approves)
        people.append(user)
    return tuple(people)
