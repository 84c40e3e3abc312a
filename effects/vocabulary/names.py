"""Names that come back from the journal as they are: of tenants, people, objects, decisions."""

from __future__ import annotations

import re
from typing import Any

from effects.vocabulary.exceptions import NameUnusableError

__all__ = ["LONGEST_NAME", "UNSTORABLE", "about_of", "check_name", "is_storable"]

#: The longest name of a tenant, a person, an object; the columns' width.
LONGEST_NAME = 255
#: The longest label of a model; the column's width.
_LONGEST_LABEL = 100
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


def about_of(about: Any) -> tuple[str, str]:
    """Return how the journal names a project's own object: its model's label, and its primary key as text.

    A proxy model names the same rows as the model that it stands for, and so it is named by that one's label.

    Args:
        about: a saved object of a model, or both texts as a snapshot's `about` has them.

    Raises:
        NameUnusableError: it is neither, has no primary key yet, or does not fit the columns.
    """
    if isinstance(about, tuple) and len(about) == 2:
        label, pk = about
    elif isinstance(about, type) or not hasattr(about, "_meta"):
        raise NameUnusableError(f"about= is an object of a model, or its label and primary key, not {about!r:.80}")
    elif about.pk is None:
        raise NameUnusableError(f"about= is a {about._meta.label} without a primary key: save it first")
    else:
        label, pk = about._meta.concrete_model._meta.label, str(about.pk)
    check_name("the model of about=", label, _LONGEST_LABEL)
    check_name("the key of about=", pk)
    return label, pk
