"""What is shorter in the demo than in production, so that nobody has to wait; said in its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from effects import conf
from effects.celery import EVERY

__all__ = ["PACES", "Pace", "in_words", "variables"]


@dataclass(frozen=True, slots=True)
class Pace:
    """One duration.

    Attributes:
        words: What it is.
        variable: The environment variable that the project's settings read.
        here: Seconds in the demo.
        usually: Seconds without the variable.
    """

    words: str
    variable: str
    here: float
    usually: float


PACES = (
    Pace("requests to Stripe", "PAYMENTS_TIMEOUT_SECONDS", 4, 10),
    Pace("quiet time until “not found” is believed", "PAYMENTS_QUIET_SECONDS", 2, 300),
    Pace("lease of a request", "EFFECTS_LEASE_SECONDS", 4, conf.Settings.REQUEST_LEASE.default.seconds),
    Pace("grace of a lease", "EFFECTS_GRACE_SECONDS", 1, conf.Settings.LEASE_GRACE.default.seconds),
    Pace("beat, every", "EFFECTS_SWEEP_SECONDS", 1, EVERY["look_up_due"].seconds),
)


def variables() -> Mapping[str, str]:
    """Return the environment that sets the pace."""
    return {pace.variable: f"{pace.here:g}" for pace in PACES}


def in_words() -> str:
    """Return all that is shortened, and from what."""
    return "; ".join(f"{pace.words} {pace.here:g} s, not {pace.usually:g}" for pace in PACES)
