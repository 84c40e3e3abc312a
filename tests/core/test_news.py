"""News from a provider, as webhooks bring it: twice, late, out of order, in every state."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

import effects
from effects import transitions
from effects.inspection import audit
from effects.journal.locks import now as clock
from effects.models import Execution, Receipt
from effects.models.base import new_id
from effects.runtime import background, operators
from effects.testing import provider_says, run_due, time_passes
from effects.transitions import News, Says
from effects.transitions import news as transitions_news
from effects.transitions.lookups import LOOKUP_BUDGET
from effects.vocabulary import exceptions
from effects.vocabulary.states import ExecutionState
from effects.vocabulary.types import monotonic
from tests.core.declared import Approved, Charge, Deduplicated
from tests.core.people import PAYLOAD, person
from tests.core.racing import PATIENCE, held, in_thread, together, wait_until_blocked
from tests.core.unlocked import remove_locks

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def row_of(outcome: Any) -> Execution:
    return Execution.objects.get(pk=outcome.ref)


def performed(*answers: Any, effect: Any = Charge) -> Execution:
    with provider_says(effect, *answers):
        return row_of(effects.perform(effect, payload=PAYLOAD, key="k1", requested_by="ann"))


def looked_up(row: Execution, verdict: Any) -> Execution:
    with provider_says(Charge, look_up=verdict):
        return Execution.objects.get(pk=background.look_up(row.pk, now=True).id)


def pending() -> Execution:
    return row_of(effects.perform_later(Charge, payload=PAYLOAD, key="k1"))


def awaiting_approval() -> Execution:
    person("bob")
    return performed(effect=Approved)


def executing() -> Execution:
    row = pending()
    transitions.permit(row.pk, attempt=new_id(), started=monotonic(), summary=row.summary)
    row.refresh_from_db()
    return row


def uncertain() -> Execution:
    """Return one that is not due for a while."""
    return looked_up(performed(TimeoutError()), effects.Inconclusive())


def accepted() -> Execution:
    """Return one that is not due for a while."""
    return looked_up(performed(effects.Submitted("ch_1")), effects.InProgress("ch_1"))


def needs_intervention() -> Execution:
    return looked_up(performed(TimeoutError()), effects.Conflict("something else was found"))


def completed() -> Execution:
    return performed(effects.Applied(None, "ch_1"))


def partially_completed() -> Execution:
    items = (effects.Item("a", applied=True), effects.Item("b", applied=False))
    return performed(effects.Partial(items, reference="ch_1"))


def failed() -> Execution:
    return performed(effects.Declined("no"))


def rejected() -> Execution:
    return Execution.objects.get(pk=operators.cancel(pending().pk, by="ann", reason="not needed").id)


def abandoned() -> Execution:
    row = needs_intervention()
    operators.resolve(row.pk, decision="unknown", revision=row.revision, by="ann", reason="nobody knows")
    row.refresh_from_db()
    return row


IN: dict[str, Callable[[], Execution]] = {
    make.__name__: make
    for make in (
        pending, awaiting_approval, executing, accepted, uncertain, needs_intervention, completed, partially_completed,
        failed, rejected, abandoned,
    )
}  # fmt: skip
#: What becomes of a row in that state: nothing, evidence is kept, a look-up is due, a person is needed, it is too soon.
NOTHING, KEPT, DUE, PERSON, SOON = "nothing", "kept", "due", "person", "too soon"
EXPECTED: dict[Says, dict[str, str]] = {
    Says.HAPPENED: {
        "pending": PERSON, "awaiting_approval": PERSON, "executing": KEPT, "accepted": DUE, "uncertain": DUE,
        "needs_intervention": KEPT, "completed": NOTHING, "partially_completed": NOTHING, "failed": PERSON,
        "rejected": PERSON, "abandoned": PERSON,
    },
    Says.UNDONE: {
        "pending": NOTHING, "awaiting_approval": NOTHING, "executing": SOON, "accepted": DUE, "uncertain": DUE,
        "needs_intervention": KEPT, "completed": PERSON, "partially_completed": PERSON, "failed": NOTHING,
        "rejected": NOTHING, "abandoned": NOTHING,
    },
    Says.UNDER_WAY: {
        **dict.fromkeys(IN, NOTHING), "uncertain": DUE,
        "pending": PERSON, "awaiting_approval": PERSON, "rejected": PERSON,
    },
    Says.CHANGED: {**dict.fromkeys(IN, NOTHING), "uncertain": DUE, "accepted": DUE},
}  # fmt: skip


def news(says: Says, reference: str = "ch_1", id: str = "evt_1") -> News:  # noqa: A002
    return News(id, says, reference, {"type": "charge.updated"})


def hear(row: Execution, says: Says, *more: str) -> Any:
    """Hear it, and read the row again."""
    heard = operators.hear(row.pk, news(says, *more))
    row.refresh_from_db()
    return heard


def test_the_table_has_every_state() -> None:
    """Each state of the machine, for each thing that news can say."""
    assert set(IN) == {str(state) for state in ExecutionState}
    assert all(set(EXPECTED[says]) == set(IN) for says in Says)


@pytest.mark.parametrize("says", Says)
@pytest.mark.parametrize("state", IN)
def test_what_news_does(says: Says, state: str) -> None:
    """A hint to look, evidence, or a person's matter; heard a second time it changes nothing."""
    row = IN[state]()
    assert row.state == state
    before, expected = (row.revision, row.receipt_count, row.due_at), EXPECTED[says][state]
    if expected is SOON:
        with pytest.raises(exceptions.TooSoonError, match="say again"):
            hear(row, says)
        row.refresh_from_db()
        assert (row.revision, row.receipt_count, row.due_at) == before
        return
    heard = hear(row, says)
    assert (heard is None) == (expected is NOTHING)
    assert row.state == ("needs_intervention" if expected is PERSON else state)
    if expected is NOTHING:
        assert (row.revision, row.receipt_count, row.due_at) == before
    else:
        kept = Receipt.objects.get(execution=row, sequence=row.receipt_count).evidence
        assert (kept["event"], kept["says"], kept["reference"]) == ("evt_1", says.value, "ch_1")
    if expected is DUE:
        assert row.due_at <= timezone.now() < before[2]
    now = Execution.objects.filter(pk=row.pk).values().get()
    assert operators.hear(row.pk, news(says)) is None
    assert Execution.objects.filter(pk=row.pk).values().get() == now
    assert not list(audit.audit(audit.Scope(clock()), Counter()))


@pytest.mark.parametrize("says", [Says.UNDONE, Says.UNDER_WAY, Says.CHANGED])
@pytest.mark.parametrize("state", ["accepted", "uncertain", "needs_intervention"])
def test_only_success_is_proof_of_success(says: Says, state: str) -> None:
    """What is under way, or was refused, puts no proof on file that no absence could pass."""
    row = IN[state]()
    hear(row, says)
    assert row.applied_evidence is None


def test_proof_is_looked_into() -> None:
    """The look-up that news makes due completes it, long before its own time."""
    row = uncertain()
    assert row.due_at - timezone.now() > timedelta(minutes=4)
    hear(row, Says.HAPPENED)
    with provider_says(Charge, look_up=effects.Found("ch_1")) as said:
        run_due()
    row.refresh_from_db()
    assert (row.state, row.reason, len(said.look_ups)) == ("completed", "found", 1)


@pytest.mark.parametrize(("says", "state"), [(Says.HAPPENED, "completed"), (Says.UNDER_WAY, "completed"),
                                             (Says.HAPPENED, "accepted"), (Says.UNDER_WAY, "accepted")])  # fmt: skip
def test_two_references_are_a_persons(says: Says, state: str) -> None:
    """A second object under one key, done or on its way, may be a second payment."""
    row = IN[state]()
    hear(row, says, "ch_2")
    assert row.state == "needs_intervention"
    assert "two references" in Receipt.objects.get(execution=row, sequence=row.receipt_count).evidence["why"]
    assert hear(row, says, "ch_2") is None


def test_a_second_reference_that_was_refused_is_one_that_was_undone() -> None:
    """Of something completed a person hears it; nobody can say that it never was a success."""
    row = completed()
    hear(row, Says.UNDONE, "ch_2")
    assert (row.state, row.applied_evidence["undone"]) == ("needs_intervention", True)


def test_undone_stays_undone_whatever_comes_later() -> None:
    """Success that is told after the undoing is older news; an undoing that a person has weighed is known."""
    row = completed()
    hear(row, Says.UNDONE, "ch_1", "evt_2")
    assert hear(row, Says.HAPPENED, "ch_1", "evt_1") is None
    operators.resolve(row.pk, decision="undone", revision=row.revision, by="ann", reason="the bank returned it")
    assert hear(row, Says.UNDONE, "ch_1", "evt_3") is None
    assert hear(row, Says.HAPPENED, "ch_1", "evt_4") is None
    assert (row.state, row.reason) == ("completed", "undone")


def test_undone_after_proof_before_the_look_up() -> None:
    """Proof and undoing both arrive while nobody has looked: the look-up's refusal conflicts with the proof."""
    row = uncertain()
    hear(row, Says.HAPPENED, "ch_1", "evt_1")
    hear(row, Says.UNDONE, "ch_1", "evt_2")
    time_passes(HOUR)
    with provider_says(Charge, look_up=effects.ProvenFailed("returned")):
        run_due()
    row.refresh_from_db()
    assert (row.state, row.reason) == ("needs_intervention", "conflict")


def test_undone_of_what_a_person_has_with_proof_is_kept_once() -> None:
    """Two references were a person's already; that one was returned is on file beside them."""
    row = completed()
    hear(row, Says.HAPPENED, "ch_2", "evt_1")
    hear(row, Says.UNDONE, "ch_2", "evt_2")
    assert row.applied_evidence["undone"] is True
    assert hear(row, Says.UNDONE, "ch_2", "evt_3") is None


def test_undone_while_a_look_up_is_under_way_is_too_soon() -> None:
    """The look-up may have asked before it was undone, and would complete it."""
    row = uncertain()
    assert transitions.claim(row.pk, now=True)
    with pytest.raises(exceptions.TooSoonError):
        hear(row, Says.UNDONE)
    assert hear(row, Says.CHANGED) is None


def test_however_much_is_told_no_patience_is_used_up() -> None:
    """Each piece of news has one look-up done out of turn; those in turn alone lead to a person."""
    row = performed(TimeoutError())
    time_passes(HOUR)
    for count in range(LOOKUP_BUDGET + 1):
        row = looked_up(row, effects.Inconclusive())
        assert hear(row, Says.CHANGED, "ch_1", f"evt_{count}") is not None
    assert row.state == "uncertain"
    for _ in range(LOOKUP_BUDGET):
        row = looked_up(row, effects.Inconclusive())
    assert (row.state, row.reason) == ("needs_intervention", "budget_spent")


def test_what_is_due_is_soon_enough() -> None:
    """A look-up that is due already is not written down a second time."""
    row = performed(TimeoutError())
    assert hear(row, Says.CHANGED) is None


def test_nothing_is_sent_sooner() -> None:
    """Where nobody can be asked, due means sent again: it is kept for a person, and the time stays as it was."""
    row = performed(effects.Doubt("busy", retry_after=HOUR), effect=Deduplicated)
    due = row.due_at
    assert hear(row, Says.UNDONE) is not None
    assert (row.due_at, row.receipts.last().evidence["says"]) == (due, "undone")
    assert hear(row, Says.UNDONE) is None


def test_news_of_two_things_under_one_id_are_two() -> None:
    """One event may show two objects of one execution."""
    row = uncertain()
    hear(row, Says.HAPPENED, "ch_1")
    hear(row, Says.HAPPENED, "ch_2")
    assert (row.state, row.reason) == ("needs_intervention", "conflict")


def test_ids_that_are_redacted_are_not_taken_for_each_other(settings: Any) -> None:
    """Where the project redacts the ids of events, two of them look alike, and both are heard."""
    settings.EFFECTS = {
        "DISPATCH": "none", "REDACTOR": lambda text, place: "[id]" if text.startswith("evt_") else text,
    }  # fmt: skip
    row = uncertain()
    hear(row, Says.CHANGED, "ch_1", "evt_1")
    row = looked_up(row, effects.Inconclusive())
    assert hear(row, Says.CHANGED, "ch_1", "evt_2") is not None


def test_evidence_cannot_speak_for_the_news() -> None:
    """What an event holds replaces neither its id nor what it says."""
    told = replace(news(Says.HAPPENED), evidence={"event": "evt_9", "says": "undone"})
    row = uncertain()
    operators.hear(row.pk, told)
    assert Receipt.objects.filter(execution=row, evidence__event="evt_1", evidence__says="happened").exists()


@pytest.mark.parametrize("attempts", [1, 5])
def test_under_way_after_an_absence_that_was_believed(attempts: int) -> None:
    """The look-up had missed it: nothing is sent again, and nobody is told that a new key is safe."""
    row = performed(TimeoutError())
    Execution.objects.filter(pk=row.pk).update(attempts=attempts)
    time_passes(HOUR)
    row = looked_up(row, effects.Absent())
    assert row.state == ("pending" if attempts == 1 else "failed")
    hear(row, Says.UNDER_WAY)
    assert (row.state, row.reason, row.applied_evidence) == ("needs_intervention", "contradicted", None)
    with provider_says(Charge) as said:
        run_due()
    assert said.sends == []


def test_a_second_one_under_way_is_no_proof_that_a_first_one_happened() -> None:
    """Both may be refused yet, and then a person can say that nothing happened."""
    row = accepted()
    hear(row, Says.UNDER_WAY, "ch_2")
    assert (row.state, row.reason, row.applied_evidence) == ("needs_intervention", "conflict", None)
    hear(row, Says.UNDONE, "ch_2", "evt_2")
    hear(row, Says.UNDONE, "ch_1", "evt_3")
    time_passes(HOUR)
    operators.resolve(row.pk, decision="not_applied", revision=row.revision, by="ann", reason="both were refused")
    row.refresh_from_db()
    assert row.state == "failed"


def test_a_late_reply_is_older_than_the_undoing() -> None:
    """The sender was given up, its payment returned and told of, and then it reports success: looked into."""
    row = executing()
    attempt = row.attempt_rows.get().pk
    time_passes(HOUR)
    transitions.expire_lease(row.pk)
    looked_up(row, effects.Inconclusive())
    assert hear(row, Says.UNDONE) is not None
    transitions.late_outcome(row.pk, attempt=attempt, report=effects.Applied(None, "ch_1"))
    row.refresh_from_db()
    assert (row.state, row.applied_evidence["reference"]) == ("uncertain", "ch_1")


def test_found_after_it_was_told_undone_is_a_persons() -> None:
    """As the other way round: news that is final, and a list that may lag, do not agree."""
    row = uncertain()
    hear(row, Says.UNDONE)
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    row.refresh_from_db()
    assert (row.state, row.reason, row.applied_evidence["undone"]) == ("needs_intervention", "conflict", True)
    assert hear(row, Says.UNDONE) is None


def test_another_one_than_was_undone_is_found() -> None:
    """What was told is about one object; a look-up that finds another completes it."""
    row = uncertain()
    hear(row, Says.UNDONE, "ch_0")
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    row.refresh_from_db()
    assert row.state == "completed"


def test_an_answer_repeated_under_its_key_is_older_than_the_undoing() -> None:
    """A provider that deduplicates repeats its first answer, whatever became of the object since."""
    row = performed(TimeoutError(), effect=Deduplicated)
    hear(row, Says.UNDONE)
    time_passes(HOUR)
    with provider_says(Deduplicated, effects.Applied(None, "ch_1")):
        run_due()
    row.refresh_from_db()
    assert (row.attempts, row.state, row.reason) == (2, "needs_intervention", "conflict")


@pytest.mark.django_db(transaction=True)
def test_twice_at_one_instant() -> None:
    """Both deliveries wait for the row; one is heard."""
    row = uncertain()
    receipts = row.receipt_count
    heard = together(*[lambda: operators.hear(row.pk, news(Says.HAPPENED))] * 3)
    row.refresh_from_db()
    assert [it is None for it in heard].count(False) == 1, heard
    assert row.receipt_count == receipts + 1


@pytest.mark.django_db(transaction=True)
def test_control_without_the_lock_both_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlocked, neither sees the other's receipt, and only the rule of the database stops the second."""
    row = uncertain()
    remove_locks(monkeypatch, racers=2, last="Execution")
    nobody_has_written = threading.Barrier(2)
    look = transitions_news._is_known

    def looked(row: Execution, told: News) -> bool:
        known = look(row, told)
        nobody_has_written.wait(PATIENCE)
        return known

    monkeypatch.setattr(transitions_news, "_is_known", looked)
    heard = together(*[lambda: operators.hear(row.pk, news(Says.HAPPENED))] * 2)
    assert [type(it) for it in heard if isinstance(it, Exception)] == [IntegrityError]


@pytest.mark.django_db(transaction=True)
def test_while_the_send_is_open() -> None:
    """The provider tells of it before the sender has: it is completed once, by the sender."""
    told: list[Any] = []

    def send(context: Any, permit: Any) -> Any:
        thread, heard = in_thread(lambda: operators.hear(context.ref, news(Says.HAPPENED)))
        thread.join()
        told.extend(heard)
        return effects.Applied(None, "ch_1")

    row = performed(send)
    assert (told[0].state, row.state, row.reason) == ("executing", "completed", "sent")
    assert operators.hear(row.pk, news(Says.HAPPENED)) is None


@pytest.mark.django_db(transaction=True)
def test_while_the_outcome_is_being_recorded() -> None:
    """It waits for the row, and then finds the outcome: nothing is new."""
    row = executing()
    epoch, attempt = row.epoch, row.attempt_rows.get().pk
    with held("effects_execution", row.pk) as second:
        sender, _ = in_thread(
            lambda: transitions.record_outcome(
                row.pk, attempt=attempt, epoch=epoch, report=effects.Applied(None, "ch_1")
            )
        )
        wait_until_blocked(1)
        hearer, heard = in_thread(lambda: operators.hear(row.pk, news(Says.HAPPENED)))
        wait_until_blocked(2)
        second.commit()
    sender.join()
    hearer.join()
    row.refresh_from_db()
    assert (row.state, heard) == ("completed", [None])
