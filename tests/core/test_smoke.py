from datetime import timedelta

import pytest

import effects
from effects.models import Attempt, Execution, Receipt
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge, ChargePayload

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db(transaction=True)


def test_completed():
    with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1", requested_by="me")
        again = effects.perform(Charge, payload=PAYLOAD, key="k1")
    assert outcome.require() == {"id": "ch_1"}
    assert again == outcome
    assert len(said.sends) == 1
    row = Execution.objects.get()
    assert row.state == "completed" and row.hook_due_at is None
    assert [r.event for r in Receipt.objects.order_by("sequence")] == ["record", "permit", "complete"]
    assert Attempt.objects.get().outcome == "applied"


def test_doubt_then_found():
    with provider_says(Charge, TimeoutError("t"), look_up=[effects.Absent(), effects.Found("ch_1", {"id": 1})]):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        assert isinstance(outcome, effects.Uncertain)
        print(run_due())
        assert effects.get(outcome.ref).state == "uncertain"
        time_passes(timedelta(minutes=6))
        print(run_due())
    assert effects.get(outcome.ref).state == "completed"


def test_absent_then_sent():
    with provider_says(Charge, TimeoutError("t"), effects.Applied(1, "x"), look_up=effects.Absent()) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        run_due()
        time_passes(timedelta(minutes=6))
        print(run_due())
    assert effects.get(outcome.ref).state == "completed"
    assert len({permit.provider_key for _, permit in said.sends}) == 1 and len(said.sends) == 2
