"""Which cells there are: all of them, and the cross-section that an ordinary run has time for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.crash.cells import Setting

__all__ = ["CROSS_SECTION", "PROVIDERS", "faults_of", "settings_of"]

PROVIDERS = ("deduplicates", "authoritative", "lagging", "none")
#: Ways → the troubles that can come to them.
TROUBLES = ("reply_lost", "request_lost", "late", "killed", "hook_raises", "raises")
VIEWS = ("declared", "opaque")
#: What an untroubled life reaches too: killed there once is enough.
SMOOTH = (
    "opening", "handler", "performing", "sending", "send.", "wire.", "hook.", "recording_an_outcome", "answering",
    "finishing", "approving",
)  # fmt: skip


def settings_of(ways: Sequence[str]) -> list[Setting]:
    """Return every provider × approval × way, and every trouble in some way of each."""
    found = [
        Setting(provider, asks, way)
        for way, provider, asks in itertools.product(ways, PROVIDERS, (False, True))
    ]  # fmt: skip
    turn = itertools.count()
    for provider, asks, trouble in itertools.product(PROVIDERS, (False, True), TROUBLES):
        able = [way for way in ways if way in VIEWS or trouble != "raises"]
        if able:
            # co-prime steps: each trouble meets each way
            found.append(Setting(provider, asks, able[(next(turn) // len(TROUBLES)) % len(able)], trouble))
    return found


def faults_of(setting: Setting, points: Sequence[str]) -> list[str]:
    """Return what is done in a setting: a kill at each point that it reaches, and lost COMMITs where it is smooth.

    Args:
        setting: which.
        points: what it reaches when nobody is killed.
    """
    distinct = list(dict.fromkeys(points))
    if setting.trouble:
        return [point for point in distinct if setting.trouble == "killed" or not point.startswith(SMOOTH)]
    lost = [
        f"{how}@{point}"
        for point in distinct
        if point.endswith(".before_commit") and setting.provider in ("authoritative", "none")
        for how in ("LOSE_REPLY", "LOSE_COMMIT")
    ]
    return distinct + lost


def _both(setting: Setting, *commits: str) -> list[tuple[Setting, str]]:
    return [(setting, f"{commit}.{when}_commit") for commit in commits for when in ("before", "after")]


#: Together with the table's column and the verbs of people: every point, once.
CROSS_SECTION = [
    *_both(Setting("authoritative", True, "perform"), "approving_an_effect", "sending_an_effect"),
    *_both(
        Setting("lagging", False, "perform", "reply_lost"), "looking_up_an_effect", "recording_a_look-up", "sweeping",
        "writing_a_heartbeat",
    ),
    *((Setting("authoritative", False, "worker", "request_lost"), f"look_up.{what}") for what in ("before_call", "replied")),
    *_both(Setting("authoritative", False, "worker"), "answering_a_transactional_request"),
    *_both(Setting("lagging", False, "declared", "late"), "recording_a_late_outcome"),
    *_both(Setting("none", False, "perform", "reply_lost"), "resolving_an_effect", "escalating_an_effect"),
    *_both(Setting("none", False, "worker", "request_lost"), "ordering_a_resend"),
    *_both(Setting("deduplicates", False, "perform", "killed"), "expiring_a_lease"),
    *_both(Setting("authoritative", False, "perform", "hook_raises"), "running_a_settled_hook"),
    *_both(Setting("deduplicates", False, "opaque"), "finishing_a_request"),
    *_both(Setting("authoritative", False, "opaque", "raises"), "closing_a_lost_request", "resolving_a_request"),
    *_both(Setting("authoritative", True, "declared"), "settling_a_request"),
    (Setting("authoritative", False, "perform"), "LOSE_REPLY@performing_an_effect.before_commit"),
    (Setting("none", False, "perform"), "LOSE_COMMIT@recording_an_outcome.before_commit"),
]  # fmt: skip
