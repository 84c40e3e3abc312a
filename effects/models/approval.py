"""Approvals and their votes."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import Q

from effects.models.base import JournalManager, JournalModel, holds_word, new_id, word_field
from effects.vocabulary.states import APPROVAL_LIVE, ApprovalPurpose, ApprovalState, values

DECISIONS = [("approve", "approve"), ("deny", "deny")]


class Approval(JournalModel):
    """People's single-use licence for one digest.

    `requested` until enough people voted; `granted` until it is `spent` by the permit of a send, `lapsed` unused or
    `withdrawn`; `denied` and `expired` end it undecided or refused.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    execution = models.ForeignKey("effects.Execution", on_delete=models.PROTECT, related_name="approvals")
    purpose = word_field(ApprovalPurpose.choices(), "The first sends, or another send of something in doubt.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of all that the approver decides about.")
    summary = models.JSONField(default=dict, help_text="What the approver is shown.")
    rule = models.JSONField(default=dict, help_text="The frozen rule.")
    approvers = models.CharField(max_length=255, help_text="Whom the rule asks, as its text.")
    quorum = models.PositiveSmallIntegerField(help_text="How many distinct people.")
    covers_retries = models.BooleanField(default=False, help_text="Worth sends until one is not proven absent.")
    decide_by = models.DateTimeField(help_text="Expires undecided after this.")
    not_before = models.DateTimeField(null=True, help_text="The earliest send.")
    use_within = models.DurationField(help_text="How long after grant or not_before it can be used.")
    use_by = models.DateTimeField(null=True, help_text="Lapses unused after this.")
    state = word_field(ApprovalState.choices(), "Where the licence stands.")
    swept_until = models.DateTimeField(null=True, help_text="A sweep handed it out; no other one does until then.")
    created_at = models.DateTimeField(help_text="When it was requested.")
    decided_at = models.DateTimeField(null=True, help_text="When it was granted, denied, withdrawn or expired.")
    spent_at = models.DateTimeField(null=True, help_text="When a permit consumed it.")

    objects: ClassVar[JournalManager[Approval]] = JournalManager()
    locked_at: datetime

    class Meta:
        app_label = "effects"
        constraints = [
            holds_word("state", ApprovalState.choices(), "effects_approval_state"),
            holds_word("purpose", ApprovalPurpose.choices(), "effects_approval_purpose"),
            models.UniqueConstraint(
                fields=["execution"], condition=Q(state__in=values(APPROVAL_LIVE)), name="effects_approval_one_live"
            ),
            models.CheckConstraint(
                condition=Q(state="spent", spent_at__isnull=False) | (~Q(state="spent") & Q(spent_at__isnull=True)),
                name="effects_approval_spent_has_time",
            ),
        ]
        indexes = [
            models.Index(fields=["decide_by"], condition=Q(state="requested"), name="effects_approval_decide"),
            models.Index(fields=["use_by"], condition=Q(state="granted"), name="effects_approval_use"),
        ]

    def __str__(self) -> str:
        return f"{self.execution_id} {self.purpose}"


class ApprovalVote(JournalModel):
    """One person's decision, and the digest that they saw."""

    id = models.BigAutoField(primary_key=True)
    approval = models.ForeignKey(Approval, on_delete=models.PROTECT, related_name="votes")
    actor_id = models.CharField(max_length=255, help_text="Who, as text.")
    actor_label = models.CharField(max_length=255, blank=True, help_text="What people called them then.")
    decision = models.CharField(max_length=12, choices=DECISIONS, help_text="approve or deny.")
    comment = models.CharField(max_length=2000, blank=True, help_text="Their words.")
    digest_seen = models.CharField(max_length=64, help_text="The digest of the page they decided on.")
    by_login = models.BooleanField(
        default=False, help_text="Only their login said that they have the permission; it cannot be asked again."
    )
    at = models.DateTimeField(help_text="When.")

    objects: ClassVar[JournalManager[ApprovalVote]] = JournalManager()

    class Meta:
        app_label = "effects"
        constraints = [
            holds_word("decision", DECISIONS, "effects_vote_decision"),
            models.UniqueConstraint(fields=["approval", "actor_id"], name="effects_vote_once"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_label or self.actor_id}: {self.decision}"
