"""How values that JSON has no word for are written as text and read back, without losing anything of them."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["MAX_DECIMAL_EXPONENT", "Scalar", "is_beyond_digits", "read_instant", "written"]

MAX_DECIMAL_EXPONENT = 1000
"""Largest distance, in digits, of a decimal's first or last digit from its point."""

Scalar = Decimal | UUID | date
"""What is written as text; `datetime` is a `date`."""

# RFC 9557: an instant as RFC 3339 has it, then the name of its zone.
_ZONED = re.compile(r"(?P<instant>[^\[\]]+)\[(?P<zone>[A-Za-z0-9_+./-]+)\]")


def written(value: Scalar) -> str:
    """Return the text of a value.

    A decimal keeps its exponent, and positional notation where that has a place for it. A datetime keeps its offset,
    and the name of its zone where it is a `ZoneInfo`, as in `2026-03-29T09:00:00+02:00[Europe/Berlin]` (RFC 9557): the
    same instant elsewhere may be another day.
    """
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return str(value) if isinstance(exponent, int) and exponent > 0 else format(value, "f")
    zone = value.tzinfo.key if isinstance(value, datetime) and isinstance(value.tzinfo, ZoneInfo) else None
    return f"{value.isoformat()}[{zone}]" if zone else value.isoformat()


def read_instant(text: str) -> datetime:
    """Read what `written` made of a datetime, or RFC 3339.

    Where the rules of its zone have changed since, it keeps the offset that it was written with.

    Raises:
        ValueError: it is none, or its zone is unknown.
    """
    zoned = _ZONED.fullmatch(text)
    text = zoned["instant"] if zoned else text
    # before Python 3.11 fromisoformat does not know the Z of RFC 3339
    instant = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    if zoned is None or instant.utcoffset() is None:
        return instant
    try:
        zone = ZoneInfo(zoned["zone"])
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"the time zone {zoned['zone']} is unknown here") from error
    for fold in (0, 1):
        local = instant.replace(tzinfo=zone, fold=fold)
        if local.utcoffset() == instant.utcoffset():
            return local
    return instant


def is_beyond_digits(value: Decimal) -> bool:
    """Return whether a finite decimal reaches further from its point than a payload may."""
    return max(abs(value.adjusted()), abs(int(value.as_tuple().exponent))) > MAX_DECIMAL_EXPONENT
