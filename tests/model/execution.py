"""One execution: its senders, look-ups and people, the network, the provider, and the passing of time.

Attempts are numbered; who holds the newest one holds the epoch. Three events stand for the clock: the deadline of the
open attempt, its lease, its barrier. Within the assumptions the barrier passes only when nothing is under way and no
process can still begin to send, and a look-up that was claimed after it reads what has landed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from effects.vocabulary.states import (
    EXECUTION_EDGES,
    EXECUTION_IN_DOUBT,
    EXECUTION_OPEN,
    EXECUTION_SETTLED,
    NOTHING_HAPPENED,
    ExecutionState,
)
from tests.model.explorer import Explored, Move, Step, explore
from tests.model.world import Config, State, faults, in_doubt, readings, without_gossip

__all__ = ["Config", "State", "check"]

_S = ExecutionState
PENDING, AWAITING, EXECUTING = _S.PENDING, _S.AWAITING_APPROVAL, _S.EXECUTING
ACCEPTED, UNCERTAIN, PERSON = _S.ACCEPTED, _S.UNCERTAIN, _S.NEEDS_INTERVENTION
COMPLETED, PARTIAL, FAILED = _S.COMPLETED, _S.PARTIALLY_COMPLETED, _S.FAILED
REJECTED, ABANDONED = _S.REJECTED, _S.ABANDONED
HAPPENED = (COMPLETED, PARTIAL)
LOOKED_UP = (UNCERTAIN, ACCEPTED)


def check(config: Config) -> Explored[State]:
    """Explore one execution under `config`."""
    return explore(
        State(), lambda state: _Events(config, state).all(), wrong=lambda state: faults(config, state),
        is_done=lambda state: state.state in (*EXECUTION_SETTLED, PERSON), edges=EXECUTION_EDGES,
    )  # fmt: skip


class _Events:
    """What can happen in one state."""

    def __init__(self, config: Config, state: State) -> None:
        self.config, self.s = config, state
        self.steps: list[Step[State]] = []

    def all(self) -> Iterator[Step[State]]:
        """Return every step that is possible."""
        for events in (
            self.record, self.people_decide, self.permit, self.senders, self.network, self.time, self.look_ups,
            self.without_look_up, self.people_resolve, self.webhook, self.people_ask_again, self.restore,
        ):  # fmt: skip
            events()
        return iter(self.steps)

    def move(self, name: str, verb: str, to: ExecutionState | None = None, **changes: Any) -> None:
        """Add a step along an edge."""
        self.moves(name, [(verb, to or self.s.state)], **changes)

    def moves(self, name: str, verbs: list[tuple[str, Any]], **changes: Any) -> None:
        """Add a step along several edges in one commit."""
        taken, source = [], self.s.state
        for verb, target in verbs:
            taken.append(Move(verb, source, target))
            source = target
        self._add(name, self.s._replace(state=source, **changes), tuple(taken))

    def happen(self, name: str, **changes: Any) -> None:
        """Add a step of the world."""
        self._add(name, self.s._replace(**changes))

    def _add(self, name: str, state: State, moves: tuple[Move, ...] = ()) -> None:
        self.steps.append(Step(name, state if self.config.gossip else without_gossip(self.config, state), moves))

    @property
    def end(self) -> ExecutionState:
        return FAILED if self.s.attempts else REJECTED

    # -- until it is sent ----------------------------------------------------------------------------------------

    def record(self) -> None:
        if self.s.state is not None:
            self.move("a caller joins", "join")
            if self.s.state in EXECUTION_SETTLED:
                self.move("the settled hook runs again", "run_hook")
                self.move("the settled hook cannot run any more", "end_hook")
                self.move("retention drops its contents", "prune")
        elif self.config.approval:
            self.move("record, an approval is requested", "record", AWAITING, licence="requested")
        else:
            self.move("record", "record", PENDING)

    def people_decide(self) -> None:
        s = self.s
        if s.state == AWAITING:
            self.move("a first approver votes", "vote")
            self.move("grant", "grant", PENDING, licence="granted")
            for verb in ("deny", "expire", "withdraw"):
                self.move(verb, verb, self.end, licence="")
        if s.state == PENDING and s.licence == "granted":
            self.move("contents changed: the approval is void", "void", AWAITING, licence="requested")
            for verb in ("withdraw", "lapse"):
                self.move(f"{verb} of a granted approval", verb, self.end, licence="")
        if s.state == PENDING:
            self.move("the precondition refuses, or a person cancels", "refuse", self.end, licence="")
            self.move("the precondition says later", "postpone_send")

    def permit(self) -> None:
        s = self.s
        if s.state != PENDING or s.proof or len(s.senders) > 1:
            return
        if not self.config.approval:
            self.open("permit", "permit")
        elif s.licence == "granted" or (s.licence == "spent" and self.config.approval == "covers"):
            self.open("permit, the approval is spent", "permit", licence="spent")
        else:
            self.move("no licence left: an approval is requested", "request_approval", AWAITING, licence="requested")

    def open(self, name: str, verb: str, **changes: Any) -> None:
        """Open an attempt, in a process of its own."""
        s, number = self.s, self.s.attempts + 1
        self.move(
            f"{name} (attempt {number})", verb, EXECUTING, attempts=number, expired=False, lease_over=False,
            barrier=False, senders=(*s.senders, (number, "permit")), **changes,
        )  # fmt: skip

    # -- senders, the network, the provider ----------------------------------------------------------------------

    def senders(self) -> None:
        for index, (number, phase) in enumerate(self.s.senders):
            others = (*self.s.senders[:index], *self.s.senders[index + 1 :])
            self.happen("the process dies", senders=others)
            if phase == "permit":
                self._begin(index, number, others)
            elif phase == "sent":
                self._reply(index, number)
            elif self.s.state == EXECUTING and number == self.s.attempts:
                self._report(phase, others)
            else:
                self._report_late(number, phase, others)

    def _phase(self, index: int, number: int, phase: str) -> tuple[tuple[int, str], ...]:
        return (*self.s.senders[:index], (number, phase), *self.s.senders[index + 1 :])

    def _begin(self, index: int, number: int, others: tuple[tuple[int, str], ...]) -> None:
        s, newest = self.s, number == self.s.attempts
        stalled = s.expired or not newest
        if not stalled or self.config.stalls:
            who = f"the process of attempt {number}"
            name = f"{who}, which had stalled, sends after all" if stalled else f"{who} sends"
            key = "live" if s.key == "new" else s.key
            self.happen(name, senders=self._phase(index, number, "sent"), air=s.air + 1, key=key)
        if newest and s.expired and s.state == EXECUTING:
            name = "the deadline had passed before sending began"
            if s.doubt:
                self.move(name, "not_sent", UNCERTAIN, senders=others)
            elif s.attempts < self.config.attempts:
                self.move(name, "not_sent", PENDING, senders=others)
            else:
                self.move(name, "not_sent", FAILED, senders=others)

    def _reply(self, index: int, number: int) -> None:
        s = self.s
        if s.applied:
            self.happen("the provider's reply arrives: applied", senders=self._phase(index, number, "applied"))
        elif s.queue:
            self.happen("the provider's reply arrives: order taken", senders=self._phase(index, number, "taken"))
        self.happen("the reply is lost", senders=self._phase(index, number, "lost"))

    def _report(self, phase: str, others: tuple[tuple[int, str], ...]) -> None:
        """Record the outcome under our own epoch."""
        s, sure = self.s, not (self.s.doubt or self.s.proof)
        if phase == "applied" and s.proof and not self.config.deduplicates:
            self.moves(
                "outcome: applied, beside another reference on file", [("doubt", UNCERTAIN), ("escalate", PERSON)],
                senders=others, doubt=True, conflict=True,
            )  # fmt: skip
        elif phase == "applied":
            self.move("outcome: applied", "complete", self._happened(), senders=others, doubt=True)
        elif phase == "taken":
            self.move("outcome: order taken", "submit", ACCEPTED, senders=others, doubt=True)
        elif phase == "lost" or not sure:
            self.move("outcome: nobody knows", "doubt", UNCERTAIN, senders=others, doubt=True)
        elif phase == "refused" or s.attempts >= self.config.attempts:
            self.move("outcome: refused", "fail", FAILED, senders=others)
        else:
            self.move("outcome: not now", "reschedule", PENDING, senders=others)

    def _report_late(self, number: int, phase: str, others: tuple[tuple[int, str], ...]) -> None:
        """Bring the news of an attempt that was taken over."""
        s = self.s
        if phase == "applied":
            own = number == s.attempts and s.state in EXECUTION_IN_DOUBT and not s.conflict and not s.proof
            if own:
                self.move(
                    "a late reply: applied", "confirm", self._happened(), senders=others, doubt=True, order=""
                )  # fmt: skip
            else:
                self._observe("a late reply of an older attempt: applied", senders=others)
        elif phase == "taken":
            if s.state in NOTHING_HAPPENED:
                self.move("a late reply: order taken", "contradict", PERSON, senders=others, doubt=True, licence="")
            else:
                doubt = s.doubt or s.state == EXECUTING
                self.move("a late reply: order taken", "observe", senders=others, doubt=doubt)
        elif s.state is not None:
            self.move("late news that proves nothing", "observe", senders=others)

    def _happened(self) -> ExecutionState:
        return PARTIAL if self.config.partial else COMPLETED

    def _observe(self, name: str, **changes: Any) -> None:
        """Weigh evidence of success."""
        s = self.s
        if s.state in HAPPENED:
            self.move(name, "observe", **changes)
        elif s.state in (EXECUTING, *EXECUTION_IN_DOUBT):
            self.move(name, "observe", doubt=True, proof=True, **changes)
        else:
            self.move(name, "contradict", PERSON, doubt=True, proof=True, licence="", order="", **changes)

    def network(self) -> None:
        s = self.s
        if s.air:
            again = self.config.deduplicates and s.key in ("live", "ending") and (s.applied or s.queue)
            if self.config.orders:
                self.happen("the provider takes the order", air=s.air - 1, queue=min(2, s.queue + (not again)))
            else:
                self.happen("a request lands", air=s.air - 1, applied=min(3, s.applied + (not again)))
            self.happen("a request is lost", air=s.air - 1)
            for index, (number, phase) in enumerate(s.senders):
                if phase == "sent":
                    for answer, name in (("refused", "refuses it"), ("later", "says: not now")):
                        self.happen(f"the provider {name}", air=s.air - 1, senders=self._phase(index, number, answer))
        if s.queue:
            self.happen("the provider carries the order out", queue=s.queue - 1, applied=min(3, s.applied + 1))
            self.happen("the provider gives the order up", queue=s.queue - 1)

    def time(self) -> None:
        s = self.s
        if s.state == EXECUTING and not s.expired:
            self.happen("the deadline passes", expired=True)
        if s.state == EXECUTING and s.expired and not s.lease_over:
            self.happen("the lease ends", lease_over=True)
        if s.state == EXECUTING and s.lease_over:
            self.move("a sweep finds the lease past", "expire_lease", UNCERTAIN, doubt=True)
        waits = s.air or any(
            phase == "permit" and number == s.attempts and not s.expired for number, phase in s.senders
        )
        if not s.barrier and (s.expired or s.state != EXECUTING) and (self.config.lands_late or not waits):
            self.happen("the quiet time passes", barrier=True)
        if self.config.deduplicates and not self.config.look_up and s.key == "live":
            self.happen("the provider key's lifetime is nearly over", key="ending")
        if s.key == "ending" and not waits and s.state != EXECUTING:
            self.happen("the provider forgets the key", key="gone")

    # -- in doubt ------------------------------------------------------------------------------------------------

    def look_ups(self) -> None:
        s = self.s
        if s.state in LOOKED_UP and self.config.look_up and not s.look_lease and len(s.looks) < self.config.look_ups:
            older = tuple((False, after, verdict) for _, after, verdict in s.looks)
            self.move("a look-up is claimed", "claim", looks=(*older, (True, s.barrier, "")), look_lease=True)
        if s.look_lease:
            self.happen("the look-up's lease ends", look_lease=False)
        for index, (mine, after, verdict) in enumerate(s.looks):
            others = (*s.looks[:index], *s.looks[index + 1 :])
            if verdict:
                self._verdict(verdict, after, others, mine=mine)
            else:
                self.happen("the look-up dies", looks=others)
                for read in readings(self.config, s):
                    looks = (*s.looks[:index], (mine, after, read), *s.looks[index + 1 :])
                    self.happen(f"the look-up reads: {read}", looks=looks)

    def _verdict(self, verdict: str, after: bool, others: tuple[Any, ...], *, mine: bool) -> None:
        s = self.s
        lease = s.look_lease and not mine
        if not mine or s.state not in LOOKED_UP:
            if verdict == "found":
                self._observe("an older look-up brings: found", looks=others)
            else:
                self.happen("an older look-up is not heard", looks=others)
        elif verdict == "found":
            self.move("verdict: found", "confirm", self._happened(), looks=others, look_lease=lease)
        elif verdict == "in progress":
            self.move("verdict: in progress", "acknowledge", ACCEPTED, looks=others, look_lease=lease)
            self.move("verdict: in progress, overdue", "escalate", PERSON, looks=others, look_lease=lease)
        elif verdict == "nothing":
            self.move("verdict: cannot tell", "postpone", looks=others, look_lease=lease)
            if after:
                self._give_up("verdict: cannot tell, the budget is spent", looks=others, look_lease=lease)
        elif not after:
            self.move("verdict: absent, asked before the barrier", "postpone", looks=others, look_lease=lease)
        elif s.proof or (s.state == ACCEPTED and self.config.look_up == "eventual"):
            if not s.proof and verdict != "refused for good":
                self.move("verdict: absent, and not expected yet", "postpone", looks=others, look_lease=lease)
            self.move(
                "verdict: absent, against what is known", "escalate", PERSON, looks=others, look_lease=lease,
                conflict=True,
            )  # fmt: skip
        elif verdict == "refused for good":
            self.move(
                "verdict: refused for good", "confirm_failure", FAILED, looks=others, look_lease=lease, doubt=False
            )
        else:
            to = PENDING if s.attempts < self.config.attempts else FAILED
            self.move("verdict: absent", "confirm_absence", to, looks=others, look_lease=lease, doubt=False)

    def _give_up(self, name: str, **changes: Any) -> None:
        to = ABANDONED if self.config.abandons and not self.s.proof else PERSON
        self.move(name, "escalate", to, **changes)

    def without_look_up(self) -> None:
        s = self.s
        if self.config.look_up or s.state not in LOOKED_UP:
            return
        may = s.state == UNCERTAIN and self.config.deduplicates and s.key == "live" and not self.config.approval
        if may and s.attempts < self.config.attempts and not s.proof and len(s.senders) < 2:
            self.open("it is sent again under the same key", "resend")
        self._give_up("no look-up: a person is asked")

    # -- people --------------------------------------------------------------------------------------------------

    def people_resolve(self) -> None:
        s = self.s
        if s.state in EXECUTION_IN_DOUBT and not s.look_lease:
            if s.applied:
                self.move("a person reads the ledger: applied", "resolve", COMPLETED, order="")
            elif s.barrier and not s.proof and not s.queue:
                self.move("a person reads the ledger: not applied", "resolve", FAILED, order="", doubt=False)
            self.move("a person gives up", "resolve", ABANDONED, order="")
        if s.state == PERSON and self.config.look_up:
            self.move("a person reopens it", "reopen", UNCERTAIN, order="", conflict=False)
        if s.state == PERSON and self.config.people and not s.proof:
            self._resend()

    def _resend(self) -> None:
        s = self.s
        if not s.order and s.allowed < 2:
            granted = "requested" if self.config.approval else "granted"
            self.move("a person orders another send", "order_resend", order=granted)
        elif s.order == "requested":
            self.move("others ask for the resend's approval", "request_approval")
            self.move("a vote for the resend", "vote")
            self.move("the resend is approved", "grant", order="granted")
            for verb in ("deny", "expire"):
                self.move(f"{verb} of the resend", verb, order="")
        if s.order:
            self.move("the resend is withdrawn", "withdraw", order="")
        if s.order == "granted":
            self.move("the order of the resend lapses", "lapse", order="")
            if len(s.senders) < 2:
                self.open("it is sent again on a person's order", "resend", order="", allowed=s.allowed + 1)

    def webhook(self) -> None:
        s = self.s
        if s.applied and s.state is not None:
            if not s.proof and not s.asked_again:
                self._observe("a webhook says: applied")
            if s.state in HAPPENED:
                self.move("a webhook says: undone", "contradict", PERSON, proof=True, conflict=True)

    def people_ask_again(self) -> None:
        s = self.s
        if s.state in (FAILED, REJECTED) and self.config.people and not s.asked_again:
            # the successor's row in the place of the old one's, whose senders have nothing left that could be sent
            again = State(
                state=AWAITING if self.config.approval else PENDING, asked_again=True, applied=s.applied, air=s.air,
                queue=s.queue, allowed=s.allowed, licence="requested" if self.config.approval else "",
            )  # fmt: skip
            made = Move("record", None, again.state or PENDING)
            self._add("a person asks again", again, (Move("supersede", s.state, s.state), made))

    # -- the journal itself --------------------------------------------------------------------------------------

    def restore(self) -> None:
        s = self.s
        if not self.config.forgets or s.restored or s.state is None:
            return
        if self.config.doubts and s.state in (*EXECUTION_OPEN, *EXECUTION_IN_DOUBT):
            verb = "doubt_since" if s.state in EXECUTION_OPEN else "extend_doubt"
            to = UNCERTAIN if s.state in EXECUTION_OPEN else s.state
            self.move("effects_doubt_since, and nothing of it was lost", verb, to, **in_doubt(s))
        if s.attempts:
            self._restore_from_before_the_permit()

    def _restore_from_before_the_permit(self) -> None:
        s, name = self.s, "the database is restored from before the permit"
        older = s._replace(
            state=PENDING, attempts=0, doubt=False, proof=False, conflict=False, looks=(), look_lease=False,
            restored=True, order="", licence="granted" if self.config.approval else "",
        )  # fmt: skip
        if self.config.doubts:
            doubted = older._replace(state=UNCERTAIN, **in_doubt(s))
            self._add(f"{name}, then effects_doubt_since", doubted, (Move("doubt_since", PENDING, UNCERTAIN),))
        else:
            self._add(name, older)
