"""How notices end: told, out of date, or tried again later."""

from __future__ import annotations

from datetime import timedelta

from effects.journal.commits import commits
from effects.journal.locks import lock_notice
from effects.journal.logs import get_logger
from effects.models import PendingNotice
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import ExecutionNotFoundError

__all__ = ["drop_notice", "postpone_notice"]

log = get_logger("effects.notices")

#: Telling is tried again after 10 s, doubling to an hour, and given up after some three days.
FIRST, CEILING, MOST_FAILURES = timedelta(seconds=10), timedelta(hours=1), 80


def drop_notice(notice_id: int) -> None:
    """*Commits.* Forget a notice that was told, or that is out of date."""
    with commits("forgetting a notice"):
        try:
            lock_notice(notice_id)
        except ExecutionNotFoundError:
            return  # another sweep told it too, which at least once allows
        PendingNotice.objects.filter(pk=notice_id).delete()


def postpone_notice(notice_id: int, error: Exception) -> bool:
    """*Commits.* Keep what telling raised, and try again later; return False where it is given up."""
    text = canonical.clean_error(error)
    with commits("postponing a notice"):
        try:
            notice = lock_notice(notice_id)
        except ExecutionNotFoundError:
            return True
        if notice.failures + 1 >= MOST_FAILURES:
            log.error("%s could not be told and is given up: %s", notice.key, text)
            PendingNotice.objects.filter(pk=notice_id).delete()
            return False
        wait = min(FIRST * 2 ** min(notice.failures, 10), CEILING)
        PendingNotice.objects.filter(pk=notice_id).update(
            due_at=notice.locked_at + wait, swept_until=None, failures=notice.failures + 1, error=text
        )
        return True
