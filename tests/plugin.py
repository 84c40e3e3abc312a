"""Give pytest a PostgreSQL before pytest-django reads the settings."""

import os
from collections.abc import Generator

import pytest

from project.services import postgres
from project.services.processes import Processes, ServiceError

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
    if not os.environ.get("DATABASE_URL") and ONLY_LOOKING.isdisjoint(args):
        processes = Processes()
        early_config.add_cleanup(processes.stop)
        try:
            os.environ["DATABASE_URL"] = postgres.start(processes, fsync=False).url
        except ServiceError as error:
            raise pytest.UsageError(str(error)) from error
        early_config.add_cleanup(lambda: os.environ.pop("DATABASE_URL", None))
    return (yield)
