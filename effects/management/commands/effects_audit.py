"""`manage.py effects_audit`: whether the journal says what its own rules allow."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import Error

from effects.inspection.audit import CODES, Finding, Scope, audit
from effects.inspection.audit.instants import parse_duration, parse_since
from effects.journal import locks
from effects.vocabulary.exceptions import EffectsError

T = TypeVar("T")
FOUND, COULD_NOT_RUN = 1, 2


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser of one argument whose errors reach the person who typed it."""

    def typed(text: str) -> T:
        try:
            return parse(text)
        except (ValueError, OverflowError) as error:
            raise ArgumentTypeError(str(error)) from error

    return typed


class Command(BaseCommand):
    """Look for rows that no verb could have left behind, and for what hangs."""

    help = (
        "Compare the journal with its own rules: receipts replay to the row, approvals are spent once and on what was "
        "sent, nothing hangs, nothing is orphaned. Reads only, locks nothing, and may run beside live work. "
        "Exit code: 0 nothing found, 1 findings, 2 it could not run."
    )
    # wrong settings are a finding of `check`, and no reason not to look
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""
        parser.add_argument(
            "--since", type=argument(parse_since), metavar="TIME|DURATION",
            help="only rows of which something was recorded since (2026-03-01T12:00Z, 24h, 7d); what hangs now is "
            "looked for in any case",
        )  # fmt: skip
        parser.add_argument(
            "--allowance", type=argument(parse_duration), default=timedelta(minutes=10), metavar="DURATION",
            help="how late a lease, a due row, a hook or a sweep may be; 10m by default",
        )  # fmt: skip
        parser.add_argument(
            "--batch", type=int, default=Scope.batch, help="rows in hand at once; %(default)s by default"
        )
        parser.add_argument("--most", type=int, default=1000, help="findings told at most; all are counted")
        parser.add_argument("--json", action="store_true", help="end with one JSON object, on one line")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run the audit, tell what it found, and exit with what that means."""
        try:
            scope = _scope(options)
            found = self._run(scope, most=options["most"], as_json=options["json"])
        except (Error, EffectsError, ImproperlyConfigured) as error:
            if options["json"]:
                self.stdout.write(json.dumps({"error": str(error)}))
            raise CommandError(f"The journal could not be audited: {error}", returncode=COULD_NOT_RUN) from error
        if found:
            sys.exit(FOUND)

    def _run(self, scope: Scope, *, most: int, as_json: bool) -> int:
        checked: Counter[str] = Counter(executions=0, requests=0, receipts=0, attempts=0, approvals=0)
        by_code: Counter[str] = Counter()
        told: list[Finding] = []
        for finding in audit(scope, checked):
            by_code[finding.code] += 1
            if sum(by_code.values()) > most:
                continue
            if as_json:
                told.append(finding)
            else:
                self.stdout.write(f"{finding.code}: {finding.kind} {finding.ref}: {finding.wrong}")
        if as_json:
            self.stdout.write(json.dumps(_report(scope, checked, by_code, told)))
        else:
            self._summarize(checked, by_code)
        return sum(by_code.values())

    def _summarize(self, checked: Counter[str], by_code: Counter[str]) -> None:
        for code, count in sorted(by_code.items()):
            self.stdout.write(f"\n{count} {code}: {CODES[code].meaning}\n  {CODES[code].fix}")
        looked = ", ".join(f"{count} {kind}" for kind, count in checked.items())
        self.stdout.write(f"{looked}: {sum(by_code.values()) or 'no'} findings")


def _scope(options: dict[str, Any]) -> Scope:
    now, since = locks.now(), options["since"]
    if isinstance(since, timedelta):
        since = now - since
    if options["batch"] < 1:
        raise CommandError("--batch is at least 1", returncode=COULD_NOT_RUN)
    return Scope(now, since=since, allowance=options["allowance"], batch=options["batch"])


def _report(scope: Scope, checked: Counter[str], by_code: Counter[str], told: list[Finding]) -> dict[str, Any]:
    return {
        "at": scope.now.isoformat(),
        "since": scope.since.isoformat() if scope.since else None,
        "checked": dict(checked),
        "found": dict(sorted(by_code.items())),
        "findings": [finding.as_json() for finding in told],
        "told_all": len(told) == sum(by_code.values()),
    }
