"""Executions: one occurrence of an effect each."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from effects.models.base import JournalManager, JournalModel, holds_word, new_id, word_field
from effects.vocabulary.states import (
    EXECUTION_IN_DOUBT,
    EXECUTION_SETTLED,
    NOTHING_HAPPENED,
    ExecutionReason,
    ExecutionState,
    values,
)
from effects.vocabulary.types import Risk

PERMISSIONS = [
    ("approve_execution", "Can approve or deny executions"),
    ("look_up_execution", "Can ask the provider about executions"),
    ("resolve_execution", "Can resolve executions and requests in doubt"),
    ("reopen_execution", "Can reopen executions for look-ups"),
    ("order_resend_execution", "Can order another send of something in doubt"),
    ("observe_execution", "Can bring evidence that says otherwise than an execution"),
    ("cancel_execution", "Can cancel executions that were not sent"),
    ("compensate_execution", "Can undo completed executions"),
    ("supersede_execution", "Can ask again for executions that failed or were rejected"),
    ("view_payload", "Can see payloads"),
]


class Execution(JournalModel):
    """One occurrence of an effect.

    `pending`: may be sent at `due_at`. `awaiting_approval`: people must decide first. `executing`: one permitted send
    is open. `accepted`: the provider took the order. `uncertain`: it may have happened, look-ups run.
    `needs_intervention`: it may have happened, a person decides. `completed`, `partially_completed`: it happened.
    `failed`: it did not, over all attempts. `rejected`: it was never sent. `abandoned`: nobody will know.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False, help_text="The execution's ref.")
    operation = models.CharField(max_length=200, help_text="The effect's operation.")
    tenant = models.CharField(max_length=255, blank=True, help_text="Whose it is; part of the key.")
    key = models.CharField(max_length=255, help_text="What makes it one occurrence: order-17.")
    binding = models.CharField(max_length=64, help_text="SHA-256 of tenant, operation and key.")
    holds_key = models.BooleanField(default=True, help_text="False once a successor took the key over.")
    generation = models.PositiveIntegerField(default=1, help_text="Raised by supersede alone; part of provider_key.")
    provider = models.CharField(max_length=200, help_text="Which account at which provider.")
    provider_key = models.CharField(max_length=64, help_text="The key sent to the provider; never changes.")
    payload = models.TextField(
        blank=True,
        help_text="Canonical JSON: exactly what will be sent, secrets marked; empty once retention dropped it.",
    )
    payload_digest = models.CharField(max_length=64, help_text="SHA-256 of it.")
    payload_version = models.PositiveIntegerField(default=1, help_text="The declaration's payload_version.")
    safety_version = models.PositiveIntegerField(default=1, help_text="The declaration's safety_version.")
    summary = models.JSONField(default=dict, help_text="What people are shown.")
    summary_digest = models.CharField(max_length=64, help_text="SHA-256 of it.")
    contract = models.JSONField(default=dict, help_text="The safety-relevant settings, frozen when recorded.")
    risk = word_field(Risk.choices(), "The declared risk.")
    amount = models.BigIntegerField(null=True, help_text="Minor units of the currency, from the summary.")
    currency = models.CharField(max_length=12, blank=True, help_text="From the summary.")
    target = models.CharField(max_length=255, blank=True, help_text="Who or what it acts on, from the summary.")
    state = word_field(ExecutionState.choices(), "What is known of it.")
    reason = word_field(ExecutionReason.choices(), "Why it is in its state.", blank=True, default="")
    revision = models.PositiveIntegerField(default=1, help_text="Counts changes of state or evidence.")
    receipt_count = models.PositiveIntegerField(default=0, help_text="The sequence of the newest receipt.")
    may_have_applied = models.BooleanField(default=False, help_text="Sticky: only evidence clears it.")
    applied_evidence = models.JSONField(null=True, help_text="Proof on file that it applied; beats any absence.")
    epoch = models.PositiveIntegerField(default=0, help_text="Raised by every acquisition of the lease.")
    lease_expires_at = models.DateTimeField(null=True, help_text="Until when a sender or a look-up owns it.")
    claimed_at = models.DateTimeField(null=True, help_text="When the newest look-up claimed it.")
    due_at = models.DateTimeField(null=True, help_text="When a worker looks at it next.")
    swept_until = models.DateTimeField(null=True, help_text="A sweep handed it out; no other one does until then.")
    trouble_count = models.PositiveIntegerField(default=0, help_text="How often in a row working on it raised.")
    trouble = models.CharField(max_length=2000, blank=True, help_text="What it raised the last time.")
    exposed_until = models.DateTimeField(null=True, help_text="The later of deadline and end, over all attempts.")
    first_sent_at = models.DateTimeField(null=True, help_text="First use of the provider key.")
    expect_by = models.DateTimeField(null=True, help_text="By when an accepted order should be carried out.")
    attempts = models.PositiveIntegerField(default=0, help_text="Permitted sends.")
    open_attempts = models.PositiveSmallIntegerField(default=0, help_text="1 while a send is open, else 0.")
    lookups_spent = models.PositiveIntegerField(default=0, help_text="Look-ups that could not decide.")
    lookups_unreachable = models.PositiveIntegerField(
        default=0, help_text="Look-ups that did not get through, in a row."
    )
    output = models.TextField(  # noqa: DJ001 - an empty text is no JSON, null is "none yet"
        null=True, help_text="Canonical JSON of what the effect gave."
    )
    output_version = models.PositiveIntegerField(default=1, help_text="The declaration's output_version.")
    items = models.JSONField(null=True, help_text="Per item, for itemised effects.")
    reference = models.CharField(max_length=255, blank=True, help_text="The provider's own id.")
    failure_code = models.CharField(max_length=100, blank=True, help_text="The provider's code, or ours.")
    failure_message = models.CharField(max_length=2000, blank=True, help_text="Cleaned, cut, redacted.")
    requested_by = models.JSONField(null=True, help_text="Who asked first: id and label.")
    on_behalf_of = models.JSONField(null=True, help_text="For whom they asked.")
    requesters = models.JSONField(default=list, help_text="All who asked or were acted for; none of them approves.")
    about_type = models.CharField(max_length=100, blank=True, help_text="The project's own object: its model label.")
    about_id = models.CharField(max_length=255, blank=True, help_text="And its primary key as text.")
    supersedes = models.ForeignKey(
        "self", null=True, on_delete=models.PROTECT, related_name="superseded_by", help_text="Whose key it took over."
    )
    compensates = models.ForeignKey(
        "self", null=True, on_delete=models.PROTECT, related_name="compensated_by", help_text="What it undoes."
    )
    hook_due_at = models.DateTimeField(null=True, help_text="When the settled hook runs next; null: nothing due.")
    hook_failures = models.PositiveIntegerField(default=0, help_text="How often the hook raised.")
    hook_error = models.CharField(max_length=2000, blank=True, help_text="What it raised the last time.")
    created_at = models.DateTimeField(help_text="When it was recorded.")
    settled_at = models.DateTimeField(null=True, help_text="When it was settled.")
    pruned_at = models.DateTimeField(
        null=True, help_text="When retention dropped payload, output and messages; null: it is whole."
    )
    ages_from = models.DateTimeField(
        null=True, help_text="From when retention counts; null: unsettled, or there is nothing left to drop."
    )

    objects: ClassVar[JournalManager[Execution]] = JournalManager()
    locked_at: datetime

    class Meta:
        app_label = "effects"
        permissions = PERMISSIONS  # type: ignore[assignment]
        constraints = [
            holds_word("state", ExecutionState.choices(), "effects_execution_state"),
            holds_word("reason", ExecutionReason.choices(), "effects_execution_reason"),
            models.UniqueConstraint(
                fields=["binding"], condition=Q(holds_key=True), name="effects_execution_one_per_key"
            ),
            models.UniqueConstraint(fields=["provider_key"], name="effects_execution_provider_key"),
            models.CheckConstraint(
                condition=Q(may_have_applied=False) | ~Q(state__in=values(NOTHING_HAPPENED)),
                name="effects_execution_doubt_is_sticky",
            ),
            models.CheckConstraint(
                condition=~Q(state=ExecutionState.REJECTED.value) | Q(attempts=0),
                name="effects_execution_rejected_never_sent",
            ),
            models.CheckConstraint(
                condition=Q(state=ExecutionState.EXECUTING.value, open_attempts=1)
                | (~Q(state=ExecutionState.EXECUTING.value) & Q(open_attempts=0)),
                name="effects_execution_one_open_attempt",
            ),
            models.CheckConstraint(
                condition=~Q(state=ExecutionState.EXECUTING.value) | Q(lease_expires_at__isnull=False),
                name="effects_execution_executing_has_lease",
            ),
            models.CheckConstraint(
                condition=Q(state__in=values(EXECUTION_SETTLED), settled_at__isnull=False)
                | (~Q(state__in=values(EXECUTION_SETTLED)) & Q(settled_at__isnull=True)),
                name="effects_execution_settled_has_time",
            ),
            models.CheckConstraint(
                condition=Q(pruned_at__isnull=True, payload__gt="") | Q(pruned_at__isnull=False, payload=""),
                name="effects_execution_pruned_has_no_payload",
            ),
            models.CheckConstraint(
                # a tombstone ages while it holds words that were written after it was pruned
                condition=Q(settled_at__isnull=True, ages_from__isnull=True)
                | Q(settled_at__isnull=False, ages_from__isnull=False)
                | Q(settled_at__isnull=False, pruned_at__isnull=False),
                name="effects_execution_settled_ages",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["needs_intervention", "pending"]),
                name="effects_execution_due",
            ),
            models.Index(
                fields=["due_at"], condition=Q(state__in=["accepted", "uncertain"]), name="effects_execution_look_up"
            ),
            models.Index(fields=["lease_expires_at"], condition=Q(state="executing"), name="effects_execution_lease"),
            models.Index(
                fields=["provider"], condition=Q(lease_expires_at__isnull=False), name="effects_execution_calls"
            ),
            models.Index(fields=["hook_due_at"], condition=Q(hook_due_at__isnull=False), name="effects_execution_hook"),
            models.Index(
                fields=["state", "created_at"],
                condition=Q(state__in=values(EXECUTION_IN_DOUBT | {ExecutionState.AWAITING_APPROVAL})),
                name="effects_execution_queue",
            ),
            models.Index(
                fields=["ages_from", "id"], condition=Q(ages_from__isnull=False), name="effects_execution_prunable"
            ),
            models.Index(fields=["created_at"], condition=Q(trouble_count__gte=3), name="effects_execution_trouble"),
            models.Index(
                fields=["operation", "settled_at"],
                condition=Q(settled_at__isnull=False),
                name="effects_execution_names",
            ),
            models.Index(F("created_at").desc(), F("id").desc(), name="effects_execution_newest"),
            models.Index(fields=["key", "-id"], name="effects_execution_key"),
            models.Index(fields=["about_type", "about_id", "-id"], name="effects_execution_about"),
            models.Index(fields=["reference"], condition=~Q(reference=""), name="effects_execution_reference"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.key}"

    @property
    def may_have_happened(self) -> bool:
        """Whether it happened or may have: from a permit's commit until none is open and nothing may have applied.

        `may_have_applied` is what is known of the attempts that ended; what is said to anybody is this.
        """
        open_or_proven = self.open_attempts > 0 or self.applied_evidence is not None
        return self.may_have_applied or open_or_proven or self.state not in NOTHING_HAPPENED
