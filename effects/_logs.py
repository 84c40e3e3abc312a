"""Loggers whose records are redacted as the journal's texts are."""

from __future__ import annotations

import logging
import traceback

from effects import canonical
from effects.redaction import is_redacting

__all__ = ["get_logger"]

#: Longest message or traceback that is kept, in characters.
LONGEST = 20_000


class _Redacting(logging.Filter):
    """Redacts message and traceback where there is something to redact; otherwise records stay as they are.

    A redacted record keeps its traceback as text alone: mails and error trackers show the values of local variables,
    and those are nobody's to clean.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if is_redacting():
            record.msg, record.args = canonical.clean_text(record.getMessage(), LONGEST), ()
            if record.exc_info and record.exc_info[0] is not None:
                raised = "".join(traceback.format_exception(*record.exc_info)).rstrip()
                record.exc_text, record.exc_info = canonical.clean_text(raised, LONGEST), None
        return True


_redacting = _Redacting()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of that name, its records redacted."""
    logger = logging.getLogger(name)
    logger.addFilter(_redacting)
    return logger
