"""The stories: each plays one hard moment on the running cluster, and tells what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from project.demo.stage import Stage, Telling

from . import crashes, network, people

__all__ = ["STORIES", "Story"]


@dataclass(frozen=True, slots=True)
class Story:
    """One story.

    Attributes:
        title: What the table calls it.
        play: Plays it, and fills in what there is to tell.
    """

    title: str
    play: Callable[[Stage, Telling], None]


STORIES = (
    Story("An impatient client", network.impatient_client),
    Story("The reply is lost", network.lost_reply),
    Story("The request is lost", network.lost_request),
    Story("A large refund", people.large_refund),
    Story("The worker is killed", crashes.worker_killed),
    Story("An opaque view is killed", crashes.opaque_view_killed),
    Story("Nobody can tell", people.nobody_can_tell),
)
