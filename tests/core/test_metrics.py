"""What the metrics say about the journal."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import effects
from effects.metrics import JournalCollector
from effects.sweeps import _batches
from effects.testing import provider_says, run_due
from tests.core.declared import Charge, ChargePayload


@pytest.mark.django_db(transaction=True)
def test_an_execution_in_doubt_is_counted_with_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executions that are not settled are counted by operation and state, with the age of the oldest."""
    # this process may have written its heartbeat in another test within the minute
    monkeypatch.setattr(_batches, "_last_done", {})
    registry = CollectorRegistry()
    registry.register(JournalCollector())
    with provider_says(Charge, TimeoutError, look_up=effects.Unreachable("down")):
        effects.perform(Charge, payload=ChargePayload("c", 1), key="k")
        run_due()
    text = generate_latest(registry).decode()
    assert 'effects_unsettled{operation="bank.charge",state="uncertain"} 1.0' in text
    assert 'effects_oldest_seconds{operation="bank.charge",state="uncertain"}' in text
    assert 'effects_sweep_age_seconds{sweep="look_up_due"}' in text
