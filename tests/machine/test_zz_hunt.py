import os
from collections import Counter

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.machine import EffectsMachine
from tests.machine.test_machine import PAIRS


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("i", range(8))
def test_hunt(i, profile) -> None:
    m = type("M", (EffectsMachine,), {"effects": PAIRS[i], "reached": Counter()})
    hypothesis.seed(int(os.environ.get("SEED", "1000")) + i)(m)
    run_state_machine_as_test(
        m,
        settings=hypothesis.settings(
            profile,
            max_examples=int(os.environ.get("N", "40")),
            phases=[hypothesis.Phase.generate],
            print_blob=False,
        ),
    )
