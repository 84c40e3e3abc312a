"""Find what the journal holds and this code cannot go on with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.db import DatabaseError

from effects.inspection.checks.journal import configured_journal
from effects.inspection.checks.messages import make_error, make_warning
from effects.inspection.standstill import START, standstills
from effects.models import Journal
from effects.runtime.orphans import Trouble, list_orphans, list_unprotected

__all__ = ["check_journal_id", "check_rows", "check_standstill"]

#: Ids: E020, E021.
_NUMBERS = {Trouble.UNKNOWN: 20, Trouble.UNREADABLE: 21}
#: W020.
_UNPROTECTED = 20


def check_rows(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """E020: unsettled rows that no code is for. E021: unreadable ones. W020: settled ones that protect nothing."""
    if not _is_asked(databases):
        return []
    found: list[checks.CheckMessage] = []
    try:
        for one in list_orphans():
            told = f"{one.message} One of them: {one.error}" if one.error else one.message
            found.append(make_error(_NUMBERS[one.trouble], told, one.hint))
        found += [make_warning(_UNPROTECTED, one.message, one.hint) for one in list_unprotected()]
    except DatabaseError:
        pass  # E010, E011
    return found


def check_journal_id(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """E022: the journal has lost its id, so that no provider key can be derived."""
    if not _is_asked(databases):
        return []
    try:
        is_named = Journal.objects.exists()
    except DatabaseError:
        return []  # E010, E011
    if is_named:
        return []
    return [
        make_error(
            22,
            "The journal has no id: nothing new is recorded, because no provider key can be derived.",
            "Put the one that it had back: manage.py effects_journal_id --set ID --apply. An empty journal gets one by "
            "manage.py migrate.",
        )
    ]


def check_standstill(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """W012: something is due, and nobody does it."""
    if not _is_asked(databases):
        return []
    try:
        return [make_warning(12, str(found), START) for found in standstills()]
    except DatabaseError:
        return []  # E010, E011


def _is_asked(databases: Sequence[str] | None) -> bool:
    """Return whether the journal's database is to be looked into; `migrate` asks before it makes what is missing."""
    connection = configured_journal()
    return connection is not None and connection.alias in (databases or ()) and "migrate" not in sys.argv[1:2]
