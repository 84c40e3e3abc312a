"""The whole of the runtime against one that remembers everything."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from effects.states import EXECUTION_EDGES, REQUEST_EDGES
from tests.machine.machine import EffectsMachine


@pytest.mark.usefixtures("journal")
def test_no_order_of_events_breaks_a_promise(profile: hypothesis.settings):
    """Whatever programs, workers, people, the provider and time do, in whatever order, the promises hold."""
    EffectsMachine.reached.clear()
    run_state_machine_as_test(EffectsMachine, settings=profile)
    never = (set(EXECUTION_EDGES) | set(REQUEST_EDGES)) - set(EffectsMachine.reached)
    print(EffectsMachine.reached, never)
