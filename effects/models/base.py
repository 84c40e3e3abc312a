"""What every table of the journal shares: its database alias, its ids and its word columns."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, TypeVar

from django.db import models

from effects.conf import settings

M_co = TypeVar("M_co", bound=models.Model, covariant=True)


def new_id() -> uuid.UUID:
    """Return a UUIDv7 (RFC 9562 §5.7): made by the process before the row exists, and ordered in time."""
    if hasattr(uuid, "uuid7"):
        made: uuid.UUID = uuid.uuid7()
        return made
    from uuid6 import uuid7  # noqa: PLC0415 - in the standard library from Python 3.14 on

    return uuid.UUID(int=uuid7().int)


class JournalManager(models.Manager[M_co]):
    """Reads and writes on the alias that `EFFECTS["DATABASE"]` names, whatever the project's router says."""

    def get_queryset(self) -> models.QuerySet[M_co]:
        """Return a queryset pinned to the journal's alias."""
        rows: models.QuerySet[M_co] = super().get_queryset().using(settings.DATABASE)
        return rows


class JournalModel(models.Model):
    """A table of the journal: read, written and followed on the journal's alias, whatever the project's router says."""

    objects: ClassVar[JournalManager[Any]] = JournalManager()

    class Meta:
        abstract = True
        # foreign keys are followed by it
        base_manager_name = "objects"

    def save(self, *args: Any, using: str | None = None, **options: Any) -> None:
        """Write the row; on the journal's alias, where none is named."""
        super().save(*args, using=using or settings.DATABASE, **options)


def holds_word(field: str, choices: list[tuple[str, str]], name: str) -> models.CheckConstraint:
    """Return the constraint that `field` holds one of the words of `choices`."""
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": [word for word, _ in choices]}), name=name)


def word_field(choices: list[tuple[str, str]], help_text: str, **options: Any) -> models.CharField[str, str]:
    """Return a column for a word of the vocabulary."""
    return models.CharField(max_length=24, choices=choices, help_text=help_text, **options)
