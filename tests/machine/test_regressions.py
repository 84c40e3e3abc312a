"""What the machine and the models found, reduced: each broke a promise once."""

from __future__ import annotations

import pytest

from effects.models import Execution
from effects.vocabulary.states import ExecutionState
from tests.machine.declared import Authoritative
from tests.machine.machine import people
from tests.machine.oracle import Oracle
from tests.machine.provider import Answer
from tests.machine.world import World

pytestmark = pytest.mark.usefixtures("journal")


@pytest.fixture
def world() -> World:
    """A world in which nothing has happened."""
    return World(people())


def only(state: ExecutionState) -> Execution:
    """Return the one execution in a state."""
    return Execution.objects.get(state=str(state))


def test_what_follows_a_failed_undoing_undoes_again(world: World) -> None:
    """Asking again for an undoing that was declined does not send the original once more."""
    asker = world.people[0]
    world.perform(Authoritative, "a", asker)
    world.provider.answer = Answer.DECLINED
    world.compensate(only(ExecutionState.COMPLETED), asker)
    world.provider.answer = Answer.APPLIED
    world.supersede(only(ExecutionState.FAILED), asker)
    assert [sent.undoes for sent in world.provider.wire] == [False, True, True]
    Oracle(world).check()
