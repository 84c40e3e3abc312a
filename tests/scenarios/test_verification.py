"""Stories of verification: taking an order is one thing, having carried it out is another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

import effects
from effects import transitions
from effects.models import Attempt, Execution
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from effects.testing.faults import Interrupted, interrupt_at
from effects.transitions.lookups import LOOKUP_BUDGET
from tests.core.declared import Approved, Charge, Conditional, Order
from tests.core.people import PAYLOAD, approve, asked, person
from tests.scenarios.times import AFTER_LEASE, AFTER_QUIET, DAY

pytestmark = pytest.mark.django_db
ORDERED = effects.Submitted("rf_1")
PROVEN = effects.Found("rf_1", {"status": "paid out"})


def perform(effect: Any = Charge, *sends: Any, **look_ups: Any) -> Any:
    """Perform it and let what is due be done; return its row and what the provider saw."""
    with provider_says(effect, *sends, **look_ups) as said:
        outcome = effects.perform(effect, payload=PAYLOAD, key="k1", requested_by="ann")
        run_due()
    return Execution.objects.get(pk=outcome.ref), said


def test_pending_then_verified(no_hook_calls: list[Any]) -> None:
    """The order was taken; the project's own row is written when it is proven, and not before."""
    with provider_says(Charge, ORDERED, look_up=[effects.InProgress("rf_1"), PROVEN]):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        assert isinstance(outcome, effects.Accepted)
        run_due()
        assert (effects.get(outcome.ref).state, no_hook_calls) == ("accepted", [])
        time_passes(AFTER_LEASE)
        run_due()
    assert effects.get(outcome.ref).outcome.require() == {"status": "paid out"}
    assert no_hook_calls == [(outcome.ref, "completed")]


def test_provisional_until_the_budget_ends() -> None:
    """Look-ups that cannot tell are repeated, ever later, a bounded number of times; then a person is."""
    with provider_says(Charge, TimeoutError("no answer"), look_up=effects.Inconclusive("not visible yet")) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        time_passes(AFTER_QUIET)
        for _ in range(20):
            run_due()
            time_passes(timedelta(hours=2))
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.reason, row.may_have_applied) == ("needs_intervention", "budget_spent", True)
    assert (len(said.look_ups), len(said.sends)) == (LOOKUP_BUDGET, 1)


def test_not_visible_yet_is_no_absence() -> None:
    """What the provider does not show within its settling time may still appear; it does, and is found."""
    row, said = perform(Charge, TimeoutError("no answer"), look_up=[effects.Absent(), PROVEN])
    assert (row.state, row.may_have_applied, len(said.sends)) == ("uncertain", True, 1)
    time_passes(AFTER_QUIET)
    with provider_says(Charge, look_up=PROVEN):
        run_due()
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("completed", 1)


def test_a_final_absence_makes_another_send_possible() -> None:
    """After the settling time the provider's "no" is evidence: it is sent again, and that is all that happened."""
    row, _ = perform(Order, TimeoutError("no answer"), look_up=effects.Absent())
    time_passes(AFTER_QUIET)
    with provider_says(Order, effects.Applied(None, "rf_2"), look_up=effects.Absent()) as said:
        run_due()
    row.refresh_from_db()
    assert (row.state, row.attempts, len(said.sends)) == ("completed", 2, 1)
    assert sorted(Attempt.objects.values_list("outcome", flat=True)) == ["applied", "not_applied"]


def test_possible_is_not_permitted() -> None:
    """After a final absence every other condition still counts: here a person's new yes."""
    ann, bob = person("ann", approver=False), person("bob")
    row = asked(Approved, by=ann)
    approve(row, bob)
    with provider_says(Approved, TimeoutError("no answer"), look_up=effects.Absent()) as said:
        run_due()
        time_passes(AFTER_QUIET)
        run_due()
    row.refresh_from_db()
    assert (row.state, len(said.sends)) == ("awaiting_approval", 1)


def test_a_target_that_is_away_proves_nothing() -> None:
    """For half a day nobody answers: no budget is spent, nobody is called, nothing is sent."""
    with provider_says(Charge, TimeoutError("no answer"), look_up=ConnectionError("down")) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        for _ in range(12):
            time_passes(timedelta(hours=1))
            run_due()
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.lookups_spent, len(said.sends)) == ("uncertain", 0, 1)
    assert len(said.look_ups) > LOOKUP_BUDGET


def test_the_targets_own_precondition_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before the send is given to it; the target saw another version, and did nothing."""
    monkeypatch.setattr(Conditional, "precondition", lambda self, context: effects.Proceed("order-version:7"))

    def target(context: Any, permit: Any) -> Any:
        if context.token != "order-version:8":
            raise effects.Stale("the order changed meanwhile")
        return effects.Applied()

    row, said = perform(Conditional, target)
    assert (row.state, row.reason, row.may_have_applied) == ("failed", "stale", False)
    time_passes(DAY)
    run_due()
    assert len(said.sends) == 1


@pytest.mark.parametrize(
    ("answer", "state", "may"),
    [
        (effects.Applied(None, "rf_1"), "completed", True),
        (effects.Declined("closed account"), "failed", False),
        (effects.Doubt("bad gateway"), "uncertain", True),
        (ORDERED, "accepted", True),
    ],
    ids=["applied", "refused", "ambiguous", "taken"],
)
def test_four_answers_are_four_states(answer: Any, state: str, may: bool) -> None:
    """What the transport said is not taken for what the business wants to know."""
    with provider_says(Charge, answer):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
    assert (outcome.state, outcome.may_have_applied) == (state, may)


def test_partial_results_say_which() -> None:
    """Three transfers in one order: two went, one account is closed, and nothing is in doubt."""
    items = [effects.Item(name, applied=name != "b", code="" if name != "b" else "closed") for name in "abc"]
    row, _ = perform(Charge, effects.Partial(items, reference="batch_1"))
    outcome = effects.get(row.pk).outcome
    assert isinstance(outcome, effects.PartiallyCompleted)
    assert [(item.key, item.applied, item.code) for item in outcome.items] == [
        ("a", True, ""),
        ("b", False, "closed"),
        ("c", True, ""),
    ]
    assert outcome.settled
    with provider_says(Charge, effects.Applied()) as later:
        effects.perform(Charge, payload=PAYLOAD, key="k1")
    assert later.sends == []


def test_nobody_looks_while_it_is_sent() -> None:
    """A look-up of something that is just being sent changes nothing; after a crash it waits for the lease."""
    with provider_says(Charge, effects.Applied(), look_up=PROVEN) as said:
        with interrupt_at("send.before_call"), pytest.raises(Interrupted):
            effects.perform(Charge, payload=PAYLOAD, key="k1")
        row = Execution.objects.get()
        background.look_up(row.pk, now=True)
        run_due()
        assert (said.look_ups, Execution.objects.get().state) == ([], "executing")
        time_passes(AFTER_LEASE)
        run_due()
    assert (len(said.look_ups), len(said.sends)) == (1, 0)


def test_one_look_up_at_a_time() -> None:
    """Whoever has the lease asks; the others get nothing until it ends."""
    row, _ = perform(Charge, TimeoutError("no answer"), look_up=effects.Inconclusive())
    first = transitions.claim(row.pk, now=True)
    assert first is not None
    assert transitions.claim(row.pk, now=True) is None
    time_passes(AFTER_LEASE)
    second = transitions.claim(row.pk, now=True)
    assert second is not None
    transitions.apply_verdict(row.pk, epoch=first.epoch, verdict=effects.Conflict("late and wrong"))
    assert Execution.objects.get().state == "uncertain"


def test_slow_rails_are_waited_for() -> None:
    """A transfer that takes days is nobody's case until it should have arrived."""
    tomorrow = timezone.now() + DAY
    with provider_says(Charge, effects.Submitted("rf_1", expect_by=tomorrow), look_up=effects.InProgress("rf_1")):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        for _ in range(3):
            run_due()
            time_passes(timedelta(hours=7))
        assert effects.get(outcome.ref).state == "accepted"
        time_passes(timedelta(hours=4))
        run_due()
    assert (effects.get(outcome.ref).state, effects.get(outcome.ref).reason) == ("needs_intervention", "overdue")
