"""Turn payloads into one canonical text and back.

`dump` and `hydrate` are strict: a payload decides what is sent and is compared by digest, so whatever cannot
be written exactly (floats, naive datetimes) is refused, with the path of the value and the fix. `clean_text`
and `clean_json` (of `effects.vocabulary.cleaning`) are lenient: they store what a provider said.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn
from uuid import UUID

from effects.vocabulary.cleaning import (
    SURROGATE,
    clean_error,
    clean_json,
    clean_reference,
    clean_shown,
    clean_text,
    whole,
)
from effects.vocabulary.exceptions import PayloadError
from effects.vocabulary.hydration import hydrate
from effects.vocabulary.scalars import MAX_DECIMAL_EXPONENT, is_beyond_digits, written
from effects.vocabulary.secrets import MASK, RESERVED, Secret

__all__ = [
    "Marker",
    "clean_error",
    "clean_json",
    "clean_reference",
    "clean_shown",
    "clean_text",
    "digest",
    "dump",
    "fix_of",
    "hydrate",
    "load",
    "round_trip",
    "show",
    "whole",
]

Marker = Callable[[Secret], str]
"""Returns what canonical JSON holds in the place of a secret whose text is here."""

MAX_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8259 §6, RFC 7493 §2.2)."""

MAX_DEPTH = 64
"""Deepest nesting of a payload; far above any real one, far below the recursion limit of any JSON reader."""

_MONEY = "money is integer minor units or a decimal string"
_SUPPORTED = (
    "use str, int, bool, None, list, tuple, dict with str keys, a dataclass, Enum, Decimal, UUID, date, "
    "aware datetime or effects.Secret"
)
_FIXES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (float, f"a float is not exact: {_MONEY}"),
    (complex, f"a complex number is not JSON: {_MONEY}"),
    (
        (bytes, bytearray, memoryview),
        "bytes are not text: store the file elsewhere and pass its name and its digest",
    ),
    ((set, frozenset), "a set has no order: pass sorted(...)"),
    (timedelta, "a timedelta is not JSON: pass whole seconds"),
    (time, "a time is not JSON: pass an aware datetime, or text"),
)


def _unmarked(_secret: Secret) -> str:
    return ""


def dump(value: object, *, mark: Marker = _unmarked) -> str:
    """Write a payload as deterministic JSON: sorted keys, no white space, ASCII only.

    NUL and lone surrogates come out as escapes, so that a PostgreSQL text column (which refuses both) can
    hold every result. Decimals keep the zeros that they carry, datetimes their offset and zone (`scalars`).

    Args:
        value: str, int within ±(2**53 - 1), bool, None, list, tuple, dict with str keys, dataclass instance
            (the fields of its constructor), Enum (its value), finite Decimal, UUID, date, aware datetime,
            Secret (its mark, never its text); nested at most 64 deep.
        mark: The mark of a secret whose text is here; without it all secrets are written alike. One that was read
            back keeps the mark that it came with.

    Returns:
        The canonical text; what comes back the same gives the same text, whatever the order of its keys.

    Raises:
        PayloadError: For everything else; its `path` names the value, its message the fix.
    """

    def write(secret: Secret) -> dict[str, str]:
        return {RESERVED: mark(secret) if secret.mark is None else secret.mark}

    plain = _plain(value, "$", ())
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False, default=write)


def load(text: str, *, unmark: Callable[[str], Any] = Secret.gone, floats: bool = False) -> Any:
    """Read a text that `dump` wrote.

    Args:
        text: Canonical JSON.
        unmark: Returns what stands for the secret of a mark; without it, one whose text is gone.
        floats: Whether it may hold floats: an output's may.

    Returns:
        The value in str, int, bool, None, list, dict and Secret.

    Raises:
        PayloadError: If the text is not JSON, or holds NaN, Infinity or, unless they are allowed, a float.
    """

    def read(members: dict[str, Any]) -> Any:
        if members.keys() != {RESERVED}:
            return members
        if not isinstance(members[RESERVED], str):
            raise PayloadError(f"{RESERVED} is no mark of a secret.", path="$")
        return unmark(members[RESERVED])

    try:
        parse_float = float if floats else _refuse_number
        return json.loads(text, parse_float=parse_float, parse_constant=_refuse_number, object_hook=read)
    except PayloadError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise PayloadError(f"The stored payload is not canonical JSON: {error}", path="$") from error


def show(text: str | None) -> Any:
    """Read a stored text for people and programs to look at, secrets masked.

    Returns:
        Plain JSON; None where there is none (any more), or it cannot be read.
    """
    try:
        return load(text, unmark=lambda _mark: MASK, floats=True) if text else None
    except PayloadError:
        return None


def round_trip(value: object) -> Any:
    """Return what `load` would read of what `dump` would write, but with the secrets that are here.

    Raises:
        PayloadError: As `dump`, and for text with half of a character, which no provider and no page could be given.
    """
    here: list[Secret] = []

    def number(secret: Secret) -> str:
        here.append(secret)
        return f"#{len(here) - 1}"

    text = dump(value, mark=number)
    loaded = load(text, unmark=lambda mark: here[int(mark[1:])] if mark.startswith("#") else Secret.gone(mark))
    if whole(text) != text:
        _refuse_halves(loaded, "$")
    return loaded


def _refuse_halves(value: object, path: str) -> None:
    if isinstance(value, str) and SURROGATE.search(value):
        half = ascii(SURROGATE.findall(value)[0])[1:-1]
        raise PayloadError(f"holds half of a character ({half}), which cannot be encoded; clean the text.", path=path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_halves(item, f"{path}[{index}]")
    if isinstance(value, dict):
        for name, item in value.items():
            _refuse_halves(name, path)
            _refuse_halves(item, f"{path}.{name}")


def fix_of(kind: object) -> str:
    """Return why values of a type cannot be recorded, and what to write in their place."""
    name = getattr(kind, "__name__", str(kind))
    if isinstance(kind, type):
        for types, fix in _FIXES:
            if issubclass(kind, types):
                return fix
        if hasattr(kind, "pk"):
            return f"a {name} cannot be recorded; pass its primary key"
    return f"a {name} cannot be recorded; {_SUPPORTED}"


def digest(kind: str, *parts: str | bytes) -> str:
    """Hash labelled parts so that no two different sequences of parts give the same input to the hash.

    Each part, the label first, is preceded by its length in bytes as eight big-endian bytes; without the
    lengths ("ab", "c") and ("a", "bc") would meet.

    Args:
        kind: What is hashed, for example `"request.binding"`; keeps digests of different uses apart.
        parts: The contents; str is encoded as UTF-8, lone surrogates included.

    Returns:
        SHA-256 (FIPS 180-4) as 64 lower-case hexadecimal digits.
    """
    hasher = hashlib.sha256()
    for part in (kind, *parts):
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(raw).to_bytes(8, "big"))
        hasher.update(raw)
    return hasher.hexdigest()


def _refuse_number(lexeme: str) -> NoReturn:
    raise PayloadError(f"The stored payload holds {lexeme}, which is not exact: {_MONEY}.", path="$")


def _plain(value: object, path: str, above: tuple[int, ...]) -> Any:
    """Convert to what `json.dumps` writes exactly; `above` holds the ids of the enclosing containers."""
    if value is None or isinstance(value, (bool, Secret)):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, path, above)
    for types, convert in _SCALARS:
        if isinstance(value, types):
            return convert(value, path)
    if isinstance(value, (list, tuple, dict)) or _is_record(value):
        return _plain_container(value, path, above)
    return _refuse(value, path)


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _plain_container(value: object, path: str, above: tuple[int, ...]) -> Any:
    if id(value) in above:
        raise PayloadError("this contains itself; a payload is a tree.", path=path)
    if len(above) >= MAX_DEPTH:
        raise PayloadError(f"nested more than {MAX_DEPTH} deep; flatten the payload.", path=path)
    above = (*above, id(value))
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{path}[{index}]", above) for index, item in enumerate(value)]
    result: dict[str, Any] = {}
    for key, item in _members(value):
        if not isinstance(key, str):
            raise PayloadError(
                f"has the key {clean_text(key, 80)} ({type(key).__name__}); JSON keys are text.",
                path=path,
            )
        name = _joined_surrogates(key)
        if name == RESERVED:
            raise PayloadError(f"has the key {RESERVED!r}, which stands for an effects.Secret; rename it.", path=path)
        if name in result:
            raise PayloadError(f"has two keys that are written alike: {name!r}.", path=path)
        result[name] = _plain(item, f"{path}.{name}", above)
    return result


def _members(value: Any) -> Iterable[tuple[object, object]]:
    if isinstance(value, dict):
        return value.items()
    # A field with init=False is derived by the class itself, and `hydrate` could not pass it in.
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]


def _joined_surrogates(key: str) -> str:
    """Join surrogate pairs, since JSON escapes write a pair and the character that it stands for alike."""
    if not SURROGATE.search(key):
        return str.__str__(key)
    return key.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _plain_integer(value: int, path: str) -> int:
    if abs(value) > MAX_INTEGER:
        raise PayloadError("an integer beyond 2**53 - 1 is rounded by JSON readers; pass it as a string.", path=path)
    return int(value)


def _plain_decimal(value: Decimal, path: str) -> str:
    if not value.is_finite():
        raise PayloadError(f"{value} is not a number; {_MONEY}.", path=path)
    if is_beyond_digits(value):
        raise PayloadError(f"a decimal of more than {MAX_DECIMAL_EXPONENT} digits; quantize it.", path=path)
    return written(value)


def _plain_date(value: date, path: str) -> str:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise PayloadError(
                "a naive datetime names no instant; give it a time zone, as timezone.now() does.", path=path
            )
        try:
            value.astimezone(timezone.utc)
        except OverflowError as error:
            raise PayloadError("outside the range of UTC datetimes.", path=path) from error
    return written(value)


def _plain_text(value: Any, _path: str) -> str:
    return str.__str__(value)


def _plain_uuid(value: UUID, _path: str) -> str:
    return str(value)


_SCALARS: tuple[tuple[type, Callable[[Any, str], Any]], ...] = (
    (str, _plain_text),
    (int, _plain_integer),
    (Decimal, _plain_decimal),
    (UUID, _plain_uuid),
    (date, _plain_date),
)


def _refuse(value: object, path: str) -> NoReturn:
    raise PayloadError(f"{fix_of(type(value))}.", path=path)
