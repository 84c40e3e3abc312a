"""The services that tests may ask for, started when the first one asks, and once for each xdist worker."""

from collections.abc import Iterator
from typing import Any

import pytest

from project.services import proxy, redis, stripe
from project.services.faults import Faults
from project.services.processes import Processes, Service
from tests import flushing
from tests.crash import provider


@pytest.fixture(scope="session", autouse=True)
def _fast_flush() -> None:
    """End transactional tests quickly."""
    flushing.install()


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Child processes that end with the session."""
    with Processes() as started:
        yield started


@pytest.fixture(scope="session")
def redis_url(processes: Processes) -> str:
    """The URL of a real Redis."""
    return redis.start(processes).url


@pytest.fixture(scope="session")
def provider_process() -> Iterator[str]:
    """A provider with a ledger, in a process that no kill of ours touches; its address is in the environment."""
    with provider.running() as address:
        yield address


@pytest.fixture(scope="session")
def stripe_server(processes: Processes) -> Service:
    """A localstripe; its `url` leads to the ledger past the bad network."""
    return stripe.start(processes)


@pytest.fixture(scope="session")
def proxy_server(processes: Processes, stripe_server: Service) -> Service:
    """The bad network before localstripe."""
    return proxy.start(processes, stripe_server.url)


@pytest.fixture
def faults(proxy_server: Service, settings: Any) -> Iterator[Faults]:
    """The control of the bad network, clean; the settings lead the project's Stripe calls through it."""
    control = Faults(proxy_server.url)
    control.reset()
    settings.STRIPE_API_BASE = control.url
    settings.STRIPE_API_KEY = stripe.API_KEY
    yield control
    control.reset()
