"""A journal as a busy afternoon leaves it: something in every state that the console shows."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

import effects
from effects.models import Approval, Attempt, Execution, Heartbeat, Receipt, Request, RequestExecution
from effects.sweeps import SWEEPS
from effects.testing import provider_says, time_passes
from tests.console.declared import Charge, PayOut, Payout
from tests.console.pages import page_of, verb_of

__all__ = ["Scene", "make_request", "pages"]

TWO = effects.Conflict("the bank shows 842.00 EUR under our key, not 482.00 EUR")
SUPPLIERS = ("Lindqvist Interiors", "Café Orsini", "Brandt & Söhne", "Meridian Freight", "Atelier Nova")


def make_request(key: str, state: str = "in_doubt", **fields: Any) -> Request:
    """Make a protected request whose handler was cut short."""
    now = timezone.now()
    ended = now if state in ("answered", "released", "resolved") else None
    return Request.objects.create(
        operation="orders.refund", mode="journaled", subject="user:7", key=key, binding=key.ljust(64, "."),
        state=state, reason="handler_failed", created_at=now, ended_at=ended, **fields,
    )  # fmt: skip


class Scene:
    """It: refs by what they show."""

    def __init__(self, ann: User, ben: User) -> None:
        self.settled()
        time_passes(timedelta(hours=2))
        self.hopeless = self.in_doubt("invoice-2207", "Meridian Freight", 48_200)
        time_passes(timedelta(minutes=6))
        with provider_says(PayOut, look_up=[effects.Inconclusive("two bookings on that day"), TWO]):
            for _ in range(2):
                effects.look_up_now(self.hopeless)
                time_passes(timedelta(minutes=2))
        self.request = make_request("checkout-5510")
        RequestExecution.objects.create(request=self.request, execution_id=self.hopeless, position=0, holds=True)
        time_passes(timedelta(minutes=47))
        self.uncertain = self.in_doubt("invoice-2214", "Café Orsini", 9_950)
        self.waiting = [
            self.payout(f"invoice-{2220 + n}", name, amount, approvals=1 + (n == 0)).ref
            for n, (name, amount) in enumerate(zip(SUPPLIERS, (1_250_000, 84_000, 310_500), strict=False))
        ]
        time_passes(timedelta(minutes=6))
        effects.grant(self.waiting[0], by=ben, digest=_digest(self.waiting[0]), comment="Seen the delivery note.")
        with transaction.atomic():
            self.pending = effects.perform_later(
                Charge, payload={"order": "A-1093", "amount": 7_500}, key="order-A-1093", requested_by="shop"
            ).ref
        self.unwritten = self.completed[0]
        Execution.objects.filter(pk=self.unwritten).update(
            hook_due_at=timezone.now() + timedelta(minutes=3), hook_error="Order.DoesNotExist: A-1002"
        )
        for sweep in SWEEPS:
            Heartbeat.objects.update_or_create(sweep=sweep, defaults={"at": timezone.now(), "counts": {}})

    def settled(self) -> None:
        """Charges over some hours: most happened, some were declined, a few are in doubt."""
        self.completed, self.declined = [], []
        for number in range(26):
            key = f"order-A-{1000 + number}"
            answer: Any = effects.Applied({"id": f"ch_{number}"}, f"ch_{number}")
            if number % 9 == 4:
                answer = effects.Declined("insufficient funds", code="card_declined")
            with provider_says(Charge, answer):
                outcome = effects.perform(
                    Charge, payload={"order": key.removeprefix("order-"), "amount": 2_000 + 137 * number}, key=key,
                    requested_by="shop",
                )  # fmt: skip
            (self.declined if number % 9 == 4 else self.completed).append(outcome.ref)
            self._take(outcome.ref, 0.2 + 0.07 * (number * 7 % 11))
            if number % 2:
                time_passes(timedelta(minutes=23))

    def in_doubt(self, key: str, supplier: str, amount: int) -> str:
        """Send a payout whose reply is lost."""
        with provider_says(PayOut, TimeoutError("no answer within 10 s")):
            return self.payout(key, supplier, amount).ref

    def payout(self, key: str, supplier: str, amount: int, approvals: int = 0) -> effects.Outcome:
        """Ask for a payout as the accountant does."""
        payload = Payout(supplier, amount, approvals=approvals, note=f"Invoice {key.removeprefix('invoice-')}")
        return effects.perform(PayOut, payload=payload, key=key, requested_by="clara (accounts)")

    def _take(self, ref: str, seconds: float) -> None:
        """Say that the newest send of an execution took so long."""
        attempt: Any = Attempt.objects.filter(execution_id=ref).latest("number")
        permitted: datetime = attempt.permitted_at
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=permitted + timedelta(seconds=seconds))


def _digest(ref: str) -> str:
    return str(Execution.objects.get(pk=ref).approvals.get(state="requested").digest)


def pages(scene: Scene) -> dict[str, str]:
    """Return the address of every kind of page."""
    approval = Approval.objects.get(execution_id=scene.waiting[1])
    several = "&".join(f"ref={ref}" for ref in scene.waiting)
    return {
        "app": "/admin/effects/",
        "queue": reverse("admin:effects_needs_a_person"),
        "narrowed queue": reverse("admin:effects_needs_a_person") + "?provider=bank/main&amount=100",
        "overview": reverse("admin:effects_overview"),
        "executions": reverse("admin:effects_execution_changelist"),
        "filtered executions": reverse("admin:effects_execution_changelist") + "?state=in_doubt&age=over-hour",
        "approvals": reverse("admin:effects_approval_changelist"),
        "requests": reverse("admin:effects_request_changelist"),
        "receipts": reverse("admin:effects_receipt_changelist"),
        "execution": page_of(scene.uncertain),
        "waiting execution": page_of(scene.waiting[0]),
        "hopeless execution": page_of(scene.hopeless),
        "settled execution": page_of(scene.completed[0]),
        "approval": page_of(approval.pk, "approval"),
        "request": page_of(scene.request.pk, "request"),
        "receipt": page_of(Receipt.objects.latest("pk").pk, "receipt"),
        "approve": verb_of(scene.waiting[1], "approve"),
        "approve what cannot be": verb_of(scene.hopeless, "approve"),
        "deny": verb_of(scene.waiting[1], "deny"),
        "look-up": verb_of(scene.uncertain, "look-up"),
        "resolve": verb_of(scene.hopeless, "resolve"),
        "reopen": verb_of(scene.hopeless, "reopen"),
        "order-resend": verb_of(scene.hopeless, "order-resend"),
        "withdraw": verb_of(scene.waiting[1], "withdraw"),
        "cancel": verb_of(scene.pending, "cancel"),
        "evidence": verb_of(scene.completed[2], "evidence"),
        "evidence in doubt": verb_of(scene.hopeless, "evidence"),
        "compensate": verb_of(scene.completed[1], "compensate"),
        "supersede": verb_of(scene.declined[0], "supersede"),
        "resolve request": verb_of(scene.request.pk, "resolve", "request"),
        "bulk approve": reverse("admin:effects_bulk_approve") + "?" + several,
        "bulk look-up": reverse("admin:effects_bulk_look_up") + f"?ref={scene.uncertain}&ref={scene.hopeless}",
        "bulk without rows": reverse("admin:effects_bulk_approve"),
    }
