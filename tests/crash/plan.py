"""Which cells there are: all of them, and the cross-section that an ordinary run has time for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.crash.cells import Setting

__all__ = ["CROSS_SECTION", "PROVIDERS", "faults_of", "settings_of"]

PROVIDERS = ("deduplicates", "authoritative", "lagging", "none")
#: What can go wrong besides the kill; in a lasting one a life gets to where an untroubled one never does.
TROUBLES = ("reply_lost", "killed", "request_lost", "late", "hook_raises", "raises")
VIEWS = ("declared", "opaque")
#: What an untroubled life reaches too: killed there once is enough.
SMOOTH = (
    "opening", "handler", "performing", "send.", "wire.", "hook.", "recording_an_outcome", "answering", "finishing",
    "approving",
)  # fmt: skip
#: The commits whose answer, or which themselves, are lost.
LOSABLE = ("opening", "performing", "sending", "recording_an_outcome", "answering", "approving")


def settings_of(ways: Sequence[str]) -> list[Setting]:
    """Return every provider with and without an approval in each way, and each trouble with every provider."""
    found = [Setting(provider, asks, way) for way, provider, asks in itertools.product(ways, PROVIDERS, (False, True))]
    for number, (trouble, provider) in enumerate(itertools.product(TROUBLES, PROVIDERS)):
        if trouble == "raises" and ways[0] not in VIEWS:
            continue
        # each trouble meets both ways, and people in every other life
        found.append(Setting(provider, bool((number + number // 4) % 2), ways[(number // 2) % len(ways)], trouble))
    return found


def faults_of(setting: Setting, points: Sequence[str]) -> list[str]:
    """Return what is done in a setting: a kill at each point that it reaches, and lost COMMITs where it is smooth.

    Args:
        setting: which.
        points: what it reaches when nobody is killed.
    """
    distinct = list(dict.fromkeys(points))
    if setting.trouble:
        return [point for point in distinct if not point.startswith(SMOOTH)]
    if setting.provider != "authoritative":
        return distinct
    losable = [point for point in distinct if point.endswith(".before_commit") and point.startswith(LOSABLE)]
    return distinct + [f"{how}@{point}" for point in losable for how in ("LOSE_REPLY", "LOSE_COMMIT")]


def _both(setting: Setting, *commits: str) -> list[tuple[Setting, str]]:
    return [(setting, f"{commit}.{when}_commit") for commit in commits for when in ("before", "after")]


#: Together with the table's column and the verbs of people: every point, once.
CROSS_SECTION = [
    *_both(Setting("authoritative", True, "perform"), "approving_an_effect", "sending_an_effect"),
    *_both(
        Setting("lagging", False, "perform", "reply_lost"), "looking_up_an_effect", "recording_a_look-up", "sweeping",
        "writing_a_heartbeat",
    ),
    (Setting("authoritative", False, "worker", "request_lost"), "look_up.before_call"),
    (Setting("authoritative", False, "worker", "request_lost"), "look_up.replied"),
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
