"""`manage.py demo`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from project.demo.show import Options, show
from project.services.processes import ServiceError


class Command(BaseCommand):
    """Show the product at work, on real components, and check it against the provider's own ledger."""

    help = (
        "Starts PostgreSQL and Redis, unless DATABASE_URL and REDIS_URL name some, a Stripe, the shop's web server, a "
        "Celery worker and beat; plays seven hard moments over real HTTP; compares Stripe's ledger with the journal "
        "and the shop's rows. Exits with 1 if they differ or a story came out wrong. Leaves nothing behind."
    )
    # They would ask a database that does not run yet; the demo runs them once it does.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        parser.add_argument("--json", action="store_true", help="end with one line of JSON: what was counted")
        parser.add_argument("--serve", action="store_true", help="stay up afterwards, with the admin to look around in")
        parser.add_argument("--port", type=int, help="the port of the shop's web server; any free one by default")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run it."""
        try:
            is_good = show(Options(json=options["json"], serve=options["serve"], port=options["port"]))
        except ServiceError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. Everything that was started is gone.", returncode=130) from None
        if not is_good:
            raise CommandError("The demo did not come out as it has to; see above.")
