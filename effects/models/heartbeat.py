"""Signs of life of the sweeps."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from effects.models.base import JournalManager, JournalModel


class Heartbeat(JournalModel):
    """One row a sweep, written at most once a minute: a sweep that stopped shows."""

    sweep = models.CharField(max_length=100, primary_key=True, help_text="The reconciler's name.")
    at = models.DateTimeField(help_text="When it last ran.")
    counts = models.JSONField(default=dict, help_text="What it last did.")

    objects: ClassVar[JournalManager[Heartbeat]] = JournalManager()

    class Meta:
        app_label = "effects"

    def __str__(self) -> str:
        return f"{self.sweep} {self.at:%F %T}"
