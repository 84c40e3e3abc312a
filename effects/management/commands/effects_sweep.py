"""`manage.py effects_sweep`: all sweeps without Celery, once or for ever."""

from __future__ import annotations

import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, SystemCheckError
from django.db import close_old_connections

from effects.conf import settings
from effects.inspection.checks.journal import check_migrations, check_server
from effects.journal.logs import get_logger
from effects.sweeps import SWEEPS

log = get_logger("effects.reconcilers")


class Command(BaseCommand):
    """Run every sweep in this process."""

    help = "Send, look up, expire and settle what is due. Without --every: one pass, for cron."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""
        parser.add_argument("--every", type=float, metavar="SECONDS", help="go on, with this pause between passes")
        parser.add_argument("--batch", type=int, help="rows a sweep takes at a time; SWEEP_BATCH by default")

    def check(self, *args: Any, **options: Any) -> None:
        """Check the project, and the journal's database: the sweeps of one that lacks tables would each fail.

        What is wrong with rows (E020 to E022) stops no other row: the first sweep logs it and goes on.
        """
        super().check(*args, **options)
        databases = [settings.DATABASE]
        serious = [one for one in (*check_server(databases), *check_migrations(databases)) if one.is_serious()]
        if serious:
            raise SystemCheckError("\n".join(map(str, serious)))

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the passes until interrupted."""
        pause, for_ever = threading.Event(), options["every"] is not None
        while True:
            for name, sweep in SWEEPS.items():
                try:
                    counts = {what: count for what, count in sweep.run_once(options["batch"]).items() if count}
                except Exception:  # the database is away, say: the next pass may find it again
                    if not for_ever:
                        raise
                    log.exception("%s failed; the next pass tries again.", name)
                    continue
                if counts or options["verbosity"] > 1:
                    self.stdout.write(f"{name}: {counts or 'nothing due'}")
            if not for_ever or pause.wait(options["every"]):
                return
            # no request ends here, after which Django would let go of what is broken or old
            close_old_connections()
