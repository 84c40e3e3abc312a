"""The page that says what happens at each point says what happens."""

from __future__ import annotations

import pytest

from tests.crash.forks import Forks
from tests.crash.matrix import play
from tests.crash.plan import PROVIDERS
from tests.crash.table import PAGE, POINTS, heading, left, setting_of, told
from tests.crash.tally import Tally

#: The one that an ordinary run plays.
COLUMN = "lagging"


@pytest.mark.parametrize(
    "provider", [pytest.param(one, marks=[] if one == COLUMN else [pytest.mark.full]) for one in PROVIDERS]
)
def test_a_column(provider: str, journal: Forks, tally: Tally):
    """Each row of the page is what is left and how it ends with this provider."""
    played = {point: play(setting_of(provider), point, journal, tally) for point in POINTS}
    wanted = {f"`{point}`": (left(point, life), told(life)) for point, life in played.items()}
    page = PAGE.read_text()
    assert heading() in page
    lines = page.partition(heading() + "\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[entry.strip() for entry in line.strip("|").split("|")] for line in lines]
    shown = {row[0]: (row[:4], row[4 + PROVIDERS.index(provider)]) for row in rows}
    assert shown == wanted
