"""Make what a provider said storable: redacted, cut, free of NUL and lone surrogates, card numbers masked.

`canonical` re-exports these functions. They accept anything and never raise, because the recording of an
outcome must not fail on what the provider said.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from itertools import count
from typing import Any

__all__ = [
    "ELLIPSIS",
    "SURROGATE",
    "Redactor",
    "clean_error",
    "clean_json",
    "clean_line",
    "clean_reference",
    "clean_shown",
    "clean_text",
    "escape",
    "free_name",
    "use_redactor",
    "whole",
]

ELLIPSIS = "…"
"""Mark at the end of a text, list or object that was cut."""

SURROGATE = re.compile("[\ud800-\udfff]")
# What ends a line for one reader or another, moves a terminal's cursor, or turns the direction of what follows.
# From left to right: a pair, half of one, any other escape; so an escaped backslash is never the beginning of another.
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_DIGIT_RUN = re.compile(r"[0-9](?:[ -]?[0-9]){12,}")
_GROUP = re.compile(r"[0-9]+")
# Ours, as a whole: a UUID or a SHA-256. One in 200 holds digits that pass for a card number, and must stay what it is.
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}")
_LONGEST_CARD = 19
_SHORTEST_CARD = 13
# A card number of 19 digits with a separator between any two is 37 characters long, so one that begins before
# the limit is seen whole when this much more is looked at.
_LOOK_AHEAD = 64
_LONGEST_REFERENCE = 255
# A text is redacted before it is cut, so that no half of a secret stays; what is further on is cut in any case.
_REDACTED_WHOLE = 65_536
_MAX_DEPTH = 16
_MAX_INTEGER = 2**53 - 1
_LONGEST_IN_JSON = 2000
# Writing an integer in decimal takes the square of its length, so that a longer one is only described.
_MOST_BITS = 4096


Redactor = Callable[[str, str], str]
"""Takes a text and where it stands, returns what may be written; never raises."""

_redactors: list[Redactor] = []


def use_redactor(redactor: Redactor) -> None:
    """Let every text that is cleaned from now on go through `redactor`; once, at start-up."""
    _redactors[:] = [redactor]


def clean_reference(reference: object) -> str:
    """Make a provider's id storable, in at most 255 characters; like `clean_text`, but digits stay what they are.

    One numeric id in ten passes for a card number, and a masked id finds nothing at the provider. None is no id.
    """
    return "" if reference is None else _clean(reference, _LONGEST_REFERENCE, "reference")[0]


def clean_text(text: object, limit: int = 2000) -> str:
    """Make text of foreign origin storable, short, redacted and free of card numbers.

    Removes NUL (PostgreSQL refuses it), replaces lone surrogates by U+FFFD, and masks all but the last four
    of 13 to 19 digits (ISO/IEC 7812-1; single spaces or dashes between) whose Luhn check digit is right.

    Args:
        text: Anything; what is not text is put through `str`, bytes are decoded as UTF-8.
        limit: Longest result, in characters.

    Returns:
        At most `limit` characters, the last one `…` if something was cut. Never raises an `Exception`, even
        where `__str__` does.
    """
    cleaned, whole = _clean(text, max(limit, 1) + _LOOK_AHEAD, "text")
    masked = cleaned if _IDENTIFIER.fullmatch(cleaned) else _DIGIT_RUN.sub(_mask_run, cleaned)
    return _cut(masked if whole else masked + ELLIPSIS, max(limit, 1))


def clean_shown(text: object, limit: int = 2000) -> str:
    """Make text that people decide by: like `clean_text`, with what cannot be seen written out, line breaks kept.

    A right-to-left override would let them read another amount than the one that they approve.
    """
    return _cut(escape(clean_text(text, limit), keep="\n\r\t"), max(limit, 1))


def whole(text: str) -> str:
    """Return JSON in ASCII with U+FFFD for each escape of half a character.

    Half of a surrogate pair is valid JSON (RFC 8259 §8.2) and no text: whoever encodes it as UTF-8 fails.
    """
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


def clean_line(text: object, limit: int = 2000) -> str:
    """Make one line of anything, for a log; like `clean_text`, with control characters and line ends escaped.

    Never raises an `Exception`.
    """
    return _cut(escape(clean_text(text, limit)), max(limit, 1))


def escape(text: str, keep: str = "") -> str:
    """Return a text with its control characters escaped as Python does it, but for those to `keep`."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def _clean(text: object, limit: int, place: str) -> tuple[str, bool]:
    """Return anything as at most `limit` characters of text, redacted, without NUL and lone surrogates.

    Returns:
        The text, and whether all of it was looked at: redacting may leave little of what was.
    """
    window = max(limit, _REDACTED_WHOLE) if _redactors else limit
    raw = _printed(text, window)
    # NULs are taken out of a part alone, so that what a text costs has a bound, whatever its length
    seen = raw[: 4 * window].replace("\x00", "")
    storable = SURROGATE.sub("\ufffd", seen[:window])
    for redact in _redactors:
        storable = redact(storable, place)
    return storable[:limit], len(raw) <= 4 * window and len(seen) <= window


def _printed(text: object, longest: int) -> str:
    """Return anything as text; of bytes no more than gives `longest` characters. Never raises an `Exception`."""
    try:
        if isinstance(text, (bytes, bytearray)):
            return bytes(text[: longest * 4 + 1]).decode("utf-8", "replace")
        return str.__str__(str(text))
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return f"<unprintable {type(text).__name__}>"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def clean_error(error: BaseException, limit: int = 2000) -> str:
    """Make storable text of what foreign code raised, `ValueError: no such card`; like `clean_text`.

    Never raises an `Exception`, even where the error cannot be printed.
    """
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        said = "<unprintable>"
    return clean_text(f"{type(error).__name__}: {said}", limit)


def clean_json(value: object, limit: int = 16_384) -> Any:
    """Make any value storable in a jsonb column as evidence.

    jsonb refuses NUL and lone surrogates and keeps no float as it was written, so floats, NaN and integers
    beyond 2**53 - 1 become strings; keys become text, numbered where two would be the same; all text goes through
    `clean_text`. Nesting below 16 is replaced by `…`; where the limit cuts a list or an object, its last
    member says how many are missing, `… 17 more`. What it costs grows with the value up to the limit, and no further.

    Args:
        value: Anything.
        limit: Bound on the size of the result, in characters of text plus one for each value. A text is cut at 2000.

    Returns:
        str, int, bool, None, list and dict only. Never raises an `Exception`.
    """
    return _Evidence(limit).clean(value, 0)


def _mask_run(match: re.Match[str]) -> str:
    """Mask the card numbers of one run.

    A number begins and ends at a group of digits, so that "17 4111 1111 1111 1111" is caught, and an
    identifier of more than 19 digits is not searched for a lucky part.
    """
    run = match.group()
    groups = [group.span() for group in _GROUP.finditer(run)]
    characters = list(run)
    for first, (start, _) in enumerate(groups):
        for _, end in groups[first : first + _LONGEST_CARD]:
            digits = [position for position in range(start, end) if run[position] != " " and run[position] != "-"]
            if len(digits) > _LONGEST_CARD:
                break
            if len(digits) >= _SHORTEST_CARD and _passes_luhn([int(run[position]) for position in digits]):
                for position in digits[:-4]:
                    characters[position] = "*"
    return "".join(characters)


def _passes_luhn(digits: list[int]) -> bool:
    """Tell whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _members(value: object) -> Collection[tuple[object, object]] | None:
    if isinstance(value, Mapping):
        return value.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


class _Evidence:
    """One walk over foreign data with a budget of characters: of those written, and of those read for them."""

    def __init__(self, limit: int) -> None:
        self.left = max(limit, 1)
        # texts of which the redactor leaves little would otherwise be read for ever
        self.unread = _REDACTED_WHOLE * max(self.left // _LONGEST_IN_JSON, 1)

    @property
    def spent(self) -> bool:
        return self.left <= 0 or self.unread <= 0

    def clean(self, value: object, depth: int) -> Any:
        self.left -= 1
        try:
            return self._clean(value, depth)
        except Exception:  # noqa: BLE001 - foreign mappings and properties may raise anything
            return self._text(f"<unprintable {type(value).__name__}>")

    def _clean(self, value: object, depth: int) -> Any:
        if isinstance(value, Enum):
            value = value.value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._integer(int(value))
        members = _members(value)
        if members is not None:
            return self._object(members, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._array(value, depth)
        return self._text(value)

    def _integer(self, value: int) -> Any:
        if value.bit_length() > _MOST_BITS:
            return self._text(f"<an integer of {value.bit_length()} bits>")
        text = self._text(value)
        return value if abs(value) <= _MAX_INTEGER and text == str(value) else text

    def _text(self, value: object) -> str:
        printed = _printed(value, _REDACTED_WHOLE)
        text = clean_text(printed, max(min(_LONGEST_IN_JSON, self.left), 1))
        self.unread -= min(len(printed), _REDACTED_WHOLE)
        self.left -= len(text)
        return text

    def _array(self, items: Collection[object], depth: int) -> Any:
        if depth >= _MAX_DEPTH:
            return ELLIPSIS
        result: list[Any] = []
        for item in items:
            if self.spent:
                return [*result, _missing(items, len(result))]
            result.append(self.clean(item, depth + 1))
        return result

    def _object(self, members: Collection[tuple[object, object]], depth: int) -> Any:
        if depth >= _MAX_DEPTH:
            return ELLIPSIS
        result: dict[str, Any] = {}
        alike: dict[str, int] = {}
        for key, item in members:
            if self.spent:
                result[free_name(ELLIPSIS, result, alike)] = _missing(members, len(result))
                break
            name = self._text(key)
            free = free_name(name, result, alike)
            self.left -= len(free) - len(name)
            result[free] = self.clean(item, depth + 1)
        return result


def free_name(name: str, taken: Mapping[str, object], alike: dict[str, int]) -> str:
    """Return a name that is not taken, `name (2)`; `alike` keeps where the search for each goes on."""
    if name not in taken:
        return name
    for number in count(alike.get(name, 2)):
        numbered = f"{name} ({number})"
        if numbered not in taken:
            alike[name] = number + 1
            return numbered
    raise AssertionError("count() ends nowhere")


def _missing(members: Collection[object], kept: int) -> str:
    try:
        return f"{ELLIPSIS} {len(members) - kept} more"
    except Exception:  # noqa: BLE001 - foreign collections may raise anything
        return ELLIPSIS
