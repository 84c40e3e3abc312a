"""The matrix of protected views: whatever they are killed at, the payment is made once and the client hears of it."""

from __future__ import annotations

import pytest

from tests.crash.cells import Setting
from tests.crash.forks import Forks
from tests.crash.matrix import play_all
from tests.crash.plan import settings_of
from tests.crash.tally import Tally

pytestmark = pytest.mark.full


@pytest.mark.parametrize("setting", settings_of(("declared", "opaque")), ids=str)
def test_every_point(setting: Setting, journal: Forks, tally: Tally):
    """Killed at each point that the setting reaches, it ends as promised."""
    assert not play_all(setting, journal, tally)
