"""Whether a payload comes back from the journal as it went in.

`send` is given what was read back, at once or years later by a worker. What would be something else then is refused
before anything is recorded: a bank must not get another day, or another amount, than the caller wrote.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn

from effects.vocabulary.exceptions import PayloadError

__all__ = ["refuse_changed"]


def refuse_changed(given: object, back: object) -> None:
    """Compare a payload with what was read of its recorded form, types included.

    A dict of the fields of a dataclass comes back as that dataclass, and its values may be in their JSON form.
    Subclasses of text, numbers, dates and dicts come back as the plain type if that is equal: of a `SafeString` the
    text counts.

    Raises:
        PayloadError: its path names the first value that would come back as another one.
    """
    _compare(given, back, "$", json_form=False)


def _compare(given: Any, back: Any, path: str, *, json_form: bool) -> None:
    if given is back or (json_form and _is_declared_form(given, back)):
        return
    if dataclasses.is_dataclass(given):
        _compare_records(given, back, path)
    elif isinstance(given, dict):
        _compare_dicts(given, back, path, json_form=json_form)
    elif isinstance(given, (list, tuple)):
        _compare_sequences(given, back, path, json_form=json_form)
    elif isinstance(given, Enum) or not isinstance(given, type(back)) or not _is_equal(given, back):
        _refuse(given, back, path)


def _is_declared_form(given: object, back: object) -> bool:
    """Return whether a value in its JSON form was read as the richer type that its field declares."""
    if isinstance(given, Enum) or not isinstance(given, (str, int, list, dict)):
        return False
    return isinstance(back, Enum) or (isinstance(given, str) and not isinstance(back, str))


def _compare_records(given: Any, back: Any, path: str) -> None:
    if type(back) is not type(given):
        _refuse(given, back, path)
    for field in dataclasses.fields(given):
        # what the class derives for itself and does not compare is a cache; all else is sent, compared or not
        if field.init or field.compare:
            name = field.name
            _compare(getattr(given, name, None), getattr(back, name, None), f"{path}.{name}", json_form=False)


def _compare_dicts(given: dict[Any, Any], back: Any, path: str, *, json_form: bool) -> None:
    fields = dataclasses.is_dataclass(back)
    # a QueryDict shows one of several values
    if not (fields or isinstance(back, dict)) or (type(given) is not dict and given != dict(given.items())):
        _refuse(given, back, path)
    for name, item in given.items():
        if isinstance(name, Enum) or not (hasattr(back, name) if fields else name in back):
            raise PayloadError(f"has the key {name!r:.80}, which would come back as another one.", path=path)
        found = getattr(back, name) if fields else back[name]
        _compare(item, found, f"{path}.{name}", json_form=json_form or fields)


def _compare_sequences(given: Any, back: Any, path: str, *, json_form: bool) -> None:
    alike = isinstance(back, list if isinstance(given, list) else tuple)
    declared = json_form and isinstance(given, list) and isinstance(back, tuple)
    # a named tuple would lose its names
    if not (alike or declared) or hasattr(given, "_fields") or len(given) != len(back):
        _refuse(given, back, path)
    for index, (item, found) in enumerate(zip(given, back, strict=True)):
        _compare(item, found, f"{path}[{index}]", json_form=json_form)


def _is_equal(given: Any, back: Any) -> bool:
    """Compare two values of one type, with all that the type's own comparison passes over."""
    if isinstance(back, Decimal):
        return bool(given.as_tuple() == back.as_tuple())
    if isinstance(back, datetime):
        # instants are compared without their offset, and those that a clock shows twice equal none of another zone
        same = given.replace(tzinfo=None) == back.replace(tzinfo=None)
        return bool(same and given.utcoffset() == back.utcoffset())
    return bool(given == back)


def _refuse(given: object, back: object, path: str) -> NoReturn:
    name, found = type(given).__name__, type(back).__name__
    if name == found:
        raise PayloadError(f"this {name} would come back from the journal as another one.", path=path)
    raise PayloadError(
        f"a {name} would come back from the journal as {found}. Declare the payload as a dataclass whose field is of "
        f"the type {name}, or pass what may be recorded: a {found}.",
        path=path,
    )
