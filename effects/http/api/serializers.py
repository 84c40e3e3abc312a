"""What clients of the API send and are answered."""

from __future__ import annotations

import math
from typing import Any

from django.core.validators import RegexValidator
from django.urls import reverse
from rest_framework import serializers

from effects.http.api.callers import VIEW_PAYLOAD, Seen
from effects.vocabulary import canonical
from effects.vocabulary.polling import hint
from effects.vocabulary.states import (
    EXECUTION_SETTLED,
    ApprovalPurpose,
    ApprovalState,
    ExecutionReason,
    ExecutionState,
    Word,
)

__all__ = [
    "ApprovalPage",
    "ApprovalSerializer",
    "ProposalRequest",
    "ProposalSerializer",
    "VoteRequest",
    "WithdrawRequest",
    "approval_data",
    "poll_after",
    "proposal_data",
]

_S = ExecutionState


class WordField(serializers.CharField):
    """A word of one of the journal's vocabularies."""

    def __init__(self, words: type[Word], **options: Any) -> None:
        self.words = words
        super().__init__(**options)


#: A text holds no NUL, which no field takes; said here, the schema says it too.
_TEXT = [RegexValidator(r"^[^\x00]*\Z", message="Null characters are not allowed.")]


class ProposalRequest(serializers.Serializer[Any]):
    """What is proposed."""

    operation = serializers.RegexField(
        r"^[^\x00]+\Z", max_length=200, trim_whitespace=False, help_text="The effect's operation."
    )
    payload = serializers.DictField(help_text="Its fields, as the effect declares them.")


class VoteRequest(serializers.Serializer[Any]):
    """A person's decision about what they were shown."""

    decision = serializers.RegexField(r"^(approve|deny)\Z", help_text="approve or deny.")
    digest = serializers.RegexField(r"^[0-9a-f]{64}\Z", help_text="The digest of the approval that was shown.")
    revision = serializers.IntegerField(
        required=False, min_value=1, help_text="The revision that was shown; another one is refused."
    )
    comment = serializers.CharField(required=False, default="", allow_blank=True, max_length=2000, validators=_TEXT)


class WithdrawRequest(serializers.Serializer[Any]):
    """Taking back."""

    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=2000, validators=_TEXT)


class ActorSerializer(serializers.Serializer[Any]):
    """A person or a program."""

    id = serializers.CharField()
    # a member of the answer, not the field's own label
    label = serializers.CharField()  # type: ignore[assignment]

    class Meta:
        ref_name = "EffectsActor"


class SummarySerializer(serializers.Serializer[Any]):
    """What people decide about. `amount` counts minor units of `currency`."""

    title = serializers.CharField()
    facts = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    amount = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField()
    target = serializers.CharField()

    class Meta:
        ref_name = "EffectsSummary"


class VoteSerializer(serializers.Serializer[Any]):
    """One person's decision."""

    by = serializers.CharField()
    decision = serializers.CharField()
    comment = serializers.CharField()
    at = serializers.DateTimeField()

    class Meta:
        ref_name = "EffectsVote"


class ApprovalSerializer(serializers.Serializer[Any]):
    """What people are asked to decide, and whether the caller can."""

    id = serializers.UUIDField()
    ref = serializers.UUIDField(help_text="The execution's.")
    url = serializers.CharField(help_text="Where the whole proposal is.")
    operation = serializers.CharField()
    purpose = WordField(ApprovalPurpose, help_text="resend: it may have happened before, and is sent again.")
    state = WordField(ApprovalState)
    digest = serializers.CharField(help_text="Of all that is decided about; a vote sends it back.")
    revision = serializers.IntegerField()
    summary = SummarySerializer()
    compensates = serializers.UUIDField(allow_null=True, help_text="The execution that it undoes.")
    supersedes = serializers.UUIDField(allow_null=True, help_text="The one that it asks for again.")
    requested_by = ActorSerializer(allow_null=True)
    on_behalf_of = ActorSerializer(allow_null=True)
    created_at = serializers.DateTimeField()
    decide_by = serializers.DateTimeField()
    not_before = serializers.DateTimeField(allow_null=True)
    use_by = serializers.DateTimeField(allow_null=True)
    quorum = serializers.IntegerField()
    votes = VoteSerializer(many=True)
    payload = serializers.JSONField(
        allow_null=True, help_text="What the caller is to decide by, where the summary tells no amount and no facts."
    )
    can_decide = serializers.BooleanField()
    why_not = serializers.CharField(help_text="Why the caller cannot, in words.")

    class Meta:
        ref_name = "EffectsApproval"


class ApprovalPage(serializers.Serializer[Any]):
    """A page of approvals, the oldest first."""

    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    results = ApprovalSerializer(many=True)

    class Meta:
        ref_name = "EffectsApprovalPage"


class ProposalSerializer(serializers.Serializer[Any]):
    """An execution that somebody proposed, and where it stands."""

    ref = serializers.UUIDField()
    url = serializers.CharField()
    operation = serializers.CharField()
    state = WordField(ExecutionState)
    reason = WordField(ExecutionReason)
    settled = serializers.BooleanField(help_text="Nothing changes by itself any more.")
    may_have_applied = serializers.BooleanField()
    revision = serializers.IntegerField()
    summary = SummarySerializer()
    compensates = serializers.UUIDField(allow_null=True, help_text="The execution that it undoes.")
    supersedes = serializers.UUIDField(allow_null=True, help_text="The one that it asks for again.")
    requested_by = ActorSerializer(allow_null=True)
    on_behalf_of = ActorSerializer(allow_null=True)
    created_at = serializers.DateTimeField()
    settled_at = serializers.DateTimeField(allow_null=True)
    reference = serializers.CharField(help_text="The provider's own id.")
    failure_code = serializers.CharField()
    failure_message = serializers.CharField()
    payload_hidden = serializers.BooleanField(help_text="The caller may not see payload and output.")
    payload = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    approval = ApprovalSerializer(allow_null=True)
    poll_after_seconds = serializers.IntegerField(allow_null=True, help_text="When to ask again; null: settled.")

    class Meta:
        ref_name = "EffectsProposal"


def poll_after(seen: Seen) -> int | None:
    """Return in how many seconds asking again makes sense; None for what is settled."""
    due_in = seen.row.due_at - seen.at if seen.row.due_at else None
    wait = hint(ExecutionState(seen.row.state), due_in)
    return math.ceil(wait.total_seconds()) if wait else None


def approval_data(seen: Seen) -> dict[str, Any]:
    """Return the members of an approval.

    Raises:
        ValueError: nobody was asked.
    """
    row, approval = seen.row, seen.approval
    if approval is None:
        raise ValueError("no approval")
    why_not = seen.why_not()
    votes = sorted(approval.votes.all(), key=lambda vote: vote.pk)
    return {
        "id": approval.pk,
        "ref": row.pk,
        "url": _url(seen),
        "operation": row.operation,
        "purpose": approval.purpose,
        "state": approval.state,
        "digest": approval.digest,
        "revision": row.revision,
        "summary": approval.summary,
        "compensates": row.compensates_id,
        "supersedes": row.supersedes_id,
        "requested_by": row.requested_by,
        "on_behalf_of": row.on_behalf_of,
        "created_at": approval.created_at,
        "decide_by": approval.decide_by,
        "not_before": approval.not_before,
        "use_by": approval.use_by,
        "quorum": approval.quorum,
        "votes": [
            {"by": vote.actor_label or vote.actor_id, "decision": vote.decision, "comment": vote.comment, "at": vote.at}
            for vote in votes
        ],
        "payload": seen.contents,
        "can_decide": not why_not,
        "why_not": why_not,
    }


def proposal_data(seen: Seen) -> dict[str, Any]:
    """Return the members of an execution; payload and output only where the caller may see them."""
    row = seen.row
    shows = seen.caller.may(VIEW_PAYLOAD, row)
    contents = seen.contents
    return {
        "ref": row.pk,
        "url": _url(seen),
        "operation": row.operation,
        "state": row.state,
        "reason": row.reason,
        "settled": row.state in EXECUTION_SETTLED,
        "may_have_applied": row.may_have_happened,
        "revision": row.revision,
        "summary": row.summary,
        "compensates": row.compensates_id,
        "supersedes": row.supersedes_id,
        "requested_by": row.requested_by,
        "on_behalf_of": row.on_behalf_of,
        "created_at": row.created_at,
        "settled_at": row.settled_at,
        "reference": row.reference,
        "failure_code": row.failure_code,
        "failure_message": row.failure_message,
        "payload_hidden": not shows and contents is None,
        "payload": canonical.show(row.payload) if shows else contents,
        "output": canonical.show(row.output) if shows else None,
        "approval": approval_data(seen) if seen.approval is not None else None,
        "poll_after_seconds": poll_after(seen),
    }


def _url(seen: Seen) -> str:
    return reverse("effects_api:proposal", args=[seen.row.pk])
