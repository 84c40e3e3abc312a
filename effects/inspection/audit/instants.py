"""Instants and durations as people type them at a command."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

__all__ = ["parse_duration", "parse_instant", "parse_since"]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Return a duration like 90s, 10m, 24h, 7d or 2w.

    Raises:
        ValueError: it is none.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration: say 90s, 10m, 24h, 7d or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def parse_instant(text: str) -> datetime:
    """Return an instant in ISO 8601 with its offset from UTC.

    Raises:
        ValueError: it is none, or leaves its time zone to guessing.
    """
    wanted = "say it as 2026-03-01T12:00:00+00:00 or 2026-03-01T12:00:00Z"
    try:
        # Python 3.10 does not read the Z
        instant = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError as error:
        raise ValueError(f"{text!r} is no instant: {wanted}") from error
    if instant.utcoffset() is None:
        raise ValueError(f"{text!r} has no time zone: {wanted}")
    return instant


def parse_since(text: str) -> datetime | timedelta:
    """Return an instant, or how long ago.

    Raises:
        ValueError: it is neither.
    """
    return parse_duration(text) if _DURATION.fullmatch(text.strip()) else parse_instant(text)
