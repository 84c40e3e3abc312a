"""The shop with an order that is paid, and Hypothesis as other tests know it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from project.payments.checkout import paid_order
from project.payments.models import Order
from project.services.faults import Faults
from tests.schema import running
from tests.schema.shop import Crowd


@pytest.fixture(scope="package", autouse=True)
def _hypothesis_of_others() -> Iterator[None]:
    """Put Hypothesis back after the tests of this directory."""
    with running.hypothesis_put_back():
        yield


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Do not log the refusals that are expected."""
    loggers = [logging.getLogger(name) for name in ("django.request", "django.security", "effects")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def customer(transactional_db: None) -> User:
    """Who asks, proposes refunds and may approve those of others."""
    user = User.objects.create_user("customer", password=running.PASSWORD)
    user.user_permissions.add(*Permission.objects.filter(codename__in=["add_refund", "approve_refund"]))
    return user


@pytest.fixture
def approver(transactional_db: None) -> User:
    """Who may approve what the customer asks for."""
    user = User.objects.create_user("approver", password=running.PASSWORD)
    user.user_permissions.add(Permission.objects.get(codename="approve_refund"))
    return user


@pytest.fixture
def order(faults: Faults, customer: User, approver: User) -> Order:
    """An order of 1000.00 euros, paid."""
    found = paid_order(customer, "order-17", 100_000)
    faults.reset()
    return found


@pytest.fixture
def crowd() -> Crowd:
    """The application, for requests drawn at random."""
    return Crowd()


@pytest.fixture
def drawn(crowd: Crowd, order: Order, monkeypatch: Any) -> Any:
    """The schema, for requests drawn at random."""
    running.send_probes_in_process(monkeypatch)
    return running.load(crowd)


@pytest.fixture
def ask(customer: User) -> running.Asker:
    """Asks, and holds each answer against the schema."""
    return running.Asker(running.load_once())
