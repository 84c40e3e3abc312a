"""Names that come back from the journal as they are: of tenants, people, objects, decisions."""

from __future__ import annotations

import re

from effects.exceptions import NameUnusableError

__all__ = ["LONGEST_NAME", "UNSTORABLE", "check_name", "is_storable"]

#: The longest name of a tenant, a person, an object; the columns' width.
LONGEST_NAME = 255
#: PostgreSQL's text holds neither NUL nor lone surrogates.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(name: object, longest: int = LONGEST_NAME) -> bool:
    """Return whether a text fits a column whole; it may be empty."""
    return isinstance(name, str) and len(name) <= longest and not UNSTORABLE.search(name)


def check_name(what: str, name: object, longest: int = LONGEST_NAME, *, least: int = 1) -> None:
    """Refuse a name that would not come back from the journal as it is.

    Args:
        what: what it names, as its caller wrote it: `requested_by=`.
        name: the name.
        longest: the column's width.
        least: 0 where an empty one means something.

    Raises:
        NameUnusableError: it is no text, too short, too long, or holds NUL or lone surrogates.
    """
    if not is_storable(name, longest) or len(str(name)) < least:
        raise NameUnusableError(f"{what} is a text of {least} to {longest} storable characters, not {name!r:.80}")
