"""How the sweep `prune` works: set by set, within its time, beside others and beside itself."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.utils import timezone

import effects
from effects import transitions
from effects.inspection import audit
from effects.journal.locks import now as clock
from effects.models import Execution, Receipt, Request
from effects.sweeps import prune
from effects.testing import provider_says, time_passes
from effects.transitions import tombstones
from effects.transitions._words import holds_words
from tests.core.counting import counted
from tests.core.declared import Noted, Plain
from tests.core.people import PAYLOAD
from tests.core.racing import PATIENCE, held, together
from tests.core.test_requests import conclude, opened
from tests.core.test_tombstones import WORDS, everything_of, rich

pytestmark = pytest.mark.django_db
YEAR = timedelta(days=365)
NO_TIME = timedelta(0)


@pytest.fixture(autouse=True)
def retention(settings: Any) -> None:
    """Settled executions keep their contents for a year, answers and keys for a day."""
    settings.EFFECTS = {
        "DISPATCH": "none", "EXECUTION_RETENTION": YEAR,
        "ANSWER_RETENTION": timedelta(days=1), "KEY_RETENTION": timedelta(days=1),
    }  # fmt: skip


def old(count: int, effect: Any = Plain) -> list[Execution]:
    """Return executions that completed a year and some days ago, the oldest first."""
    rows = []
    for number in range(count):
        with provider_says(effect, effects.Applied({"said": WORDS}, f"ch_{number}")):
            rows.append(Execution.objects.get(pk=effects.perform(effect, payload=PAYLOAD, key=f"k{number}").ref))
        time_passes(timedelta(seconds=1))
    time_passes(YEAR)
    return rows


def pruned_keys() -> list[str]:
    return list(Execution.objects.filter(pruned_at__isnull=False).order_by("key").values_list("key", flat=True))


def ticking() -> Callable[[], float]:
    """Return a clock that is a second later each time that it is read."""
    return itertools.count().__next__


# -- set by set ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [1, 4])
def test_a_batch_costs_one_commit_and_twelve_statements_however_many_rows_it_has(count: int) -> None:
    """The list, the lock, the second look, one update for each table, one insert of all receipts."""
    rows = [rich(f"k{number}") for number in range(count)]
    time_passes(YEAR + timedelta(days=1))
    with counted() as cost:
        found = transitions.list_prunable(100)
        assert transitions.prune_executions([one.id for one in found]) == count
    assert (cost.commits, cost.queries) == (1, 12), cost.statements
    for row in rows:
        text = everything_of(row)
        assert WORDS not in text
        assert "customer" not in text
    assert list(audit.audit(audit.Scope(now=clock()), Counter())) == []


def test_one_run_goes_on_until_nothing_is_due() -> None:
    """Batch after batch, whatever their size."""
    old(5)
    assert prune.run_once(2)["executions"] == 5
    assert pruned_keys() == ["k0", "k1", "k2", "k3", "k4"]
    assert not +prune.run_once(2)


@pytest.mark.parametrize(
    ("seconds", "keys"), [(0, ["k0"]), (1, ["k0"]), (2, ["k0", "k1"]), (4, ["k0", "k1", "k2", "k3"])]
)
def test_no_batch_begins_after_the_time_is_spent(seconds: int, keys: list[str]) -> None:
    """The first one does in any case, so that every run gets on, the oldest first; what is left comes next time."""
    old(5)
    prune.run_once(1, budget=timedelta(seconds=seconds), clock=ticking())
    assert pruned_keys() == keys


def test_answers_keys_and_executions_take_turns() -> None:
    """None of them waits for the others to be done."""
    old(3)
    for number in range(3):
        conclude(opened(f"c-{number}"))
    time_passes(timedelta(days=2))
    assert prune.run_once(1, budget=NO_TIME) == {"answers": 1, "keys": 1, "executions": 1, "kept": 0}
    assert +prune.run_once(1) == {"answers": 2, "keys": 2, "executions": 2}
    assert Request.objects.filter(holds_key=True).count() == 0


def test_what_is_still_needed_holds_up_nothing_behind_it() -> None:
    """However much of it is older: one run looks at each of them once."""
    rows = old(4)
    for row in rows[:2]:
        Execution.objects.filter(pk=row.pk).update(hook_due_at=timezone.now() + YEAR)
    effects.perform_later(Plain, payload=PAYLOAD, key="open")
    Execution.objects.filter(key="open").update(compensates=rows[2].pk)
    assert prune.run_once(1)["executions"] == 1
    assert pruned_keys() == ["k3"]


def test_rows_of_one_instant_are_each_pruned() -> None:
    """An import, or one transaction's clock: the place in the list is told by the id too."""
    old(5)
    Execution.objects.update(ages_from=timezone.now() - 2 * YEAR)
    assert prune.run_once(2)["executions"] == 5


# -- one row that raises -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [["k0"], ["k2"], ["k1", "k4"], ["k0", "k1", "k2", "k3", "k4"]])
def test_rows_that_raise_stop_no_other_and_come_again(bad: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """Wherever they stand in their batch: it is halved until each of them is alone, logged, and left whole."""
    old(5)
    Execution.objects.filter(key__in=bad).update(items=5)
    counts = prune.run_once(4)
    assert (counts["executions"], counts["errors"]) == (5 - len(bad), len(bad))
    assert set(pruned_keys()) == {"k0", "k1", "k2", "k3", "k4"} - set(bad)
    assert caplog.text.count("failed; it comes again later") == len(bad)
    Execution.objects.filter(key__in=bad).update(items=None)
    assert prune.run_once(4)["executions"] == len(bad)


def test_a_batch_that_is_interrupted_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends the process is no row's fault."""
    old(2)

    def killed(*_arguments: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(tombstones, "_drop_words", killed)
    with pytest.raises(SystemExit):
        prune.run_once(1)
    assert pruned_keys() == []


# -- beside others -------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_not_waited_for() -> None:
    """It is left for the next run, and the others of its batch are pruned."""
    rows = old(3)
    with held("effects_execution", rows[1].pk):
        assert prune.run_once()["executions"] == 2
        assert pruned_keys() == ["k0", "k2"]
    assert prune.run_once()["executions"] == 1


@pytest.mark.django_db(transaction=True)
def test_runs_at_one_instant_prune_each_row_once() -> None:
    """Two beats, a beat and a cron job."""
    old(7)
    results = together(*[lambda: prune.run_once(2)] * 3)
    assert sum(counts["executions"] for counts in results) + prune.run_once()["executions"] == 7
    assert not any(counts["errors"] for counts in results)
    assert Receipt.objects.filter(event="prune").count() == 7
    assert list(audit.audit(audit.Scope(now=clock()), Counter())) == []


@pytest.mark.django_db(transaction=True)
def test_without_their_lock_they_prune_the_same_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: both find it whole, and the second receipt has the first one's number."""
    (row,) = old(1)
    both_have_looked, drop = threading.Barrier(2), tombstones._drop_words

    def after_both(ids: list[Any]) -> None:
        both_have_looked.wait(PATIENCE)
        drop(ids)

    monkeypatch.setattr(tombstones, "lock_free_executions", lambda ids: (list(ids), clock()))
    monkeypatch.setattr(tombstones, "_drop_words", after_both)
    results = together(*[lambda: transitions.prune_executions([row.pk])] * 2)
    assert sorted(map(type, results), key=str) == sorted([int, IntegrityError], key=str)


def test_what_is_needed_since_it_was_listed_stays_whole() -> None:
    """The verb looks again under the lock: at the row, its requests and its relatives."""
    rows = old(3, Noted)
    ids = [one.id for one in transitions.list_prunable(10)]
    effects.observe(rows[0].pk, reference="other", evidence={})
    effects.perform_later(Plain, payload=PAYLOAD, key="open")
    Execution.objects.filter(key="open").update(supersedes=rows[1].pk)
    assert (len(ids), transitions.prune_executions(ids), pruned_keys()) == (3, 1, ["k2"])


# -- what the statements keep --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evidence", "kept"),
    [
        ({}, {}),
        ({"code": "x", "reason": WORDS}, {"code": "x"}),
        ({"code": {"x": WORDS}, "reference": [WORDS], "rule": None}, {}),
        ({"attempt": 1, "undone": True, "late": False, "decision": 1.5}, ...),
        ({"approval": {"approvers": "a.b", "quorum": 2}, "digest": "d"}, ...),
        ({"approval": None, "Code": "x", "codes": "x", "'; --": "x"}, {"approval": None}),
    ],
)
def test_a_receipt_keeps_what_proves(evidence: dict[str, Any], kept: Any) -> None:
    """By name and by type; and whatever is dropped counted as words when it was written."""
    (row,) = old(1)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL effects.retention = 'on'")
        Receipt.objects.filter(execution=row, event="record").update(evidence=evidence)
    prune.run_once()
    left = Receipt.objects.get(execution=row, event="record").evidence
    assert left == (evidence if kept is ... else kept)
    assert holds_words(evidence) == (left != evidence)


@pytest.mark.parametrize(
    ("proof", "kept"),
    [
        (None, None),
        ({}, {}),
        ({"reference": "ch_1", "said": WORDS}, {"reference": "ch_1"}),
        ({"reference": "", "undone": False, "other_reference": None}, {}),
        (
            {"reference": "a", "other_reference": "b", "undone": True, "x": 1},
            ["other_reference", "reference", "undone"],
        ),
    ],
)
def test_proof_on_file_keeps_its_references(proof: Any, kept: Any) -> None:
    """Whether there is some, whose it is, and whether it was undone."""
    (row,) = old(1)
    Execution.objects.filter(pk=row.pk).update(applied_evidence=proof)
    prune.run_once()
    row.refresh_from_db()
    assert row.applied_evidence == ({name: proof[name] for name in kept} if isinstance(kept, list) else kept)


def test_items_keep_their_order_and_lose_their_messages() -> None:
    """What happened to which is proof; what the provider said of it is words."""
    items = [effects.Item("b", applied=True, message=WORDS), effects.Item("a", applied=False, message=WORDS)]
    with provider_says(Plain, effects.Partial(items)):
        row = Execution.objects.get(pk=effects.perform(Plain, payload=PAYLOAD, key="k1").ref)
    assert row.items is not None
    time_passes(2 * YEAR)
    prune.run_once()
    left = Execution.objects.get(pk=row.pk)
    assert left.items == [{**item, "message": ""} for item in row.items]
    assert left.may_have_applied
