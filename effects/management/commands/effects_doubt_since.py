"""`manage.py effects_doubt_since TIME`: after a restore, what may have been sent since is put in doubt."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.db.models import Count, Min, QuerySet

from effects import transitions
from effects.inspection.audit.instants import parse_instant
from effects.journal import locks
from effects.journal.logs import get_logger
from effects.models import Execution, Receipt
from effects.vocabulary.exceptions import EffectsError
from effects.vocabulary.states import EXECUTION_SETTLED, values

log = get_logger("effects.restores")
ERRORS, COULD_NOT_RUN = 1, 2

#: What no row stands for, so that no verb can put it in doubt.
NOTES = (
    (
        "Executions and requests recorded after TIME are gone. Asked for again they are sent again, under the "
        "same provider key where the caller gave a key: only the provider's own deduplication helps. Compare the "
        "provider's ledger since TIME with the journal before clients and workers come back."
    ),
    (
        "A failed or rejected execution may have been superseded, a completed one undone. The successor is gone; doing "
        "it again uses the same provider key."
    ),
    (
        "Votes, denials, withdrawals, cancellations and resolutions since TIME are gone. Live approvals of what is put "
        "in doubt lapse, and people are asked again before anything of it is sent."
    ),
)


def _instant(text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


class Command(BaseCommand):
    """Put in doubt what a lost commit may have sent."""

    help = (
        "After the journal was restored from a backup: put every execution in doubt that may have been sent since "
        "TIME, the newest instant of which the backup holds every commit. Stop web processes, workers and sweeps "
        "first, and start them afterwards: look-ups then find what was sent. Tells what it would do; --apply does it. "
        "Repeated, it changes nothing. Exit code: 0 done, 1 some rows could not be changed (repeat it), 2 it could not "
        "run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""
        parser.add_argument("since", type=_instant, metavar="TIME", help="2026-03-01T12:00:00Z; rather too early")
        parser.add_argument(
            "--until", type=_instant, metavar="TIME",
            help="when the restored journal took over: what was recorded later is left alone. By default the first run "
            "with --apply, or now",
        )  # fmt: skip
        parser.add_argument("--apply", action="store_true", help="do it; without, nothing is changed")
        parser.add_argument("--batch", type=int, default=200, help="rows read at once; each is committed on its own")
        parser.add_argument("--json", action="store_true", help="end with one JSON object, on one line")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Tell, or do, what a restore to TIME puts in doubt."""
        since: datetime = options["since"]
        try:
            now = locks.now()
            if since > now or options["batch"] < 1:
                raise CommandError("TIME is in the past, and --batch at least 1", returncode=COULD_NOT_RUN)
            until = options["until"] or _first_run(since) or now
            report = self._run(since, until, apply=options["apply"], batch=options["batch"])
        except Error as error:
            raise CommandError(f"The journal could not be read: {error}", returncode=COULD_NOT_RUN) from error
        if options["json"]:
            self.stdout.write(json.dumps(report))
        else:
            self._tell(report)
        if report["errors"]:
            raise CommandError(f"{report['errors']} rows could not be changed; repeat it", returncode=ERRORS)

    def _run(self, since: datetime, until: datetime, *, apply: bool, batch: int) -> dict[str, Any]:
        exposed, running = transitions.exposed_executions(since, until), transitions.exposed_requests(until)
        report: dict[str, Any] = {
            "since": since.isoformat(), "until": until.isoformat(), "applied": apply,
            "executions": _by_state(exposed), "requests": _by_state(running),
            "settled": _by_state(Execution.objects.filter(state__in=values(EXECUTION_SETTLED))), "errors": 0,
            "notes": list(NOTES),
        }  # fmt: skip
        if apply:
            # requests first: a handler that is still alive records nothing more
            errors = _each(running, batch, lambda pk: transitions.doubt_request_since(pk, since=since, until=until))
            errors += _each(exposed, batch, lambda pk: transitions.doubt_since(pk, since=since, until=until))
            report["errors"] = errors
        return report

    def _tell(self, report: dict[str, Any]) -> None:
        did = "Put in doubt" if report["applied"] else "Would be put in doubt (--apply does it)"
        self.stdout.write(f"{did}, as of {report['since']} until {report['until']}:")
        for kind in ("executions", "requests"):
            states = ", ".join(f"{count} {state}" for state, count in report[kind].items()) or "none"
            self.stdout.write(f"  {kind}: {states}")
        settled = ", ".join(f"{count} {state}" for state, count in report["settled"].items()) or "none"
        self.stdout.write(f"Settled, and left alone: {settled}")
        for note in report["notes"]:
            self.stdout.write(f"- {note}")


def _first_run(since: datetime) -> datetime | None:
    """Return when this restore was first handled: what was recorded since then was never exposed."""
    told = Receipt.objects.filter(event__in=transitions.DOUBTING, at__gt=since)
    first: datetime | None = told.aggregate(first=Min("at"))["first"]
    return first


def _by_state(rows: QuerySet[Any]) -> dict[str, int]:
    counts = rows.order_by("state").values_list("state").annotate(count=Count("pk"))
    return {str(state): int(count) for state, count in counts}


def _each(rows: QuerySet[Any], batch: int, doubt: Callable[[UUID], object]) -> int:
    """Hand each row's id to `doubt`, in batches; return how many raised: one bad row stops no other."""
    return sum(not _done(pk, doubt) for pk in _ids(rows, batch))


def _done(pk: UUID, doubt: Callable[[UUID], object]) -> bool:
    try:
        doubt(pk)
    except (Error, EffectsError):
        log.exception("%s could not be put in doubt; repeat the command.", pk)
        return False
    return True


def _ids(rows: QuerySet[Any], batch: int) -> Iterator[UUID]:
    last = None
    while True:
        ids = list((rows if last is None else rows.filter(pk__gt=last)).values_list("pk", flat=True)[:batch])
        yield from ids
        if len(ids) < batch:
            return
        last = ids[-1]
