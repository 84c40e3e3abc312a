"""What people are to be told, until they were."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models

from effects.models.base import JournalManager, holds_word, word_field
from effects.vocabulary.states import NoticeEvent


class PendingNotice(models.Model):
    """One thing that the project's `NOTIFY` has not been told yet; the row goes when it was.

    Written in the commit that it tells of, so that a killed process loses none.
    """

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=100, unique=True, help_text="What makes it one notice, however often it is told.")
    event = word_field(NoticeEvent.choices(), "What it tells of.")
    execution = models.ForeignKey("effects.Execution", on_delete=models.CASCADE, related_name="pending_notices")
    approval = models.ForeignKey(
        "effects.Approval", null=True, on_delete=models.CASCADE, related_name="pending_notices"
    )
    due_at = models.DateTimeField(help_text="When to tell; a reminder waits.")
    swept_until = models.DateTimeField(null=True, help_text="A sweep handed it out; no other one does until then.")
    failures = models.PositiveIntegerField(default=0, help_text="How often telling raised.")
    error = models.TextField(blank=True, help_text="What it raised last.")
    created_at = models.DateTimeField(help_text="When it happened.")

    objects: ClassVar[JournalManager[PendingNotice]] = JournalManager()
    locked_at: datetime

    class Meta:
        app_label = "effects"
        constraints = [holds_word("event", NoticeEvent.choices(), "effects_notice_event")]
        indexes = [models.Index(fields=["due_at"], name="effects_notice_due")]

    def __str__(self) -> str:
        return self.key
