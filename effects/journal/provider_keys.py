"""The key that a provider gets: derived from the journal's id and from what makes the execution one occurrence.

The database derives it, in the statement that records the execution: nobody keeps the journal's id in memory, where it
would be wrong as soon as the connection leads to another schema.
"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.db.models import CharField, Func, Value

from effects.declarations.effect import Effect
from effects.vocabulary import canonical

__all__ = ["DerivedKey", "derive_key", "occurrence_of"]


def occurrence_of(effect: Effect[Any], tenant: str, key: str, generation: int = 1) -> str:
    """Return the digest of what makes it one occurrence, whichever row or process sends it."""
    parts = (tenant, effect.provider, effect.keyed_as, key, str(generation))
    return canonical.digest("effects.provider_key", *parts)


class DerivedKey(Func):
    """The provider key of an occurrence, in SQL; empty where the journal has no id, which nothing is sent under."""

    template = (
        "coalesce('fx_' || left(encode(sha256(convert_to("
        "(SELECT id::text FROM effects_journal) || ':' || %(expressions)s, 'UTF8')), 'hex'), 40), '')"
    )
    output_field = CharField()

    def __init__(self, occurrence: str) -> None:
        super().__init__(Value(occurrence))


def derive_key(journal_id: UUID | str, occurrence: str) -> str:
    """Return what `DerivedKey` gives in the journal of that id."""
    return "fx_" + hashlib.sha256(f"{journal_id}:{occurrence}".encode()).hexdigest()[:40]
