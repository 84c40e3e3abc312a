"""Ordered resends: a named person has something in doubt sent once more, under the same provider key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import effects
from effects.models import Approval, Attempt, Execution, Receipt, Resolution
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Charge, Plain, Ruled
from tests.core.people import PAYLOAD, approve, asked, live, person

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
DONE = effects.Applied({"id": "ch_2"}, "ch_2")


def again(row: Execution) -> Execution:
    """Return the row as it is now."""
    return Execution.objects.get(pk=row.pk)


def stuck(effect: Any = Plain) -> Execution:
    """Return an execution whose provider answered nothing and that waits for a person."""
    with provider_says(effect, TimeoutError("no answer"), look_up=effects.Conflict("two of them")):
        outcome = effects.perform(effect, payload=PAYLOAD, key="k1", requested_by="ann")
        run_due()
    row = Execution.objects.get(pk=outcome.ref)
    assert row.state == "needs_intervention"
    return row


def order(row: Execution, **options: Any) -> Any:
    """Order another send."""
    words: dict[str, Any] = {"revision": row.revision, "by": "zoe", "reason": "the bank says that it has nothing"}
    return effects.order_resend(row.pk, **{**words, **options})


def test_it_is_sent_once_more_under_the_same_provider_key() -> None:
    """The provider can still recognise it; the order is spent by the send."""
    row = stuck()
    order(row)
    with provider_says(Plain, DONE) as said:
        run_due()
        run_due()
    assert [permit.provider_key for _, permit in said.sends] == [row.provider_key]
    row = again(row)
    assert (row.state, row.reference, row.attempts) == ("completed", "ch_2", 2)
    assert list(Attempt.objects.order_by("number").values_list("outcome", "provider_key")) == [
        ("unknown", row.provider_key),
        ("applied", row.provider_key),
    ]
    licence = Approval.objects.get()
    assert (licence.purpose, licence.state) == ("resend", "spent")
    assert Attempt.objects.get(number=2).approval_id == licence.pk


def test_the_order_is_a_receipt_with_its_person_and_reason() -> None:
    """Whoever looks later sees who ordered it, and why."""
    row = stuck()
    order(row, decision_id="d-1")
    receipt = Receipt.objects.get(event="order_resend")
    assert (receipt.actor_id, receipt.evidence["reason"]) == ("zoe", "the bank says that it has nothing")
    resolution = Resolution.objects.get()
    assert (resolution.decision, resolution.decision_id, resolution.actor_id) == ("resend", "d-1", "zoe")


def test_an_order_alone_says_nothing_about_what_happened() -> None:
    """It still may have applied, and it still waits for a person, until it is sent."""
    snapshot = order(stuck())
    assert (snapshot.state, snapshot.may_have_applied) == ("needs_intervention", True)


def test_a_decision_repeated_is_one_order() -> None:
    """A page that is posted twice orders one send."""
    row = stuck()
    order(row, decision_id="d-1")
    order(row, decision_id="d-1")
    with provider_says(Plain, TimeoutError("again nothing")) as said:
        run_due()
        time_passes(HOUR)
        run_due()
    assert len(said.sends) == 1


@pytest.mark.parametrize("answer", [effects.Refuse("the account is closed"), ZeroDivisionError("bug")])
def test_a_precondition_that_refuses_ends_the_order_and_asks_the_person_again(answer: Any) -> None:
    """Nothing is sent and nothing stays due; what may have happened is not refused, and another order may follow."""
    row = stuck()
    order(row)

    def refuse(self: Any, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.MonkeyPatch.context() as patch, provider_says(Plain, DONE) as said:
        patch.setattr(Plain, "precondition", refuse)
        run_due()
    assert said.sends == []
    row = again(row)
    assert (row.state, row.may_have_applied, row.due_at) == ("needs_intervention", True, None)
    assert Approval.objects.get().state == "lapsed"
    assert "precondition" in Receipt.objects.get(event="lapse").evidence["why"]
    order(row)
    with provider_says(Plain, DONE) as said:
        run_due()
    assert (len(said.sends), again(row).state) == (1, "completed")


def test_a_second_order_waits_for_the_first() -> None:
    """Two operators order one send, whatever their pages showed."""
    row = stuck()
    order(row)
    with pytest.raises(exceptions.StaleRevisionError):
        order(row)
    with pytest.raises(exceptions.WrongStateError, match="ordered already"):
        order(again(row))


@pytest.mark.parametrize("words", [{"by": " "}, {"by": None}, {"reason": " "}])
def test_it_takes_a_name_and_a_reason(words: dict[str, Any]) -> None:
    """Nobody orders a second send anonymously."""
    with pytest.raises(exceptions.ApprovalError):
        order(stuck(), **words)


def test_only_what_waits_for_a_person_is_sent_again() -> None:
    """Something that a look-up may still decide is not."""
    with provider_says(Charge, TimeoutError("no answer")):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
    row = Execution.objects.get(pk=outcome.ref)
    with pytest.raises(exceptions.WrongStateError):
        order(row)


def test_proof_that_it_happened_refuses_the_order() -> None:
    """Sending it again would do it twice."""
    row = stuck()
    effects.observe(row.pk, reference="ch_1", evidence={"webhook": 1})
    with pytest.raises(exceptions.WrongStateError, match="Proof"):
        order(again(row))


def test_proof_that_arrives_after_the_order_keeps_it_from_being_sent() -> None:
    """A webhook between the order and the send."""
    row = stuck()
    order(row)
    effects.observe(row.pk, reference="ch_1", evidence={"webhook": 1})
    with provider_says(Plain, DONE) as said:
        run_due()
        background.run(row.pk)
    assert said.sends == []
    assert again(row).state == "needs_intervention"


@pytest.mark.parametrize("decision", ["applied", "undone", "unknown", "not_applied"])
def test_a_resolution_takes_the_order_back(decision: str) -> None:
    """What is settled by a person is not sent any more."""
    row = stuck()
    order(row)
    time_passes(timedelta(minutes=6))
    row = again(row)
    effects.resolve(row.pk, decision=decision, revision=row.revision, by="zoe", reason="the bank says so")
    with provider_says(Plain, DONE) as said:
        run_due()
        background.run(row.pk)
    assert said.sends == []
    assert Approval.objects.get().state == "lapsed"


def test_reopening_takes_the_order_back() -> None:
    """It is looked up again, not sent."""
    row = stuck(Charge)
    order(row, confirm=row.amount)
    row = again(row)
    effects.reopen(row.pk, revision=row.revision, by="zoe", reason="look again")
    with provider_says(Charge, DONE, look_up=effects.Inconclusive()) as said:
        run_due()
    assert said.sends == []
    assert Approval.objects.get().state == "lapsed"


def test_withdrawn_it_is_not_sent() -> None:
    """Whoever ordered it thinks better of it; the doubt stays."""
    row = stuck()
    order(row)
    effects.withdraw(row.pk, by="zoe", reason="wait")
    with provider_says(Plain, DONE) as said:
        run_due()
    assert said.sends == []
    assert (again(row).state, again(row).may_have_applied) == ("needs_intervention", True)


def test_an_order_that_was_not_carried_out_in_time_lapses() -> None:
    """A sweep that was stuck for hours surprises nobody."""
    row = stuck()
    order(row)
    time_passes(2 * HOUR)
    with provider_says(Plain, DONE) as said:
        run_due()
        background.run(row.pk)
    assert said.sends == []
    assert Approval.objects.get().state == "lapsed"


@pytest.mark.parametrize("change", ["payload", "price"])
def test_other_contents_than_those_that_were_ordered_are_not_sent(
    change: str, django_user_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed between the order and the send spoils it, and the person is asked anew."""
    row = waiting_for_people(person("bob"))
    order(row)
    approve(row, person("eve"))
    if change == "payload":
        Execution.objects.filter(pk=row.pk).update(payload=row.payload.replace("1000", "9000"))
    else:
        monkeypatch.setattr(Ruled, "price", "99.00")
    with provider_says(Ruled, DONE) as said:
        run_due()
    assert said.sends == []
    assert (again(row).state, again(row).due_at) == ("needs_intervention", None)
    assert Approval.objects.get(purpose="resend").state == "lapsed"


def waiting_for_people(approver: Any) -> Execution:
    """Return an execution with an approval rule, sent once and in doubt."""
    ann = person("ann", approver=False)
    row = asked(Ruled, by=ann)
    approve(row, approver)
    with provider_says(Ruled, TimeoutError("no answer"), look_up=effects.Conflict("two of them")):
        run_due()
    return again(row)


def test_under_an_approval_rule_others_must_agree() -> None:
    """The spent approval is worth nothing more, and whoever orders does not approve."""
    zoe, bob = person("zoe"), person("bob")
    row = waiting_for_people(bob)
    order(row, by=zoe)
    with provider_says(Ruled, DONE) as said:
        run_due()
        assert said.sends == []
        with pytest.raises(exceptions.NotEntitledError):
            approve(row, zoe)
        approve(row, bob)
        run_due()
    assert len(said.sends) == 1
    assert again(row).state == "completed"


def test_denied_the_doubt_stays() -> None:
    """Only the approval's row changes: nothing is known that was not known before."""
    bob = person("bob")
    row = waiting_for_people(bob)
    order(row)
    effects.deny(row.pk, by=bob, digest=live(row).digest)
    row = again(row)
    assert (row.state, row.may_have_applied, row.due_at) == ("needs_intervention", True, None)
    order(row)
    assert live(row).purpose == "resend"


def test_that_nobody_could_agree_is_said_when_it_is_ordered() -> None:
    """Not after a week."""
    bob = person("bob")
    row = waiting_for_people(bob)
    with pytest.raises(exceptions.NobodyEntitledError):
        order(row, by=bob)


def test_attempts_are_no_limit_to_a_person() -> None:
    """The budget of automatic sends is spent; a person may still order one."""
    row = stuck()
    Execution.objects.update(attempts=5)
    Attempt.objects.update(number=5)
    order(again(row))
    with provider_says(Plain, DONE) as said:
        run_due()
    assert len(said.sends) == 1


def test_a_refusal_of_the_second_send_proves_nothing_about_the_first() -> None:
    """Insufficient funds, perhaps because the first one took them."""
    row = stuck()
    order(row)
    with provider_says(Plain, effects.Declined("insufficient funds")):
        run_due()
    assert (again(row).may_have_applied, again(row).state) == (True, "needs_intervention")


def test_a_second_answerless_send_waits_for_a_person_again() -> None:
    """One order is worth one send."""
    row = stuck()
    order(row)
    with provider_says(Plain, TimeoutError("again nothing")) as said:
        for _ in range(3):
            run_due()
            time_passes(HOUR)
    assert len(said.sends) == 1
    assert again(row).state == "needs_intervention"


def test_a_permit_without_an_order_is_none() -> None:
    """What waits for a person is never sent on its own, even if it were due."""
    row = stuck()
    Execution.objects.update(due_at=row.created_at)
    with provider_says(Plain, DONE) as said:
        background.run(row.pk)
    assert said.sends == []
    assert again(row).due_at is None


def test_another_safety_version_orders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that may not touch the row may not send it."""
    row = stuck()
    monkeypatch.setattr(Plain, "safety_version", 2)
    with pytest.raises(exceptions.PolicyChangedError):
        order(row)


# -- after a conflict ----------------------------------------------------------------------------------------------


def conflicted() -> Execution:
    """Return what waits for a person since its look-up found two of it."""
    with provider_says(Charge, TimeoutError("no answer"), look_up=effects.Conflict("two of them")):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1", requested_by="ann")
        time_passes(HOUR)
        run_due()
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.reason) == ("needs_intervention", "conflict")
    return row


@pytest.mark.parametrize("typed", ["", "0", "k1", "5.00"])
def test_after_a_conflict_the_amount_is_repeated(typed: str) -> None:
    """A program too says what it costs, in minor units: what was found may be this very charge."""
    row = conflicted()
    with pytest.raises(exceptions.WrongStateError, match="confirm= is its amount in minor units"):
        order(row, confirm=typed)
    order(row, confirm=row.amount)
    assert Approval.objects.get().state == "granted"


def test_what_has_no_amount_is_confirmed_by_its_key() -> None:
    """The guard does not depend on what an effect describes."""
    row = conflicted()
    Execution.objects.filter(pk=row.pk).update(amount=None)
    with pytest.raises(exceptions.WrongStateError, match="confirm= is its key"):
        order(row)
    order(row, confirm="k1")
    assert Approval.objects.get().state == "granted"


def test_a_conflict_is_not_forgotten_with_its_reason() -> None:
    """Reopened, and handed over again for another reason: what was found once was not cleared up."""
    row = conflicted()
    effects.reopen(row.pk, revision=row.revision, by="zoe", reason="look again")
    with provider_says(Charge, look_up=effects.Inconclusive("?")):
        for _ in range(8):
            time_passes(2 * HOUR)
            run_due()
    row = again(row)
    assert (row.state, row.reason) == ("needs_intervention", "budget_spent")
    with pytest.raises(exceptions.WrongStateError, match="confirm="):
        order(row)
