"""`effects.testing`: the kit that a host project needs, in each of the ways in which Django projects test."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase, TransactionTestCase

import effects
from effects.declarations.effect import get_effect
from effects.models import Attempt, Execution, Receipt
from effects.testing import assert_performed, provider_says, run_due, time_passes
from tests.core.declared import Approved, Charge, ChargePayload, Noted, Order, Plain
from tests.core.people import PAYLOAD, approve, asked, person


class TheWholeStory:
    """What works in a TestCase works in a TransactionTestCase and in pytest-django, and the other way round."""

    def test_a_charge_is_completed(self) -> None:
        """The provider answers as the test says, the runtime around it is the real one."""
        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-1")
        assert outcome.require() == {"id": "ch_1"}
        ((context, permit),) = said.sends
        assert (context.payload, permit.number) == (PAYLOAD, 1)
        assert_performed(Charge, key="order-1")

    def test_doubt_is_settled_by_a_look_up_after_its_time(self) -> None:
        """`time_passes` and `run_due` take the place of hours of beats and workers."""
        with provider_says(Charge, TimeoutError(), effects.Applied(), look_up=effects.Absent()) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-1")
            run_due()
            assert_performed(Charge, state="uncertain")
            time_passes(timedelta(minutes=6))
            run_due()
        assert len(said.sends) == 2
        assert_performed(Charge)

    def test_an_approval_licenses_the_send(self) -> None:
        """People are the project's own users."""
        ann, bob = person("ann"), person("bob")
        row = asked(Approved, by=ann)
        with provider_says(Approved, effects.Applied()):
            approve(row, bob)
            run_due()
        assert_performed(Approved)

    def test_perform_later_is_sent_by_the_sweep(self) -> None:
        """Whether or not on_commit hooks run in this kind of test."""
        with transaction.atomic():
            effects.perform_later(Charge, payload=PAYLOAD, key="order-1")
        with provider_says(Charge, effects.Applied()):
            run_due()
        assert_performed(Charge)

    def test_perform_in_a_transaction_of_the_project_is_refused(self) -> None:
        """The blocks of a test case are told apart from the project's own."""
        with pytest.raises(effects.EffectsError, match="open transaction"), transaction.atomic():
            effects.perform(Charge, payload=PAYLOAD, key="order-1")
        assert_performed(Charge, times=0)


class InTestCase(TheWholeStory, TestCase):
    """In a transaction that is rolled back."""


class InTransactionTestCase(TheWholeStory, TransactionTestCase):
    """With real commits."""


@pytest.mark.django_db
class TestInPytestDjango(TheWholeStory):
    """With the `db` fixture."""


@pytest.mark.django_db(transaction=True)
class TestInPytestDjangoWithCommits(TheWholeStory):
    """With the `transactional_db` fixture."""


# -- provider_says -------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.django_db


def test_answers_come_one_after_the_other_and_the_last_one_repeats() -> None:
    """Results are returned, errors and error classes raised, functions called."""
    answers = (effects.NotNow("busy"), TimeoutError, lambda context, permit: effects.Applied(context.key))
    with provider_says(Plain, *answers) as said:
        states = [effects.perform(Plain, payload=PAYLOAD, key=f"k{number}").state.value for number in range(4)]
    assert states == ["pending", "uncertain", "completed", "completed"]
    assert len(said.sends) == 4


def test_verdicts_come_one_after_the_other_too() -> None:
    """One, or several; a function is called with the context."""
    verdicts = [effects.Inconclusive(), lambda context: effects.Found(f"ch_{context.key}")]
    with provider_says(Order, TimeoutError(), look_up=verdicts) as said:
        effects.perform(Order, payload=PAYLOAD, key="k1")
        run_due()
        time_passes(timedelta(minutes=1))
        run_due()
    assert len(said.look_ups) == 2
    assert assert_performed(Order)[0].reference == "ch_k1"


def test_a_send_that_the_test_said_nothing_about_fails_the_test() -> None:
    """Within `send` the error is doubt, as any error there; the block itself raises at its end."""
    with pytest.raises(AssertionError, match=r"bank\.plain k1 was sent"), provider_says(Plain):
        assert isinstance(effects.perform(Plain, payload=PAYLOAD, key="k1"), effects.Uncertain)


def test_scripts_of_one_effect_nest() -> None:
    """The inner one's end gives the provider back to the outer one, whose end gives it back to the effect."""
    before = dict(get_effect(Plain).__dict__)
    with provider_says(Plain, effects.Applied(1)):
        with provider_says(Plain, effects.Applied(2)):
            assert effects.perform(Plain, payload=PAYLOAD, key="k1").require() == 2
        assert effects.perform(Plain, payload=PAYLOAD, key="k2").require() == 1
    assert get_effect(Plain).__dict__ == before


def test_an_effect_can_be_named_by_its_operation() -> None:
    """As everywhere else."""
    with provider_says("bank.plain", effects.Applied(1)):
        effects.perform("bank.plain", payload=PAYLOAD, key="k1")
    assert_performed("bank.plain")


# -- assert_performed ----------------------------------------------------------------------------------------------


@pytest.fixture
def two() -> list[Any]:
    """Two charges, one of them refused."""
    with provider_says(Charge, effects.Applied(), effects.Declined("no")):
        return [effects.perform(Charge, payload=ChargePayload("c1", amount), key=f"k{amount}") for amount in (100, 200)]


def test_what_was_performed_is_returned(two: list[Any]) -> None:
    """Chosen by state, key and payload."""
    assert [execution.key for execution in assert_performed(Charge)] == ["k100"]
    assert [execution.key for execution in assert_performed(Charge, state="failed")] == ["k200"]
    assert_performed(Charge, key="k100", payload=ChargePayload("c1", 100))
    assert_performed(Charge, times=0, payload=ChargePayload("c1", 300))


@pytest.mark.parametrize(
    "wrong", [{"times": 2}, {"key": "k3"}, {"state": "pending"}, {"payload": ChargePayload("x", 1)}]
)
def test_a_wrong_expectation_shows_all_that_there_is(two: list[Any], wrong: dict[str, Any]) -> None:
    """Keys, states, reasons and payloads, so that nobody has to look into the database."""
    with pytest.raises(AssertionError) as raised:
        assert_performed(Charge, **wrong)
    message = str(raised.value)
    assert "bank.charge" in message
    assert "k100: completed (sent)" in message
    assert "k200: failed (declined)" in message
    assert '"amount":200' in message


def test_a_wrong_expectation_of_nothing_says_none() -> None:
    """The journal is empty."""
    with pytest.raises(AssertionError, match="none"):
        assert_performed(Charge)


# -- time and sweeps -----------------------------------------------------------------------------------------------


def test_time_passes_for_everything_in_the_journal() -> None:
    """Leases, barriers, due times, windows and receipts move together; receipts stay append-only afterwards."""
    asked(Approved, by=person("ann")) if person("bob") else None
    before = [
        {name: value for name, value in row.items() if hasattr(value, "tzinfo")}
        for model in (Execution, Receipt)
        for row in model.objects.order_by("pk").values()
    ]
    time_passes(timedelta(hours=3))
    after = [
        {name: value for name, value in row.items() if hasattr(value, "tzinfo")}
        for model in (Execution, Receipt)
        for row in model.objects.order_by("pk").values()
    ]
    assert after == [{name: at - timedelta(hours=3) for name, at in row.items()} for row in before]
    with pytest.raises(Exception, match="append-only"), transaction.atomic():
        Receipt.objects.update(reason="x")


def test_time_passes_a_lease() -> None:
    """A process that died in its send is found by the sweep."""

    def die(context: Any, permit: Any) -> Any:
        time_passes(timedelta(seconds=5))
        run_due()
        assert Execution.objects.get().state == "executing"
        time_passes(timedelta(seconds=10))
        run_due()
        return effects.Applied()

    with provider_says(Order, die, look_up=effects.Unreachable()):
        outcome = effects.perform(Order, payload=PAYLOAD, key="k1")
    assert Attempt.objects.get().outcome == "applied"
    assert isinstance(outcome, effects.Completed)


def test_run_due_does_all_that_is_due_and_says_what() -> None:
    """Chains of look-up, send and hook in one call; what is not due yet stays."""
    with provider_says(Noted, TimeoutError(), effects.Applied(), look_up=effects.Absent()):
        effects.perform(Noted, payload=PAYLOAD, key="k1")
        time_passes(timedelta(minutes=1))
        done = run_due()
    assert done == {"look_up_due.pending": 1, "run_due.completed": 1}
    assert run_due() == {}
