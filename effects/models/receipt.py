"""Receipts, append-only, and operators' resolutions."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from effects.models.base import JournalManager, JournalModel

ONE_TARGET = Q(request__isnull=False, execution__isnull=True) | Q(request__isnull=True, execution__isnull=False)


class Receipt(JournalModel):
    """One append-only line of evidence, written in the transaction of what it tells.

    The database refuses UPDATE and DELETE (TRUNCATE is allowed, for test flushes): protection against accidents, not
    against an owner of the table.
    """

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey("effects.Request", null=True, on_delete=models.PROTECT, related_name="receipts")
    execution = models.ForeignKey("effects.Execution", null=True, on_delete=models.PROTECT, related_name="receipts")
    sequence = models.PositiveIntegerField(help_text="1, 2, 3 … per request or execution.")
    event = models.CharField(max_length=24, help_text="The verb.")
    from_state = models.CharField(max_length=24, blank=True, help_text="Empty where the verb made the row.")
    to_state = models.CharField(max_length=24, help_text="The state after it.")
    reason = models.CharField(max_length=24, blank=True, help_text="The reason after it.")
    revision = models.PositiveIntegerField(help_text="The revision after it.")
    epoch = models.PositiveIntegerField(help_text="The epoch after it.")
    may_have_applied = models.BooleanField(default=False, help_text="As it stood after it.")
    actor_id = models.CharField(max_length=255, blank=True, help_text="Who did it; empty: the machine.")
    actor_label = models.CharField(max_length=255, blank=True, help_text="What people called them then.")
    evidence = models.JSONField(default=dict, help_text="Cleaned facts.")
    at = models.DateTimeField(help_text="By the database's clock.")
    digests = models.JSONField(default=dict, help_text="Of itself, and of the rows that its commit wrote.")

    objects: ClassVar[JournalManager[Receipt]] = JournalManager()

    class Meta:
        app_label = "effects"
        constraints = [
            models.UniqueConstraint(fields=["request", "sequence"], name="effects_receipt_request_sequence"),
            models.UniqueConstraint(fields=["execution", "sequence"], name="effects_receipt_execution_sequence"),
            models.CheckConstraint(condition=ONE_TARGET, name="effects_receipt_one_target"),
        ]
        indexes = [models.Index(fields=["at"], name="effects_receipt_at")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.event}"


class Resolution(JournalModel):
    """An operator's decision about something in doubt; repeated with the same decision id it is the same decision."""

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey("effects.Request", null=True, on_delete=models.PROTECT, related_name="resolutions")
    execution = models.ForeignKey("effects.Execution", null=True, on_delete=models.PROTECT, related_name="resolutions")
    decision_id = models.CharField(max_length=100, help_text="Made by the operator's page or program.")
    decision = models.CharField(
        max_length=24, help_text="applied, not_applied, unknown, undone, resend, reopen, evidence."
    )
    revision = models.PositiveIntegerField(help_text="The revision that the operator saw.")
    actor_id = models.CharField(max_length=255, help_text="Who decided.")
    actor_label = models.CharField(max_length=255, blank=True, help_text="What people called them then.")
    reason = models.CharField(max_length=2000, help_text="Why, in their words.")
    evidence = models.JSONField(default=dict, help_text="What they based it on.")
    at = models.DateTimeField(help_text="When, by the database's clock.")

    objects: ClassVar[JournalManager[Resolution]] = JournalManager()

    class Meta:
        app_label = "effects"
        constraints = [
            models.UniqueConstraint(fields=["request", "decision_id"], name="effects_resolution_request_once"),
            models.UniqueConstraint(fields=["execution", "decision_id"], name="effects_resolution_execution_once"),
            models.CheckConstraint(condition=ONE_TARGET, name="effects_resolution_one_target"),
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.actor_label or self.actor_id}"
