"""The whole demo: start everything, play the stories, compare the ledgers, report, leave nothing."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass

from project.services.processes import Processes, ServiceError

from . import cluster, ledgers, people
from .clients import Conversations
from .ledgers import Audit, Balance, Counts
from .provider import Provider
from .report import Played, Progression, Report
from .stage import Stage, Telling, counted, new_key
from .stories import STORIES, Story

__all__ = ["Options", "show"]

log = logging.getLogger("project.demo")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for.

    Attributes:
        json: End with a line of JSON.
        serve: Stay up until Ctrl-C.
        port: The web server's; a free one when not given.
    """

    json: bool = False
    serve: bool = False
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """How it went.

    Attributes:
        played: The stories.
        found: The ledgers, compared.
        audit: The journal, compared with its own rules.
        counts: What was counted.
        seconds: How long it took, from the start of the first service.
    """

    played: tuple[Played, ...]
    found: Balance
    audit: Audit
    counts: Counts
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether every story came out as it has to, the ledgers agree, and the audit finds nothing."""
        stories = all(each.is_good for each in self.played)
        same = self.counts.replays == self.counts.replays_identical
        return stories and same and not (self.found.differences or self.found.unsettled or self.audit.findings)

    def as_json(self) -> dict[str, object]:
        """Return what programs read."""
        stories = [{"title": each.title, "ok": each.is_good, "failures": each.telling.failures} for each in self.played]
        return {
            "ok": self.is_good,
            **self.counts.as_json(),
            "audited": dict(self.audit.checked),
            "audit_findings": list(self.audit.findings),
            "seconds": round(self.seconds, 1),
            "stories": stories,
        }


def show(options: Options) -> bool:
    """Run the demo; tell whether everything came out as it has to.

    Raises:
        ServiceError: Something is missing here; the message says what to do.
    """
    report = Report()
    report.introduce()
    with contextlib.ExitStack() as stack:
        with Progression(len(STORIES) + 3) as progression:
            stage, result = _run(stack, options, progression)
            if not result.is_good:
                progression.quote(stage.cluster.logs())
            if not options.serve:
                progression.begin("Stopping")
                stack.close()
                progression.end("nothing is left")
        report.tell(result.played)
        report.compare(result.found)
        report.audit(result.audit)
        report.count(result.counts)
        report.conclude(result.seconds, is_good=result.is_good)
        if options.serve:
            _serve(stage, report)
    if options.json:
        report.dump(result.as_json())
    return result.is_good


def _run(stack: contextlib.ExitStack, options: Options, progression: Progression) -> tuple[Stage, Result]:
    """Start everything, play everything, compare; what was started stays in `stack`."""
    started = time.monotonic()
    progression.begin("Starting")
    processes = stack.enter_context(Processes())
    running = stack.enter_context(cluster.running(processes, port=options.port, note=progression.note))
    stage = Stage(running, Provider(running.provider_url), people.make(), Conversations(), progression.note)
    progression.end("ready")
    played = tuple(_play(story, stage, progression) for story in STORIES)
    progression.begin("Comparing the ledgers")
    found = ledgers.balance(stage.provider)
    audited = ledgers.audit()
    counts = ledgers.count(found, stage.provider, running.faults, stage.conversations)
    progression.end(counted(len(found.differences), "difference"))
    return stage, Result(played, found, audited, counts, time.monotonic() - started)


def _play(story: Story, stage: Stage, progression: Progression) -> Played:
    """Play one story; what it cannot finish is its failure."""
    progression.begin(story.title)
    told, started = Telling(), time.monotonic()
    try:
        story.play(stage, told)
    except ServiceError:  # a process that ought to run does not: the next stories need it too
        raise
    except Exception as error:  # whatever ends a story does not end the others; the verdict is no
        log.exception("%s broke off.", story.title)
        told.expect(False, f"it broke off: {type(error).__name__}: {error}")
    stage.faults.clear()
    played = Played(story.title, told, time.monotonic() - started)
    progression.end(f"{'as promised' if played.is_good else 'NOT as promised'}, {played.seconds:.1f} s")
    return played


def _serve(stage: Stage, report: Report) -> None:
    """Leave something to decide in the admin, and stay up until Ctrl-C."""
    order = stage.paid_order(120_000)
    stage.client.post(f"/orders/{order.pk}/refunds/", {"amount": 120_000}, new_key())
    report.invite(stage.cluster.url, stage.people)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
