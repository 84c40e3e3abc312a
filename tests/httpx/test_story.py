"""From `perform` to the journal's rows, with a bank that has a ledger and loses replies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as project

import effects
from effects.contrib.httpx import ApiRequest, CallApi
from effects.models import Attempt, Execution
from effects.testing import run_due, time_passes
from tests.httpx.bank import Bank, serve

pytestmark = pytest.mark.django_db(transaction=True)

settled: list[tuple[str, str]] = []


@dataclass(frozen=True)
class TransferPayload:
    """Whom to pay how many cents."""

    iban: str
    amount: int


@effects.register
class BookTransfer(CallApi[TransferPayload]):
    """A transfer at a bank that can be asked, and undone."""

    operation = "test.book_transfer"
    provider = "bank/plain"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))
    reference_field = "id"
    reversible = True
    allow_http = True
    proves = {503: effects.NotNow}

    def request(self, context: Any) -> ApiRequest:
        payload = context.payload
        return ApiRequest(
            "POST", f"{project.BANK_URL}/transfers", json={"iban": payload.iban, "amount": payload.amount}
        )

    def look_up_request(self, context: Any) -> ApiRequest:
        return ApiRequest("GET", f"{project.BANK_URL}/transfers", params={"key": context.provider_key})

    def verdict(self, context: Any, answer: Any) -> Any:
        found = answer.json()["data"]
        return effects.Found(found[0]["id"], output=found[0]) if found else effects.Absent()

    def compensate(self, context: Any, permit: Any) -> Any:
        original = effects.get(context.compensates)
        asked = ApiRequest("POST", f"{project.BANK_URL}/returns", json={"of": original.reference})
        return self.answered(context, self.call(asked, permit))

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        settled.append((context.ref, str(outcome.state)))


@pytest.fixture
def bank(settings: Any) -> Iterator[Bank]:
    """A bank that books."""
    settled.clear()
    with serve() as found:
        settings.BANK_URL = found.url
        yield found


def book(key: str = "order-17") -> effects.Outcome:
    """Book a transfer."""
    return effects.perform(BookTransfer, payload=TransferPayload("DE02", 2500), key=key)


def test_a_transfer(bank: Bank) -> None:
    """Booked once under the row's provider key; asked again it is the same, and nothing is sent."""
    outcome = book()
    row, attempt = Execution.objects.get(), Attempt.objects.get()
    assert isinstance(outcome, effects.Completed)
    assert outcome.require() == bank.booked[row.provider_key]
    assert (row.state, row.reference, row.provider) == ("completed", "t-1", "bank/plain")
    assert (attempt.outcome, attempt.reference, attempt.provider_key) == ("applied", "t-1", row.provider_key)
    assert book() == outcome
    assert bank.posts() == 1
    assert settled == [(str(row.pk), "completed")]


def test_a_lost_reply_is_looked_up(bank: Bank) -> None:
    """The bank booked and its reply was lost: uncertain, found later, completed, and never sent again."""
    bank.faults.append("lose_reply")
    outcome = book()
    assert isinstance(outcome, effects.Uncertain)
    assert outcome.may_have_applied
    assert Attempt.objects.get().outcome == "unknown"
    assert settled == []
    time_passes(timedelta(minutes=1))
    run_due()
    row = Execution.objects.get()
    assert (row.state, row.reference) == ("completed", "t-1")
    assert settled == [(str(row.pk), "completed")]
    assert effects.get(row.pk).outcome.require()["amount"] == 2500
    assert (bank.posts(), len(bank.booked)) == (1, 1)


def test_a_lost_request_is_sent_again_when_its_absence_is_proven(bank: Bank) -> None:
    """Only after the barrier, and under the same key."""
    bank.faults.append("lose_request")
    assert isinstance(book(), effects.Uncertain)
    time_passes(timedelta(minutes=1))
    run_due()
    assert (Execution.objects.get().state, bank.posts()) == ("uncertain", 1)
    time_passes(timedelta(minutes=10))
    for _ in range(3):
        run_due()
        time_passes(timedelta(minutes=1))
    row = Execution.objects.get()
    assert row.state == "completed"
    assert {attempt.provider_key for attempt in Attempt.objects.all()} == set(bank.booked) == {row.provider_key}
    assert bank.posts() == 2


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [(402, "failed", "declined"), (422, "failed", "invalid_request"), (503, "pending", "retry"),
     (429, "pending", "retry"), (500, "uncertain", "provider_error"), (409, "uncertain", "provider_error")],
)  # fmt: skip
def test_what_a_status_leaves(bank: Bank, status: int, state: str, reason: str) -> None:
    """The row says what the status proved, in the provider's words, and the bank has nothing."""
    bank.faults.append(status)
    book()
    row = Execution.objects.get()
    assert (row.state, row.reason) == (state, reason)
    assert row.may_have_applied == (state == "uncertain")
    assert "refused as ordered" in str(Attempt.objects.get().message)
    assert bank.booked == {}


def test_a_refusal_for_now_is_sent_again(bank: Bank) -> None:
    """Under the same key, and then it is booked once."""
    bank.faults.extend([503, 429])
    book()
    for _ in range(3):
        time_passes(timedelta(minutes=1))
        run_due()
    assert Execution.objects.get().state == "completed"
    assert (bank.posts(), len(bank.booked)) == (3, 1)


def test_it_is_undone(bank: Bank) -> None:
    """`call` and `answered` make the undoing, under a key of its own."""
    done = book()
    undone = effects.compensate(done.ref, requested_by="ann", reason="twice")
    assert isinstance(undone, effects.Completed)
    assert [entry["path"] for entry in bank.booked.values()] == ["/transfers", "/returns"]
    assert bank.booked[Execution.objects.get(pk=undone.ref).provider_key]["of"] == "t-1"
