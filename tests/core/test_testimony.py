"""A person's evidence that says otherwise: what it contradicts, what it cannot, and whose word it stays."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

import effects
from effects.models import Approval, Execution, Receipt, Resolution
from effects.runtime import operators
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Charge, Plain
from tests.core.people import person

pytestmark = pytest.mark.django_db
PAYLOAD = {"customer": "c1", "amount": 5}
LATER = timedelta(hours=1)
BARE = {"by": "ann", "reason": "it is on the bank's statement of March 3rd"}


def again(ref: Any) -> Execution:
    return Execution.objects.get(pk=ref)


def doubtful(effect: Any = Plain, key: str = "k1") -> Execution:
    """Return what nobody knows about, past the time in which it may still land."""
    with provider_says(effect, TimeoutError("no answer")):
        ref = effects.perform(effect, payload=PAYLOAD, key=key).ref
    time_passes(LATER)
    return again(ref)


def resolved(decision: str, *, reference: str = "", effect: Any = Plain, key: str = "k1") -> Execution:
    """Return what a person decided."""
    row = doubtful(effect, key)
    operators.resolve(
        row.pk, decision=decision, revision=row.revision, by="zoe", reason="so it is", reference=reference
    )  # fmt: skip
    return again(row.pk)


def completed(key: str = "k1") -> Execution:
    with provider_says(Plain, effects.Applied(reference="ch_1")):
        return again(effects.perform(Plain, payload=PAYLOAD, key=key).ref)


def declined(key: str = "k1") -> Execution:
    with provider_says(Plain, effects.Declined("no")):
        return again(effects.perform(Plain, payload=PAYLOAD, key=key).ref)


def tell(row: Execution, reference: str = "re_9", **options: Any) -> Execution:
    """Bring evidence, and return the row."""
    effects.observe(row.pk, reference=reference, **{**BARE, **options})
    return again(row.pk)


@pytest.mark.parametrize(
    ("decision", "said", "on_file"),
    [
        ("not_applied", {}, "re_9"), ("not_applied", {"undone": True}, "re_9"),
        ("unknown", {}, "re_9"), ("unknown", {"undone": True}, "re_9"), ("unknown", {"not_applied": True}, None),
        ("applied", {"undone": True}, "re_9"), ("applied", {"not_applied": True}, None), ("applied", {}, "re_9"),
        ("undone", {}, "re_9"), ("undone", {"not_applied": True}, None),
    ],
)  # fmt: skip
def test_what_a_person_said_wrongly_is_a_persons_again(decision: str, said: dict[str, bool], on_file: Any) -> None:
    """Each word of a person has a way back, undone included; it may have happened until somebody decides anew."""
    row = tell(resolved(decision), **said)
    assert (row.state, row.reason, row.may_have_applied) == ("needs_intervention", "contradicted", True)
    assert (row.applied_evidence or {}).get("reference") == on_file
    receipt = Receipt.objects.latest("pk")
    assert (receipt.event, receipt.actor_id) == ("contradict", "ann")
    assert receipt.evidence["reason"] == BARE["reason"]
    assert Resolution.objects.latest("pk").decision == "evidence"


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("make", [completed, declined])
def test_what_a_provider_said_is_contradicted_too(make: Any, undone: bool) -> None:
    """Another reference beside a provider's "applied", or any beside its "no", is a person's; so is an undoing."""
    row = tell(make(), undone=undone)
    assert (row.state, row.reason) == ("needs_intervention", "contradicted")
    assert row.applied_evidence.get("undone", False) is undone


def test_a_provider_s_own_proof_is_not_denied_by_a_person() -> None:
    """What cannot be found is no evidence against it, in whatever state the proof is on file."""
    row = completed()
    with pytest.raises(exceptions.WrongStateError, match="own proof that it happened is on file"):
        tell(row, not_applied=True)
    contradicted = tell(row, "ch_2")
    with pytest.raises(exceptions.WrongStateError, match="own proof"):
        tell(contradicted, not_applied=True)
    heard = resolved("applied", reference="ch_1", key="k2")
    operators.observe(heard.pk, reference="ch_1", evidence={"from": "a webhook"})
    with pytest.raises(exceptions.WrongStateError, match="own proof"):
        tell(again(heard.pk), not_applied=True)


def test_outside_evidence_cannot_pass_for_a_person_s_word() -> None:
    """A webhook that holds the very mark is proof all the same, which no person takes off file."""
    row = doubtful()
    operators.observe(row.pk, reference="ch_1", evidence={"unchecked_word_of": "ann"})
    with pytest.raises(exceptions.WrongStateError, match="own proof"):
        tell(again(row.pk), not_applied=True)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (lambda: resolved("applied", reference="re_9"), {}),
        (lambda: resolved("undone", reference="re_9"), {"undone": True}),
        (lambda: resolved("not_applied"), {"not_applied": True}),
        (declined, {"not_applied": True}),
        (doubtful, {"not_applied": True}),
        (lambda: resolved("applied", reference="re_9"), {"reason": "  "}),
        (lambda: resolved("applied"), {"undone": True, "not_applied": True}),
        (lambda: resolved("applied"), {"by": None}),
    ],
)
def test_what_contradicts_nothing_is_refused_in_words(row: Any, said: dict[str, Any]) -> None:
    """What the row says already, what nobody said, and words without a person or a reason change nothing."""
    made = row()
    before = (again(made.pk).revision, Receipt.objects.count(), Resolution.objects.count())
    with pytest.raises(exceptions.EffectsError):
        tell(made, **said)
    assert (again(made.pk).revision, Receipt.objects.count(), Resolution.objects.count()) == before


def test_a_wrong_word_of_applied_ends_as_failed_and_the_project_s_row_follows() -> None:
    """Contradicted, resolved anew and hooked again with the earlier outcome; the wrong reference is gone."""
    heard: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Charge, "settled", lambda self, context, outcome: heard.append((context.previous, outcome)))
        row = tell(resolved("applied", reference="re_1", effect=Charge), "", not_applied=True)
        assert row.reference == ""
        operators.resolve(
            row.pk, decision="not_applied", revision=row.revision, by="ann", reason="the bank says no"
        )  # fmt: skip
    assert [outcome.state.value for _, outcome in heard] == ["completed", "failed"]
    assert heard[1][0].state.value == "completed"


def test_evidence_in_doubt_is_not_sent_over_and_can_be_taken_back() -> None:
    """An absence beside a person's word is a conflict and sends nothing; only a word is taken back, by a word."""
    row = doubtful(Charge)
    row = tell(row)
    assert (row.state, row.applied_evidence["unchecked_word_of"]) == ("uncertain", "ann")
    with provider_says(Charge, look_up=effects.Absent()) as said:
        run_due()
    row = again(row.pk)
    assert (row.state, row.reason, said.sends) == ("needs_intervention", "conflict", [])
    with pytest.raises(exceptions.WrongStateError, match="by the word of ann: bring evidence"):
        operators.resolve(row.pk, decision="not_applied", revision=row.revision, by="zoe", reason="no trace")
    row = tell(row, not_applied=True, by="zoe")
    assert (row.state, row.applied_evidence) == ("needs_intervention", None)
    operators.resolve(row.pk, decision="not_applied", revision=row.revision, by="zoe", reason="no trace")
    assert again(row.pk).state == "failed"


def test_a_look_up_that_finds_it_makes_proof_of_a_word() -> None:
    """Found under the same reference it is the provider's, which no person denies any more."""
    row = tell(doubtful(Charge), "ch_1")
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    row = again(row.pk)
    assert (row.state, row.reason) == ("completed", "found")
    assert effects.get(row.pk).outcome.unchecked_word_of == ""
    with pytest.raises(exceptions.WrongStateError, match="own proof"):
        tell(row, not_applied=True)


def test_what_waits_to_be_sent_is_not_sent_over_evidence(django_user_model: Any) -> None:
    """Its approval ends with it, so that nobody pays it a second time by approving."""
    person("ben")
    row = again(effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by="ann").ref)
    row = tell(row)
    assert (row.state, Approval.objects.get().state) == ("needs_intervention", "lapsed")


def test_a_successor_that_was_not_sent_yet_is_not_sent() -> None:
    """Asked again of what was said not to have happened, and evidence comes before it is sent: it is refused."""
    old = resolved("not_applied", effect=Charge)
    with provider_says(Charge, effects.NotNow("busy")):
        effects.perform(Charge, payload=PAYLOAD, key="k1", supersede=str(old.pk))
    tell(old)
    time_passes(LATER)
    with provider_says(Charge) as said:
        run_due()
    assert said.sends == []


@pytest.mark.parametrize("same", [True, False])
def test_evidence_sent_twice_is_one(same: bool) -> None:
    """By its id; and a second person's page of an earlier revision is refused."""
    row = resolved("not_applied")
    tell(row, revision=row.revision, decision_id="d1")
    if same:
        tell(row, revision=row.revision, decision_id="d1")
    else:
        with pytest.raises(exceptions.StaleRevisionError, match="you saw"):
            tell(row, revision=row.revision, decision_id="d2")
    assert Receipt.objects.filter(event="contradict").count() == 1


@pytest.mark.django_db(transaction=True)
def test_evidence_and_a_second_asking_meet_under_the_lock() -> None:
    """Of evidence and "ask again" at the same instant one is refused or both are known: nothing is sent unseen."""
    row = resolved("not_applied", effect=Charge)
    start, seen = threading.Barrier(2), list[str]()

    def meet(act: Any) -> None:
        start.wait()
        try:
            act()
            seen.append("done")
        except exceptions.EffectsError as error:
            seen.append(type(error).__name__)
        finally:
            connections.close_all()

    def ask() -> None:
        effects.perform(Charge, payload=PAYLOAD, key="k1", supersede=str(row.pk))

    with provider_says(Charge, effects.Applied(reference="ch_2")) as said:
        acts = [lambda: tell(row), ask]
        threads = [threading.Thread(target=meet, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert again(row.pk).state == "needs_intervention"
    assert len(said.sends) <= 1


def test_an_outcome_says_whose_word_it_is() -> None:
    """Of a person's `applied` the outcome names them; the reference of the evidence becomes the row's."""
    row = tell(resolved("unknown"))
    operators.resolve(row.pk, decision="applied", revision=row.revision, by="zoe", reason="ann's statement")
    outcome = effects.get(row.pk).outcome
    assert (outcome.reference, outcome.unchecked_word_of) == ("re_9", "zoe")
    assert "by the unchecked word of zoe" in outcome.describe()
    assert Receipt.objects.filter(event="resolve").latest("pk").evidence["unchecked_word_of"] == "zoe"
    assert effects.get(completed("k2").pk).outcome.unchecked_word_of == ""
