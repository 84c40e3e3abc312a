"""What the model of one execution looks at: the effect's declaration, the state of the world, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from effects.vocabulary.states import NOTHING_HAPPENED, ExecutionState

__all__ = ["Config", "State", "faults", "in_doubt", "readings", "without_gossip"]

_S = ExecutionState


@dataclass(frozen=True)
class Config:
    """What the effect declares and the provider is like; and which assumption does not hold.

    Args:
        look_up: "authoritative", "eventual" or "" (the provider cannot be asked).
        deduplicates: the provider applies one key once, within its lifetime.
        approval: "", "once" (worth one send) or "covers" (worth sends until one is not proven absent).
        orders: the provider only takes orders, and carries them out later.
        partial: what it applies, it applies in part.
        abandons: what nobody can tell is given up.
        attempts: how many sends a worker may make.
        people: people may order another send, and ask again after a failure.
        look_ups: how many look-ups may be under way at once.
        gossip: news that can change nothing are brought too.
        stalls: a process may stall between its deadline check and the first byte for longer than the quiet time.
        lands_late: a request may land later than the quiet time after its attempt ended.
        misses: a look-up may miss what has landed.
        forgets: the journal may forget a commit.
        doubts: after that, `effects_doubt_since` is run before anything else.
    """

    look_up: str = "authoritative"
    deduplicates: bool = False
    approval: str = ""
    orders: bool = False
    partial: bool = False
    abandons: bool = False
    attempts: int = 2
    people: bool = False
    look_ups: int = 1
    gossip: bool = False
    stalls: bool = False
    lands_late: bool = False
    misses: bool = False
    forgets: bool = False
    doubts: bool = False


class State(NamedTuple):
    """The row, and the world around it."""

    state: ExecutionState | None = None
    doubt: bool = False  # may_have_applied
    proof: bool = False  # applied_evidence
    conflict: bool = False
    attempts: int = 0
    licence: str = ""  # "" requested granted spent
    order: str = ""  # of a resend: "" requested granted
    senders: tuple[tuple[int, str], ...] = ()  # attempt; permit sent applied taken refused later lost
    expired: bool = True  # the newest attempt's deadline
    lease_over: bool = True
    barrier: bool = True
    looks: tuple[tuple[bool, bool, str], ...] = ()  # under the newest claim; claimed after the barrier; verdict
    look_lease: bool = False
    air: int = 0
    queue: int = 0
    applied: int = 0
    key: str = "new"  # at the provider: new live ending gone
    allowed: int = 1
    asked_again: bool = False
    restored: bool = False


def without_gossip(config: Config, s: State) -> State:
    """Return a state without the processes whose news can change nothing any more: there are fewer to visit."""
    if s.senders:
        mine = s.attempts if s.state == _S.EXECUTING else -1
        kept = tuple(
            (number, phase)
            for number, phase in s.senders
            if number == mine or phase in ("sent", "applied", "taken") or (phase == "permit" and config.stalls)
        )
        if kept != s.senders:
            s = s._replace(senders=kept)
    if any(not mine and verdict not in ("", "found") for mine, _, verdict in s.looks):
        s = s._replace(looks=tuple(look for look in s.looks if look[0] or look[2] in ("", "found")))
    return s


def faults(config: Config, s: State) -> Iterator[str]:
    """Yield the promises that a state breaks, in words."""
    if s.applied > s.allowed:
        yield "applied twice"
    if s.state in (_S.COMPLETED, _S.PARTIALLY_COMPLETED) and not s.applied:
        yield "completed, but not applied"
    if s.state in NOTHING_HAPPENED:
        if s.applied:
            yield f"{s.state}, but applied"
        elif not (config.stalls or config.lands_late) and (s.air or s.queue):
            yield f"{s.state}, but under way"
    if s.state in NOTHING_HAPPENED and s.doubt:
        yield "doubt beside a state that says that nothing happened"
    if s.state == _S.REJECTED and s.attempts:
        yield "rejected, but sent"


def in_doubt(s: State) -> dict[str, Any]:
    """Return what a restore's doubt changes; the epoch leaps, so that no process holds the newest one."""
    return {
        "doubt": True, "barrier": False, "expired": True, "lease_over": True, "licence": "", "order": "",
        "look_lease": False, "restored": True, "senders": tuple((0, phase) for _, phase in s.senders),
        "looks": tuple((False, after, verdict) for _, after, verdict in s.looks),
    }  # fmt: skip


def readings(config: Config, s: State) -> Iterator[str]:
    """Yield what a look-up can read now; "nothing" decides nothing."""
    truth = "found" if s.applied else "in progress" if s.queue else "absent"
    yield truth
    lags = config.look_up == "eventual" and not s.barrier
    if truth != "absent" and (lags or config.misses):
        yield "absent"
    if truth == "absent" and config.orders and not s.air:
        yield "refused for good"
    yield "nothing"
