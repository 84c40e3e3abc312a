"""Playing cells, and saying which of them are broken."""

from __future__ import annotations

from effects.testing.faults import POINTS
from tests.crash.cells import Life, Setting
from tests.crash.forks import Forks
from tests.crash.oracle import Broken, judge
from tests.crash.plan import faults_of
from tests.crash.tally import WIRE, Tally

__all__ = ["play", "play_all"]


def play(setting: Setting, fault: str, forks: Forks, tally: Tally) -> Life:
    """Play one cell.

    Raises:
        Broken: a promise is.
    """
    life = Life(setting, forks, [fault])
    try:
        life.live()
        judge(life)
    except Broken as broken:
        raise Broken(f"{setting} at {fault}: {broken}") from broken
    tally.add(fault)
    return life


def play_all(setting: Setting, forks: Forks, tally: Tally) -> list[str]:
    """Play a setting without a fault, and then with one at each point that it reached; return what is broken."""
    smooth = Life(setting, forks, watching=True)
    smooth.live()
    judge(smooth)
    unknown = sorted(set(smooth.points) - {*POINTS, *WIRE})
    broken = [f"{setting}: {point} is reached and not in POINTS" for point in unknown]
    played = [_wrong(setting, fault, forks, tally) for fault in faults_of(setting, smooth.points)]
    return broken + list(filter(None, played))


def _wrong(setting: Setting, fault: str, forks: Forks, tally: Tally) -> str:
    """Play one cell; return what is broken, so that the other cells are played too."""
    try:
        play(setting, fault, forks, tally)
    except Broken as error:
        return str(error)
    return ""
