"""One world: the journal on its real database, a provider, and processes that stop, wake up late, or die.

Calls that take time are held in two or three parts (`Sender`, `Looker`, `Handler`), so that any interleaving happens in
one thread, in an order that can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import effects
from effects import sweeps, transitions
from effects.declarations.effect import Effect, get_effect
from effects.declarations.operations import ProtectedOperation, StoredAnswer, add_operation
from effects.http import replay
from effects.journal.current import RequestHandle, in_request
from effects.journal.locks import now
from effects.journal.snapshots import ExecutionSnapshot, context_of
from effects.journal.summaries import summary_of
from effects.models import Approval, Execution, Request
from effects.models.base import new_id
from effects.runtime import background, consequences, operators
from effects.testing import time_passes
from effects.testing.faults import Interrupted, interrupt_at
from effects.transitions import News, NotSentInTime, Opening, Says
from effects.transitions.intents import make_intent
from effects.vocabulary import canonical, failures
from effects.vocabulary.exceptions import EffectsError, FencedError, OutcomeError, TooSoonError
from effects.vocabulary.types import Actor, Context, Permit, monotonic
from tests.machine.declared import EFFECTS, Machine
from tests.machine.processes import (
    Handler,
    Looker,
    Sender,
    answer_of,
    get_operation,
    payload_of,
    shift_at_once,
    shown_by,
)
from tests.machine.provider import Order, Provider

__all__ = ["World"]

#: What the machine's rules may raise: a refusal in words. Anything else is a bug.
REFUSED = (EffectsError, OutcomeError)


#: Seconds of the machine's own work that may count: far less than anything in the journal waits.
STILL = 0.2


@dataclass
class World:
    """All that exists outside of the journal. `rows` and `requests` are how the journal stood after the last step."""

    people: tuple[Any, ...]
    provider: Provider = field(default_factory=Provider)
    senders: list[Sender] = field(default_factory=list)
    lookers: list[Looker] = field(default_factory=list)
    handlers: list[Handler] = field(default_factory=list)
    hints: list[tuple[str, str]] = field(default_factory=list)
    events: list[tuple[UUID, News]] = field(default_factory=list)
    rows: list[Execution] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    told_safe: set[UUID] = field(default_factory=set)
    answers: dict[UUID, tuple[int, bytes]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    price: int = 10
    hook_raises: bool = False
    not_yet: bool = False
    _calling: Sender | None = None
    _stopped: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        Machine.world = self
        performs = tuple(effect.operation for effect in EFFECTS)
        add_operation(ProtectedOperation("machine.declared", "journaled", performs, answer=answer_of))
        add_operation(ProtectedOperation("machine.opaque", "journaled"))

    # -- sending -------------------------------------------------------------------------------------------------

    def receive(self, effect: Effect[Any], context: Context[Any], permit: Permit, *, undoes: bool) -> Any:
        """Be the provider of one send."""
        sender = self._calling
        deadline = sender.deadline if sender else permit.deadline + self.provider.leaped
        shown = sender.shown if sender else shown_by(effect, context)
        latest = deadline + effect.quiet.total_seconds()
        return self.provider.send(effect, context, permit, shown, latest, undoes=undoes)

    def perform(self, effect: type[Machine], key: str | None, user: Any, handler: Handler | None = None) -> None:
        """Perform an effect, in a handler or outside of one, from record to outcome."""
        with self.refusals(), in_request(handler.handle if handler else None):
            effects.perform(effect, payload=payload_of(key), key=key, requested_by=user)

    def perform_later(self, effect: type[Machine], key: str, user: Any) -> None:
        """Record an effect for the workers."""
        with self.refusals():
            effects.perform_later(effect, payload=payload_of(key), key=key, requested_by=user)

    def record(self, effect: type[Machine], key: str | None, user: Any, handler: Handler | None = None) -> None:
        """Record an effect and hold its permit."""
        found, started, clock = get_effect(effect), monotonic(), self.provider.clock()
        intent = make_intent(
            found, payload_of(key), key=key, request=handler.request if handler else None, tenant="",
            requested_by=Actor.of(user), on_behalf_of=None, about=None, require_approval=False,
        )  # fmt: skip
        with self.refusals():
            made = transitions.record(
                intent, handle=handler.handle if handler else None, attempt=new_id(), started=started
            )
            if made.permit is not None:
                self._hold(found, made.execution, made.permit, clock, handler)

    def permit(self, row: Execution) -> None:
        """Ask for the permit of what is due, as a worker does, and hold it."""
        effect, started, clock = get_effect(row.operation), monotonic(), self.provider.clock()
        context = context_of(row, effect.load(row.payload, row.payload_version))
        summary = summary_of(effect, context)
        with self.refusals():
            decided = transitions.permit(row.pk, attempt=new_id(), started=started, summary=summary)
            if decided.permit is not None:
                self._hold(effect, decided.execution, decided.permit, clock, None)

    def call(self, sender: Sender) -> None:
        """Let a sender check its deadline and call the provider."""
        if self.provider.clock() >= sender.deadline:
            sender.report = NotSentInTime()
            return
        self._calling = sender
        call = sender.effect.compensate if sender.context.compensates else sender.effect.send
        try:
            sender.report = failures.read_answer(call(sender.context, sender.permit))
        except Exception as error:  # noqa: BLE001 - what the provider raised
            sender.report = failures.classify(error)
        finally:
            self._calling = None

    def report(self, sender: Sender) -> None:
        """Let a sender write what it knows, however late; its news are kept where it was taken over."""
        assert sender.report is not None
        self.senders.remove(sender)
        attempt, told = sender.permit.attempt, sender.report
        try:
            result = transitions.record_outcome(
                sender.execution, attempt=attempt, epoch=sender.permit.epoch, report=told
            )
        except FencedError:
            result = transitions.late_outcome(sender.execution, attempt=attempt, report=told)
        consequences.after_change(result)

    # -- looking up ----------------------------------------------------------------------------------------------

    def claim(self, row: Execution, *, now: bool) -> None:
        """Claim a look-up, and hold it."""
        claimed = transitions.claim(row.pk, now=now)
        if claimed is not None:
            self.lookers.append(Looker(row.pk, claimed.epoch, row.provider_key))

    def read(self, looker: Looker) -> None:
        """Let a look-up read at the provider."""
        try:
            looker.verdict = self.provider.look_up(looker.provider_key)
        except ConnectionError:
            looker.verdict = effects.Unreachable("no connection")

    def tell(self, looker: Looker) -> None:
        """Let a look-up write its verdict, however late."""
        self.lookers.remove(looker)
        consequences.after_change(
            transitions.apply_verdict(looker.execution, epoch=looker.epoch, verdict=looker.verdict)
        )

    # -- workers -------------------------------------------------------------------------------------------------

    def sweep(self, *names: str) -> None:
        """Run sweeps as beat does, with their workers."""
        for name in names or sweeps.SWEEPS:
            sweeps.SWEEPS[name].run_once()

    def publish(self) -> None:
        """Run the sweeps that publish, and keep their messages."""
        for sweep in (sweeps.run_due, sweeps.look_up_due):
            sweep.run_once(publish=lambda ref, name=sweep.NAME: self.hints.append((name, ref)))

    def deliver(self, hint: tuple[str, str], *, again: bool = True) -> None:
        """Let a worker act on a message, late and once more as it may be."""
        if not again:
            self.hints.remove(hint)
        work: Callable[[UUID], Any] = background.run if hint[0] == sweeps.run_due.NAME else background.look_up
        with self.refusals():
            work(UUID(hint[1]))

    # -- people --------------------------------------------------------------------------------------------------

    def vote(self, row: Execution, user: Any, *, approves: bool) -> None:
        """Let a person decide on the page that stands now."""
        shown = Approval.objects.filter(execution_id=row.pk).order_by("-created_at").first()
        if shown is not None:
            with self.refusals():
                verb = operators.grant if approves else operators.deny
                verb(row.pk, by=user, digest=shown.digest, approval=shown.pk)

    def resolve(self, row: Execution, user: Any, *, give_up: bool) -> None:
        """Let an honest person read the provider's ledger and decide; orders under way are waited for."""
        self.provider.settle()
        known = self.provider.known(row.provider_key)
        decision = "not_applied"
        if give_up:
            decision = "unknown"
        elif known:
            decision = "undone" if known[0].undone else "applied"
        elif any(order.key == row.provider_key and not order.refused for order in self.provider.orders):
            return
        with self.refusals():
            operators.resolve(
                row.pk, decision=decision, revision=row.revision, by=user, reason="I looked",
                reference=known[0].reference if known else "",
            )  # fmt: skip

    def take_back(self, verb: Callable[..., Any], row: Execution, user: Any) -> None:
        """Let a person take back what was not sent."""
        with self.refusals():
            verb(row.pk, by=user, reason="changed my mind")

    def look_up_now(self, row: Execution) -> None:
        """Let a person ask the provider now."""
        with self.refusals():
            operators.look_up_now(row.pk)

    def by_hand(self, verb: Callable[..., Any], row: Execution, user: Any) -> None:
        """Let a person do one of the verbs that take a revision and a reason."""
        with self.refusals():
            verb(row.pk, revision=row.revision, by=user, reason="I say so", decision_id=uuid4().hex)

    def supersede(self, row: Execution, user: Any) -> None:
        """Ask again for what failed or was rejected."""
        with self.refusals():
            effects.perform(
                row.operation, payload=canonical.load(row.payload), key=row.key, requested_by=user, supersede=row.pk
            )  # fmt: skip

    def compensate(self, row: Execution, user: Any) -> None:
        """Undo what is completed."""
        with self.refusals():
            effects.compensate(row.pk, requested_by=user)

    def observe(self, row: Execution, *, undone: bool) -> None:
        """Let the provider's truthful webhook arrive."""
        for entry in self.provider.known(row.provider_key):
            entry.undone = entry.undone or undone
            operators.observe(row.pk, reference=entry.reference, evidence={"webhook": "paid"}, undone=entry.undone)

    def bring_evidence(self, row: Execution, user: Any) -> None:
        """Let a person say what the provider's ledger shows, where the row may say otherwise."""
        for entry in self.provider.known(row.provider_key):
            with self.refusals():
                operators.observe(
                    row.pk, reference=entry.reference, undone=entry.undone, by=user, reason="it is on the statement"
                )  # fmt: skip

    def announce(self, row: Execution) -> None:
        """Let the provider send events about what it has now: they are true, and arrive at some time, or never."""
        for thing in self.provider.things(row.provider_key):
            says = Says.HAPPENED
            if isinstance(thing, Order):
                says = Says.UNDONE if thing.refused else Says.UNDER_WAY
            elif thing.undone:
                says = Says.UNDONE
            self.events.append((row.pk, News(f"evt_{next(self.provider.numbers)}", says, thing.reference)))

    def hear(self, event: tuple[UUID, News], *, again: bool) -> None:
        """Let an event arrive, out of order and once more as it may be; what came too soon is sent again."""
        try:
            if not again:
                self.events.remove(event)
            operators.hear(*event)
        except TooSoonError:
            self.refused["TooSoonError"] += 1
            self.events.append(event)

    def change(self, *, hook_raises: bool) -> None:
        """Let the project change what it shows and does."""
        self.price, self.hook_raises = self.price + 1, hook_raises
        self.not_yet = self.price % 4 == 3

    # -- requests ------------------------------------------------------------------------------------------------

    def open(self, key: str, user: Any, *, opaque: bool) -> None:
        """Let a client send a request, or send it again."""
        operation = "machine.opaque" if opaque else "machine.declared"
        protected = get_operation(operation)
        declared = None if protected.performs is None else list(protected.performs)
        actor = Actor.of(user)
        opening = Opening(
            operation=operation, mode="journaled", tenant="", subject=actor.id if actor else "", scope="", key=key,
            fingerprint={}, fingerprint_version=1, declared=declared, local_writes=False, actor=actor,
        )  # fmt: skip
        decision = replay.begin(opening, compare=lambda _version, _parts: [])
        if isinstance(decision, replay.Run):
            opened = decision.opened.request
            assert opened is not None
            handle = RequestHandle(
                id=opened.id, epoch=opened.epoch, operation=protected, tenant="", subject=opening.subject, actor=actor
            )
            self.handlers.append(Handler(opened.id, opened.epoch, handle))
        elif isinstance(decision, replay.Ended) and replay.safe_new_key(decision.request, decision.standing):
            self.told_safe.add(decision.request.id)

    def conclude(self, handler: Handler) -> None:
        """Let a handler return."""
        self._leave(handler)
        with self.refusals():
            transitions.conclude(
                handler.request, epoch=handler.epoch, answer=StoredAnswer(201, (), f"by {handler.request}".encode())
            )

    def renew(self, handler: Handler) -> None:
        """Let a handler's process renew its lease."""
        transitions.renew([(handler.request, handler.epoch)])

    def abort(self, handler: Handler) -> None:
        """Let a handler raise."""
        self._leave(handler)
        with self.refusals():
            replay.close_lost(handler.request, epoch=handler.epoch, why="it raised")

    def release(self, handler: Handler) -> None:
        """Let a handler say that nothing was sent, where that is not proven: it goes on."""
        with self.refusals():
            if transitions.release(handler.request, epoch=handler.epoch, asked=True) is not None:
                self._leave(handler)

    def resolve_request(self, row: Request, user: Any) -> None:
        """Let a person close a request in doubt."""
        held = [each.provider_key for each in self.rows if each.links.filter(request=row, holds=True).exists()]
        decision = "applied" if self.provider.applied(*held) else "not_applied"
        with self.refusals():
            operators.resolve_request(row.pk, decision=decision, revision=row.revision, by=user, reason="I looked")

    def doubt(self) -> None:
        """Let operations put in doubt what may have been sent in the last hour, though no commit was lost."""
        until = now()
        since = until - timedelta(hours=1)
        for row in transitions.exposed_executions(since, until):
            transitions.doubt_since(row.pk, since=since, until=until)
        for request in transitions.exposed_requests(until):
            transitions.doubt_request_since(request.pk, since=since, until=until)

    # -- time and death ------------------------------------------------------------------------------------------

    def passes(self, delta: timedelta) -> None:
        """Let time pass, for the journal and for the provider."""
        self.provider.passes(delta.total_seconds())
        time_passes(delta)

    def stand_still(self) -> None:
        """Give the time back that the machine's own work took: what is due in a second depends on the rules alone."""
        took = monotonic() - self._stopped
        if took > STILL:
            self.provider.leaped -= took
            shift_at_once(timedelta(seconds=-took))
            self._stopped += took

    @contextmanager
    def dying(self, point: str | None) -> Iterator[None]:
        """Let the process die at a fault point, should it get there."""
        if point is None:
            yield
            return
        with interrupt_at(point):
            try:
                yield
            except Interrupted:
                self.refused["died"] += 1

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Take a refusal in words for an answer."""
        try:
            yield
        except REFUSED as error:
            self.refused[type(error).__name__] += 1

    def _hold(
        self, effect: Effect[Any], execution: ExecutionSnapshot, permit: Permit, clock: float, handler: Handler | None
    ) -> None:
        row = Execution.objects.get(pk=execution.id)
        context = context_of(row, effect.load(row.payload, row.payload_version))
        deadline = clock + effect.request_timeout.total_seconds()
        shown = shown_by(effect, context)
        self.senders.append(Sender(effect, row.pk, permit, context, deadline, shown, handler))

    def _leave(self, handler: Handler) -> None:
        self.handlers.remove(handler)
        self.senders = [sender for sender in self.senders if sender.handler is not handler]
