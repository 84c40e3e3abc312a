"""Planted corruptions, each found under its own code; and sound journals, in which nothing is found."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

import effects
from effects import transitions
from effects.inspection import audit
from effects.models import Approval, Attempt, Execution, Receipt
from effects.sweeps import SWEEPS
from effects.testing import run_due
from effects.vocabulary import canonical
from tests.audit.columns import COLUMNS, Found
from tests.audit.journals import Stories, audited, codes, damaged, everything
from tests.audit.planted import PLANTED
from tests.core.declared import Ruled
from tests.core.people import approve, asked, person

pytestmark = pytest.mark.django_db(transaction=True)


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
    linked = Execution.objects.get(links__request=stories.waiting).pk
    for planted in PLANTED:
        hit = getattr(stories, planted.of)
        with subtests.test(planted.what), damaged(planted.sql, hit, without=planted.without):
            report = audited()
            assert planted.code in codes(report), report["found"]
            assert report["exit"] == 1
            suspects = {str(hit), str(stories.successor)} if planted.code == "elder_unfit" else {str(hit)}
            # a link is told of by the execution's receipts
            suspects |= {str(linked)} if planted.of == "waiting" else set()
            assert {one["ref"] for one in report["findings"] if one["kind"] in ("execution", "request")} <= suspects
            assert all(one["fix"] and one["wrong"] for one in report["findings"])
    assert audited()["findings"] == []


def test_every_code_is_found_by_a_planted_corruption():
    """No code is documented that nothing can show."""
    columns = {said.code for table in COLUMNS.values() for said in table.values() if isinstance(said, Found)}
    assert {planted.code for planted in PLANTED} | columns == set(audit.CODES)


def test_people_read_what_was_found_and_what_to_do(stories: Stories):
    """Without --json: a line for each finding, its meaning and what to do, and what was looked at."""
    out, damage = io.StringIO(), damaged("UPDATE effects_execution SET due_at = NULL WHERE id = %s", stories.pending)
    with damage, pytest.raises(SystemExit) as left:
        call_command("effects_audit", stdout=out)
    assert left.value.code == 1
    lines = out.getvalue().splitlines()
    assert f"never_due: execution {stories.pending}: it is pending, and has no due time" in lines
    assert audit.CODES["never_due"].fix in out.getvalue()
    assert lines[-1].endswith(": 2 findings")


def test_more_findings_than_can_be_told_are_counted(stories: Stories):
    """--most bounds what is kept in memory; the counts are whole."""
    with damaged("UPDATE effects_attempt SET provider_key = 'fx_other'"):
        report = audited("--most", "2")
    assert len(report["findings"]) == 2
    count = Execution.objects.filter(attempts__gt=0).count()
    assert report["found"] == {"attempts_contents": count, "attempt_altered": count}
    assert not report["told_all"]


def test_what_retention_dropped_is_no_finding(stories: Stories, settings: Any):
    """Every settled execution that may be one is a tombstone: its receipts, approvals and digests still agree."""
    settings.EFFECTS = {"EXECUTION_RETENTION": timedelta(microseconds=1)}
    while transitions.list_prunable(100):
        assert SWEEPS["prune"].run_once()["executions"]
    assert Execution.objects.filter(pruned_at__isnull=False).count() >= 3
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


@pytest.mark.parametrize(
    "ours",
    ["ffecadcfaf7c9a0d9452a463b8cf2bc621e05e9e5a9bec4313482388637c9816", "8512e1c3-679c-4eb9-8368-819733520632"],
)
def test_our_own_digests_and_ids_are_no_card_numbers(ours: str):
    """A receipt keeps them as they are, although their digits pass the check of a card number."""
    assert canonical.clean_json({"digest": ours}) == {"digest": ours}
    assert canonical.clean_text("4313482388637") == "*********8637"


def test_contents_that_nobody_was_left_to_approve_anew_are_no_finding(monkeypatch: pytest.MonkeyPatch):
    """The price changed after the grant, the only approver has left: it ends with what people were shown."""
    bob = person("bob")
    row = asked(Ruled, by=person("ann"))
    approve(row, bob)
    monkeypatch.setattr(Ruled, "price", "11.00")
    type(bob).objects.filter(pk=bob.pk).update(is_active=False)
    run_due()
    row.refresh_from_db()
    assert (row.state, row.failure_code, row.summary["facts"]) == ("rejected", "nobody_entitled", [["price", "10.00"]])
    assert audited()["findings"] == []
