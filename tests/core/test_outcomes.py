"""An outcome says the same whoever is asked for it: the call, the snapshot, the wait, the hook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import transaction

import effects
from effects.models import Approval
from effects.signals import execution_changed
from effects.testing import provider_says
from tests.core.declared import Approved, Order, Plain
from tests.core.people import PAYLOAD, person

pytestmark = pytest.mark.django_db(transaction=True)

LATER = datetime(2030, 1, 1, tzinfo=timezone.utc)


def perform(effect: Any, *answers: Any) -> Any:
    with provider_says(effect, *answers):
        return effects.perform(effect, payload=PAYLOAD, key="k1", requested_by="test")


def later(effect: Any) -> Any:
    with transaction.atomic():
        return effects.perform_later(effect, payload=PAYLOAD, key="k1", requested_by="test")


CASES = {
    "completed": lambda: perform(Order, effects.Applied({"a": 1}, "ch_1")),
    "partly": lambda: perform(
        Order, effects.Partial([effects.Item("a", True, "r1"), effects.Item("b", False, code="no", message="full")])
    ),
    "failed": lambda: perform(Order, effects.Declined("no funds", code="funds")),
    "uncertain": lambda: perform(Order, TimeoutError("no reply")),
    "accepted": lambda: perform(Order, effects.Submitted("po_1", expect_by=LATER)),
    "needs_a_person": lambda: perform(Plain, TimeoutError("no reply")),
    "pending": lambda: later(Order),
    "awaiting": lambda: perform(Approved, effects.Applied()),
    "awaiting_later": lambda: later(Approved),
}


@contextmanager
def heard() -> Iterator[list[Any]]:
    """Collect what the signal tells."""
    told: list[Any] = []

    def hear(execution: Any, **_: Any) -> None:
        told.append(execution.outcome)

    execution_changed.connect(hear)
    try:
        yield told
    finally:
        execution_changed.disconnect(hear)


@pytest.mark.parametrize("case", CASES)
def test_every_way_to_an_outcome_gives_the_same_fields(case: str) -> None:
    """With all that the call gave: an approval's last hour, items, a due time, the words of the provider."""
    person("ann")
    with heard() as told:
        given = CASES[case]()
    assert effects.get(given.ref).outcome == given
    assert effects.wait(given.ref, timedelta(0)) == given
    assert told[-1] == given


def test_the_time_is_that_of_its_approval() -> None:
    """It stands in the words for a log, too."""
    person("ann")
    given = perform(Approved, effects.Applied())
    approval = Approval.objects.get()
    assert given.decide_by == approval.decide_by
    assert f"until {approval.decide_by}" in effects.get(given.ref).outcome.describe()
