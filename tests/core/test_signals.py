"""Observers hear of changes after the commit, and cannot stop them."""

from __future__ import annotations

import pytest

import effects
from effects.signals import execution_changed
from effects.testing import provider_says
from tests.core.declared import Charge, ChargePayload, Plain

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db


@pytest.fixture
def heard():
    states: list[tuple[type, str]] = []

    def hear(sender, execution, **options):
        states.append((sender, str(execution.state)))
        raise RuntimeError("an observer's own trouble")

    execution_changed.connect(hear, sender=Charge)
    yield states
    execution_changed.disconnect(hear, sender=Charge)


def test_an_observer_hears_of_its_own_effect_and_stops_nothing(heard):
    """The sender is the effect's class, and what a receiver raises changes nothing."""
    with provider_says(Charge, effects.Applied(1)), provider_says(Plain, effects.Applied(2)):
        effects.perform(Plain, payload=PAYLOAD, key="order-17")
        assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1
    assert heard == [(Charge, "executing"), (Charge, "completed")]
