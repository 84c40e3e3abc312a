"""The whole of the runtime against one that remembers everything."""

from __future__ import annotations

from collections import Counter

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from effects._locks import now
from effects.states import EXECUTION_EDGES, REQUEST_EDGES
from tests.machine.declared import EFFECTS, Machine
from tests.machine.machine import EffectsMachine
from tests.machine.oracle import audit_journal

PAIRS = list(zip(EFFECTS, (*EFFECTS[1:], EFFECTS[0]), strict=True))
#: Renewing a lease leaves no receipt.
UNSEEN = {"renew"}
#: Verb → why the short run may miss it: in some of seven seeds it took it twice at most. The long run takes them all.
RARE = {
    "reopen": "a person's, of something that was given up after its look-ups",
    "order_resend": "a person's, of something that was given up",
    "contradict": "news that something happened which had counted as not done, or was undone",
    "observe": "a webhook about something whose provider has applied it",
    "extend_doubt": "a restore while something is in doubt already",
    "submit": "one answer in seven, of a provider that can be asked",
    "acknowledge": "a look-up between the provider's taking an order and carrying it out",
    "confirm_failure": "a look-up after the provider refused an order that it had taken",
    "not_sent": "a sender that wakes up just past its deadline, and has not been taken over",
    "request_approval": "an approval was used, its send proven absent, and it is due again",
    "lapse": "an approval that was granted and not used in its hour",
    "void": "what people are shown changes between their approval and the send",
    "suspend": "a handler returns while what it performed is unsettled",
    "settle": "and its execution is settled before the world ends",
}


@pytest.fixture(scope="module")
def reached() -> Counter[str]:
    """Verb → how often the machines of this module took it."""
    return Counter()


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_no_order_of_events_breaks_a_promise(
    pair: tuple[type[Machine], type[Machine]], profile: hypothesis.settings, reached: Counter[str]
) -> None:
    """Whatever programs, workers, people, the provider and time do, in whatever order, the promises hold."""
    machine: type[EffectsMachine] = type(
        f"{pair[0].__name__}Machine", (EffectsMachine,), {"effects": pair, "reached": reached}
    )
    if profile.derandomize:  # each another part of the world, and the same one in every run
        hypothesis.seed(PAIRS.index(pair))(machine)
    run_state_machine_as_test(machine, settings=profile)
    audit_journal(now())


@pytest.mark.usefixtures("journal")  # or it would run before the machines
def test_the_machines_get_somewhere(reached: Counter[str], profile: hypothesis.settings) -> None:
    """Machines that never take a verb would prove nothing about it."""
    wanted = (set(EXECUTION_EDGES) | set(REQUEST_EDGES)) - UNSEEN
    if profile.derandomize:
        wanted -= set(RARE)
    assert not wanted - set(reached), f"never taken, of {reached}"
