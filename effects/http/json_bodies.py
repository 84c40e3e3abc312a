"""Write a JSON body by its value, for a digest, within a bounded time.

The notation is JSON with sorted names, in which a number is a text: a tag and then the number as it was written, since
1 and 1.0 differ for some readers and no rounding may merge two. No string can be taken for a number: a body that holds
the tag counts by its bytes. So does one that names a member twice (RFC 8259 §4 leaves open which one counts), which is
known by a colon that is lost on the way, and therefore one that escapes a colon. Whoever repeats a request repeats its
bytes; a value only forgives a client that writes the same body anew.

Everything here is the work of `json`'s C code. A callback in Python for each value would make one MiB of small ones
cost a second, before any limit of Django's is asked.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from django.utils.translation import gettext as _

from effects.http.bodies import BodyTooLargeError, BodyUnreadableError, FingerprintFields

__all__ = ["MAX_DEPTH", "MAX_MARKS", "deep_error", "json_of_bytes", "json_of_value", "refuse_unreadable"]

MAX_DEPTH = 200
"""Deepest nesting of a JSON body. No real one comes near; a reader in Python gives up at about 1000."""

MAX_MARKS = 100_000
"""Most commas, colons and opening brackets of a body that is written by value; 0.05 s on a laptop."""

# Control characters, since JSON has one way alone to write them: what looks for them in a body finds them.
_NUMBER = "\0\1"
_AMBIGUOUS = re.compile(r"\\u0000\\u0001|\\u003[aA]")
_PAIR = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..", re.DOTALL)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_BARE_HALF = re.compile(rb"\xed[\xa0-\xbf]")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))

_number = _NUMBER.__add__
_read = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_number).decode
_write = json.JSONEncoder(separators=(",", ":"), sort_keys=True, check_circular=False).encode


def json_of_bytes(raw: bytes, counting: FingerprintFields | None) -> str | None:
    """Return the value of a JSON body as text; None for one that counts by its bytes.

    Args:
        raw: The body.
        counting: Which members of an object count; None for all.

    Raises:
        BodyUnreadableError: As `refuse_unreadable`.
        BodyTooLargeError: If only some of its members count, and it has too many to look for them.
    """
    refuse_unreadable(raw)
    marks = sum(map(raw.count, (b",", b":", b"[", b"{")))
    # by field it is written twice
    if counting is not None and marks > MAX_MARKS // 2:
        raise BodyTooLargeError(MAX_MARKS // 2, _("It has more than %(limit)d members, so they cannot be told apart."))
    if marks > MAX_MARKS:
        return None
    try:
        text = raw.decode()
        value = _read(text)
    except (ValueError, RecursionError):
        return None
    if _AMBIGUOUS.search(text):
        return None
    written = _write(value)
    if written.count(":") != text.count(":"):
        return None
    return written if counting is None or not isinstance(value, dict) else _write(_counted(value, counting))


def json_of_value(value: Any, counting: FingerprintFields | None) -> str:
    """Return a value that was read before as `json_of_bytes` would have written it.

    Raises:
        ValueError: If it holds a float, which does not tell how it was written.
        TypeError: If it holds what no JSON reader makes.
        RecursionError: If it is nested too deeply.
    """
    if counting is not None and isinstance(value, dict):
        value = _counted(value, counting)
    text = json.JSONDecoder(parse_int=_number, parse_float=_refuse_float, parse_constant=_refuse_float).decode
    return _write(text(json.dumps(value)))


def refuse_unreadable(raw: bytes, *, utf_8: bool = True) -> None:
    """Refuse JSON that a handler would fail at, whatever the handler does with it.

    Raises:
        BodyUnreadableError: If it is nested more than `MAX_DEPTH` deep, or holds half of a surrogate pair, escaped or
            not: valid JSON (RFC 8259 §8.2), and no text that a database, an answer or a provider could be given.
    """
    _refuse_deep(raw)
    # what is left of backslashes when those that stand for themselves are gone begins an escape
    escaped = b"\\ud" in raw.lower() and _HALF.search(_PAIR.sub(b"", raw.replace(b"\\\\", b"")))
    if escaped or (utf_8 and _BARE_HALF.search(raw)):
        raise BodyUnreadableError(_("It holds half of a character."))


def deep_error() -> BodyUnreadableError:
    """Return the refusal of a body that is nested too deeply."""
    return BodyUnreadableError(_("It is nested more than %(limit)d deep.") % {"limit": MAX_DEPTH})


def _refuse_deep(raw: bytes) -> None:
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    brackets = _STRING.sub(b"", raw).translate(_STEPS, _NO_BRACKETS)
    # as signed bytes an opening bracket is one step down, a closing one a step up
    if max(accumulate(memoryview(brackets).cast("b"))) > MAX_DEPTH:
        raise deep_error()


def _counted(value: dict[str, Any], counting: FingerprintFields) -> dict[str, Any]:
    return {name: item for name, item in value.items() if counting.counts(name)}


def _refuse_float(lexeme: str) -> Any:
    raise ValueError(lexeme)
