"""Look-ups: what each verdict does, when it is believed, and what people and outside evidence do beside them."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta
from datetime import timezone as tz
from typing import Any

import pytest
import requests
import stripe
from django.utils import timezone

import effects
from effects import transitions
from effects.models import Approval, Attempt, Execution, Receipt, Resolution
from effects.runtime import background, operators
from effects.testing import provider_says, run_due, time_passes
from effects.transitions.lookups import LONGEST_DELAY, LOOKUP_BUDGET
from effects.vocabulary import exceptions
from tests.core.declared import Charge, Cheap, Deduplicated, Order, Plain
from tests.core.items import DOUBTFUL_ITEMS
from tests.core.people import PAYLOAD
from tests.core.racing import OnSend

pytestmark = pytest.mark.django_db
QUIET = timedelta(minutes=6)
HOUR = timedelta(hours=1)
#: After it an accepted order is overdue, unless its provider named another instant.
WEEK = timedelta(days=7, minutes=1)
#: Longer than the wait before something in doubt is sent again on its own.
WAITED = timedelta(seconds=1)


def in_doubt(effect: Any = Charge, answer: Any = None) -> Execution:
    """Return an execution whose provider answered nothing, or took the order."""
    with provider_says(effect, answer or TimeoutError("no answer")):
        outcome = effects.perform(effect, payload=PAYLOAD, key="k1", requested_by="ann")
    return Execution.objects.get(pk=outcome.ref)


def accepted(effect: Any = Charge, **options: Any) -> Execution:
    """Return an execution whose order the provider took."""
    return in_doubt(effect, effects.Submitted("ch_1", **options))


def look(row: Execution, verdict: Any) -> Execution:
    """Look the execution up now, whether it is due or not."""
    with provider_says(row.operation, look_up=verdict):
        background.look_up(row.pk, now=True)
    return again(row)


def again(row: Execution) -> Execution:
    """Return the row as it is now."""
    return Execution.objects.get(pk=row.pk)


# -- verdicts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", [Charge, Order])
@pytest.mark.parametrize("start", [in_doubt, accepted])
def test_found_completes(effect: Any, start: Any) -> None:
    """The provider's own record is the proof, whenever it was asked for."""
    row = look(start(effect), effects.Found("ch_1", {"id": "ch_1"}))
    assert (row.state, row.reason, row.reference, row.expect_by) == ("completed", "found", "ch_1", None)
    assert effects.get(row.pk).outcome.require() == {"id": "ch_1"}


def test_found_with_items_that_did_not_all_apply_completes_in_part() -> None:
    """Each item says for itself what became of it."""
    items = (effects.Item("a", applied=True), effects.Item("b", applied=False, code="closed"))
    row = look(in_doubt(), effects.Found("batch_1", items=items))
    assert row.state == "partially_completed"
    assert [item.applied for item in effects.get(row.pk).outcome.items] == [True, False]


@pytest.mark.parametrize("effect", [Charge, Order])
def test_absent_after_the_barrier_frees_an_uncertain_one_for_a_send(effect: Any) -> None:
    """Nothing happened: pending again, with nothing that says that it may have."""
    row = in_doubt(effect)
    time_passes(QUIET)
    row = look(row, effects.Absent())
    assert (row.state, row.reason, row.may_have_applied) == ("pending", "absent", False)
    assert Attempt.objects.get().outcome == "not_applied"


def test_absent_with_no_attempt_left_fails() -> None:
    """Attempts count over the execution's life."""
    row = in_doubt()
    time_passes(QUIET)
    Execution.objects.update(attempts=5)
    row = look(row, effects.Absent())
    assert (row.state, row.reason) == ("failed", "attempts_spent")


def test_absent_after_acceptance_is_a_conflict_of_a_lagging_look_up() -> None:
    """The provider took the order; an index that does not show it proves nothing."""
    row = accepted(Charge)
    time_passes(WEEK)
    row = look(row, effects.Absent())
    assert (row.state, row.reason, row.may_have_applied) == ("needs_intervention", "conflict", True)


@pytest.mark.parametrize("start", [in_doubt, accepted])
def test_what_was_accepted_once_stays_so_for_a_lagging_look_up(start: Any) -> None:
    """In progress, in conflict, reopened by a person: "absent" is a conflict again, and nothing is sent anew."""
    row = look(start(), effects.InProgress("ch_1"))
    time_passes(WEEK)
    row = look(row, effects.Absent())
    operators.reopen(row.pk, revision=row.revision, by="ann", reason="look again")
    row = look(row, effects.Absent())
    assert (row.state, row.reason, row.may_have_applied) == ("needs_intervention", "conflict", True)


def test_a_late_word_that_the_order_was_taken_counts_as_acceptance() -> None:
    """The attempt was given up, and the provider has its order: a lagging index proves nothing against that."""
    row = in_doubt()
    time_passes(QUIET)
    transitions.late_outcome(row.pk, attempt=Attempt.objects.get().pk, report=effects.Submitted("ch_1"))
    row = look(row, effects.Absent())
    assert (row.state, row.reason) == ("needs_intervention", "conflict")


def test_absent_after_acceptance_is_believed_of_an_authoritative_look_up() -> None:
    """It reads what the provider itself acts on; the reference of what does not exist is dropped."""
    row = accepted(Order)
    time_passes(QUIET)
    row = look(row, effects.Absent())
    assert (row.state, row.reference, row.expect_by) == ("pending", "", None)
    with provider_says(Order, effects.Applied(None, "ch_2")):
        background.run(row.pk)
    assert again(row).reference == "ch_2"


@pytest.mark.parametrize(("effect", "start"), [(Charge, in_doubt), (Order, in_doubt), (Order, accepted)])
def test_proven_failed_fails(effect: Any, start: Any) -> None:
    """The provider's record shows that it was refused for good."""
    row = start(effect)
    time_passes(QUIET)
    row = look(row, effects.ProvenFailed("card_declined", "No funds"))
    assert (row.state, row.reason, row.failure_code) == ("failed", "proven_failed", "card_declined")
    assert not row.may_have_applied


FAR = datetime.max.replace(tzinfo=tz(-timedelta(hours=12)))


@pytest.mark.parametrize(
    "odd", [None, "soon", datetime(2030, 1, 1), FAR, datetime.min.replace(tzinfo=tz(timedelta(1) / 2))]
)
def test_an_instant_that_cannot_be_kept_is_as_good_as_none(odd: Any) -> None:
    """PostgreSQL would keep some that Python cannot read back, and nobody could read the row any more."""
    row = accepted(expect_by=odd)
    assert again(row).expect_by - row.created_at > timedelta(days=6)
    row = look(row, effects.InProgress("ch_1", expect_by=odd))
    assert (row.state, row.trouble) == ("accepted", "")


@pytest.mark.parametrize("proof", [None, [1], "text", {1: 2.5}])
@pytest.mark.parametrize(
    "kind", ["Found", "Absent", "ProvenFailed", "InProgress", "Inconclusive", "Unreachable", "Conflict"]
)
def test_an_odd_proof_is_kept_as_it_is(kind: str, proof: Any) -> None:
    """What a verdict says is recorded whatever its proof is made of."""
    words = {"Found": ("ch_1",), "ProvenFailed": ("declined",), "Conflict": ("odd",)}.get(kind, ())
    row = in_doubt()
    time_passes(QUIET)
    row = look(row, getattr(effects, kind)(*words, proof=proof))
    assert row.trouble == ""
    assert Receipt.objects.filter(execution=row).last().event != "claim"


@pytest.mark.parametrize("items", [5, ["a"], "ab", *DOUBTFUL_ITEMS])
def test_items_that_are_none_are_a_persons(items: Any) -> None:
    """Something was found, and what of it applied cannot be read."""
    row = look(in_doubt(), effects.Found("ch_1", items=items))
    assert (row.state, row.reason) == ("needs_intervention", "conflict")


def test_found_with_items_none_of_which_applied_did_not_happen() -> None:
    """The same as when the answer to the send itself says so; and before the barrier it is not believed either."""
    found = effects.Found("b_1", items=[effects.Item("a", applied=False, code="closed")])
    row = look(in_doubt(), found)
    assert row.state == "uncertain"
    time_passes(QUIET)
    row = look(row, found)
    assert (row.state, row.reason, row.failure_code) == ("failed", "proven_failed", "closed")


def raises(context: Any) -> Any:
    raise LookupError("a bug in verify")


@pytest.mark.parametrize("start", [in_doubt, accepted])
def test_in_progress_is_waited_for_until_it_is_overdue(start: Any) -> None:
    """Bank transfers take days: no person is called before `expect_by`, and one is called after it."""
    row = start()
    expect_by = timezone.now() + timedelta(days=3)
    for _ in range(20):
        row = look(row, effects.InProgress("ch_1", expect_by=expect_by))
        assert (row.state, row.reason, row.lookups_spent) == ("accepted", "in_progress", 0)
    time_passes(timedelta(days=3))
    row = look(row, effects.InProgress("ch_1"))
    assert (row.state, row.reason) == ("needs_intervention", "overdue")


@pytest.mark.parametrize(
    "verdict",
    [effects.Inconclusive("not booked yet"), effects.Absent(), raises],
    ids=["inconclusive", "absent", "raises"],
)
@pytest.mark.parametrize(
    ("start", "days"),
    [
        (lambda: accepted(expect_by=timezone.now() + timedelta(days=5)), 5),
        (lambda: accepted(expect_by=timezone.now() + timedelta(hours=2)), 1 / 12),
        (accepted, 7),
        (lambda: look(in_doubt(), effects.InProgress("ch_1")), 7),
        (lambda: look(accepted(), effects.InProgress("ch_1", timezone.now() + timedelta(days=30))), 30),
    ],
    ids=["5 days", "2 hours", "by default", "in progress", "moved"],
)
def test_while_an_order_is_awaited_nobody_is_called(start: Any, days: float, verdict: Any) -> None:
    """An order that takes days is not there yet: look-ups are spread over the time, and end in a person after it."""
    row, pauses = start(), []
    while row.expect_by > timezone.now():
        row = look(row, verdict)
        assert (row.state, row.lookups_spent) == ("accepted", 0)
        pauses.append(row.due_at - timezone.now())
        time_passes(max(pauses[-1], timedelta(days=days) / 20))
        row = again(row)
    # a look-up before the barrier could decide nothing, and an hour is short enough
    assert max(pauses) <= HOUR
    assert pauses[-1] >= min(HOUR, timedelta(days=days) / 12) - QUIET
    for _ in range(LOOKUP_BUDGET):
        row = look(row, verdict) if row.state == "accepted" else row
    assert row.state == "needs_intervention"
    assert row.reason == ("conflict" if isinstance(verdict, effects.Absent) else "budget_spent")


@pytest.mark.parametrize(
    "verdict", [effects.ProvenFailed("no"), effects.Conflict("another amount"), effects.Found("ch_2")]
)
def test_what_no_time_explains_is_a_persons_at_once(verdict: Any) -> None:
    """A refusal for good, another amount, another reference: nobody waits for the end of the week."""
    row = accepted()
    time_passes(QUIET)
    assert look(row, verdict).reason == "conflict"


def test_an_order_that_should_be_there_already_has_the_usual_budget() -> None:
    """The provider named an instant that is past."""
    row = accepted(expect_by=timezone.now() - HOUR)
    time_passes(QUIET)
    for _ in range(LOOKUP_BUDGET):
        row = look(row, effects.Inconclusive())
    assert row.reason == "budget_spent"


def test_an_unreachable_provider_spends_nothing_after_it_either() -> None:
    """It is evidence of nothing, before and after."""
    row = accepted()
    time_passes(WEEK)
    for _ in range(LOOKUP_BUDGET * 2):
        row = look(row, effects.Unreachable("down"))
    assert (row.state, row.lookups_spent) == ("accepted", 0)


def test_in_progress_without_a_date_is_expected_within_a_week() -> None:
    """Seven days after the attempt, unless somebody says otherwise."""
    row = look(in_doubt(), effects.InProgress("ch_1"))
    assert row.expect_by - row.exposed_until == timedelta(days=7)
    time_passes(timedelta(days=8))
    assert look(row, effects.InProgress("ch_1")).reason == "overdue"


@pytest.mark.parametrize("start", [in_doubt, accepted])
def test_a_conflict_is_a_persons(start: Any) -> None:
    """What was found has another amount."""
    row = look(start(), effects.Conflict("another amount", reference="ch_1", proof={"amount": 999}))
    assert (row.state, row.reason) == ("needs_intervention", "conflict")
    assert Receipt.objects.get(event="escalate").evidence["amount"] == 999


@pytest.mark.parametrize("verdict", [effects.Found("ch_2"), effects.InProgress("ch_2")])
def test_another_reference_than_the_accepted_one_is_a_conflict(verdict: Any) -> None:
    """Two references for one execution may be two payments."""
    row = look(accepted(), verdict)
    assert (row.state, row.reason, row.reference) == ("needs_intervention", "conflict", "ch_1")


def test_what_verify_returns_must_be_a_verdict() -> None:
    """A boolean is none, so a person reads what it means."""
    assert look(in_doubt(), True).reason == "conflict"


# -- when absence is believed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [effects.Absent(), effects.ProvenFailed("no")])
@pytest.mark.parametrize("start", [in_doubt, accepted])
def test_an_absence_before_the_barrier_is_not_believed(start: Any, verdict: Any) -> None:
    """A request may still land, and an index may lag: not even a conflict can be told; nothing is spent."""
    row = start()
    state = row.state
    row = look(row, verdict)
    assert (row.state, row.lookups_spent, row.may_have_applied) == (state, 0, True)
    assert row.due_at >= effects.get(row.pk).barrier_at


def test_an_absence_claimed_before_the_barrier_and_answered_after_it_is_not_believed() -> None:
    """What counts is when the look-up began."""
    row = in_doubt()
    claim = transitions.claim(row.pk)
    time_passes(QUIET)
    assert claim is not None
    transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent())
    assert again(row).state == "uncertain"


def test_an_absence_under_a_lease_that_was_taken_over_is_not_believed() -> None:
    """The look-up outlived its lease and woke after another claim; the other one's verdict counts."""
    row = in_doubt()
    time_passes(QUIET)
    first = transitions.claim(row.pk)
    time_passes(timedelta(minutes=1))
    second = transitions.claim(row.pk)
    assert first is not None
    assert second is not None
    transitions.apply_verdict(row.pk, epoch=first.epoch, verdict=effects.Absent())
    assert again(row).state == "uncertain"
    transitions.apply_verdict(row.pk, epoch=second.epoch, verdict=effects.Absent())
    assert again(row).state == "pending"


def test_a_lease_that_is_past_is_still_ours_until_somebody_takes_it_over() -> None:
    """The epoch decides, not the clock."""
    row = in_doubt()
    time_passes(QUIET)
    claim = transitions.claim(row.pk)
    time_passes(HOUR)
    assert claim is not None
    transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent())
    assert again(row).state == "pending"


def test_an_absence_that_wakes_after_a_later_attempt_is_not_believed() -> None:
    """Between claim and verdict it was sent again: the old look-up knows nothing of that."""
    row = in_doubt()
    time_passes(QUIET)
    first = transitions.claim(row.pk)
    time_passes(timedelta(minutes=1))
    look(row, effects.Absent())
    with provider_says(Charge, TimeoutError("again")):
        background.run(row.pk)
    assert first is not None
    transitions.apply_verdict(row.pk, epoch=first.epoch, verdict=effects.Absent())
    row = again(row)
    assert (row.state, row.attempts, row.may_have_applied) == ("uncertain", 2, True)


def test_an_older_found_is_kept_as_proof() -> None:
    """It settles nothing under its old epoch, but no absence is believed any more."""
    row = in_doubt()
    first = transitions.claim(row.pk)
    time_passes(QUIET)
    second = transitions.claim(row.pk)
    assert first is not None
    assert second is not None
    transitions.apply_verdict(row.pk, epoch=first.epoch, verdict=effects.Found("ch_1"))
    assert again(row).applied_evidence["reference"] == "ch_1"
    transitions.apply_verdict(row.pk, epoch=second.epoch, verdict=effects.Absent())
    row = again(row)
    assert (row.state, row.reason) == ("needs_intervention", "conflict")


def test_one_claim_has_one_verdict() -> None:
    """A verdict whose COMMIT was in question is repeated: it spends once and disproves nothing later."""
    row = in_doubt()
    time_passes(QUIET)
    claim = transitions.claim(row.pk)
    assert claim is not None
    for verdict in (effects.Inconclusive(), effects.Inconclusive(), effects.Absent()):
        transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=verdict)
    row = again(row)
    assert (row.state, row.lookups_spent) == ("uncertain", 1)


def test_a_claim_is_given_once_while_its_lease_lives() -> None:
    """Two beats at once, or a person and a beat: one look-up."""
    row = in_doubt()
    assert transitions.claim(row.pk) is not None
    assert transitions.claim(row.pk) is None
    assert transitions.claim(row.pk, now=True) is None


def test_what_is_not_due_is_claimed_only_by_a_person() -> None:
    """A late or doubled message finds nothing to do."""
    row = look(in_doubt(), effects.Inconclusive())
    with provider_says(Charge, look_up=effects.Found("ch_1")) as said:
        background.look_up(row.pk)
        assert said.look_ups == []
        operators.look_up_now(row.pk)
    assert again(row).state == "completed"


# -- budget, back-off, escalation ----------------------------------------------------------------------------------


def test_before_the_barrier_nothing_spends_the_budget() -> None:
    """A quiet time longer than the whole budget of look-ups calls nobody."""
    row = in_doubt()
    for _ in range(LOOKUP_BUDGET * 2):
        row = look(row, effects.Inconclusive("an empty list"))
    assert (row.state, row.lookups_spent) == ("uncertain", 0)
    assert row.due_at >= effects.get(row.pk).barrier_at


def test_inconclusive_look_ups_back_off_and_then_reach_a_person() -> None:
    """Eight of them, doubling from 5 s; the ninth is a person's."""
    row = in_doubt()
    time_passes(QUIET)
    delays = []
    for _ in range(LOOKUP_BUDGET - 1):
        row = look(row, effects.Inconclusive("an empty list"))
        assert row.state == "uncertain"
        delays.append(round((row.due_at - timezone.now()).total_seconds() / 5 + 0.4))
    assert delays == [2**doubling for doubling in range(LOOKUP_BUDGET - 1)]
    row = look(row, effects.Inconclusive("an empty list"))
    assert (row.state, row.reason, row.due_at) == ("needs_intervention", "budget_spent", None)


def test_a_low_risk_is_given_up_where_its_declaration_says_so() -> None:
    """`InDoubt.ABANDON`: nobody will know, and the key stays taken."""
    row = in_doubt(Cheap)
    time_passes(QUIET)
    for _ in range(LOOKUP_BUDGET):
        row = look(row, effects.Inconclusive())
    assert (row.state, row.reason, row.holds_key, row.may_have_applied) == ("abandoned", "budget_spent", True, True)


def test_what_is_proven_is_never_given_up() -> None:
    """Even a low risk reaches a person when proof that it applied is on file."""
    row = in_doubt(Cheap)
    operators.observe(row.pk, reference="ch_1", evidence={})
    time_passes(QUIET)
    for _ in range(LOOKUP_BUDGET):
        row = look(row, effects.Inconclusive())
    assert row.state == "needs_intervention"


def asks_nobody(context: Any) -> Any:
    """Ask a port where nobody listens, as most projects would."""
    return requests.get("http://127.0.0.1:1/", timeout=5)


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionError("refused"), TimeoutError("slow"), asks_nobody, requests.ReadTimeout("slow"),
        socket.gaierror("no such name"), stripe.APIConnectionError("refused"),
    ],
)  # fmt: skip
def test_a_look_up_that_does_not_get_through_is_unreachable(failure: Any) -> None:
    """A refused connection or a timeout in `verify` is evidence of nothing and spends nothing."""
    row = in_doubt()
    time_passes(QUIET)
    row = look(row, failure)
    assert (row.state, row.lookups_spent, row.lookups_unreachable) == ("uncertain", 0, 1)


def test_an_answer_with_an_error_status_is_one() -> None:
    """`raise_for_status` tells of an answer: the provider was reached."""
    row = in_doubt()
    time_passes(QUIET)
    row = look(row, requests.HTTPError("404"))
    assert (row.lookups_spent, row.lookups_unreachable) == (1, 0)


def test_an_unreachable_provider_never_escalates() -> None:
    """A hundred times: nothing is spent, nobody is called, and the next look-up is at most an hour away."""
    row = in_doubt()
    time_passes(QUIET)
    last = timedelta(0)
    for count in range(100):
        row = look(row, effects.Unreachable("down"))
        delay = row.due_at - timezone.now()
        assert (row.state, row.lookups_spent, row.lookups_unreachable) == ("uncertain", 0, count + 1)
        assert last - timedelta(seconds=5) <= delay <= LONGEST_DELAY
        last = delay
    assert last > LONGEST_DELAY - timedelta(minutes=1)


def test_a_provider_that_comes_back_is_asked_in_the_usual_rhythm() -> None:
    """The back-off of an outage ends with it."""
    row = in_doubt()
    time_passes(QUIET)
    for _ in range(12):
        row = look(row, effects.Unreachable())
    row = look(row, effects.Inconclusive())
    assert (row.lookups_unreachable, row.lookups_spent) == (0, 1)
    assert row.due_at - timezone.now() <= timedelta(seconds=5)


def test_a_look_up_that_raises_is_inconclusive() -> None:
    """A bug in `verify` is no evidence; after the budget a person sees it."""
    row = in_doubt()
    time_passes(QUIET)
    row = look(row, ZeroDivisionError("bug"))
    assert (row.state, row.lookups_spent) == ("uncertain", 1)
    assert "ZeroDivisionError" in Receipt.objects.get(event="postpone").evidence["why"]


def test_without_a_look_up_and_without_a_safe_repetition_a_person_is_asked() -> None:
    """Nothing else can be done, so nothing is waited for."""
    row = in_doubt(Plain)
    with provider_says(Plain) as said:
        run_due()
    assert (again(row).state, again(row).reason, said.sends) == ("needs_intervention", "no_plan", [])


def test_an_accepted_order_without_a_look_up_is_a_persons_once_it_is_overdue() -> None:
    """It is not sent again, and nobody is called before it should have been carried out."""
    row = accepted(Plain, expect_by=timezone.now() + timedelta(days=2))
    with provider_says(Plain) as said:
        run_due()
        assert again(row).state == "accepted"
        time_passes(timedelta(days=2))
        run_due()
    assert (again(row).state, said.sends) == ("needs_intervention", [])


def test_a_repetition_that_the_provider_deduplicates_is_sent_by_itself() -> None:
    """Under the same key, within its lifetime."""
    row = in_doubt(Deduplicated)
    time_passes(WAITED)
    with provider_says(Deduplicated, effects.Applied(None, "ch_1")) as said:
        run_due()
    row = again(row)
    assert (row.state, row.attempts) == ("completed", 2)
    assert {permit.provider_key for _, permit in said.sends} == {row.provider_key}


@pytest.mark.parametrize(("age", "sent"), [(timedelta(hours=23, minutes=54), True), (timedelta(hours=24), False)])
def test_after_the_lifetime_of_the_providers_key_nothing_is_repeated(age: timedelta, sent: bool) -> None:
    """First use + lifetime less the quiet time must outlast the new deadline."""
    row = in_doubt(Deduplicated)
    time_passes(age)
    with provider_says(Deduplicated, effects.Applied()) as said:
        run_due()
    assert bool(said.sends) is sent
    assert again(row).state == ("completed" if sent else "needs_intervention")


def test_a_key_that_dies_between_decision_and_permit_is_not_used() -> None:
    """The lifetime is compared under the lock of the permit, not when the sweep decided."""
    row = in_doubt(Deduplicated)
    time_passes(WAITED)

    def late(self: Any, context: Any) -> Any:
        time_passes(timedelta(hours=24))
        return effects.Proceed()

    with pytest.MonkeyPatch.context() as patch, provider_says(Deduplicated) as said:
        patch.setattr(Deduplicated, "precondition", late)
        run_due()
    assert said.sends == []
    assert again(row).state == "needs_intervention"


@pytest.mark.parametrize("answer", [effects.Refuse("closed"), ZeroDivisionError("bug")])
def test_a_precondition_that_refuses_the_repetition_leaves_it_to_a_person(answer: Any) -> None:
    """What may have happened is not refused."""
    row = in_doubt(Deduplicated)
    time_passes(WAITED)

    def refuse(self: Any, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.MonkeyPatch.context() as patch, provider_says(Deduplicated) as said:
        patch.setattr(Deduplicated, "precondition", refuse)
        run_due()
    assert said.sends == []
    assert again(row).state == "needs_intervention"


# -- proof on file -------------------------------------------------------------------------------------------------


def test_proof_of_success_beats_any_absence() -> None:
    """A webhook said that it happened, the look-up does not see it: a conflict, never a resend."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={"event": "evt_1"})
    time_passes(QUIET)
    with provider_says(Charge, look_up=effects.Absent()) as said:
        run_due()
    row = again(row)
    assert (row.state, row.reason, said.sends) == ("needs_intervention", "conflict", [])


def test_proof_with_one_reference_and_a_look_up_with_another_is_a_conflict() -> None:
    """Two references may be two payments."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={})
    assert look(row, effects.Found("ch_2")).reason == "conflict"


def test_proofs_with_two_references_are_a_conflict() -> None:
    """Two webhooks, two payments: at once a person's, and both are on file."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={})
    operators.observe(row.pk, reference="ch_1", evidence={})
    assert again(row).state == "uncertain"
    operators.observe(row.pk, reference="ch_2", evidence={})
    row = again(row)
    assert (row.state, row.reason) == ("needs_intervention", "conflict")
    evidence = Receipt.objects.filter(execution=row, event__in=["observe", "escalate"]).order_by("sequence")
    assert [receipt.evidence["reference"] for receipt in evidence] == ["ch_1", "ch_1", "ch_2"]


def test_a_success_that_meets_proof_of_another_one_is_a_conflict() -> None:
    """While the resend was under way a webhook proved the first attempt, as something else."""
    row = in_doubt(Deduplicated)
    time_passes(WAITED)

    def applied_meanwhile(context: Any, permit: Any) -> Any:
        transitions.observe(row.pk, reference="ch_1", evidence={"event": "evt_1"})
        return effects.Applied(None, "ch_2")

    with provider_says(Deduplicated, applied_meanwhile):
        run_due()
    row = again(row)
    assert (row.state, row.reason) == ("needs_intervention", "conflict")
    assert Attempt.objects.get(number=2).reference == "ch_2"


def test_a_refusal_that_meets_proof_is_no_failure() -> None:
    """ "Already processed" beside a webhook that says so: in doubt, and the look-up settles it."""
    row = in_doubt(Deduplicated)
    time_passes(WAITED)

    def refused_meanwhile(context: Any, permit: Any) -> Any:
        transitions.observe(row.pk, reference="ch_1", evidence={"event": "evt_1"})
        raise effects.Declined("already processed")

    with provider_says(Deduplicated, refused_meanwhile):
        background.look_up(row.pk)
    row = again(row)
    assert (row.state, row.applied_evidence["reference"]) == ("uncertain", "ch_1")


# -- evidence from outside, state by state ---------------------------------------------------------------------------


def test_a_webhook_in_doubt_makes_the_look_up_due_now() -> None:
    """It is a hint: the provider's own record settles it."""
    row = look(in_doubt(), effects.Inconclusive())
    operators.observe(row.pk, reference="ch_1", evidence={})
    assert again(row).due_at <= timezone.now()
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    assert again(row).state == "completed"


def test_a_webhook_before_our_own_commit_is_kept() -> None:
    """It arrives while the send is under way."""
    seen = []

    def send(context: Any, permit: Any) -> Any:
        seen.append(operators.observe(context.ref, reference="ch_1", evidence={}))
        return effects.Applied(None, "ch_1")

    with provider_says(Charge, send):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
    assert (seen[0].state, seen[0].may_have_applied) == ("executing", True)
    assert outcome.require() is None


def test_a_webhook_about_what_is_completed_changes_nothing() -> None:
    """Twice, or out of order: the same reference says nothing new."""
    row = look(in_doubt(), effects.Found("ch_1"))
    revision = row.revision
    operators.observe(row.pk, reference="ch_1", evidence={})
    operators.observe(row.pk, reference="", evidence={"late": True})
    assert (again(row).state, again(row).revision) == ("completed", revision)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"reference": "ch_2", "evidence": {}}, "two references"),
        ({"reference": "ch_1", "evidence": {"bank": "returned"}, "undone": True}, "undone"),
    ],
)
def test_what_contradicts_a_completion_reaches_a_person(how: dict[str, Any], why: str) -> None:
    """A second reference, or that the bank returned it."""
    row = look(in_doubt(), effects.Found("ch_1"))
    operators.observe(row.pk, **how)
    row = again(row)
    assert (row.state, row.reason, row.settled_at) == ("needs_intervention", "contradicted", None)
    assert why in Receipt.objects.get(event="contradict").evidence["why"]


@pytest.mark.parametrize("answer", [effects.Declined("no"), effects.NotNow("busy")])
def test_a_webhook_about_what_did_not_happen_reaches_a_person(answer: Any) -> None:
    """Failed or pending, but it happened: never silently overwritten, and never sent."""
    row = in_doubt(Charge, answer)
    assert row.state in ("failed", "pending")
    operators.observe(row.pk, reference="ch_1", evidence={})
    row = again(row)
    assert (row.state, row.may_have_applied, row.applied_evidence["reference"]) == ("needs_intervention", True, "ch_1")
    time_passes(HOUR)
    with provider_says(Charge) as said:
        run_due()
        background.run(row.pk)
    assert said.sends == []


def test_a_late_order_contradicts_that_nothing_happened() -> None:
    """The worker wakes up with "accepted" after absence was believed: a person looks, nothing is sent again."""
    row = in_doubt()
    attempt = Attempt.objects.get()
    time_passes(QUIET)
    row = look(row, effects.Absent())
    transitions.late_outcome(row.pk, attempt=attempt.pk, report=effects.Submitted("ch_1"))
    row = again(row)
    assert (row.state, row.may_have_applied, row.applied_evidence) == ("needs_intervention", True, None)


def test_a_late_success_settles_its_own_doubt() -> None:
    """No later attempt was permitted, so it is the whole truth."""
    row = in_doubt()
    transitions.late_outcome(row.pk, attempt=Attempt.objects.get().pk, report=effects.Applied("done", "ch_1"))
    row = again(row)
    assert (row.state, row.reason, row.reference) == ("completed", "late_reply", "ch_1")


def test_a_late_success_of_an_older_attempt_is_looked_into() -> None:
    """Another attempt was permitted since; two may have applied."""
    row = in_doubt(Deduplicated)
    time_passes(WAITED)
    first = Attempt.objects.get()
    with provider_says(Deduplicated, TimeoutError("again")):
        background.look_up(row.pk)
    transitions.late_outcome(row.pk, attempt=first.pk, report=effects.Applied(None, "ch_1"))
    row = again(row)
    assert (row.state, row.applied_evidence["reference"]) == ("uncertain", "ch_1")


def test_a_late_success_with_another_reference_than_the_proof_is_a_conflict() -> None:
    """The webhook named another payment."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={})
    transitions.late_outcome(row.pk, attempt=Attempt.objects.get().pk, report=effects.Applied(None, "ch_2"))
    assert (again(row).state, again(row).reason) == ("needs_intervention", "conflict")


def test_a_late_refusal_proves_nothing() -> None:
    """It is kept as a receipt."""
    row = in_doubt()
    report = effects.vocabulary.failures.classify(effects.Declined("no"))
    transitions.late_outcome(row.pk, attempt=Attempt.objects.get().pk, report=report)
    assert (again(row).state, again(row).may_have_applied) == ("uncertain", True)


# -- people --------------------------------------------------------------------------------------------------------


def resolve(row: Execution, decision: str, **options: Any) -> Execution:
    """Resolve as a person would who looks at the row now."""
    words = {"revision": again(row).revision, "by": "olga", "reason": "read the bank's list", **options}
    effects.resolve(row.pk, decision=decision, **words)
    return again(row)


@pytest.mark.parametrize(("decision", "reason"), [("applied", "operator"), ("undone", "undone")])
def test_a_person_says_that_it_happened(decision: str, reason: str) -> None:
    """With reference and output, so that a waiting request gets its answer."""
    row = resolve(in_doubt(), decision, reference="ch_1", output={"id": "ch_1"})
    assert (row.state, row.reason, row.reference) == ("completed", reason, "ch_1")
    assert Resolution.objects.get().actor_id == "olga"


def test_a_person_says_that_it_did_not_happen_after_the_barrier() -> None:
    """Before it a request may still land, so that nobody can know."""
    row = in_doubt()
    with pytest.raises(exceptions.TooSoonError):
        resolve(row, "not_applied")
    time_passes(QUIET)
    row = resolve(row, "not_applied")
    assert (row.state, row.reason, row.may_have_applied) == ("failed", "operator", False)


def test_a_person_cannot_say_that_it_did_not_happen_against_proof() -> None:
    """Proof of success is on file."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={})
    time_passes(QUIET)
    with pytest.raises(exceptions.WrongStateError, match="Proof"):
        resolve(row, "not_applied")


def test_a_person_gives_up() -> None:
    """Nobody will know: the key stays taken, and what may have happened stays said."""
    row = resolve(in_doubt(), "unknown")
    assert (row.state, row.holds_key, row.may_have_applied) == ("abandoned", True, True)


def test_a_decision_about_what_changed_meanwhile_is_refused() -> None:
    """The page was made before."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={})
    with pytest.raises(exceptions.StaleRevisionError):
        resolve(row, "applied", revision=row.revision)


def test_a_decision_during_a_look_up_is_refused() -> None:
    """Its answer is a few seconds away."""
    row = in_doubt()
    transitions.claim(row.pk)
    with pytest.raises(exceptions.WrongStateError, match="look-up is under way"):
        resolve(row, "applied")


def test_a_decision_repeated_is_one_decision() -> None:
    """A second click with the same decision id returns what the first one did, whatever the revision is now."""
    row = in_doubt()
    first = effects.resolve(row.pk, decision="applied", revision=row.revision, by="olga", reason="r", decision_id="d1")
    again_ = effects.resolve(row.pk, decision="applied", revision=row.revision, by="olga", reason="r", decision_id="d1")
    assert again_ == first
    assert Resolution.objects.count() == 1


@pytest.mark.parametrize("words", [{"reason": "  "}, {"decision": "perhaps"}])
def test_a_decision_needs_a_reason_and_a_known_word(words: dict[str, str]) -> None:
    """Nothing is written otherwise."""
    row = in_doubt()
    options = {"decision": "applied", "reason": "r", **words}
    with pytest.raises(exceptions.WrongStateError):
        effects.resolve(row.pk, revision=row.revision, by="olga", **options)
    assert again(row).state == "uncertain"


def test_what_a_person_writes_cannot_keep_the_decision_from_being_recorded() -> None:
    """NUL and surrogates are cleaned; evidence cannot take the place of decision and reason."""
    row = in_doubt()
    time_passes(QUIET)
    row = resolve(row, "not_applied", reason="no\x00\ud800", evidence={"reason": 5, "decision": "applied"})
    assert row.failure_message == "no�"
    assert Receipt.objects.get(event="resolve").evidence["decision"] == "not_applied"


def test_only_what_is_in_doubt_is_resolved() -> None:
    """A completed one is not."""
    row = look(in_doubt(), effects.Found("ch_1"))
    with pytest.raises(exceptions.WrongStateError, match="in doubt"):
        resolve(row, "unknown")


def test_proof_after_a_person_said_that_it_did_not_happen_is_kept_and_shown() -> None:
    """It goes back to a person, with both on record."""
    row = in_doubt()
    time_passes(QUIET)
    row = resolve(row, "not_applied")
    operators.observe(row.pk, reference="ch_1", evidence={"event": "evt_1"})
    row = again(row)
    assert (row.state, row.reason, row.applied_evidence["event"]) == ("needs_intervention", "contradicted", "evt_1")
    assert Resolution.objects.get().decision == "not_applied"
    with pytest.raises(exceptions.WrongStateError):
        resolve(row, "not_applied")
    assert resolve(row, "applied").state == "completed"


def test_reopened_gets_a_new_budget_and_is_never_sent() -> None:
    """A person has the provider asked again."""
    row = in_doubt()
    time_passes(QUIET)
    for _ in range(LOOKUP_BUDGET):
        row = look(row, effects.Inconclusive())
    reopened = effects.reopen(row.pk, revision=row.revision, by="olga", reason="they fixed it", decision_id="d1")
    assert effects.reopen(row.pk, revision=row.revision, by="olga", reason="again", decision_id="d1") == reopened
    row = again(row)
    assert (row.state, row.reason, row.lookups_spent) == ("uncertain", "reopened", 0)
    with provider_says(Charge, look_up=effects.Found("ch_1")) as said:
        run_due()
    assert (again(row).state, said.sends) == ("completed", [])


def test_a_verdict_from_before_it_was_reopened_is_not_believed() -> None:
    """The claim was answered then."""
    row = in_doubt()
    time_passes(QUIET)
    claim = transitions.claim(row.pk)
    assert claim is not None
    transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Conflict("?"))
    effects.reopen(row.pk, revision=again(row).revision, by="olga", reason="r")
    transitions.apply_verdict(row.pk, epoch=claim.epoch, verdict=effects.Absent())
    assert again(row).state == "uncertain"


def test_what_has_no_look_up_is_not_reopened() -> None:
    """It can only be resolved."""
    row = in_doubt(Plain)
    run_due()
    with pytest.raises(exceptions.WrongStateError, match="no look-up"):
        effects.reopen(row.pk, revision=again(row).revision, by="olga", reason="r")


def test_an_endless_precondition_of_a_repetition_reaches_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "Later" for ever is bounded in doubt as well."""
    monkeypatch.setattr("effects.transitions.deferrals.MOST_POSTPONED", 3)
    row = in_doubt(Deduplicated)
    monkeypatch.setattr(Deduplicated, "precondition", lambda self, context: effects.Later(timedelta(seconds=1)))
    states = []
    for _ in range(4):
        time_passes(timedelta(seconds=2))
        states.append(str(background.look_up(row.pk).state))
    assert states == ["uncertain"] * 3 + ["needs_intervention"]


# -- undone at the provider ----------------------------------------------------------------------------------------


def test_what_was_undone_before_it_is_found_is_a_persons() -> None:
    """A bank returned it while we did not know of it: that the charge is there is not all."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={"why": "returned"}, undone=True)
    operators.observe(row.pk, reference="ch_1", evidence={"why": "a second webhook"})
    row = look(row, effects.Found("ch_1"))
    assert (row.state, row.reason) == ("needs_intervention", "conflict")


def test_what_was_undone_while_it_was_sent_is_a_persons() -> None:
    """The webhook of the return overtakes the answer."""

    def returned() -> None:
        operators.observe(Execution.objects.get().pk, reference="ch_1", evidence={}, undone=True)

    with provider_says(Charge, effects.Applied(reference="ch_1")) as said:
        said.sends = OnSend(returned)
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.reason) == ("needs_intervention", "conflict")
    assert Attempt.objects.get().outcome == "applied"


def test_a_late_reply_does_not_settle_what_was_undone_since() -> None:
    """A person weighs it; the reply is kept, and a look-up after a reopening does not complete it either."""
    row = look(in_doubt(), effects.Found("ch_1"))
    operators.observe(row.pk, reference="ch_1", evidence={}, undone=True)
    transitions.late_outcome(row.pk, attempt=Attempt.objects.get().pk, report=effects.Applied(reference="ch_1"))
    row = again(row)
    assert (row.state, row.reason) == ("needs_intervention", "contradicted")
    operators.reopen(row.pk, revision=row.revision, by="ann", reason="look again")
    assert look(row, effects.Found("ch_1")).state == "needs_intervention"
    row = again(row)
    operators.resolve(row.pk, decision="undone", revision=row.revision, by="ann", reason="the bank's letter")
    assert again(row).reason == "undone"


# -- two references ------------------------------------------------------------------------------------------------


def test_what_was_found_under_another_reference_stays_on_file() -> None:
    """No absence after a reopening and no order to send again passes over it."""
    row = look(accepted(Order), effects.Found("ch_2"))
    with pytest.raises(exceptions.WrongStateError, match="on file"):
        operators.order_resend(row.pk, revision=row.revision, by="ann", reason="the customer waits")
    time_passes(QUIET)
    operators.reopen(row.pk, revision=row.revision, by="ann", reason="look again")
    assert look(row, effects.Absent()).reason == "conflict"


def test_two_attempts_that_both_applied_stay_a_conflict_after_a_reopening() -> None:
    """The first one's late success and the second one's answer: either reference alone is half of the truth."""
    row = in_doubt()
    first = Attempt.objects.get().pk
    time_passes(QUIET)
    look(row, effects.Absent())

    def late() -> None:
        transitions.late_outcome(row.pk, attempt=first, report=effects.Applied(reference="ch_1"))

    with provider_says(Charge, effects.Applied(reference="ch_2")) as said:
        said.sends = OnSend(late)
        background.run(row.pk)
    for found in ("ch_1", "ch_2"):
        row = again(row)
        assert (row.state, row.reason) == ("needs_intervention", "conflict")
        operators.reopen(row.pk, revision=row.revision, by="ann", reason="look again")
        look(row, effects.Found(found))


def test_a_webhook_with_another_reference_is_put_beside_the_first_one() -> None:
    """Never over it."""
    row = in_doubt()
    operators.observe(row.pk, reference="ch_1", evidence={})
    operators.observe(row.pk, reference="ch_2", evidence={})
    row = again(row)
    assert row.reason == "conflict"
    operators.reopen(row.pk, revision=row.revision, by="ann", reason="look again")
    assert look(row, effects.Found("ch_2")).reason == "conflict"


@pytest.mark.parametrize("late", [False, True])
def test_evidence_ends_the_order_to_send_it_again(late: bool) -> None:
    """Whoever ordered or approves it did not know; nothing stays due that can never be sent."""
    row = look(in_doubt(), effects.Conflict("another amount"))
    operators.order_resend(
        row.pk, revision=row.revision, by="ann", reason="the customer waits", confirm=row.amount or row.key
    )
    if late:
        transitions.late_outcome(row.pk, attempt=Attempt.objects.get().pk, report=effects.Submitted("ch_1"))
    else:
        operators.observe(row.pk, reference="ch_1", evidence={})
    assert (again(row).due_at, Approval.objects.get().state) == (None, "lapsed")
    with provider_says(Charge) as said:
        run_due()
    assert said.sends == []
