"""Items of an itemised effect, as a provider's answer or a look-up gave them: read once, and believed only if plain."""

from __future__ import annotations

from effects.vocabulary.cleaning import clean_text
from effects.vocabulary.types import Item

__all__ = ["read_items", "refusal_of"]

#: Longest key that is kept, in characters.
LONGEST_KEY = 255


def read_items(items: object) -> tuple[Item, ...]:
    """Return items that say of each part, once, whether it was applied.

    Raises:
        ValueError: they do not; its message says why, and continues a sentence.
    """
    if not isinstance(items, (list, tuple)):
        raise ValueError(f"{type(items).__name__} where a list of Item should be")
    read, known = [], set()
    for item in items:
        if not isinstance(item, Item):
            raise ValueError(f"a {type(item).__name__} among its items")
        # copied, so that what was checked is what is recorded, whatever a subclass does
        plain = Item(item.key, item.applied, item.reference, item.code, item.message)
        key = clean_text(plain.key, LONGEST_KEY)
        if plain.applied is not True and plain.applied is not False:
            raise ValueError(f"item {key!r} with applied={plain.applied!r:.80}, which is neither True nor False")
        if key in known:
            raise ValueError(f"item {key!r} twice, so that nobody can tell what became of it")
        known.add(key)
        read.append(plain)
    return tuple(read)


def refusal_of(items: tuple[Item, ...]) -> Item | None:
    """Return the item that speaks for them all where none was applied; else None."""
    if any(item.applied for item in items):
        return None
    return next((item for item in items if item.code or item.message), items[0])
