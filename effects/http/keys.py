"""Parse the Idempotency-Key header.

The header is a structured field: an Item that is a String (draft-ietf-httpapi-idempotency-key-header §2.1,
RFC 9651 §3.3.3). Clients in the field mostly send the key bare, so a bare token is taken as the same key:
`"K"` and `K` are one. Nothing is guessed beyond that; a header that two readers could read as two keys is
refused. So is any comma: a server joins two header lines by one, and shows nobody that it did. Two lines `"a` and `b"`
would be one string, `"a,b"` behind one server and `"a, b"` behind another (RFC 9651 §4.2 warns of it), so that a retry
that comes another way would be another request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import http_sf
from django.utils.translation import gettext as _

from effects.conf import settings
from effects.vocabulary.exceptions import EffectsError

__all__ = ["MAX_KEY_LENGTH", "PATTERN", "KeyInvalidError", "parse_key", "raw_key"]

MAX_KEY_LENGTH = 255
"""Longest key, in characters after unquoting."""

# tchar of RFC 9110 §5.6.2, and ":" and "/" after the first character as in a Token of RFC 9651 §3.3.4. A
# Token must begin with a letter or "*"; UUIDs and numbers begin with a digit and are welcome. A "'" at the
# beginning is quoting gone wrong.
_BARE = re.compile(r"[!#$%&*+\-.^_`|~0-9A-Za-z][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*")

PATTERN = (
    r'^("( *([!#-+\--\[\]-~]|\\["\\])){1,255} *"'
    r"|[!#$%&*+\-.^_`|~0-9A-Za-z][!#$%&'*+\-.^_`|~0-9A-Za-z:/]{0,254})$"
)
"""What `parse_key` takes, for schemas of clients; parameters, which it ignores, are left out."""
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class KeyInvalidError(EffectsError, ValueError):
    """The Idempotency-Key header cannot be used.

    `reason` is a translated sentence for the client; it repeats nothing of the header.
    """

    code: ClassVar[str] = "idempotency_key_invalid"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def raw_key(meta: Mapping[str, Any]) -> str | None:
    """Return the value of the header that `KEY_HEADER` names, as `request.META` has it; None where there is none."""
    value: str | None = meta.get("HTTP_" + settings.KEY_HEADER.upper().replace("-", "_"))
    return value


def parse_key(raw: str | None) -> str | None:
    """Return the key that a header's value names.

    Args:
        raw: The value as `request.META` has it; two header lines arrive joined by a comma (WSGI and ASGI
        alike).

    Returns:
        1 to 255 printable ASCII characters, or None if there was no header.

    Raises:
        KeyInvalidError: For an empty or blank key, one over 255 characters, non-ASCII and control
        characters, a comma, which a list and a repeated header have, broken quoting, and broken parameters.
        Well-formed parameters are ignored, as RFC 9651 §2 lets them be.
    """
    if raw is None:
        return None
    if _UNPRINTABLE.search(raw):
        raise KeyInvalidError(_("It holds characters other than printable ASCII."))
    if "," in raw:
        raise KeyInvalidError(_("It must be one key in one header line, not a list, and hold no comma."))
    text = raw.strip(" ")
    if not text:
        raise KeyInvalidError(_("It is empty."))
    key = _unquote(text) if text.startswith('"') else _take_bare(text)
    if not key.strip(" "):
        raise KeyInvalidError(_("It is empty."))
    if len(key) > MAX_KEY_LENGTH:
        raise KeyInvalidError(_("It is longer than %(limit)d characters.") % {"limit": MAX_KEY_LENGTH})
    return key


def _take_bare(text: str) -> str:
    match = _BARE.match(text)
    if match is None:
        raise KeyInvalidError(_explain(text))
    # Put a plain token in the place of the key, so that the library judges what follows it.
    _parse_item("k" + text[match.end() :])
    return match.group()


def _unquote(text: str) -> str:
    value = _parse_item(text)
    if type(value) is not str:
        raise KeyInvalidError(_("It is not a string."))
    return value


def _parse_item(text: str) -> object:
    try:
        parsed = http_sf.parse(text.encode("ascii"), tltype="item")
    except (ValueError, OverflowError) as error:
        # Besides StructuredFieldError, a date among the parameters may be out of range.
        raise KeyInvalidError(_explain(text)) from error
    return parsed[0] if isinstance(parsed, tuple) else parsed


def _explain(text: str) -> str:
    if text[:1] in {'"', "'"} or '"' in text:
        return _("Its quoting is broken; put the key between double quotes, and a backslash before a quote inside.")
    return _(
        "It is not a structured field string; put the key between double quotes. Without them it may hold letters, "
        "digits and !#$%&'*+-.^_`|~ and, after the first character, : and /."
    )
