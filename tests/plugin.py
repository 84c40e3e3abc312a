"""Give pytest a PostgreSQL before pytest-django reads the settings, and begin with the files that take long."""

import os
import signal
from collections.abc import Generator

import pytest

from project.services import postgres
from project.services.processes import Processes, ServiceError

# Files whose tests take long, the longest first: begun first, the two workers end at about the same time.
LONG = (
    "http/rows/test_processes", "demo/test_demo", "console/test_stories", "model/test_execution", "docs/test_blocks",
    "docs/test_quick_start", "cookbook/test_cookbook",
    "machine/test_machine", "console/test_barriers", "console/test_matrix", "console/test_looks",
    "http/rows/test_fingerprints", "crash/test_cross_section", "http/rows/test_answers", "http/rows/test_replays",
    "audit/test_findings", "benchmarks/test_soak", "core/test_lookups", "console/test_surroundings",
    "console/test_pages", "http/test_async_views", "services/test_processes",
)  # fmt: skip
# A run with one of these tests nothing, so that no server is waited for.
ONLY_LOOKING = frozenset({"-h", "--help", "-V", "--version", "--markers", "--fixtures", "--collect-only", "--co"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what a test can write for the docs."""
    parser.addoption("--pictures", action="store_true", help="write the console's pictures into docs/images")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Start a PostgreSQL in the process that others are started from, unless `DATABASE_URL` names one.

    A worker of pytest-xdist inherits the URL with the environment.
    """
    # the providers of this suite are substitutes of its own; child processes and pytest-xdist's workers inherit it
    os.environ["EFFECTS_REAL_CALLS"] = "1"
    # a shell's background job ignores Ctrl-C, and so would all that tests start and interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not os.environ.get("DATABASE_URL") and ONLY_LOOKING.isdisjoint(args):
        processes = Processes()
        early_config.add_cleanup(processes.stop)
        try:
            os.environ["DATABASE_URL"] = postgres.start(processes, fsync=False).url
        except ServiceError as error:
            raise pytest.UsageError(str(error)) from error
        early_config.add_cleanup(lambda: os.environ.pop("DATABASE_URL", None))
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long."""
    places = {f"tests/{name}.py": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONG)))
