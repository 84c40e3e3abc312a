"""Play the recipes of `docs/guides/cookbook.md`: done twice, with a reply lost, and killed at the worst places.

Called from the page, in the tutorial's project.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client

from effects.testing import run_due, time_passes
from tests.docs.killed import kill

__all__ = ["RECIPES", "check"]

CAROL = {"Authorization": "Basic Y2Fyb2w6Y2Fyb2wtc2VjcmV0"}


def check() -> None:
    """Play every recipe; the signal of the shop is heard in its own recipe alone."""
    for play in RECIPES.values():
        play()
    assert len({booking["key"] for booking in _bookings()}) == len(_bookings()), "the bank booked something twice"


def view_set() -> None:
    """A refund of a view set: one booking and one row, whatever happens between them."""
    from shop.models import Refund

    first, again = (_post("/refunds/", "set-1", order="v1", amount=500) for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert first.json()["bank_id"] == _booked("v1")[0]["id"]
    assert _post("/refunds/", "set-2", order="", amount=500).status_code == 400

    assert _post("/refunds/", "set-3", order="v3", amount=713).json()["code"] == "operation_uncertain"
    run_due()
    assert _post("/refunds/", "set-3", order="v3", amount=713).status_code == 201

    kill("send.replied", lambda: _post("/refunds/", "set-4", order="v4", amount=500))
    _leases_end()
    assert _post("/refunds/", "set-4", order="v4", amount=500).status_code == 201
    for order in ("v1", "v3", "v4"):
        assert len(_booked(order)) == Refund.objects.filter(order=order).count() == 1


def record_and_send_later() -> None:
    """A complaint and the order to refund it: both or neither, and one booking."""
    from shop.models import Complaint

    first, again = (_post("/orders/c1/complaints/", "late-1", amount=500) for _ in range(2))
    assert first.status_code == again.status_code == 202
    assert first.content == again.content
    assert _booked("c1") == []
    run_due()
    assert len(_booked("c1")) == 1
    status = Client(SERVER_NAME="localhost", headers=CAROL).get(f"/complaints/{first.json()['complaint']}/")
    assert status.json() == {"refunds": ["completed"]}

    for point, there in (("before", 0), ("after", 1)):
        fault = f"answering_a_transactional_request.{point}_commit"
        kill(fault, lambda: _post("/orders/c2/complaints/", "late-2", amount=500))
        assert Complaint.objects.filter(order="c2").count() == there
    assert _post("/orders/c2/complaints/", "late-2", amount=500).status_code == 202
    run_due()
    assert len(_booked("c2")) == Complaint.objects.filter(order="c2").count() == 1


def command() -> None:
    """A command that is killed and run again refunds each complaint once, and each it had not come to."""
    from django.core.management import call_command

    _complaints("m1", "m2", "m3")
    kill("send.replied", lambda: call_command("refund_complaints", verbosity=0))
    assert len(_booked("m1")) == 1
    assert _booked("m2") == []
    for _ in range(2):
        call_command("refund_complaints", stdout=_Nowhere())
        _leases_end()
    assert [len(_booked(order)) for order in ("m1", "m2", "m3")] == [1, 1, 1]


def signal() -> None:
    """A saved complaint is refunded once; one whose transaction is rolled back, never."""
    from django.db.models.signals import post_save
    from shop.models import Complaint
    from shop.signals import refund_granted

    import effects

    post_save.connect(refund_granted, sender=Complaint)
    try:
        with _rolled_back():
            Complaint.objects.create(order="s1", amount=500, granted=True)
        complaint = Complaint.objects.create(order="s2", amount=500, granted=True)
        complaint.save()
        Complaint.objects.create(order="s3", amount=500)
        run_due()
        assert [len(_booked(order)) for order in ("s1", "s2", "s3")] == [0, 1, 0]
        complaint.amount = 600
        try:
            with transaction.atomic():
                complaint.save()
        except effects.PayloadConflictError:
            complaint.refresh_from_db()
        assert complaint.amount == 500
    finally:
        post_save.disconnect(refund_granted, sender=Complaint)


def task() -> None:
    """A task that is delivered again, after its worker was killed, refunds once."""
    from shop.tasks import refund_complaint

    (first, second) = _complaints("t1", "t2")
    assert [refund_complaint(first), refund_complaint(first)] == ["completed", "completed"]
    for point in ("send.before_call", "send.replied"):
        (pk,) = _complaints(f"t-{point}")
        kill(point, lambda pk=pk: refund_complaint(pk))
        assert refund_complaint(pk) == "executing"
        _leases_end()
        assert refund_complaint(pk) == "completed"
        assert len(_booked(f"t-{point}")) == 1
    assert refund_complaint(second) == "completed"
    assert len(_booked("t1")) == len(_booked("t2")) == 1


def admin_action() -> None:
    """An action that is pressed twice refunds once; a large refund waits for somebody else than who pressed."""
    from django.contrib.auth.models import User
    from shop.models import Complaint

    import effects

    small, lost = _complaints("a1", "a2")
    large = Complaint.objects.bulk_create([Complaint(order="a3", amount=250_00, granted=True)])[0].pk
    Complaint.objects.filter(pk=lost).update(amount=713)
    anna = Client(SERVER_NAME="localhost")
    anna.force_login(User.objects.get(username="anna"))
    chosen = {"action": "refund", "_selected_action": [small, lost, large]}
    alone = anna.post("/admin/shop/complaint/", chosen, follow=True).content.decode()
    assert "needs 1 approval" in alone
    assert "completed" in alone
    User.objects.create_superuser("bert")
    said = [anna.post("/admin/shop/complaint/", chosen, follow=True).content.decode() for _ in range(2)]
    for state in ("completed", "uncertain", "awaiting approval"):
        assert all(state in page for page in said), state
    run_due()
    assert [len(_booked(order)) for order in ("a1", "a2", "a3")] == [1, 1, 0]
    (waiting,) = effects.find(about=Complaint.objects.get(pk=large))
    assert waiting.requested_by.id == f"user:{User.objects.get(username='anna').pk}"
    assert "Outside effects" in anna.get(f"/admin/shop/complaint/{large}/change/").content.decode()


def charge_then_ship() -> None:
    """A charge is followed by one parcel, or by one refund, never by both, whatever is lost or killed."""
    from shop import carrier

    def stands(order: str) -> tuple[list[int], int]:
        amounts = [booking["amount"] for booking in _booked(order)]
        return amounts, len([parcel for parcel in carrier.parcels() if parcel["order"] == order])

    def checkout(order: str, amount: int = 500) -> Any:
        return _post(f"/orders/{order}/checkout/", f"check-{order}", amount=amount)

    assert [checkout("o1").status_code, checkout("o1").status_code] == [201, 201]
    run_due()
    assert stands("o1") == ([-500], 1)

    assert checkout("o20").status_code == 201  # the carrier knows no address
    run_due()
    assert stands("o20") == ([-500, 500], 0)

    assert checkout("o13").status_code == 201  # the carrier's reply is lost
    run_due()
    assert stands("o13") == ([-500], 1)

    assert checkout("o2", amount=687).json()["code"] == "operation_uncertain"  # the bank's reply is lost
    assert stands("o2") == ([-687], 0)
    run_due()
    assert checkout("o2", amount=687).status_code == 201
    assert stands("o2") == ([-687], 1)

    for order, point in (("o3", "send.replied"), ("o4", "hook.after"), ("o5", "recording_an_outcome.after_commit")):
        kill(point, lambda order=order: checkout(order))
        _leases_end()
        assert checkout(order).status_code == 201
        assert stands(order) == ([-500], 1), point
    checkout("o6")
    kill("send.replied", run_due)  # the worker that ships
    _leases_end()
    assert stands("o6") == ([-500], 1)


#: Heading of the page → what plays it.
RECIPES = {
    "A ModelViewSet whose create performs an effect": view_set,
    "A view that records now and sends later": record_and_send_later,
    "A management command": command,
    "A signal": signal,
    "Inside a Celery task": task,
    "An admin action": admin_action,
    "Several effects in a row: charge, then ship": charge_then_ship,
}


class _Nowhere:
    def write(self, text: str) -> None:
        """Print nothing."""


@contextmanager
def _rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _complaints(*orders: str) -> list[int]:
    """Make granted complaints, of which the shop's signal does not hear, and return their numbers."""
    from shop.models import Complaint

    rows = [Complaint(order=order, amount=500, granted=True) for order in orders]
    return [row.pk for row in Complaint.objects.bulk_create(rows)]


def _post(path: str, key: str, **data: Any) -> Any:
    return Client(SERVER_NAME="localhost", headers=CAROL).post(path, data, headers={"Idempotency-Key": key})


def _leases_end() -> None:
    """Let the leases of dead processes end, then the time in which a request may still land, and do what is due."""
    for minutes in (2, 10):
        time_passes(timedelta(minutes=minutes))
        run_due()


def _bookings() -> list[dict[str, Any]]:
    from shop import bank

    return bank.bookings()


def _booked(order: str) -> list[dict[str, Any]]:
    return [booking for booking in _bookings() if booking["order"] == order]
