"""Load django-effects for minutes while its processes are killed and its provider and database misbehave.

`python -m benchmarks.soak --seconds 120`. Exit code 1 when a promise was broken, 2 when the soak could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
from django.core.management import call_command

from benchmarks.wire import ask
from project.services import postgres
from project.services.processes import Processes, ServiceError

CROWD = {"client": 6, "beat": 2, "person": 1}
#: Rounds of "a while passes, the sweeps run", after which everything has to be settled.
ROUNDS = 40
A_WHILE = timedelta(seconds=20)


def main() -> int:
    """Run a soak and say what it found."""
    options = _options()
    started = time.monotonic()
    os.environ["SOAK_QUIET"] = str(options.quiet)
    try:
        with Processes() as processes, _database(processes) as url:
            wrong, counted = _soak(processes, url, options)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # all that was started has ended
    counted["seconds"] = round(time.monotonic() - started, 1)
    _print(options, wrong, counted)
    return int(any(wrong.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long everything misbehaves; 120 by default")
    parser.add_argument("--seed", type=int, help="of all dice; not of the processes' timing. Random by default")
    parser.add_argument("--quiet", type=float, default=5.0, help="seconds; below 3 the promises' assumption is broken")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--keep", type=Path, help="a directory that gets the processes' diaries and logs")
    options = parser.parse_args()
    if options.seconds <= 0:
        parser.error("--seconds is more than zero")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**31)
    return options


@contextmanager
def _database(processes: Processes) -> Iterator[str]:
    """Give the URL of a database of our own, migrated, with its people."""
    with postgres.scratch_database(postgres.start(processes, fsync=False).url, "effects_soak") as url:
        os.environ["DATABASE_URL"] = url
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
        django.setup()
        from django.db import connections  # noqa: PLC0415 - the settings are known from here on

        try:
            _prepare()
            yield url
        finally:
            connections.close_all()


def _prepare() -> None:
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415
    from django.db import connection, connections  # noqa: PLC0415

    from benchmarks.roles import NUMBERS  # noqa: PLC0415

    call_command("migrate", run_syncdb=True, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SEQUENCE {NUMBERS}")
    User.objects.create_user("approver").user_permissions.add(Permission.objects.get(codename="approve_execution"))
    connections.close_all()  # the processes are forked from here: none inherits a connection


def _soak(processes: Processes, url: str, options: argparse.Namespace) -> tuple[dict[str, list[str]], dict[str, Any]]:
    from benchmarks.crowd import Crowd  # noqa: PLC0415
    from benchmarks.effects import PORT  # noqa: PLC0415

    python, parts = [sys.executable, "-m"], urlsplit(url)
    _, provider = processes.start_on_port(
        "provider", lambda port: [*python, "benchmarks.provider", str(port), str(options.seed)]
    )
    upstream = [str(parts.hostname), str(parts.port or 5432)]
    _, network = processes.start_on_port(
        "network", lambda port: [*python, "benchmarks.database", str(port), str(options.seed), *upstream]
    )
    os.environ[PORT] = str(provider)
    diaries = options.keep or processes.make_directory("effects-soak-")
    diaries.mkdir(parents=True, exist_ok=True)
    _introduce(options)
    crowd = Crowd(diaries, ask(network, do="where")["port"], options.seed)
    began = time.monotonic()
    try:
        for role, number in CROWD.items():
            for _ in range(number):
                crowd.start(role)
        crowd.harm_until(began + options.seconds)
        busy = time.monotonic() - began
        faults = ask(network, do="calm")
        ask(provider, do="calm")
    finally:
        polite = crowd.end()
    return _judge(diaries, provider, crowd, {"chaos_seconds": round(busy, 1), "database_faults": faults}, polite)


def _introduce(options: argparse.Namespace) -> None:
    from benchmarks import crowd, effects, provider  # noqa: PLC0415

    assumed = crowd.STOPPED + provider.LATEST + provider.LAG
    print(
        f"{options.seconds:g} s, seed {options.seed}: {CROWD['client']} workers, {CROWD['beat']} beats, a person who "
        f"approves; a provider that does not deduplicate.\nTimes are short here, so that much happens: a send has "
        f"{effects.TIMEOUT.total_seconds():g} s, its lease 0.3 s more, the quiet time is "
        f"{effects.QUIET.total_seconds():g} s.\nThe promises assume that it is longer than this together: a process is "
        f"stopped for ≤ {crowd.STOPPED:g} s, a request lands ≤ {provider.LATEST:g} s late, a look-up lags "
        f"{provider.LAG:g} s." + ("" if options.quiet > assumed else " IT IS NOT: expect duplicates."),
        flush=True,
    )


def _judge(
    diaries: Path, provider: int, crowd: Any, counted: dict[str, Any], polite: bool
) -> tuple[dict[str, list[str]], dict[str, Any]]:
    from benchmarks import oracle  # noqa: PLC0415

    began = time.monotonic()
    in_time = _drain(provider)
    rounds = _settle(diaries)
    wrong, found = oracle.judge(ask(provider, do="books"), diaries)
    if not polite:
        wrong["surprises"].append("a process that was asked to end did not")
    if not in_time:
        wrong["surprises"].append("the provider still has requests on their way")
    settled = sum(number for state, number in found["states"].items() if state in ("completed", "failed", "rejected"))
    found |= {
        **counted,
        "kills": dict(crowd.kills),
        "stops": crowd.stops,
        "rounds_to_settle": rounds,
        "seconds_to_settle": round(time.monotonic() - began, 1),
        "operations_per_second": round(settled / counted["chaos_seconds"], 1),
    }
    return wrong, found


def _drain(provider: int) -> bool:
    """Wait until no request is on its way to the ledger; tell whether there is none."""
    deadline = time.monotonic() + 15.0
    while ask(provider, do="calm")["busy"] and time.monotonic() < deadline:
        time.sleep(0.05)
    # and until the look-up sees all that has landed, and all orders are carried out
    time.sleep(1.0)
    return not ask(provider, do="calm")["busy"]


def _settle(diaries: Path) -> int:
    """Let time pass and the sweeps run until nothing is open; return the rounds that it took."""
    from benchmarks.roles import Diary, approve_some, sweep  # noqa: PLC0415
    from effects.models import Execution  # noqa: PLC0415
    from effects.testing import time_passes  # noqa: PLC0415
    from effects.vocabulary.states import EXECUTION_SETTLED, ExecutionState, values  # noqa: PLC0415

    diary, dice = Diary(diaries / "settling.jsonl"), random.Random(1)
    theirs = [*values(EXECUTION_SETTLED), str(ExecutionState.NEEDS_INTERVENTION)]
    for done in range(ROUNDS):
        open_rows = Execution.objects.exclude(state__in=theirs)
        if not open_rows.exists() and not Execution.objects.filter(hook_due_at__isnull=False).exists():
            return done
        time_passes(A_WHILE)
        approve_some(diary, dice)
        for _ in range(3):
            sweep(diary, batch=1000)
    return ROUNDS


def _print(options: argparse.Namespace, wrong: dict[str, list[str]], counted: dict[str, Any]) -> None:
    for name, value in counted.items():
        shown = ", ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict) else value
        print(f"{name.replace('_', ' '):28} {shown}")
    for kind, found in wrong.items():
        print(f"{kind.replace('_', ' '):28} {len(found)}")
        for example in found[:10]:
            print(f"    {example}")
    print("Every promise held." if not any(wrong.values()) else f"PROMISES WERE BROKEN; seed {options.seed}.")
    if options.json:
        counts = {kind: len(found) for kind, found in wrong.items()}
        examples = {kind: found[:10] for kind, found in wrong.items() if found}
        print(json.dumps({**counted, **counts, "seed": options.seed, "examples": examples}))


if __name__ == "__main__":
    sys.exit(main())
