"""After a restore: what may have been sent since the backup is put in doubt, state by state and as a story."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

import effects
from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.journal import locks
from effects.models import Approval, Attempt, Execution, Receipt, Request
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.types import monotonic
from tests.audit.journals import PAYLOAD, audited, opened, perform
from tests.core.declared import Charge, Deduplicated, Order, Plain, Ruled
from tests.core.people import approve, asked, live, person

pytestmark = pytest.mark.django_db(transaction=True)
TABLES = ("request", "execution", "requestexecution", "approval", "approvalvote", "attempt", "receipt", "resolution")


class Backup:
    """A copy of the journal, made now; `restore` forgets whatever was committed since."""

    def __init__(self) -> None:
        self.at = locks.now()
        self._run("CREATE TEMP TABLE backup_{0} AS TABLE effects_{0}")

    def restore(self) -> None:
        with transaction.atomic():
            self._run("TRUNCATE effects_{0} CASCADE")
            self._run("INSERT INTO effects_{0} SELECT * FROM backup_{0}")
        self._run("DROP TABLE backup_{0}")

    @staticmethod
    def _run(sql: str) -> None:
        with connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(sql.format(table))


def doubt(since: datetime, *arguments: str) -> dict[str, Any]:
    """Run the command with --json and return its object."""
    out = io.StringIO()
    call_command("effects_doubt_since", since.isoformat(), "--json", *arguments, stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return report


def permitted(effect: Any, key: str) -> Execution:
    """Permit a send whose process is never heard of again."""
    ref = effects.perform_later(effect, payload=PAYLOAD, key=key).ref
    row = Execution.objects.get(pk=ref)
    assert transitions.permit(row.pk, attempt=row.pk, started=monotonic(), summary=row.summary).permit
    return Execution.objects.get(pk=ref)


def pending() -> Execution:
    return Execution.objects.get(pk=effects.perform_later(Order, payload=PAYLOAD, key="k1").ref)


def awaiting() -> Execution:
    person("approver")
    return asked(Ruled, by=person("clerk", approver=False))


def granted() -> Execution:
    approver = person("approver")
    row = asked(Ruled, by=person("clerk", approver=False))
    approve(row, approver)
    return row


def executing() -> Execution:
    return permitted(Order, "k1")


def uncertain() -> Execution:
    return Execution.objects.get(pk=perform(Charge, "k1", TimeoutError))


def accepted() -> Execution:
    return Execution.objects.get(pk=perform(Order, "k1", effects.Submitted("or_1")))


def ordered() -> Execution:
    row = Execution.objects.get(pk=perform(Plain, "k1", TimeoutError))
    run_due()
    row.refresh_from_db()
    effects.order_resend(row.pk, revision=row.revision, by="me", reason="it is not there")
    return row


EXPOSED: list[tuple[Callable[[], Execution], str]] = [
    (pending, "uncertain"),
    (awaiting, "uncertain"),
    (granted, "uncertain"),
    (executing, "uncertain"),
    (uncertain, "uncertain"),
    (accepted, "accepted"),
    (ordered, "needs_intervention"),
]


@pytest.mark.parametrize(("make", "state"), EXPOSED, ids=[make.__name__ for make, _ in EXPOSED])
def test_what_may_have_been_sent_is_in_doubt_until_now(make: Callable[[], Execution], state: str):
    """Each unsettled state: it may have applied, no licence is live, barrier and epoch move, a receipt tells it."""
    row = make()
    row.refresh_from_db()
    was, since = row.state, locks.now()
    doubt(since, "--apply")
    row.refresh_from_db()
    assert row.state == state
    assert row.may_have_applied
    assert row.exposed_until > since
    assert row.epoch >= 10_000
    assert row.lease_expires_at is None
    assert row.first_sent_at is not None
    assert not Approval.objects.filter(execution=row, state__in=["requested", "granted"]).exists()
    assert not Attempt.objects.filter(execution=row, outcome="open").exists()
    told = Receipt.objects.filter(execution=row).latest("sequence")
    assert (told.event, told.from_state) == ("doubt_since" if was != state else "extend_doubt", was)
    assert (row.due_at is None) == (state == "needs_intervention")
    assert audited()["findings"] == []


@pytest.mark.parametrize("make", [make for make, _ in EXPOSED], ids=[make.__name__ for make, _ in EXPOSED])
def test_twice_is_once(make: Callable[[], Execution]):
    """Repeated with the same time nothing changes, whatever became of it since; a dry run never changes anything."""
    row, since = make(), locks.now()
    before = Receipt.objects.count()
    assert sum(doubt(since)["executions"].values()) == 1
    assert Receipt.objects.count() == before
    doubt(since, "--apply")
    assert Receipt.objects.count() == before + 1
    assert doubt(since, "--apply")["executions"] == {}
    with provider_says(Order, effects.Applied(1, "or_1"), look_up=effects.Found("or_1")):
        run_due()
    receipts = Receipt.objects.count()
    assert doubt(since, "--apply")["executions"] == {}
    transitions.doubt_since(row.pk, since=since, until=locks.now())
    assert Receipt.objects.count() == receipts


def test_a_second_restore_doubts_again():
    """What was put in doubt by one restore may have been sent before the next one."""
    row = uncertain()
    doubt(locks.now(), "--apply")
    assert doubt(locks.now(), "--apply")["executions"] == {"uncertain": 1}
    assert Receipt.objects.filter(execution=row, event="extend_doubt").count() == 2


def test_an_earlier_time_than_the_first_one_doubts_again():
    """A time that was said too late is corrected by saying it again: the key may have been used earlier."""
    row = pending()
    late = locks.now()
    doubt(late, "--apply")
    early = row.created_at - timedelta(hours=1)
    assert doubt(early, "--apply")["executions"] == {"uncertain": 1}


def test_what_was_recorded_after_the_restore_is_left_alone():
    """Run again while work goes on, the command leaves alone what no lost commit can have known."""
    pending()
    since = locks.now()
    doubt(since, "--apply")
    later = effects.perform_later(Charge, payload=PAYLOAD, key="later").ref
    assert doubt(since, "--apply")["executions"] == {}
    assert effects.get(later).state == "pending"


def test_what_could_not_be_sent_yet_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """A due time or an approval's window that lies ahead cannot have licensed a send."""
    with provider_says(Order, effects.NotNow("later", retry_after=timedelta(hours=1))):
        waits = effects.perform(Order, payload=PAYLOAD, key="k1").ref
    opens = locks.now() + timedelta(days=1)
    rule = effects.ApprovalRule(approvers="effects.approve_execution", not_before=opens)
    monkeypatch.setattr(Ruled, "rule", rule)
    row = awaiting()
    assert doubt(locks.now(), "--apply")["executions"] == {}
    assert effects.get(waits).state == "pending"
    assert live(row).state == "requested"


def test_what_is_settled_is_left_alone_and_told():
    """Settled rows keep their evidence; that a lost successor may exist is told to a person."""
    perform(Charge, "k1", effects.Applied(1, "ch_1"))
    perform(Plain, "k2", effects.Declined("no"))
    before = Receipt.objects.count()
    report = doubt(locks.now() - timedelta(days=1), "--apply")
    assert report["executions"] == {}
    assert report["settled"] == {"completed": 1, "failed": 1}
    assert any("superseded" in note for note in report["notes"])
    assert Receipt.objects.count() == before


def test_a_running_request_is_a_persons():
    """Its handler may have sent more than the links show: its key stays taken and nothing answers it but a person."""
    handle = opened("k1")
    assert doubt(locks.now(), "--apply")["requests"] == {"running": 1}
    row = Request.objects.get()
    assert (row.state, row.reason, row.is_opaque, row.due_at) == ("in_doubt", "handler_failed", True, None)
    assert row.holds_key
    with pytest.raises(effects.EffectsError):
        transitions.conclude(handle.id, epoch=handle.epoch, answer=StoredAnswer(201, (), b"{}"))
    run_due()
    assert Request.objects.get().state == "in_doubt"
    assert audited()["findings"] == []


def send_after_a_backup_and_restore(make: Callable[[], Execution], send: Callable[[Execution], object]) -> Backup:
    """Record, back up, send, and lose all that was committed since the backup."""
    row = make()
    backup = Backup()
    send(row)
    assert effects.get(row.pk).state == "completed"
    backup.restore()
    return backup


def test_what_was_sent_after_the_backup_is_found_and_never_sent_again():
    """The story: recorded, backed up, sent, restored, doubted; the look-up finds it and it completes once."""
    with provider_says(Order, effects.Applied(1, "or_1"), look_up=effects.Found("or_1", 1)) as said:
        backup = send_after_a_backup_and_restore(pending, lambda row: run_due())
        assert effects.get(Execution.objects.get().pk).state == "pending"
        doubt(backup.at, "--apply")
        run_due()
    assert len(said.sends) == 1
    assert Execution.objects.get().state == "completed"
    assert audited()["findings"] == []


def test_without_it_the_same_restore_sends_twice():
    """The control: the restored journal alone sends what it does not know to be sent."""
    with provider_says(Order, effects.Applied(1, "or_1"), look_up=effects.Found("or_1", 1)) as said:
        send_after_a_backup_and_restore(pending, lambda row: run_due())
        run_due()
    assert len(said.sends) == 2


def test_a_licence_that_was_spent_after_the_backup_licenses_nothing_again():
    """Granted before the backup, spent after it: found, or people are asked anew; the old grant is worth nothing."""
    with provider_says(Ruled, effects.Applied(1, "ru_1"), look_up=effects.Absent()) as said:
        backup = send_after_a_backup_and_restore(granted, lambda row: run_due())
        doubt(backup.at, "--apply")
        run_due()
        assert Execution.objects.get().state == "uncertain"  # absence is not believed before the barrier
        time_passes(timedelta(minutes=2))
        run_due()
    assert len(said.sends) == 1
    assert Execution.objects.get().state == "awaiting_approval"
    assert sorted(Approval.objects.values_list("state", flat=True)) == ["lapsed", "requested"]


def test_what_was_not_sent_is_sent_once_the_barrier_has_passed():
    """Proven absent after the barrier, under the same provider key."""
    with provider_says(Order, effects.Applied(1, "or_1"), look_up=effects.Absent()) as said:
        row = pending()
        doubt(locks.now(), "--apply")
        run_due()
        assert not said.sends
        time_passes(timedelta(minutes=2))
        run_due()
    assert [permit.provider_key for _, permit in said.sends] == [row.provider_key]
    assert Execution.objects.get().state == "completed"


def test_without_a_look_up_it_is_a_persons():
    """Where nobody can be asked and repeating is not safe, a person decides."""
    ref = effects.perform_later(Plain, payload=PAYLOAD, key="k1").ref
    doubt(locks.now(), "--apply")
    run_due()
    assert effects.get(ref).state == "needs_intervention"


@pytest.mark.parametrize(
    ("lost", "state"), [(timedelta(hours=1), "completed"), (timedelta(hours=24), "needs_intervention")]
)
def test_a_deduplicated_one_is_repeated_within_its_keys_lifetime(lost: timedelta, state: str):
    """The lifetime counts from the earliest instant at which a lost commit may have used the key."""
    ref = effects.perform_later(Deduplicated, payload=PAYLOAD, key="k1").ref
    time_passes(timedelta(days=2))
    with provider_says(Deduplicated, effects.Applied(1, "de_1")):
        doubt(locks.now() - lost, "--apply")
        run_due()
    assert effects.get(ref).state == state


def test_a_look_up_that_lived_through_the_restore_is_not_believed():
    """Its claim was lost and its epoch is given again: the leap keeps the two apart."""
    row = uncertain()
    backup = Backup()
    survivor = transitions.claim(row.pk)
    assert survivor is not None
    backup.restore()
    doubt(backup.at, "--apply")
    time_passes(timedelta(minutes=10))
    assert transitions.claim(row.pk) is not None
    transitions.apply_verdict(row.pk, epoch=survivor.epoch, verdict=effects.Absent())
    assert effects.get(row.pk).state == "uncertain"


def test_people_read_what_it_would_do():
    """Without --json and --apply: what would change, and what no row stands for."""
    pending()
    out = io.StringIO()
    call_command("effects_doubt_since", locks.now().isoformat(), stdout=out)
    assert "Would be put in doubt (--apply does it)" in out.getvalue()
    assert "executions: 1 pending" in out.getvalue()
    assert "compare the provider's ledger" in out.getvalue().lower().replace("\n", " ")
    assert Execution.objects.get().state == "pending"


def test_batches_reach_every_row():
    """A batch bounds what is read at once, not what is done."""
    for number in range(5):
        effects.perform_later(Order, payload=PAYLOAD, key=f"k{number}")
    assert doubt(locks.now(), "--apply", "--batch", "2")["executions"] == {"pending": 5}
    assert set(Execution.objects.values_list("state", flat=True)) == {"uncertain"}


@pytest.mark.parametrize("wrong", ["2026-03-01T12:00:00", "24h", "2999-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_meant_is_refused(wrong: str):
    """A time without a zone, a duration (it moves between two runs), and a time ahead."""
    with pytest.raises(CommandError):
        call_command("effects_doubt_since", wrong, "--apply")
