"""Planted corruptions, each found under its own code; and sound journals, in which nothing is found."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

import effects
from effects import audit
from effects.models import Approval, Attempt, Execution, Receipt
from tests.audit.journals import Stories, audited, codes, damaged, everything

pytestmark = pytest.mark.django_db(transaction=True)

#: What is planted: the statement, whose row it hits, the rule that would refuse it, and the code that must be found.
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "a receipt is gone": (
        "DELETE FROM effects_receipt WHERE execution_id = %s AND sequence = 2", "completed", "", "receipts_gap",
    ),
    "the newest receipt is gone": (
        "DELETE FROM effects_receipt WHERE execution_id = %s AND event = 'complete'", "completed", "", "receipts_count",
    ),
    "a verb that leads elsewhere": (
        "UPDATE effects_receipt SET event = 'grant' WHERE execution_id = %s AND event = 'permit'", "completed", "",
        "receipts_edge",
    ),
    "a verb that nobody knows": (
        "UPDATE effects_receipt SET event = 'forge' WHERE request_id = %s AND event = 'freeze'", "answered", "",
        "receipts_edge",
    ),
    "a receipt that begins elsewhere": (
        "UPDATE effects_receipt SET from_state = 'uncertain' WHERE execution_id = %s AND event = 'permit'", "completed", "", "receipts_chain",
    ),
    "a state without a verb": (
        "UPDATE effects_execution SET state = 'completed', settled_at = now() WHERE id = %s", "uncertain", "",
        "receipts_end",
    ),
    "an epoch without a verb": (
        "UPDATE effects_execution SET epoch = epoch + 1 WHERE id = %s", "found", "", "receipts_end",
    ),
    "doubt that was cleared by hand": (
        "UPDATE effects_execution SET may_have_applied = false WHERE id = %s", "uncertain", "", "receipts_end",
    ),
    "a request that was reopened by hand": (
        "UPDATE effects_request SET state = 'in_doubt', ended_at = NULL WHERE id = %s", "answered", "", "receipts_end",
    ),
    "another payload": (
        "UPDATE effects_execution SET payload = replace(payload, '1000', '9000') WHERE id = %s", "completed", "",
        "payload_digest",
    ),
    "another summary": (
        "UPDATE effects_execution SET summary = jsonb_set(summary, '{amount}', '1') WHERE id = %s", "awaiting", "",
        "summary_digest",
    ),
    "a summary that none of ours can be": (
        "UPDATE effects_execution SET summary = jsonb_set(summary, '{amount}', '0.5') WHERE id = %s", "awaiting", "",
        "summary_digest",
    ),
    "another key": ("UPDATE effects_execution SET key = 'other' WHERE id = %s", "completed", "", "binding"),
    "a request's other tenant": (
        "UPDATE effects_request SET tenant = 'other' WHERE id = %s", "answered", "", "binding",
    ),
    "another provider key": (
        "UPDATE effects_execution SET provider_key = 'fx_other' WHERE id = %s", "pending", "", "provider_key",
    ),
    "an attempt that was renumbered": (
        "UPDATE effects_attempt SET number = 3 WHERE execution_id = %s", "completed", "", "attempts_numbers",
    ),
    "an attempt that is gone": (
        "DELETE FROM effects_attempt WHERE execution_id = %s", "completed", "", "attempts_count",
    ),
    "an attempt that was opened again": (
        "UPDATE effects_attempt SET outcome = 'open', ended_at = NULL WHERE execution_id = %s", "completed", "",
        "attempts_open",
    ),
    "two open attempts": (
        "UPDATE effects_attempt SET outcome = 'open' WHERE execution_id = %s", "approved",
        "effects_attempt_one_open", "attempts_open",
    ),
    "an attempt under another key": (
        "UPDATE effects_attempt SET provider_key = 'fx_other' WHERE execution_id = %s", "completed", "",
        "attempts_contents",
    ),
    "an attempt of another payload": (
        "UPDATE effects_attempt SET payload_digest = 'other' WHERE execution_id = %s", "completed", "",
        "attempts_contents",
    ),
    "success that nothing proves": (
        "UPDATE effects_attempt SET outcome = 'unknown' WHERE execution_id = %s", "completed", "",
        "completed_without_proof",
    ),
    "failure despite success": (
        "UPDATE effects_attempt SET outcome = 'applied' WHERE execution_id = %s", "failed", "", "nothing_despite_proof",
    ),
    "a send without its licence": (
        "UPDATE effects_attempt SET approval_id = NULL WHERE execution_id = %s AND number = 2", "approved", "",
        "attempt_unlicensed",
    ),
    "a licence that was made unspent": (
        "UPDATE effects_approval SET state = 'lapsed', spent_at = NULL WHERE execution_id = %s", "approved", "",
        "attempt_unlicensed",
    ),
    "one licence for two sends": (
        "UPDATE effects_attempt a SET approval_id = (SELECT approval_id FROM effects_attempt b WHERE "
        "b.execution_id = a.execution_id AND b.number = 1) WHERE execution_id = %s", "approved", "",
        "approval_spent_twice",
    ),
    "a licence for other contents": (
        "UPDATE effects_approval SET digest = 'other' WHERE execution_id = %s", "approved", "", "approval_digest",
    ),
    "an approval of other contents": (
        "UPDATE effects_approval SET digest = 'other' WHERE execution_id = %s", "awaiting", "", "approval_digest",
    ),
    "a vote that is gone": (
        "DELETE FROM effects_approvalvote WHERE approval_id IN (SELECT id FROM effects_approval WHERE execution_id = %s)",
        "approved", "", "approval_quorum",
    ),
    "an approval that nobody is asked for": (
        "UPDATE effects_approval SET state = 'withdrawn' WHERE execution_id = %s", "awaiting", "", "approval_orphan",
    ),
    "a sender that hangs": (
        "UPDATE effects_execution SET state = 'executing', open_attempts = 1, due_at = NULL, "
        "lease_expires_at = now() - interval '1 hour' WHERE id = %s", "uncertain", "", "lease_overrun",
    ),
    "a send that is long due": (
        "UPDATE effects_execution SET due_at = now() - interval '1 hour' WHERE id = %s", "pending", "", "overdue",
    ),
    "a look-up that is long due": (
        "UPDATE effects_execution SET due_at = now() - interval '1 hour' WHERE id = %s", "uncertain", "", "overdue",
    ),
    "a request that is long due": (
        "UPDATE effects_request SET due_at = now() - interval '1 hour' WHERE id = %s", "waiting", "", "overdue",
    ),
    "a send that is never due": (
        "UPDATE effects_execution SET due_at = NULL WHERE id = %s", "pending", "", "never_due",
    ),
    "an approval past its time": (
        "UPDATE effects_approval SET decide_by = now() - interval '1 hour' WHERE execution_id = %s", "awaiting", "",
        "approval_overdue",
    ),
    "a hook that was forgotten": (
        "UPDATE effects_execution SET hook_due_at = now() - interval '1 hour' WHERE id = %s", "completed", "",
        "hook_overdue",
    ),
    "sweeps that stopped": (
        "WITH due AS (UPDATE effects_execution SET due_at = now() WHERE id = %s) "
        "UPDATE effects_heartbeat SET at = now() - interval '1 hour'", "pending", "", "sweep_stopped",
    ),
    "two that hold one key": (
        "UPDATE effects_execution SET holds_key = true WHERE id = %s", "elder", "effects_execution_one_per_key",
        "elder_unfit",
    ),
    "a successor of something completed": (
        "UPDATE effects_execution SET state = 'completed' WHERE id = %s", "elder", "", "elder_unfit",
    ),
    "a key that was given to nobody": (
        "UPDATE effects_execution SET holds_key = false WHERE id = %s", "failed", "", "key_abandoned",
    ),
    "an answer before its time": (
        "UPDATE effects_request SET state = 'answered', ended_at = now() WHERE id = %s", "waiting", "",
        "request_ended_early",
    ),
    "a request that waits for nothing": (
        "DELETE FROM effects_requestexecution WHERE request_id = %s", "waiting", "", "request_waits_for_nothing",
    ),
    "a key that is free too early": (
        "UPDATE effects_request SET state = 'released', holds_key = false, ended_at = now() WHERE id = %s", "waiting", "", "request_released_with_send",
    ),
}  # fmt: skip


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process write its heartbeats whenever a sweep runs."""
    monkeypatch.setattr("effects.reconcilers._batches._last_beats", {})


def test_nothing_is_found_where_only_verbs_wrote(stories: Stories):
    """One of everything, written by the verbs alone, is looked at and is sound."""
    report = audited()
    assert report["findings"] == []
    assert report["exit"] == 0
    assert report["checked"] == {
        "executions": Execution.objects.count(), "requests": 3, "receipts": Receipt.objects.count(),
        "attempts": Attempt.objects.count(), "approvals": Approval.objects.count(),
    }  # fmt: skip


def test_a_planted_corruption_is_found_under_its_code(beating: None, subtests: pytest.Subtests):
    """Whatever was written past the verbs is found, on the row it was done to, and the command exits with 1."""
    stories = everything()
    for name, (sql, whose, without, code) in PLANTED.items():
        hit = getattr(stories, whose)
        with subtests.test(name), damaged(sql, hit, without=without):
            report = audited()
            assert code in codes(report), report["found"]
            assert report["exit"] == 1
            suspects = {str(hit), str(stories.successor)} if code == "elder_unfit" else {str(hit)}
            assert {one["ref"] for one in report["findings"] if one["kind"] in ("execution", "request")} <= suspects
            assert all(one["fix"] and one["wrong"] for one in report["findings"])
    assert audited()["findings"] == []


def test_every_code_is_found_by_a_planted_corruption():
    """No code is documented that nothing can show."""
    assert {code for *_, code in PLANTED.values()} == set(audit.CODES)


def test_people_read_what_was_found_and_what_to_do(stories: Stories):
    """Without --json: a line for each finding, its meaning and what to do, and what was looked at."""
    out, damage = io.StringIO(), damaged("UPDATE effects_execution SET due_at = NULL WHERE id = %s", stories.pending)
    with damage, pytest.raises(SystemExit) as left:
        call_command("effects_audit", stdout=out)
    assert left.value.code == 1
    lines = out.getvalue().splitlines()
    assert lines[0] == f"never_due: execution {stories.pending}: it is pending, and has no due time"
    assert audit.CODES["never_due"].fix in out.getvalue()
    assert lines[-1].endswith(": 1 findings")


def test_more_findings_than_can_be_told_are_counted(stories: Stories):
    """--most bounds what is kept in memory; the counts are whole."""
    with damaged("UPDATE effects_attempt SET provider_key = 'fx_other'"):
        report = audited("--most", "2")
    assert len(report["findings"]) == 2
    assert report["found"] == {"attempts_contents": Execution.objects.filter(attempts__gt=0).count()}
    assert not report["told_all"]


def test_a_dropped_payload_is_a_tombstone_and_no_finding(stories: Stories):
    """Retention drops payloads and keeps their digests."""
    with damaged("UPDATE effects_execution SET payload = '' WHERE id = %s", stories.completed):
        assert audited()["findings"] == []


def test_what_was_contradicted_is_no_finding(stories: Stories):
    """Evidence that came after others relied on an outcome is told by a receipt, and no fault of the journal."""
    answered = Execution.objects.get(requests=stories.answered)
    for contradicted in (stories.elder, answered.pk):
        effects.observe(contradicted, reference="ch_9", evidence={"from": "a statement"})
        assert effects.get(contradicted).state == "needs_intervention"
    assert audited()["findings"] == []


def test_a_wrong_time_is_told_with_the_right_form(transactional_db: Any):
    """Times without a zone and durations without a unit are refused."""
    for wrong in ("yesterday", "24", "2026-03-01T12:00:00"):
        with pytest.raises(CommandError, match=r"2026-03-01T12:00"):
            call_command("effects_audit", "--since", wrong)


def test_what_could_not_run_says_so_with_two(transactional_db: Any):
    """Without its tables the audit has found nothing, and must not look like success."""
    out = io.StringIO()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE effects_heartbeat RENAME TO effects_heartbeat_away")
    try:
        with pytest.raises(CommandError) as refused:
            call_command("effects_audit", "--json", stdout=out)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE effects_heartbeat_away RENAME TO effects_heartbeat")
    assert refused.value.returncode == 2
    assert "effects_heartbeat" in json.loads(out.getvalue())["error"]
