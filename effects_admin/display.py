"""Values in the form in which people read them. Text in, text out: escaping is the templates' work."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.formats import number_format

from effects.vocabulary import canonical

__all__ = [
    "age",
    "digits_of",
    "distance",
    "laid_out",
    "moment",
    "money",
    "money_of",
    "odd_currencies",
    "pretty",
    "short",
    "span",
    "totals",
    "visible",
]

#: Currencies whose minor unit is not a hundredth (ISO 4217, table A.1).
_DIGITS = {
    **dict.fromkeys(
        ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF",
         "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}  # fmt: skip
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_LINE_BREAKS = frozenset("\n\t")


def money(amount: int | None, currency: str) -> str:
    """Return an amount of minor units as people write it: `1,250.00 EUR`."""
    if amount is None:
        return ""
    code = currency.upper()
    if not (len(code) == 3 and code.isalpha() and code.isascii()):
        return f"{number_format(amount, force_grouping=True)} minor units {visible(currency)}".rstrip()
    digits = digits_of(code)
    whole, part = divmod(abs(amount), 10**digits)
    exact = f"{'-' if amount < 0 else ''}{whole}" + (f".{part:0{digits}d}" if digits else "")
    return f"{number_format(exact, force_grouping=True)} {code}"


def money_of(summary: Mapping[str, object]) -> str:
    """Return a frozen summary's amount as people write it."""
    amount = summary.get("amount")
    return money(amount if isinstance(amount, int) else None, str(summary.get("currency", "")))


def totals(amounts: Iterable[tuple[int | None, str]]) -> list[str]:
    """Return the sums of amounts, one for each currency: euros and yen are not added up."""
    sums: dict[str, int] = {}
    for amount, currency in amounts:
        if amount is not None:
            sums[currency.upper()] = sums.get(currency.upper(), 0) + amount
    return [money(amount, currency) for currency, amount in sorted(sums.items())]


def digits_of(currency: str) -> int:
    """Return how many digits of a currency's amounts are its minor unit's."""
    return _DIGITS.get(currency.upper(), 2)


def odd_currencies() -> dict[int, list[str]]:
    """Return the currencies whose minor unit is not a hundredth, by digits, as rows may spell them."""
    found: dict[int, list[str]] = {}
    for code, digits in _DIGITS.items():
        found.setdefault(digits, []).extend((code, code.lower()))
    return found


def moment(at: datetime | None) -> str:
    """Return an instant in the page's time zone, which it names: two hours of an autumn night look alike without."""
    if at is None:
        return ""
    aware = at if timezone.is_aware(at) else timezone.make_aware(at)  # naive: USE_TZ is off
    return f"{timezone.localtime(aware):%Y-%m-%d %H:%M:%S %Z}"


def span(length: timedelta) -> str:
    """Return a length of time by its two largest units: `2 h 5 min`."""
    seconds = int(abs(length).total_seconds())
    parts = []
    for size, unit in _UNITS:
        if seconds >= size:
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def distance(at: datetime, now: datetime) -> str:
    """Return how far an instant is from `now`: `in 5 min`, `2 h ago`."""
    if abs(at - now) < timedelta(seconds=1):
        return "now"
    return f"in {span(at - now)}" if at > now else f"{span(at - now)} ago"


def age(at: datetime) -> str:
    """Return how old something in a list is, by this process's clock."""
    return span(max(timezone.now() - at, timedelta(0)))


def visible(text: object) -> str:
    """Return foreign text with its invisible characters written out.

    A right-to-left override or a zero-width space in a name makes people approve something else than they read.
    """
    shown = []
    for character in str(text):
        hidden = unicodedata.category(character) in ("Cc", "Cf", "Co", "Cn", "Cs") and character not in _LINE_BREAKS
        shown.append(f"\\u{ord(character):04x}" if hidden else character)
    return "".join(shown)


def pretty(stored: str | None) -> str:
    """Return stored canonical JSON with line breaks, for reading; what cannot be read as JSON is shown as it is."""
    if stored is None:
        return ""
    try:
        return laid_out(canonical.load(stored, floats=True))
    except (ValueError, RecursionError):
        return visible(stored)


def laid_out(value: Any) -> str:
    """Return plain JSON with line breaks, for reading."""
    return visible(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def short(value: Any, limit: int = 400) -> str:
    """Return one value of evidence on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = visible(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
