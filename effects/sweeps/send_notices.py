"""What the project's `NOTIFY` is still to be told."""

from __future__ import annotations

from effects import transitions
from effects.conf import settings
from effects.journal.current import without_request
from effects.journal.logs import get_logger
from effects.models import PendingNotice
from effects.people.notices import read_notice
from effects.sweeps._batches import Counts, each, is_anything_due, take
from effects.transitions.settlement import in_tenant
from effects.vocabulary.exceptions import JournalUnavailableError
from effects.vocabulary.failures import is_interrupt

__all__ = ["NAME", "is_due", "run_once"]

NAME = "send_notices"

log = get_logger("effects.notices")


def run_once(batch: int | None = None) -> Counts:
    """Tell what is due, each at least once: a process that dies between telling and forgetting tells it again."""
    return each(NAME, take(PendingNotice.objects.all(), "due_at", batch), _tell)


def is_due() -> bool:
    """Return whether there is anything to tell."""
    return is_anything_due(NAME, PendingNotice.objects.all(), "due_at")


def _tell(notice_id: int) -> str:
    notify = settings.NOTIFY
    try:
        # finding the people may ask functions of the project, too
        notice = read_notice(notice_id)
        if notify is None or notice is None:
            transitions.drop_notice(notice_id)
            return "out_of_date"
        with in_tenant(notice.execution.tenant), without_request():
            notify(notice)
    except JournalUnavailableError:
        raise  # the notice is not to blame
    except Exception as error:  # the project's code: a notice stops nothing
        if is_interrupt(error):
            raise
        log.warning("Notice %s was not told.", notice_id, exc_info=True)
        return "failed" if transitions.postpone_notice(notice_id, error) else "given_up"
    transitions.drop_notice(notice_id)
    return "told"
