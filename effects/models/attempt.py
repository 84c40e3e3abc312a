"""Attempts: one permitted send each."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from effects.models.base import JournalManager, JournalModel, holds_word, word_field
from effects.vocabulary.states import AttemptOutcome


class Attempt(JournalModel):
    """One permitted send. Its id is made by the process before the permit is asked for."""

    id = models.UUIDField(primary_key=True, editable=False, help_text="Made by the sender.")
    execution = models.ForeignKey("effects.Execution", on_delete=models.PROTECT, related_name="attempt_rows")
    number = models.PositiveIntegerField(help_text="1 for the first send.")
    epoch = models.PositiveIntegerField(help_text="The execution's epoch under which it was permitted.")
    provider_key = models.CharField(max_length=64, help_text="The key it was sent under.")
    payload_digest = models.CharField(max_length=64, help_text="The digest of what was permitted.")
    approval = models.ForeignKey(
        "effects.Approval", null=True, on_delete=models.PROTECT, related_name="attempts", help_text="What licensed it."
    )
    permitted_at = models.DateTimeField(help_text="When the permit was written.")
    deadline = models.DateTimeField(help_text="No byte of it leaves after this.")
    ended_at = models.DateTimeField(null=True, help_text="When its outcome was recorded.")
    outcome = word_field(AttemptOutcome.choices(), "How it ended.")
    reference = models.CharField(max_length=255, blank=True, help_text="The provider's id.")
    failure_reason = models.CharField(max_length=24, blank=True, help_text="What kind of failure it was.")
    failure_code = models.CharField(max_length=100, blank=True, help_text="The provider's code.")
    message = models.CharField(max_length=2000, blank=True, help_text="Cleaned, cut, redacted.")

    objects: ClassVar[JournalManager[Attempt]] = JournalManager()

    class Meta:
        app_label = "effects"
        constraints = [
            holds_word("outcome", AttemptOutcome.choices(), "effects_attempt_outcome"),
            models.UniqueConstraint(fields=["execution"], condition=Q(outcome="open"), name="effects_attempt_one_open"),
            models.UniqueConstraint(fields=["execution", "number"], name="effects_attempt_number"),
        ]

    @property
    def duration(self) -> timedelta | None:
        """From permit to recorded outcome."""
        return self.ended_at - self.permitted_at if self.ended_at else None

    def __str__(self) -> str:
        return f"{self.execution_id} #{self.number}"
