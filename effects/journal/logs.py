"""Loggers of which every record is clean: our own words around foreign values, each made safe to stand in a log."""

from __future__ import annotations

import logging
import textwrap
import traceback
from collections.abc import Mapping
from typing import Any

from effects.journal.redaction import is_redacting
from effects.vocabulary.cleaning import clean_line, clean_text, escape

__all__ = ["get_logger"]

#: Longest traceback that is kept, in characters; a value in a message is cut at 2000.
LONGEST = 20_000


class _Cleaned:
    """A value as it may be written in a log, whether it is asked for with `%s` or with `%r`."""

    def __init__(self, value: object) -> None:
        try:
            shown = repr(value)
        except Exception:  # noqa: BLE001 - a foreign __repr__ may raise anything
            shown = f"<unprintable {type(value).__name__}>"
        self._text, self._repr = clean_line(value), clean_line(shown)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._repr


class _Cleaning(logging.Filter):
    """Cleans what a record was given: redacted, cut, card numbers masked, and in one line.

    The words of the message are ours and stay, so that error trackers still see which records are alike. A traceback is
    cleaned as text, and each of its lines is indented, so that none can pass for another record. The exception itself
    stays with the record, for error trackers, unless something is to be redacted: they show the values of local
    variables, and those are nobody's to clean.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, Mapping):  # logging makes this of one argument that is a mapping
            record.args = (_Cleaned(record.args),)
        elif record.args:
            record.args = tuple(map(_cleaned, record.args))
        else:
            record.msg = clean_line(record.msg)
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = _traceback(*record.exc_info)
            record.exc_info = None if is_redacting() else record.exc_info
        return True


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_line(value)
    # `%d` and `%.1f` want numbers; a longer one may be a card's
    return value if type(value) in (int, float) and abs(value) < 10**12 else _Cleaned(value)


def _traceback(*raised: Any) -> str:
    try:
        text = "".join(traceback.format_exception(*raised)).rstrip()
    except Exception:  # noqa: BLE001 - foreign errors may hold anything
        text = f"{raised[0].__name__}: <unprintable>"
    return textwrap.indent(escape(clean_text(text, LONGEST), keep="\n"), "  ")


_cleaning = _Cleaning()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of that name, its records cleaned: whoever logs passes foreign values as they are."""
    logger = logging.getLogger(name)
    logger.addFilter(_cleaning)
    return logger
