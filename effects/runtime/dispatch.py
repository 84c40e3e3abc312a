"""Hints to workers that an execution is due. A hint may be lost, doubled or late: the row is the truth."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.module_loading import import_string

from effects.conf import settings
from effects.journal.logs import get_logger

__all__ = ["send_hint"]

log = get_logger("effects.dispatch")

#: What publishes a hint, by the setting's word; anything else is a dotted path.
_PUBLISHERS = {"celery": "effects.celery.publish", "django_tasks": "effects.runtime.django_tasks.publish"}


def send_hint(execution_id: str) -> None:
    """Tell a worker that an execution is due; a broker that is away is logged, and the sweep finds the row."""
    dispatch = settings.DISPATCH
    if dispatch == "none":
        return
    try:
        publish: Callable[[str], object] = (
            dispatch if callable(dispatch) else import_string(_PUBLISHERS.get(dispatch, dispatch))
        )
        publish(execution_id)
    except Exception:  # the broker's or the project's: a hint is only a hint
        log.warning("No hint was sent for %s; the sweep will find it.", execution_id, exc_info=True)
