"""The cross-section that an ordinary run has time for; with the table and the verbs it reaches every point."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import effects
from effects.testing.faults import POINTS
from tests.crash.cells import Setting
from tests.crash.forks import Forks
from tests.crash.matrix import play
from tests.crash.plan import CROSS_SECTION
from tests.crash.table import POINTS as TOLD
from tests.crash.tally import WIRE, Tally
from tests.crash.verbs import VERBS


@pytest.mark.parametrize(("setting", "fault"), CROSS_SECTION, ids=[f"{setting}-{at}" for setting, at in CROSS_SECTION])
def test_a_cell(setting: Setting, fault: str, journal: Forks, tally: Tally):
    """Killed at this point, it ends as promised."""
    play(setting, fault, journal, tally)


def test_the_cross_section_is_complete():
    """Every point is reached in an ordinary run too."""
    verbs = {f"{verb.point}.{when}_commit" for verb in VERBS for when in ("before", "after")}
    reached = {fault for _, fault in CROSS_SECTION if "@" not in fault} | set(TOLD) | verbs
    assert reached == {*POINTS, *WIRE}


def test_every_commit_is_a_point():
    """Whatever `commits()` is opened for has its two points."""
    source = Path(effects.__file__).parent
    named = {
        name.replace(" ", "_")
        for path in source.rglob("*.py")
        for name in re.findall(r"(?:[^_]commits\(|_scope\(joins, )\"([^\"]+)\"", path.read_text())
    }
    assert {point.rpartition(".")[0] for point in POINTS if point.endswith("_commit")} == named


def test_the_environment_kills():
    """`EFFECTS_FAULT=<point>:<nth>` kills any process that uses the library, at the nth time."""
    code = (
        "from effects.journal.faults import reach; reach('send.replied'); print(1, flush=True); reach('send.replied')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "EFFECTS_FAULT": "send.replied:2"}, capture_output=True,
        check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout.strip()) == (-signal.SIGKILL, b"1")
