"""Protected HTTP requests, and their links to the executions that they performed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models
from django.db.models import F, Q

from effects.models.base import JournalManager, JournalModel, holds_word, new_id, word_field
from effects.vocabulary.states import REQUEST_ENDED, RequestReason, RequestState, values

if TYPE_CHECKING:
    from effects.models.execution import Execution

MODES = [("transactional", "transactional"), ("journaled", "journaled")]
ENDED = values(REQUEST_ENDED)


class Request(JournalModel):
    """One protected HTTP request under an idempotency key.

    `running` is set by open and cleared by whatever the handler's end is called: freeze, suspend, release, lose.
    `waiting` is set by suspend or lose and cleared by settle. `in_doubt` is set by lose or settle and cleared by
    settle or resolve. `answered`, `released` and `resolved` are final.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False, help_text="The public operation_ref.")
    operation = models.CharField(max_length=200, help_text="The name of the protected view.")
    mode = models.CharField(max_length=16, choices=MODES, help_text="transactional or journaled.")
    tenant = models.CharField(max_length=255, blank=True, help_text="From the server's own authentication.")
    subject = models.CharField(max_length=255, blank=True, help_text="Who asked, from the server's authentication.")
    scope = models.CharField(max_length=255, blank=True, help_text="Separates keys of one subject, empty by default.")
    key = models.CharField(max_length=255, help_text="The client's key.")
    binding = models.CharField(max_length=64, help_text="SHA-256 of tenant, subject, scope and key.")
    holds_key = models.BooleanField(default=True, help_text="Whether the key still stands for this request.")
    fingerprint = models.JSONField(default=dict, help_text="Digests of the parts of the request that count.")
    fingerprint_version = models.PositiveSmallIntegerField(default=1, help_text="The definition they were made by.")
    declared = models.JSONField(null=True, help_text="Operations that the view performs; null: an opaque view.")
    local_writes = models.BooleanField(default=False, help_text="The handler may write rows outside of finishing().")
    state = word_field(RequestState.choices(), "Where the request stands.")
    reason = word_field(RequestReason.choices(), "Why it is in its state.", blank=True, default="")
    revision = models.PositiveIntegerField(default=1, help_text="Counts changes of state or evidence.")
    receipt_count = models.PositiveIntegerField(default=0, help_text="The sequence of the newest receipt.")
    epoch = models.PositiveIntegerField(default=1, help_text="Raised by every acquisition of the lease.")
    lease_expires_at = models.DateTimeField(null=True, help_text="Until when the handler is believed to be alive.")
    handler_until = models.DateTimeField(null=True, help_text="No renewal of the lease goes beyond this.")
    handler_returned = models.BooleanField(default=False, help_text="The handler came to its end.")
    due_at = models.DateTimeField(null=True, help_text="When a sweep looks at it next.")
    swept_until = models.DateTimeField(null=True, help_text="A sweep handed it out; no other one does until then.")
    answer_status = models.PositiveSmallIntegerField(null=True, help_text="The stored answer's status.")
    answer_headers = models.JSONField(default=list, help_text="Its allow-listed headers, pairs in order.")
    answer_body = models.BinaryField(null=True, help_text="Its bytes, as they were sent.")
    answer_size = models.PositiveIntegerField(default=0, help_text="How many bytes the answer had.")
    answer_missing = models.CharField(max_length=24, blank=True, help_text="Why no answer is stored.")
    answer_error = models.CharField(max_length=2000, blank=True, help_text="What answer= raised the last time.")
    created_at = models.DateTimeField(help_text="When it was opened.")
    ended_at = models.DateTimeField(null=True, help_text="When it was answered, released or resolved.")
    executions: models.ManyToManyField[Execution, RequestExecution] = models.ManyToManyField(
        "effects.Execution", through="effects.RequestExecution", related_name="requests"
    )

    objects: ClassVar[JournalManager[Request]] = JournalManager()
    locked_at: datetime

    class Meta:
        app_label = "effects"
        constraints = [
            holds_word("state", RequestState.choices(), "effects_request_state"),
            holds_word("reason", RequestReason.choices(), "effects_request_reason"),
            models.UniqueConstraint(
                fields=["binding"], condition=Q(holds_key=True), name="effects_request_one_per_key"
            ),
            models.CheckConstraint(
                condition=~Q(state=RequestState.RELEASED.value) | Q(holds_key=False),
                name="effects_request_released_frees_key",
            ),
            models.CheckConstraint(
                condition=Q(state__in=ENDED, ended_at__isnull=False) | (~Q(state__in=ENDED) & Q(ended_at__isnull=True)),
                name="effects_request_ended_has_time",
            ),
            models.CheckConstraint(
                condition=Q(state=RequestState.RUNNING.value, lease_expires_at__isnull=False)
                | (~Q(state=RequestState.RUNNING.value) & Q(lease_expires_at__isnull=True)),
                name="effects_request_running_has_lease",
            ),
        ]
        indexes = [
            models.Index(fields=["lease_expires_at"], condition=Q(state="running"), name="effects_request_lease"),
            models.Index(fields=["due_at"], condition=Q(state__in=["waiting", "in_doubt"]), name="effects_request_due"),
            models.Index(fields=["ended_at"], condition=Q(answer_body__isnull=False), name="effects_request_answers"),
            models.Index(
                fields=["ended_at"], condition=Q(holds_key=True, ended_at__isnull=False), name="effects_request_keys"
            ),
            models.Index(fields=["state", "created_at"], name="effects_request_queue"),
            models.Index(F("created_at").desc(), F("id").desc(), name="effects_request_newest"),
            models.Index(fields=["subject"], name="effects_request_subject"),
            models.Index(fields=["key"], name="effects_request_key"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.id}"

    @property
    def is_opaque(self) -> bool:
        """Whether the view did not declare what it performs, so that it may have called out itself."""
        return self.declared is None

    @property
    def is_ended(self) -> bool:
        """Whether it is answered, released or resolved."""
        return self.state in ENDED

    @property
    def answer(self) -> tuple[int, list[Any], bytes] | None:
        """The stored answer as (status, headers, body), or None."""
        if self.answer_status is None or self.answer_body is None:
            return None
        return self.answer_status, self.answer_headers, bytes(self.answer_body)


class RequestExecution(JournalModel):
    """That a request performed an execution. A link `holds` the request's answer, except of `perform_later`."""

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="links")
    execution = models.ForeignKey("effects.Execution", on_delete=models.PROTECT, related_name="links")
    position = models.PositiveSmallIntegerField(help_text="The order in which the handler performed them.")
    holds = models.BooleanField(help_text="Whether the request's answer waits for the execution.")

    objects: ClassVar[JournalManager[RequestExecution]] = JournalManager()

    class Meta:
        app_label = "effects"
        constraints = [
            models.UniqueConstraint(fields=["request", "execution"], name="effects_link_once"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} → {self.execution_id}"
