"""One idempotency key: a client that repeats its request, handlers that stall, raise and die, and what they performed.

The one effect of the request is keyed by the request itself. Its own story is told shortly here (`execution` tells it
whole): recorded, sent or waiting for people, in doubt, and then the truth. `rows` are the handler's own, written in its
last transaction. A client that is told `safe_new_key` uses a new key at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from effects.vocabulary.states import REQUEST_EDGES, REQUEST_ENDED, RequestState
from tests.model.explorer import Explored, Move, Step, explore

__all__ = ["Config", "State", "check"]

_R = RequestState
RUNNING, WAITING, IN_DOUBT = _R.RUNNING, _R.WAITING, _R.IN_DOUBT
ANSWERED, RELEASED, RESOLVED = _R.ANSWERED, _R.RELEASED, _R.RESOLVED
#: What the effect's execution can be, in short.
UNSETTLED = ("pending", "awaiting", "executing", "uncertain")
NOTHING = ("failed", "rejected")


@dataclass(frozen=True)
class Config:
    """The view.

    Args:
        opaque: it declares nothing, and may call out itself.
        local_writes: it writes rows outside of its last transaction.
        approval: its effect waits for people.
        builds: it has an `answer=`, which every declared view needs.
        fenced: handlers are refused once their request has ended or was taken over; the rule of the epoch.
        waits: a request whose execution is unsettled waits for it instead of being released.
        keeps: an answer that could not be frozen never reaches the client.
    """

    opaque: bool = False
    local_writes: bool = False
    approval: bool = False
    builds: bool = True
    fenced: bool = True
    waits: bool = True
    keeps: bool = True


class State(NamedTuple):
    """The newest request under the key, its handlers, and the world."""

    state: RequestState | None = None
    epoch: int = 0
    lease_over: bool = False
    handlers: tuple[tuple[int, str], ...] = ()  # epoch; begun called told
    returned: bool = False
    effect: str = ""  # "" UNSETTLED completed NOTHING
    landing: bool = False
    direct: int = 0  # calls that an opaque view made itself
    applied: int = 0
    written: bool = False
    rows: int = 0
    opened: int = 0
    bytes: str = ""  # what a client holds as the answer
    frozen: str = ""
    told_safe: bool = False
    new_key: bool = False


def check(config: Config) -> Explored[State]:
    """Explore one key under `config`."""
    return explore(
        State(), lambda state: _Events(config, state).all(), wrong=_wrong,
        # what is in doubt is a person's
        is_done=lambda state: state.state in (*REQUEST_ENDED, IN_DOUBT), edges=REQUEST_EDGES,
    )  # fmt: skip


def _wrong(s: State) -> Iterator[str]:
    if s.applied > 1:
        yield "applied twice"
    if s.state == RELEASED and (s.applied or s.landing) and not s.new_key:
        yield "released, but sent"
    if s.rows > 1:
        yield "the handler's rows twice"
    if s.bytes and s.frozen and s.bytes != s.frozen:
        yield "the replay differs from the first answer"
    if s.state == ANSWERED and s.effect in UNSETTLED:
        yield "answered before its execution is settled"


class _Events:
    """What can happen in one state."""

    def __init__(self, config: Config, state: State) -> None:
        self.config, self.s = config, state
        self.steps: list[Step[State]] = []

    def all(self) -> Iterator[Step[State]]:
        """Return every step that is possible."""
        for events in (self.client, self.handlers, self.effect, self.sweeps, self.people):
            events()
        return iter(self.steps)

    def move(self, name: str, verb: str, to: RequestState | None = None, **changes: Any) -> None:
        """Add a step along an edge."""
        source = self.s.state
        target = to or source
        assert target is not None
        state = self.s._replace(state=target, **changes)
        self.steps.append(Step(name, state, (Move(verb, None if verb == "open" else source, target),)))

    def happen(self, name: str, **changes: Any) -> None:
        """Add a step of the world."""
        self.steps.append(Step(name, self.s._replace(**changes)))

    def client(self) -> None:
        s = self.s
        if s.state in (None, RELEASED) and s.opened < 2:
            # another request under the same key: its effect is keyed by its own id
            self.move(
                "the client sends its request", "open", RUNNING, epoch=s.epoch + 1, lease_over=False, returned=False,
                effect="", written=False, direct=0, opened=s.opened + 1,
                handlers=(*s.handlers, (s.epoch + 1, "begun"))[-2:],
            )  # fmt: skip
        if s.state in (ANSWERED, RESOLVED) and s.frozen and not s.bytes:
            self.happen("the client repeats it, and is answered", bytes=s.frozen)
        if self._is_safe() and not s.told_safe:
            self.happen("the client repeats it, and is told that a new key is safe", told_safe=True)
        if s.told_safe and not s.new_key:
            self.happen("the client sends it under a new key", new_key=True, applied=s.applied + 1)

    def _is_safe(self) -> bool:
        s = self.s
        if s.state == RESOLVED:
            return s.effect in ("", *NOTHING) and s.frozen == "not applied"
        if s.state != ANSWERED or self.config.opaque or self.config.local_writes:
            return False
        return s.effect in NOTHING and s.frozen != "success"

    def handlers(self) -> None:
        for index, (epoch, at) in enumerate(self.s.handlers):
            others = (*self.s.handlers[:index], *self.s.handlers[index + 1 :])
            mine = self.s.state == RUNNING and epoch == self.s.epoch
            self.happen("the handler's process dies", handlers=others)
            if at == "begun":
                self._begun(index, epoch, others, mine=mine)
            else:
                self._returns(others, mine=mine)
            if mine:
                self._raises(others)
        if self.s.state == RUNNING and not self.s.lease_over:
            self.move("the lease is renewed", "renew")
            self.happen("the handler's lease ends", lease_over=True)

    def _at(self, index: int, epoch: int, at: str) -> tuple[tuple[int, str], ...]:
        return (*self.s.handlers[:index], (epoch, at), *self.s.handlers[index + 1 :])

    def _begun(self, index: int, epoch: int, others: tuple[Any, ...], *, mine: bool) -> None:
        s, done = self.s, self._at(index, epoch, "called")
        if self.config.opaque:
            self.happen("the view calls out itself", handlers=done, direct=1, applied=s.applied + 1)
        if self.config.local_writes and not s.written:
            self.happen("the view writes a row", written=True)
        self.happen("the view has nothing to do", handlers=done)
        if not mine and self.config.fenced:
            self.happen("perform is refused: the request has ended", handlers=others)
        elif s.effect == "":
            if self.config.approval:
                self.happen("perform: it waits for people", handlers=done, effect="awaiting")
            else:
                self.happen("perform: permitted and sent", handlers=done, effect="executing", landing=True)
                self.happen("perform: recorded, to be sent later", handlers=done, effect="pending")
                self.happen("perform: the precondition refuses", handlers=done, effect="rejected")

    def _returns(self, others: tuple[Any, ...], *, mine: bool) -> None:
        s = self.s
        if not mine:
            bytes_ = s.bytes if self.config.keeps else "by hand"
            self.happen("freeze is refused: 409", handlers=others, bytes=bytes_)
        elif s.effect in UNSETTLED:
            self.move(
                "the handler returns; its execution is unsettled: 202",
                "suspend",
                WAITING,
                handlers=others,
                returned=True,
            )
        else:
            answer = "refusal" if s.effect in NOTHING else "success"
            self.move(
                "the handler returns", "freeze", ANSWERED, handlers=others, returned=True, frozen=answer,
                bytes=answer, rows=s.rows + 1,
            )  # fmt: skip

    def _raises(self, others: tuple[Any, ...]) -> None:
        if self._may_release():
            self.move(
                "the handler raises: nothing was sent", "release", RELEASED, handlers=others, epoch=self.s.epoch + 1
            )
        else:
            self._lose("the handler raises", handlers=others)
        if self.config.opaque and not self.s.direct and self.s.effect in ("", "rejected"):
            self.move("the handler says release()", "release", RELEASED, handlers=others, epoch=self.s.epoch + 1)

    def _may_release(self) -> bool:
        if self.config.opaque or self.config.local_writes:
            return False
        return self.s.effect in ("", "rejected") or (not self.config.waits and self.s.effect in ("awaiting", "pending"))

    def _lose(self, name: str, **changes: Any) -> None:
        waits = not self.config.opaque and self.s.effect in UNSETTLED
        self.move(f"{name}: lost", "lose", WAITING if waits else IN_DOUBT, epoch=self.s.epoch + 1, **changes)

    def effect(self) -> None:
        s = self.s
        if s.effect == "pending":
            self.happen("a worker sends it", effect="executing", landing=True)
            self.happen("the precondition refuses", effect="rejected")
        if s.effect == "awaiting":
            self.happen("an approver agrees", effect="pending")
            self.happen("an approver denies", effect="rejected")
        if s.landing:
            self.happen("it lands", landing=False, applied=s.applied + 1, effect="uncertain")
            self.happen("it is lost", landing=False, effect="uncertain")
        if s.effect in ("executing", "uncertain") and not s.landing:
            # the reply or a look-up, taken as truthful
            self.happen(
                "its outcome is known", effect="completed" if s.applied - s.direct - s.new_key > 0 else "failed"
            )

    def sweeps(self) -> None:
        s = self.s
        if s.state == ANSWERED:
            self.move("retention drops the bytes of the answer", "drop_answer")
        if s.state in (ANSWERED, RESOLVED):
            self.move("retention frees the key", "free_key")
        if s.state == RUNNING and s.lease_over:
            if self._may_release():
                self.move(
                    "a sweep finds the handler lost, and nothing was sent", "release", RELEASED, epoch=s.epoch + 1
                )
            else:
                self._lose("a sweep finds the handler")
        if s.state in (WAITING, IN_DOUBT) and s.effect not in UNSETTLED:
            self._settle()
        if s.state == RUNNING:
            self.move("the database is restored, then effects_doubt_since", "doubt_since", IN_DOUBT, epoch=s.epoch + 1)

    def _settle(self) -> None:
        s = self.s
        if s.effect == "" or (self.config.opaque and not s.returned):
            if s.state == WAITING:
                self.move("nothing tells what the handler did", "settle", IN_DOUBT)
        elif self.config.builds:
            answer = "refusal" if s.effect in NOTHING else "success"
            self.move("answer= builds the answer", "settle", ANSWERED, frozen=answer)
            if s.state == WAITING:
                self.move("answer= says NotFinished", "settle", IN_DOUBT)
        elif s.returned or s.effect in NOTHING:
            self.move("settled, and nobody builds an answer", "settle", ANSWERED)
        elif s.state == WAITING:
            self.move("nobody builds an answer", "settle", IN_DOUBT)

    def people(self) -> None:
        s = self.s
        if s.state == IN_DOUBT and s.effect not in UNSETTLED and not any(at == "begun" for _, at in s.handlers):
            found = "applied" if s.applied else "not applied"
            self.move(f"a person finds: {found}", "resolve", RESOLVED, frozen=found)
            self.move("a person gives the answer", "resolve", ANSWERED, frozen="success" if s.applied else "refusal")
