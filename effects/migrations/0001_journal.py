"""The journal: tables, constraints, partial indexes, permissions, append-only receipts."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

import effects.models.base
from effects.migrations._operations import append_only_receipts, journal_id, refuse_other_databases


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        refuse_other_databases(),
        migrations.CreateModel(
            name="Approval",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=effects.models.base.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "purpose",
                    models.CharField(
                        choices=[("send", "send"), ("resend", "resend")],
                        help_text="The first sends, or another send of something in doubt.",
                        max_length=24,
                    ),
                ),
                (
                    "digest",
                    models.CharField(help_text="SHA-256 of all that the approver decides about.", max_length=64),
                ),
                ("summary", models.JSONField(default=dict, help_text="What the approver is shown.")),
                ("rule", models.JSONField(default=dict, help_text="The frozen rule.")),
                ("approvers", models.CharField(help_text="Whom the rule asks, as its text.", max_length=255)),
                ("quorum", models.PositiveSmallIntegerField(help_text="How many distinct people.")),
                (
                    "covers_retries",
                    models.BooleanField(default=False, help_text="Worth sends until one is not proven absent."),
                ),
                ("decide_by", models.DateTimeField(help_text="Expires undecided after this.")),
                ("not_before", models.DateTimeField(help_text="The earliest send.", null=True)),
                ("use_within", models.DurationField(help_text="How long after grant or not_before it can be used.")),
                ("use_by", models.DateTimeField(help_text="Lapses unused after this.", null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("requested", "requested"),
                            ("granted", "granted"),
                            ("denied", "denied"),
                            ("expired", "expired"),
                            ("withdrawn", "withdrawn"),
                            ("lapsed", "lapsed"),
                            ("spent", "spent"),
                        ],
                        help_text="Where the licence stands.",
                        max_length=24,
                    ),
                ),
                (
                    "swept_until",
                    models.DateTimeField(help_text="A sweep handed it out; no other one does until then.", null=True),
                ),
                ("created_at", models.DateTimeField(help_text="When it was requested.")),
                (
                    "decided_at",
                    models.DateTimeField(help_text="When it was granted, denied, withdrawn or expired.", null=True),
                ),
                ("spent_at", models.DateTimeField(help_text="When a permit consumed it.", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                (
                    "sweep",
                    models.CharField(
                        help_text="The reconciler's name.", max_length=100, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(help_text="When it last ran.")),
                ("counts", models.JSONField(default=dict, help_text="What it last did.")),
            ],
        ),
        migrations.CreateModel(
            name="Journal",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4,
                        editable=False,
                        help_text="Random; which journal it is.",
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "is_only",
                    models.BooleanField(default=True, help_text="Always true, so that there is one row.", unique=True),
                ),
                (
                    "former_ids",
                    models.JSONField(
                        default=list, help_text="Earlier ids, the oldest first: older rows keep their keys."
                    ),
                ),
                ("since", models.DateTimeField(help_text="When it got its id, by the database's clock.")),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("is_only", True)), name="effects_journal_is_only")
                ],
            },
        ),
        migrations.CreateModel(
            name="Request",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=effects.models.base.new_id,
                        editable=False,
                        help_text="The public operation_ref.",
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("operation", models.CharField(help_text="The name of the protected view.", max_length=200)),
                (
                    "mode",
                    models.CharField(
                        choices=[("transactional", "transactional"), ("journaled", "journaled")],
                        help_text="transactional or journaled.",
                        max_length=16,
                    ),
                ),
                (
                    "tenant",
                    models.CharField(blank=True, help_text="From the server's own authentication.", max_length=255),
                ),
                (
                    "subject",
                    models.CharField(
                        blank=True, help_text="Who asked, from the server's authentication.", max_length=255
                    ),
                ),
                (
                    "scope",
                    models.CharField(
                        blank=True, help_text="Separates keys of one subject, empty by default.", max_length=255
                    ),
                ),
                ("key", models.CharField(help_text="The client's key.", max_length=255)),
                ("binding", models.CharField(help_text="SHA-256 of tenant, subject, scope and key.", max_length=64)),
                (
                    "holds_key",
                    models.BooleanField(default=True, help_text="Whether the key still stands for this request."),
                ),
                (
                    "fingerprint",
                    models.JSONField(default=dict, help_text="Digests of the parts of the request that count."),
                ),
                (
                    "fingerprint_version",
                    models.PositiveSmallIntegerField(default=1, help_text="The definition they were made by."),
                ),
                (
                    "declared",
                    models.JSONField(help_text="Operations that the view performs; null: an opaque view.", null=True),
                ),
                (
                    "local_writes",
                    models.BooleanField(default=False, help_text="The handler may write rows outside of finishing()."),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("in_doubt", "in doubt"),
                            ("answered", "answered"),
                            ("released", "released"),
                            ("resolved", "resolved"),
                        ],
                        help_text="Where the request stands.",
                        max_length=24,
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", ""),
                            ("handler", "handler"),
                            ("executions_unsettled", "executions unsettled"),
                            ("handler_failed", "handler failed"),
                            ("lease_expired", "lease expired"),
                            ("answer_built", "answer built"),
                            ("no_answer", "no answer"),
                            ("not_executed", "not executed"),
                            ("handler_released", "handler released"),
                            ("operator", "operator"),
                            ("applied", "applied"),
                            ("not_applied", "not applied"),
                            ("unknown", "unknown"),
                        ],
                        default="",
                        help_text="Why it is in its state.",
                        max_length=24,
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1, help_text="Counts changes of state or evidence.")),
                (
                    "receipt_count",
                    models.PositiveIntegerField(default=0, help_text="The sequence of the newest receipt."),
                ),
                (
                    "epoch",
                    models.PositiveIntegerField(default=1, help_text="Raised by every acquisition of the lease."),
                ),
                (
                    "lease_expires_at",
                    models.DateTimeField(help_text="Until when the handler is believed to be alive.", null=True),
                ),
                (
                    "handler_until",
                    models.DateTimeField(help_text="No renewal of the lease goes beyond this.", null=True),
                ),
                ("handler_returned", models.BooleanField(default=False, help_text="The handler came to its end.")),
                ("due_at", models.DateTimeField(help_text="When a sweep looks at it next.", null=True)),
                (
                    "swept_until",
                    models.DateTimeField(help_text="A sweep handed it out; no other one does until then.", null=True),
                ),
                ("answer_status", models.PositiveSmallIntegerField(help_text="The stored answer's status.", null=True)),
                (
                    "answer_headers",
                    models.JSONField(default=list, help_text="Its allow-listed headers, pairs in order."),
                ),
                ("answer_body", models.BinaryField(help_text="Its bytes, as they were sent.", null=True)),
                ("answer_size", models.PositiveIntegerField(default=0, help_text="How many bytes the answer had.")),
                ("answer_missing", models.CharField(blank=True, help_text="Why no answer is stored.", max_length=24)),
                (
                    "answer_error",
                    models.CharField(blank=True, help_text="What answer= raised the last time.", max_length=2000),
                ),
                ("created_at", models.DateTimeField(help_text="When it was opened.")),
                ("ended_at", models.DateTimeField(help_text="When it was answered, released or resolved.", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Execution",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=effects.models.base.new_id,
                        editable=False,
                        help_text="The execution's ref.",
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("operation", models.CharField(help_text="The effect's operation.", max_length=200)),
                ("tenant", models.CharField(blank=True, help_text="Whose it is; part of the key.", max_length=255)),
                ("key", models.CharField(help_text="What makes it one occurrence: order-17.", max_length=255)),
                ("binding", models.CharField(help_text="SHA-256 of tenant, operation and key.", max_length=64)),
                ("holds_key", models.BooleanField(default=True, help_text="False once a successor took the key over.")),
                (
                    "generation",
                    models.PositiveIntegerField(
                        default=1, help_text="Raised by supersede alone; part of provider_key."
                    ),
                ),
                ("provider", models.CharField(help_text="Which account at which provider.", max_length=200)),
                (
                    "provider_key",
                    models.CharField(help_text="The key sent to the provider; never changes.", max_length=64),
                ),
                (
                    "payload",
                    models.TextField(
                        blank=True,
                        help_text="Canonical JSON: exactly what will be sent, secrets marked; empty once retention dropped it.",
                    ),
                ),
                ("payload_digest", models.CharField(help_text="SHA-256 of it.", max_length=64)),
                (
                    "payload_version",
                    models.PositiveIntegerField(default=1, help_text="The declaration's payload_version."),
                ),
                (
                    "safety_version",
                    models.PositiveIntegerField(default=1, help_text="The declaration's safety_version."),
                ),
                ("summary", models.JSONField(default=dict, help_text="What people are shown.")),
                ("summary_digest", models.CharField(help_text="SHA-256 of it.", max_length=64)),
                (
                    "contract",
                    models.JSONField(default=dict, help_text="The safety-relevant settings, frozen when recorded."),
                ),
                (
                    "risk",
                    models.CharField(
                        choices=[("low", "low"), ("high", "high")], help_text="The declared risk.", max_length=24
                    ),
                ),
                (
                    "amount",
                    models.BigIntegerField(help_text="Minor units of the currency, from the summary.", null=True),
                ),
                ("currency", models.CharField(blank=True, help_text="From the summary.", max_length=12)),
                (
                    "target",
                    models.CharField(blank=True, help_text="Who or what it acts on, from the summary.", max_length=255),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("awaiting_approval", "awaiting approval"),
                            ("executing", "executing"),
                            ("accepted", "accepted"),
                            ("uncertain", "uncertain"),
                            ("needs_intervention", "needs intervention"),
                            ("completed", "completed"),
                            ("partially_completed", "partially completed"),
                            ("failed", "failed"),
                            ("rejected", "rejected"),
                            ("abandoned", "abandoned"),
                        ],
                        help_text="What is known of it.",
                        max_length=24,
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", ""),
                            ("retry", "retry"),
                            ("not_sent", "not sent"),
                            ("absent", "absent"),
                            ("approved", "approved"),
                            ("later", "later"),
                            ("approval_required", "approval required"),
                            ("contents_changed", "contents changed"),
                            ("declined", "declined"),
                            ("invalid_request", "invalid request"),
                            ("unauthenticated", "unauthenticated"),
                            ("forbidden", "forbidden"),
                            ("stale", "stale"),
                            ("attempts_spent", "attempts spent"),
                            ("proven_failed", "proven failed"),
                            ("denied", "denied"),
                            ("approval_expired", "approval expired"),
                            ("withdrawn", "withdrawn"),
                            ("lapsed", "lapsed"),
                            ("precondition", "precondition"),
                            ("cancelled", "cancelled"),
                            ("timeout", "timeout"),
                            ("no_reply", "no reply"),
                            ("provider_error", "provider error"),
                            ("interrupted", "interrupted"),
                            ("unclassified", "unclassified"),
                            ("lease_expired", "lease expired"),
                            ("older_doubt", "older doubt"),
                            ("reopened", "reopened"),
                            ("submitted", "submitted"),
                            ("in_progress", "in progress"),
                            ("conflict", "conflict"),
                            ("budget_spent", "budget spent"),
                            ("no_plan", "no plan"),
                            ("overdue", "overdue"),
                            ("contradicted", "contradicted"),
                            ("sent", "sent"),
                            ("found", "found"),
                            ("late_reply", "late reply"),
                            ("operator", "operator"),
                            ("undone", "undone"),
                        ],
                        default="",
                        help_text="Why it is in its state.",
                        max_length=24,
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1, help_text="Counts changes of state or evidence.")),
                (
                    "receipt_count",
                    models.PositiveIntegerField(default=0, help_text="The sequence of the newest receipt."),
                ),
                ("may_have_applied", models.BooleanField(default=False, help_text="Sticky: only evidence clears it.")),
                (
                    "applied_evidence",
                    models.JSONField(help_text="Proof on file that it applied; beats any absence.", null=True),
                ),
                (
                    "epoch",
                    models.PositiveIntegerField(default=0, help_text="Raised by every acquisition of the lease."),
                ),
                (
                    "lease_expires_at",
                    models.DateTimeField(help_text="Until when a sender or a look-up owns it.", null=True),
                ),
                ("claimed_at", models.DateTimeField(help_text="When the newest look-up claimed it.", null=True)),
                ("due_at", models.DateTimeField(help_text="When a worker looks at it next.", null=True)),
                (
                    "swept_until",
                    models.DateTimeField(help_text="A sweep handed it out; no other one does until then.", null=True),
                ),
                (
                    "trouble_count",
                    models.PositiveIntegerField(default=0, help_text="How often in a row working on it raised."),
                ),
                ("trouble", models.CharField(blank=True, help_text="What it raised the last time.", max_length=2000)),
                (
                    "exposed_until",
                    models.DateTimeField(help_text="The later of deadline and end, over all attempts.", null=True),
                ),
                ("first_sent_at", models.DateTimeField(help_text="First use of the provider key.", null=True)),
                (
                    "expect_by",
                    models.DateTimeField(help_text="By when an accepted order should be carried out.", null=True),
                ),
                ("attempts", models.PositiveIntegerField(default=0, help_text="Permitted sends.")),
                (
                    "open_attempts",
                    models.PositiveSmallIntegerField(default=0, help_text="1 while a send is open, else 0."),
                ),
                ("lookups_spent", models.PositiveIntegerField(default=0, help_text="Look-ups that could not decide.")),
                (
                    "lookups_unreachable",
                    models.PositiveIntegerField(default=0, help_text="Look-ups that did not get through, in a row."),
                ),
                ("output", models.TextField(help_text="Canonical JSON of what the effect gave.", null=True)),
                (
                    "output_version",
                    models.PositiveIntegerField(default=1, help_text="The declaration's output_version."),
                ),
                ("items", models.JSONField(help_text="Per item, for itemised effects.", null=True)),
                ("reference", models.CharField(blank=True, help_text="The provider's own id.", max_length=255)),
                (
                    "failure_code",
                    models.CharField(blank=True, help_text="The provider's code, or ours.", max_length=100),
                ),
                ("failure_message", models.CharField(blank=True, help_text="Cleaned, cut, redacted.", max_length=2000)),
                ("requested_by", models.JSONField(help_text="Who asked first: id and label.", null=True)),
                ("on_behalf_of", models.JSONField(help_text="For whom they asked.", null=True)),
                (
                    "requesters",
                    models.JSONField(default=list, help_text="All who asked or were acted for; none of them approves."),
                ),
                (
                    "about_type",
                    models.CharField(
                        blank=True, help_text="The project's own object: its model label.", max_length=100
                    ),
                ),
                ("about_id", models.CharField(blank=True, help_text="And its primary key as text.", max_length=255)),
                (
                    "hook_due_at",
                    models.DateTimeField(help_text="When the settled hook runs next; null: nothing due.", null=True),
                ),
                ("hook_failures", models.PositiveIntegerField(default=0, help_text="How often the hook raised.")),
                (
                    "hook_error",
                    models.CharField(blank=True, help_text="What it raised the last time.", max_length=2000),
                ),
                ("created_at", models.DateTimeField(help_text="When it was recorded.")),
                ("settled_at", models.DateTimeField(help_text="When it was settled.", null=True)),
                (
                    "pruned_at",
                    models.DateTimeField(
                        help_text="When retention dropped payload, output and messages; null: it is whole.", null=True
                    ),
                ),
                (
                    "ages_from",
                    models.DateTimeField(
                        help_text="From when retention counts; null: unsettled, or there is nothing left to drop.",
                        null=True,
                    ),
                ),
                (
                    "compensates",
                    models.ForeignKey(
                        help_text="What it undoes.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="compensated_by",
                        to="effects.execution",
                    ),
                ),
                (
                    "supersedes",
                    models.ForeignKey(
                        help_text="Whose key it took over.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="superseded_by",
                        to="effects.execution",
                    ),
                ),
            ],
            options={
                "permissions": [
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
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        editable=False, help_text="Made by the sender.", primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField(help_text="1 for the first send.")),
                ("epoch", models.PositiveIntegerField(help_text="The execution's epoch under which it was permitted.")),
                ("provider_key", models.CharField(help_text="The key it was sent under.", max_length=64)),
                ("payload_digest", models.CharField(help_text="The digest of what was permitted.", max_length=64)),
                ("permitted_at", models.DateTimeField(help_text="When the permit was written.")),
                ("deadline", models.DateTimeField(help_text="No byte of it leaves after this.")),
                ("ended_at", models.DateTimeField(help_text="When its outcome was recorded.", null=True)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("applied", "applied"),
                            ("submitted", "submitted"),
                            ("not_applied", "not applied"),
                            ("not_sent", "not sent"),
                            ("unknown", "unknown"),
                        ],
                        help_text="How it ended.",
                        max_length=24,
                    ),
                ),
                ("reference", models.CharField(blank=True, help_text="The provider's id.", max_length=255)),
                (
                    "failure_reason",
                    models.CharField(blank=True, help_text="What kind of failure it was.", max_length=24),
                ),
                ("failure_code", models.CharField(blank=True, help_text="The provider's code.", max_length=100)),
                ("message", models.CharField(blank=True, help_text="Cleaned, cut, redacted.", max_length=2000)),
                (
                    "approval",
                    models.ForeignKey(
                        help_text="What licensed it.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="effects.approval",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="attempt_rows", to="effects.execution"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="approval",
            name="execution",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="approvals", to="effects.execution"
            ),
        ),
        migrations.CreateModel(
            name="PendingNotice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "key",
                    models.CharField(
                        help_text="What makes it one notice, however often it is told.", max_length=100, unique=True
                    ),
                ),
                (
                    "event",
                    models.CharField(
                        choices=[
                            ("approval_requested", "approval requested"),
                            ("approval_reminder", "approval reminder"),
                            ("approval_granted", "approval granted"),
                            ("approval_denied", "approval denied"),
                            ("approval_expired", "approval expired"),
                            ("approval_withdrawn", "approval withdrawn"),
                            ("approval_lapsed", "approval lapsed"),
                            ("needs_person", "needs person"),
                        ],
                        help_text="What it tells of.",
                        max_length=24,
                    ),
                ),
                ("due_at", models.DateTimeField(help_text="When to tell; a reminder waits.")),
                (
                    "swept_until",
                    models.DateTimeField(help_text="A sweep handed it out; no other one does until then.", null=True),
                ),
                ("failures", models.PositiveIntegerField(default=0, help_text="How often telling raised.")),
                ("error", models.TextField(blank=True, help_text="What it raised last.")),
                ("created_at", models.DateTimeField(help_text="When it happened.")),
                (
                    "approval",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pending_notices",
                        to="effects.approval",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pending_notices",
                        to="effects.execution",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("sequence", models.PositiveIntegerField(help_text="1, 2, 3 … per request or execution.")),
                ("event", models.CharField(help_text="The verb.", max_length=24)),
                (
                    "from_state",
                    models.CharField(blank=True, help_text="Empty where the verb made the row.", max_length=24),
                ),
                ("to_state", models.CharField(help_text="The state after it.", max_length=24)),
                ("reason", models.CharField(blank=True, help_text="The reason after it.", max_length=24)),
                ("revision", models.PositiveIntegerField(help_text="The revision after it.")),
                ("epoch", models.PositiveIntegerField(help_text="The epoch after it.")),
                ("may_have_applied", models.BooleanField(default=False, help_text="As it stood after it.")),
                ("actor_id", models.CharField(blank=True, help_text="Who did it; empty: the machine.", max_length=255)),
                (
                    "actor_label",
                    models.CharField(blank=True, help_text="What people called them then.", max_length=255),
                ),
                ("evidence", models.JSONField(default=dict, help_text="Cleaned facts.")),
                ("at", models.DateTimeField(help_text="By the database's clock.")),
                (
                    "digests",
                    models.JSONField(default=dict, help_text="Of itself, and of the rows that its commit wrote."),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipts",
                        to="effects.execution",
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipts",
                        to="effects.request",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RequestExecution",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "position",
                    models.PositiveSmallIntegerField(help_text="The order in which the handler performed them."),
                ),
                ("holds", models.BooleanField(help_text="Whether the request's answer waits for the execution.")),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="links", to="effects.execution"
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="links", to="effects.request"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="request",
            name="executions",
            field=models.ManyToManyField(
                related_name="requests", through="effects.RequestExecution", to="effects.execution"
            ),
        ),
        migrations.CreateModel(
            name="Resolution",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("decision_id", models.CharField(help_text="Made by the operator's page or program.", max_length=100)),
                (
                    "decision",
                    models.CharField(
                        help_text="applied, not_applied, unknown, undone, resend, reopen, evidence.", max_length=24
                    ),
                ),
                ("revision", models.PositiveIntegerField(help_text="The revision that the operator saw.")),
                ("actor_id", models.CharField(help_text="Who decided.", max_length=255)),
                (
                    "actor_label",
                    models.CharField(blank=True, help_text="What people called them then.", max_length=255),
                ),
                ("reason", models.CharField(help_text="Why, in their words.", max_length=2000)),
                ("evidence", models.JSONField(default=dict, help_text="What they based it on.")),
                ("at", models.DateTimeField(help_text="When, by the database's clock.")),
                (
                    "execution",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="resolutions",
                        to="effects.execution",
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="resolutions",
                        to="effects.request",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApprovalVote",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("actor_id", models.CharField(help_text="Who, as text.", max_length=255)),
                (
                    "actor_label",
                    models.CharField(blank=True, help_text="What people called them then.", max_length=255),
                ),
                (
                    "decision",
                    models.CharField(
                        choices=[("approve", "approve"), ("deny", "deny")], help_text="approve or deny.", max_length=12
                    ),
                ),
                ("comment", models.CharField(blank=True, help_text="Their words.", max_length=2000)),
                ("digest_seen", models.CharField(help_text="The digest of the page they decided on.", max_length=64)),
                (
                    "by_login",
                    models.BooleanField(
                        default=False,
                        help_text="Only their login said that they have the permission; it cannot be asked again.",
                    ),
                ),
                ("at", models.DateTimeField(help_text="When.")),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="votes", to="effects.approval"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("decision__in", ["approve", "deny"])), name="effects_vote_decision"
                    ),
                    models.UniqueConstraint(fields=("approval", "actor_id"), name="effects_vote_once"),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("state__in", ["needs_intervention", "pending"])),
                fields=["due_at"],
                name="effects_execution_due",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("state__in", ["accepted", "uncertain"])),
                fields=["due_at"],
                name="effects_execution_look_up",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("state", "executing")), fields=["lease_expires_at"], name="effects_execution_lease"
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("lease_expires_at__isnull", False)),
                fields=["provider"],
                name="effects_execution_calls",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("hook_due_at__isnull", False)),
                fields=["hook_due_at"],
                name="effects_execution_hook",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("state__in", ["accepted", "awaiting_approval", "needs_intervention", "uncertain"])),
                fields=["state", "created_at"],
                name="effects_execution_queue",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("ages_from__isnull", False)),
                fields=["ages_from", "id"],
                name="effects_execution_prunable",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("trouble_count__gte", 3)), fields=["created_at"], name="effects_execution_trouble"
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("settled_at__isnull", False)),
                fields=["operation", "settled_at"],
                name="effects_execution_names",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                models.OrderBy(models.F("created_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="effects_execution_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["key", "-id"], name="effects_execution_key"),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(fields=["about_type", "about_id", "-id"], name="effects_execution_about"),
        ),
        migrations.AddIndex(
            model_name="execution",
            index=models.Index(
                condition=models.Q(("reference", ""), _negated=True),
                fields=["reference"],
                name="effects_execution_reference",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "pending",
                            "awaiting_approval",
                            "executing",
                            "accepted",
                            "uncertain",
                            "needs_intervention",
                            "completed",
                            "partially_completed",
                            "failed",
                            "rejected",
                            "abandoned",
                        ],
                    )
                ),
                name="effects_execution_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "reason__in",
                        [
                            "",
                            "retry",
                            "not_sent",
                            "absent",
                            "approved",
                            "later",
                            "approval_required",
                            "contents_changed",
                            "declined",
                            "invalid_request",
                            "unauthenticated",
                            "forbidden",
                            "stale",
                            "attempts_spent",
                            "proven_failed",
                            "denied",
                            "approval_expired",
                            "withdrawn",
                            "lapsed",
                            "precondition",
                            "cancelled",
                            "timeout",
                            "no_reply",
                            "provider_error",
                            "interrupted",
                            "unclassified",
                            "lease_expired",
                            "older_doubt",
                            "reopened",
                            "submitted",
                            "in_progress",
                            "conflict",
                            "budget_spent",
                            "no_plan",
                            "overdue",
                            "contradicted",
                            "sent",
                            "found",
                            "late_reply",
                            "operator",
                            "undone",
                        ],
                    )
                ),
                name="effects_execution_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.UniqueConstraint(
                condition=models.Q(("holds_key", True)), fields=("binding",), name="effects_execution_one_per_key"
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.UniqueConstraint(fields=("provider_key",), name="effects_execution_provider_key"),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("may_have_applied", False),
                    models.Q(("state__in", ["awaiting_approval", "failed", "pending", "rejected"]), _negated=True),
                    _connector="OR",
                ),
                name="effects_execution_doubt_is_sticky",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(models.Q(("state", "rejected"), _negated=True), ("attempts", 0), _connector="OR"),
                name="effects_execution_rejected_never_sent",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("open_attempts", 1), ("state", "executing")),
                    models.Q(models.Q(("state", "executing"), _negated=True), ("open_attempts", 0)),
                    _connector="OR",
                ),
                name="effects_execution_one_open_attempt",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "executing"), _negated=True),
                    ("lease_expires_at__isnull", False),
                    _connector="OR",
                ),
                name="effects_execution_executing_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("settled_at__isnull", False),
                        ("state__in", ["abandoned", "completed", "failed", "partially_completed", "rejected"]),
                    ),
                    models.Q(
                        models.Q(
                            ("state__in", ["abandoned", "completed", "failed", "partially_completed", "rejected"]),
                            _negated=True,
                        ),
                        ("settled_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="effects_execution_settled_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("payload__gt", ""), ("pruned_at__isnull", True)),
                    models.Q(("payload", ""), ("pruned_at__isnull", False)),
                    _connector="OR",
                ),
                name="effects_execution_pruned_has_no_payload",
            ),
        ),
        migrations.AddConstraint(
            model_name="execution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ages_from__isnull", True), ("settled_at__isnull", True)),
                    models.Q(("ages_from__isnull", False), ("settled_at__isnull", False)),
                    models.Q(("pruned_at__isnull", False), ("settled_at__isnull", False)),
                    _connector="OR",
                ),
                name="effects_execution_settled_ages",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome__in", ["open", "applied", "submitted", "not_applied", "not_sent", "unknown"])
                ),
                name="effects_attempt_outcome",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("outcome", "open")), fields=("execution",), name="effects_attempt_one_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("execution", "number"), name="effects_attempt_number"),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("state", "requested")), fields=["decide_by"], name="effects_approval_decide"
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("state", "granted")), fields=["use_by"], name="effects_approval_use"
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["requested", "granted", "denied", "expired", "withdrawn", "lapsed", "spent"])
                ),
                name="effects_approval_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(("purpose__in", ["send", "resend"])), name="effects_approval_purpose"
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["granted", "requested"])),
                fields=("execution",),
                name="effects_approval_one_live",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("spent_at__isnull", False), ("state", "spent")),
                    models.Q(models.Q(("state", "spent"), _negated=True), ("spent_at__isnull", True)),
                    _connector="OR",
                ),
                name="effects_approval_spent_has_time",
            ),
        ),
        migrations.AddIndex(
            model_name="pendingnotice",
            index=models.Index(fields=["due_at"], name="effects_notice_due"),
        ),
        migrations.AddConstraint(
            model_name="pendingnotice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "event__in",
                        [
                            "approval_requested",
                            "approval_reminder",
                            "approval_granted",
                            "approval_denied",
                            "approval_expired",
                            "approval_withdrawn",
                            "approval_lapsed",
                            "needs_person",
                        ],
                    )
                ),
                name="effects_notice_event",
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(fields=["at"], name="effects_receipt_at"),
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.UniqueConstraint(fields=("request", "sequence"), name="effects_receipt_request_sequence"),
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.UniqueConstraint(
                fields=("execution", "sequence"), name="effects_receipt_execution_sequence"
            ),
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("execution__isnull", True), ("request__isnull", False)),
                    models.Q(("execution__isnull", False), ("request__isnull", True)),
                    _connector="OR",
                ),
                name="effects_receipt_one_target",
            ),
        ),
        migrations.AddConstraint(
            model_name="requestexecution",
            constraint=models.UniqueConstraint(fields=("request", "execution"), name="effects_link_once"),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("state", "running")), fields=["lease_expires_at"], name="effects_request_lease"
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("state__in", ["waiting", "in_doubt"])),
                fields=["due_at"],
                name="effects_request_due",
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("answer_body__isnull", False)), fields=["ended_at"], name="effects_request_answers"
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False), ("holds_key", True)),
                fields=["ended_at"],
                name="effects_request_keys",
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(fields=["state", "created_at"], name="effects_request_queue"),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                models.OrderBy(models.F("created_at"), descending=True),
                models.OrderBy(models.F("id"), descending=True),
                name="effects_request_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(fields=["subject"], name="effects_request_subject"),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(fields=["key"], name="effects_request_key"),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["running", "waiting", "in_doubt", "answered", "released", "resolved"])
                ),
                name="effects_request_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "reason__in",
                        [
                            "",
                            "handler",
                            "executions_unsettled",
                            "handler_failed",
                            "lease_expired",
                            "answer_built",
                            "no_answer",
                            "not_executed",
                            "handler_released",
                            "operator",
                            "applied",
                            "not_applied",
                            "unknown",
                        ],
                    )
                ),
                name="effects_request_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.UniqueConstraint(
                condition=models.Q(("holds_key", True)), fields=("binding",), name="effects_request_one_per_key"
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "released"), _negated=True), ("holds_key", False), _connector="OR"
                ),
                name="effects_request_released_frees_key",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", False), ("state__in", ["answered", "released", "resolved"])),
                    models.Q(
                        models.Q(("state__in", ["answered", "released", "resolved"]), _negated=True),
                        ("ended_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="effects_request_ended_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lease_expires_at__isnull", False), ("state", "running")),
                    models.Q(models.Q(("state", "running"), _negated=True), ("lease_expires_at__isnull", True)),
                    _connector="OR",
                ),
                name="effects_request_running_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="resolution",
            constraint=models.UniqueConstraint(
                fields=("request", "decision_id"), name="effects_resolution_request_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="resolution",
            constraint=models.UniqueConstraint(
                fields=("execution", "decision_id"), name="effects_resolution_execution_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="resolution",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("execution__isnull", True), ("request__isnull", False)),
                    models.Q(("execution__isnull", False), ("request__isnull", True)),
                    _connector="OR",
                ),
                name="effects_resolution_one_target",
            ),
        ),
        append_only_receipts(),
        journal_id(),
    ]
