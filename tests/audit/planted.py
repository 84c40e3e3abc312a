"""Corruptions that no verb could have left behind, and the code that each is found under."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PLANTED", "Planted"]


@dataclass(frozen=True)
class Planted:
    """One corruption: what it is, whose rows it hits, how, its code, and the unique index that would refuse it."""

    what: str
    of: str
    sql: str
    code: str
    without: str = ""


PLANTED = (
    Planted(
        "a receipt is gone",
        "completed",
        "DELETE FROM effects_receipt WHERE execution_id = %s AND sequence = 2",
        "receipts_gap",
    ),
    Planted(
        "the newest receipt is gone",
        "completed",
        "DELETE FROM effects_receipt WHERE execution_id = %s AND event = 'complete'",
        "receipts_count",
    ),
    Planted(
        "a verb that leads elsewhere",
        "completed",
        "UPDATE effects_receipt SET event = 'grant' WHERE execution_id = %s AND event = 'permit'",
        "receipts_edge",
    ),
    Planted(
        "a verb that nobody knows",
        "answered",
        "UPDATE effects_receipt SET event = 'forge' WHERE request_id = %s AND event = 'freeze'",
        "receipts_edge",
    ),
    Planted(
        "a receipt that begins elsewhere",
        "completed",
        "UPDATE effects_receipt SET from_state = 'uncertain' WHERE execution_id = %s AND event = 'permit'",
        "receipts_chain",
    ),
    Planted(
        "a state without a verb",
        "uncertain",
        "UPDATE effects_execution SET state = 'completed', settled_at = now(), ages_from = now() WHERE id = %s",
        "receipts_end",
    ),
    Planted(
        "an epoch without a verb",
        "found",
        "UPDATE effects_execution SET epoch = epoch + 1 WHERE id = %s",
        "receipts_end",
    ),
    Planted(
        "doubt that was cleared by hand",
        "uncertain",
        "UPDATE effects_execution SET may_have_applied = false WHERE id = %s",
        "receipts_end",
    ),
    Planted(
        "a request that was reopened by hand",
        "answered",
        "UPDATE effects_request SET state = 'in_doubt', ended_at = NULL WHERE id = %s",
        "receipts_end",
    ),
    Planted(
        "another payload",
        "completed",
        "UPDATE effects_execution SET payload = replace(payload, '1000', '9000') WHERE id = %s",
        "payload_digest",
    ),
    Planted(
        "contents that nobody dropped by a rule",
        "completed",
        "UPDATE effects_execution SET pruned_at = now(), payload = '' WHERE id = %s",
        "tombstone",
    ),
    Planted(
        "another summary",
        "awaiting",
        "UPDATE effects_execution SET summary = jsonb_set(summary, '{amount}', '1') WHERE id = %s",
        "summary_digest",
    ),
    Planted(
        "a summary that none of ours can be",
        "awaiting",
        "UPDATE effects_execution SET summary = jsonb_set(summary, '{amount}', '0.5') WHERE id = %s",
        "summary_digest",
    ),
    Planted(
        "another key",
        "completed",
        "UPDATE effects_execution SET key = 'other' WHERE id = %s",
        "binding",
    ),
    Planted(
        "a request's other tenant",
        "answered",
        "UPDATE effects_request SET tenant = 'other' WHERE id = %s",
        "binding",
    ),
    Planted(
        "another provider key",
        "pending",
        "UPDATE effects_execution SET provider_key = 'fx_other' WHERE id = %s",
        "provider_key",
    ),
    Planted(
        "an attempt that was renumbered",
        "completed",
        "UPDATE effects_attempt SET number = 3 WHERE execution_id = %s",
        "attempts_numbers",
    ),
    Planted(
        "an attempt that is gone",
        "completed",
        "DELETE FROM effects_attempt WHERE execution_id = %s",
        "attempts_count",
    ),
    Planted(
        "an attempt that was opened again",
        "completed",
        "UPDATE effects_attempt SET outcome = 'open', ended_at = NULL WHERE execution_id = %s",
        "attempts_open",
    ),
    Planted(
        "two open attempts",
        "approved",
        "UPDATE effects_attempt SET outcome = 'open' WHERE execution_id = %s",
        "attempts_open",
        without="effects_attempt_one_open",
    ),
    Planted(
        "an attempt under another key",
        "completed",
        "UPDATE effects_attempt SET provider_key = 'fx_other' WHERE execution_id = %s",
        "attempts_contents",
    ),
    Planted(
        "an attempt of another payload",
        "completed",
        "UPDATE effects_attempt SET payload_digest = 'other' WHERE execution_id = %s",
        "attempts_contents",
    ),
    Planted(
        "success that nothing proves",
        "completed",
        "UPDATE effects_attempt SET outcome = 'unknown' WHERE execution_id = %s",
        "completed_without_proof",
    ),
    Planted(
        "failure despite success",
        "failed",
        "UPDATE effects_attempt SET outcome = 'applied' WHERE execution_id = %s",
        "nothing_despite_proof",
    ),
    Planted(
        "a send without its licence",
        "approved",
        "UPDATE effects_attempt SET approval_id = NULL WHERE execution_id = %s AND number = 2",
        "attempt_unlicensed",
    ),
    Planted(
        "a licence that was made unspent",
        "approved",
        "UPDATE effects_approval SET state = 'lapsed', spent_at = NULL WHERE execution_id = %s",
        "attempt_unlicensed",
    ),
    Planted(
        "one licence for two sends",
        "approved",
        (
            "UPDATE effects_attempt a SET approval_id = (SELECT approval_id FROM effects_attempt b WHERE "
            "b.execution_id = a.execution_id AND b.number = 1) WHERE execution_id = %s"
        ),
        "approval_spent_twice",
    ),
    Planted(
        "a licence for other contents",
        "approved",
        "UPDATE effects_approval SET digest = 'other' WHERE execution_id = %s",
        "approval_digest",
    ),
    Planted(
        "an approval of other contents",
        "awaiting",
        "UPDATE effects_approval SET digest = 'other' WHERE execution_id = %s",
        "approval_digest",
    ),
    Planted(
        "an approver for whom it is done",
        "approved",
        (
            "UPDATE effects_execution SET on_behalf_of = (SELECT jsonb_build_object('id', actor_id, 'label', '') FROM "
            "effects_receipt WHERE execution_id = effects_execution.id AND event = 'grant' LIMIT 1) WHERE id = %s"
        ),
        "vote_by_requester",
    ),
    Planted(
        "a vote that is gone",
        "approved",
        (
            "DELETE FROM effects_approvalvote WHERE approval_id IN (SELECT id FROM effects_approval WHERE "
            "execution_id = %s)"
        ),
        "approval_quorum",
    ),
    Planted(
        "an approval that nobody is asked for",
        "awaiting",
        "UPDATE effects_approval SET state = 'withdrawn' WHERE execution_id = %s",
        "approval_orphan",
    ),
    Planted(
        "a sender that hangs",
        "uncertain",
        (
            "UPDATE effects_execution SET state = 'executing', open_attempts = 1, due_at = NULL, "
            "lease_expires_at = now() - interval '1 hour' WHERE id = %s"
        ),
        "lease_overrun",
    ),
    Planted(
        "a send that is long due",
        "pending",
        "UPDATE effects_execution SET due_at = now() - interval '1 hour' WHERE id = %s",
        "overdue",
    ),
    Planted(
        "a look-up that is long due",
        "uncertain",
        "UPDATE effects_execution SET due_at = now() - interval '1 hour' WHERE id = %s",
        "overdue",
    ),
    Planted(
        "a request that is long due",
        "waiting",
        "UPDATE effects_request SET due_at = now() - interval '1 hour' WHERE id = %s",
        "overdue",
    ),
    Planted(
        "a send that is never due",
        "pending",
        "UPDATE effects_execution SET due_at = NULL WHERE id = %s",
        "never_due",
    ),
    Planted(
        "an approval past its time",
        "awaiting",
        "UPDATE effects_approval SET decide_by = now() - interval '1 hour' WHERE execution_id = %s",
        "approval_overdue",
    ),
    Planted(
        "a hook that was forgotten",
        "completed",
        "UPDATE effects_execution SET hook_due_at = now() - interval '1 hour' WHERE id = %s",
        "hook_overdue",
    ),
    Planted(
        "a notice that nobody sent",
        "awaiting",
        (
            "INSERT INTO effects_pendingnotice (key, event, execution_id, due_at, failures, error, created_at) "
            "VALUES ('planted', 'approval_requested', %s, now() - interval '1 hour', 0, '', now() - interval '1 hour')"
        ),
        "notice_overdue",
    ),
    Planted(
        "sweeps that stopped",
        "pending",
        (
            "WITH due AS (UPDATE effects_execution SET due_at = now() WHERE id = %s) UPDATE effects_heartbeat "
            "SET at = now() - interval '1 hour'"
        ),
        "sweep_stopped",
    ),
    Planted(
        "two that hold one key",
        "elder",
        "UPDATE effects_execution SET holds_key = true WHERE id = %s",
        "elder_unfit",
        without="effects_execution_one_per_key",
    ),
    Planted(
        "a successor of something completed",
        "elder",
        "UPDATE effects_execution SET state = 'completed' WHERE id = %s",
        "elder_unfit",
    ),
    Planted(
        "a key that was given to nobody",
        "failed",
        "UPDATE effects_execution SET holds_key = false WHERE id = %s",
        "key_abandoned",
    ),
    Planted(
        "an answer before its time",
        "waiting",
        "UPDATE effects_request SET state = 'answered', ended_at = now() WHERE id = %s",
        "request_ended_early",
    ),
    Planted(
        "a request that waits for nothing",
        "waiting",
        "DELETE FROM effects_requestexecution WHERE request_id = %s",
        "request_waits_for_nothing",
    ),
    Planted(
        "a key that is free too early",
        "waiting",
        "UPDATE effects_request SET state = 'released', holds_key = false, ended_at = now() WHERE id = %s",
        "request_released_with_send",
    ),
)
