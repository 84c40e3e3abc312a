"""Measure the console's pages on a journal of a million executions.

`python -m benchmarks.console --rows 1000000`. It starts a PostgreSQL, or takes the one at `DATABASE_URL`, in a database
of its own there, which is dropped at the end. Exit code 1 when a list or the overview takes longer than 300 ms.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import django

from project.services import postgres
from project.services.processes import Processes, ServiceError


def main() -> int:
    """Seed, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="executions; 1,000,000 by default")
    options = parser.parse_args()
    try:
        with Processes() as processes, postgres.scratch_database(
            postgres.start(processes, fsync=False).url, "effects_console"
        ) as url:  # fmt: skip
            os.environ["DATABASE_URL"], os.environ["DJANGO_SETTINGS_MODULE"] = url, "benchmarks.settings"
            return _run(options.rows)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 2


def _run(rows: int) -> int:
    django.setup()
    from django.db import connections  # noqa: PLC0415 - the settings are known from here on

    from benchmarks import journal, pages  # noqa: PLC0415 - the same

    try:
        started = time.monotonic()
        journal.seed(rows)
        print(f"{rows:,} executions in {time.monotonic() - started:.0f} s", flush=True)
        return int(pages.measure() > 0)
    finally:
        connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
