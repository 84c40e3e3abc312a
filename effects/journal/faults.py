"""Fault points: named places at which a test can interrupt or kill the process. Not armed, one costs a comparison.

`effects.testing.faults` arms them in a process; the environment variable `EFFECTS_FAULT=<point>[:<nth>]` arms one in a
child, which then kills itself with SIGKILL when it reaches it for the nth time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

__all__ = ["POINTS", "arm", "commit_point", "disarm", "reach"]

_COMMITS = {
    # the way of an effect
    "performing an effect": "the record, and the permit of a first send",
    "sending an effect": "the permit of a later send, its approval spent",
    "recording an outcome": "what became of a send, with the settled rows",
    "recording a late outcome": "the news of a send whose lease was taken over",
    "refusing an effect": "a precondition's no",
    "postponing an effect": "a precondition's not yet",
    "running a settled hook": "the rows of a settled hook that had failed",
    # in doubt
    "expiring a lease": "the doubt about a send whose process is gone",
    "looking up an effect": "the claim of a look-up",
    "recording a look-up": "a look-up's verdict",
    "postponing a look-up": "that the project wants nobody asked now",
    "escalating an effect": "that a person must decide",
    "recording evidence": "a webhook's or a statement's proof",
    "doubting an effect after a restore": "that it may have been sent since",
    # people
    "approving an effect": "a vote",
    "denying an effect": "a person's no",
    "withdrawing an approval": "that somebody takes a request for approval back",
    "expiring an approval": "that nobody decided, or used the licence, in time",
    "cancelling an effect": "that somebody ends what was not sent",
    "resolving an effect": "a person's decision",
    "reopening an effect": "a new budget of look-ups",
    "ordering a resend": "a person's order to send again",
    # requests
    "opening a request": "a protected request under its key",
    "answering a request": "its frozen answer",
    "answering a transactional request": "its key, its rows and its answer",
    "finishing a request": "the handler's own rows with the answer",
    "releasing a request": "that its key is free again",
    "renewing leases": "the longer leases of this process's handlers",
    "closing a lost request": "the end of a handler that was cut short",
    "settling a request": "an answer built later",
    "resolving a request": "a person's decision about it",
    "doubting a request after a restore": "that its handler may have run since",
    # sweeps
    "sweeping": "which rows a sweep has in hand",
    "writing a heartbeat": "that a sweep is alive",
    "noting trouble": "what working on a row raised",
    "retention": "that old answers are dropped and old keys freed",
    "pruning an execution": "the tombstone of an old execution",
    "giving the journal an id": "the id that provider keys of this journal are derived from",
    # telling people
    "forgetting a notice": "a notice that was told, or is out of date",
    "postponing a notice": "what telling a notice raised",
}
_PLACES = {
    "send.before_call": "the permit is committed, the connection is not made",
    "send.replied": "the provider has answered, nothing of it is recorded",
    "look_up.before_call": "the look-up is claimed, the provider not asked",
    "look_up.replied": "the look-up's answer is here, nothing of it is recorded",
    "hook.before": "the outcome is written, the settled hook not begun, nothing committed",
    "hook.after": "the settled hook has written its rows, nothing committed",
    "handler.started": "the request is open, the handler not begun",
    "handler.returned": "the handler has returned and its answer is rendered, nothing of it recorded",
}


def commit_point(what: str, when: str) -> str:
    """Return the name of the point `before` or `after` the commit of `what`."""
    return f"{what.replace(' ', '_')}.{when}_commit"


#: Every point that is promised to tests, and what is true when it is reached.
POINTS: dict[str, str] = {
    **{commit_point(what, "before"): f"before the commit of {doc}" for what, doc in _COMMITS.items()},
    **{commit_point(what, "after"): f"after the commit of {doc}" for what, doc in _COMMITS.items()},
    **_PLACES,
}

_armed: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Say that `point` is reached."""
    if _armed is not None:
        _armed(point)


def arm(watch: Callable[[str], None]) -> None:
    """Call `watch` with the name of each point that is reached; it may raise."""
    global _armed  # noqa: PLW0603 - one process, one watcher
    _armed = watch


def disarm() -> None:
    """Watch no longer."""
    global _armed  # noqa: PLW0603
    _armed = None


def _kill_at(spec: str) -> Callable[[str], None]:
    """Return a watcher that kills this process when the point is reached for the nth time.

    The name may be one of the project's own, said to `reach`.
    """
    wanted, _, nth = spec.partition(":")
    left = [int(nth or 1)]

    def watch(point: str) -> None:
        if point == wanted:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return watch


if "EFFECTS_FAULT" in os.environ:
    arm(_kill_at(os.environ["EFFECTS_FAULT"]))
