"""The journal itself: the one row that says which journal this is."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from effects.models.base import JournalManager, JournalModel


class Journal(JournalModel):
    """The one row that names this journal. Provider keys are derived from its id.

    The migration makes it, so that each schema and each database has an id of its own; a backup and its restore keep
    it. The database refuses UPDATE and DELETE, and TRUNCATE keeps the row: the id never changes by itself. To give a
    copy an id of its own there is `manage.py effects_journal_id`.
    """

    id = models.UUIDField(
        primary_key=True, default=uuid.uuid4, editable=False, help_text="Random; which journal it is."
    )
    is_only = models.BooleanField(default=True, unique=True, help_text="Always true, so that there is one row.")
    former_ids = models.JSONField(default=list, help_text="Earlier ids, the oldest first: older rows keep their keys.")
    since = models.DateTimeField(help_text="When it got its id, by the database's clock.")

    objects: ClassVar[JournalManager[Journal]] = JournalManager()

    class Meta:
        app_label = "effects"
        constraints = [models.CheckConstraint(condition=models.Q(is_only=True), name="effects_journal_is_only")]

    def __str__(self) -> str:
        return str(self.id)
