"""`manage.py effects_journal_id`: show the journal's id, give a copy one of its own, or put a lost one back."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID, uuid4

from django.core.management.base import BaseCommand, CommandError
from django.db import Error

from effects import transitions
from effects.models import Execution, Journal
from effects.vocabulary.states import EXECUTION_IN_DOUBT, EXECUTION_OPEN, values

COULD_NOT_RUN = 2
#: Where counting stops.
COUNTED = 1000


class Command(BaseCommand):
    """Show or change the journal's id."""

    help = (
        "Show the journal's id, which provider keys are derived from. --new gives a copy of a journal an id of its "
        "own, so that it never shares a key with the original; --set puts a lost one back. Both tell what they would "
        "do; "
        "--apply does it. What is recorded keeps its key. Exit code: 0 done, 2 it could not run, or there is no id."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--new", action="store_true", help="a new random id, for a copy of another journal")
        which.add_argument("--set", type=UUID, metavar="ID", help="this id, where the journal has lost it")
        parser.add_argument("--apply", action="store_true", help="do it; without, nothing is changed")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Show the id, or change it."""
        try:
            self._run(options["set"], is_new=options["new"], is_applied=options["apply"])
        except Error as error:
            raise CommandError(f"The journal could not be read: {error}", returncode=COULD_NOT_RUN) from error

    def _run(self, chosen: UUID | None, *, is_new: bool, is_applied: bool) -> None:
        journal = Journal.objects.first()
        if not is_new and chosen is None:
            if journal is None:
                raise CommandError(
                    "The journal has no id, so that nothing new is recorded. Put the one that it had back, from a "
                    "backup or from the console of an older copy: --set ID --apply. If nobody knows it: --new --apply; "
                    "what the provider has under lost keys is then not found again.",
                    returncode=COULD_NOT_RUN,
                )
            self.stdout.write(f"{journal.id}, since {journal.since.isoformat()}")
            for former in journal.former_ids:
                self.stdout.write(f"formerly {former}")
            return
        if is_applied:
            named = transitions.name_journal(chosen or uuid4())
            self.stdout.write(f"The journal's id is {named.id} now; it was {journal.id if journal else 'missing'}.")
        else:
            self.stdout.write(
                f"Would change the journal's id from {journal.id if journal else 'none'} to {chosen or 'a new one'} "
                "(--apply does it)."
            )
        self._tell_unsettled()

    def _tell_unsettled(self) -> None:
        unsettled = Execution.objects.filter(state__in=values(EXECUTION_OPEN | EXECUTION_IN_DOUBT))
        count = len(unsettled.values_list("pk")[: COUNTED + 1])
        if count:
            shown = f"{COUNTED}+" if count > COUNTED else count
            self.stdout.write(
                f"{shown} unsettled executions keep their provider keys. If this is a copy, the original sends them "
                "under the same keys: let no worker of this copy reach the original's provider account before they are "
                "cancelled or resolved here."
            )
