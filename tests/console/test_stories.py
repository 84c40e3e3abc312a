"""Stories in a real browser: an approver, a second one, an operator, an attacker."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from effects.models import Approval, Execution
from effects.testing import run_due
from tests.console.chromium import Person
from tests.console.pages import page_of

pytestmark = pytest.mark.django_db(transaction=True)
Seat = Callable[..., Person]
LOGIN = "/admin/login/?next=/admin/effects/"


def state_of(ref: str) -> str:
    return str(Execution.objects.get(pk=ref).state)


def test_approver_approves_what_they_read(seat: Seat, waiting: Any, ann: User) -> None:
    """An approver logs in, finds the payout in the queue, reads what exactly is sent, and approves it once."""
    ref = waiting().ref
    anns = seat().opens(LOGIN).types("Username:", "ann").types("Password:", "x").clicks("Log in", "button")
    anns.clicks("Pay out to DE89")
    assert "1,250.00 EUR" in anns.text
    anns.clicks("Approve")
    assert (
        "The provider bank/main is asked for “Pay out to DE89”, 1,250.00 EUR, as soon as a worker is free." in anns.text
    )
    assert Approval.objects.get().digest in anns.text
    anns.types("Comment", "seen the invoice").clicks("Approve", "button")
    assert "Your approval is recorded. Approved: 1 of 1, the licence is granted." in anns.text
    run_due()
    assert state_of(ref) == "completed"
    assert "It happened, and the proof is on file." in anns.opens(page_of(ref)).text
