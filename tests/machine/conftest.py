"""How long the machine runs, which verbs it took, and the project's own table."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.db import connection

from effects.transitions import digests
from effects.vocabulary.states import EXECUTION_EDGES, REQUEST_EDGES

hypothesis.settings.register_profile(
    "normal",
    max_examples=7,
    stateful_step_count=32,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("normal"), max_examples=63, stateful_step_count=60, print_blob=True
)
#: The planted mutations are found in the long run, or when they are asked for.
PLANTED = "planted"
#: What only a short run is asked for.
SHORT = "short"
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "normal")
#: Every run of one seed draws the same histories, so that a commit is not judged by luck; another one explores others.
SEED = int(os.environ.get("MACHINE_SEED", "0"))
REACHED = pytest.StashKey[Counter[str]]()
_SENT = "machine_verbs"
#: Renewing a lease leaves no receipt, and in the machine's journal, without retention, nothing is pruned, and no
#: hook ends for that. News that is heard goes along other edges.
RETAINED = {"prune", "end_hook", "drop_answer", "free_key"}
VERBS = (set(EXECUTION_EDGES) | set(REQUEST_EDGES) | {"hear"}) - {"renew", *RETAINED}


@pytest.fixture
def profile() -> hypothesis.settings:
    """The settings that the environment asks for."""
    return hypothesis.settings.get_profile(PROFILE)


@pytest.fixture
def reached(request: pytest.FixtureRequest) -> Counter[str]:
    """Verb → how often the machines of this process took it."""
    return request.config.stash[REACHED]


@pytest.fixture
def journal(transactional_db: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty journal beside a table that the settled hooks write to.

    Receipts tell of no instant but that there is one: the machine stands still by moving some of them and not others.
    """
    monkeypatch.setattr(digests, "passed", lambda instant, _at: None if instant is None else 0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE machine_row (id bigserial PRIMARY KEY, ref text NOT NULL, state text NOT NULL)")
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE machine_row")


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers, and begin to count."""
    config.addinivalue_line("markers", f"{PLANTED}: a broken rule that the machine must find; minutes")
    config.addinivalue_line("markers", f"{SHORT}: of the short run; the long one demands more")
    config.stash.setdefault(REACHED, Counter())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the planted mutations to the long run, and to `-m planted`."""
    if PROFILE == "ci":
        unwanted = SHORT
    elif PLANTED not in config.option.markexpr:
        unwanted = PLANTED
    else:
        return
    left_out = [item for item in items if item.get_closest_marker(unwanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker of pytest-xdist counted."""
    node.config.stash[REACHED].update(getattr(node, "workeroutput", {}).get(_SENT, {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the worker's counts home; fail a long run that never took a verb."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[_SENT] = dict(config.stash[REACHED])
    elif _is_long(config) and VERBS - set(config.stash[REACHED]) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how often each verb was taken."""
    if not _is_long(config):
        return
    counts = config.stash[REACHED]
    terminalreporter.section("verbs that the machines took")
    terminalreporter.line(", ".join(f"{verb} {times}" for verb, times in counts.most_common()))
    for verb in sorted(VERBS - set(counts)):
        terminalreporter.line(f"never taken: {verb}")


def _is_long(config: pytest.Config) -> bool:
    """Whether this is the long run of all machines."""
    asked = [Path(argument).resolve() for argument in config.args]
    chosen = config.option.keyword or config.option.markexpr or config.option.collectonly
    return PROFILE == "ci" and Path(__file__).parent in asked and not chosen
