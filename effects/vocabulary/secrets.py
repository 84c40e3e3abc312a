"""`Secret`, a text that is sent and never recorded."""

from __future__ import annotations

import hmac
from typing import Any, NoReturn

from effects.vocabulary.exceptions import SecretGoneError

__all__ = ["MASK", "RESERVED", "Secret"]

MASK = "[secret]"
"""What a secret looks like wherever it would be written."""

RESERVED = "$secret"
"""The one name of the object that stands for a secret in canonical JSON."""


class Secret:
    """A text that the call which brings it can send, and that is written nowhere.

    Put it into a payload, an output, a summary or a message: the journal, logs, pages and `repr` get `[secret]`, and
    `reveal()` gives the text. The journal keeps a keyed digest of a payload's secrets in their place, so that another
    secret under the same key is another payload. A secret that was read back from the journal has no text any more.

    It is no text itself: it has no length, cannot be joined, pickled, or written as JSON by accident.
    """

    __slots__ = ("_mark", "_text")

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"effects.Secret takes a str, not {type(text).__name__}")
        self._text: str | None = text
        self._mark: str | None = None

    @classmethod
    def gone(cls, mark: str) -> Secret:
        """Return what the journal keeps of a secret: its mark."""
        secret = cls("")
        secret._text, secret._mark = None, mark
        return secret

    @property
    def mark(self) -> str | None:
        """What the journal kept in its place; None while the text is here."""
        return self._mark

    def reveal(self) -> str:
        """Return the text.

        Raises:
            SecretGoneError: it was read back from the journal, which never had it.
        """
        if self._text is None:
            raise SecretGoneError
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if self._text is None or other._text is None:
            return self._mark is not None and self._mark == other._mark
        mine, theirs = (text.encode("utf-8", "surrogatepass") for text in (self._text, other._text))
        return hmac.compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._text, self._mark))

    def __repr__(self) -> str:
        return MASK

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _memo: Any) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: a message or a cache would keep it")
