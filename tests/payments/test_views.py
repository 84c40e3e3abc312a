"""The shop's API over HTTP, each story with the client's retry."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

import effects
from effects.models import Approval, Execution
from effects.models import Request as RequestRow
from effects.testing import run_due, time_passes
from project.payments.effects import RefundPayment
from project.payments.models import Order, Payout, Refund
from project.services.faults import Faults

pytestmark = pytest.mark.django_db(transaction=True)

POSTS = {"method": "POST", "path": "/v1/refunds"}


@pytest.fixture
def client(customer: User) -> APIClient:
    """The customer's client; an error in a view is an answer, as it is behind a web server."""
    found = APIClient(raise_request_exception=False)
    found.force_login(customer)
    return found


def post(client: APIClient, path: str, body: Any, key: str | None = '"k-1"') -> Any:
    """Post JSON under a key."""
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(path, body, format="json", headers=headers)


def test_an_order_is_created_once(client: APIClient) -> None:
    """A retry gets the first answer's bytes and creates nothing."""
    body = {"number": "n-1", "amount": 1000, "currency": "eur"}
    first, again = post(client, "/orders/", body), post(client, "/orders/", body)
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert again["Idempotent-Replayed"] == "true"
    assert again["Location"] == first["Location"]
    assert Order.objects.count() == 1
    shown = client.get(first["Location"])
    assert shown.json() == {**first.json(), "refundable": 1000}


def test_a_wrong_order_leaves_the_key_free(client: APIClient) -> None:
    """What is corrected may be sent again under the same key."""
    assert post(client, "/orders/", {"number": "n-1", "amount": 0, "currency": "EUR"}).status_code == 400
    assert post(client, "/orders/", {"number": "n-1", "amount": 5, "currency": "eur"}).status_code == 201


def test_without_a_login_or_a_key_nothing_happens(client: APIClient, order: Order) -> None:
    """Both are refused before anything is recorded."""
    assert post(APIClient(), f"/orders/{order.pk}/refunds/", {"amount": 5}).status_code == 401
    missing = post(client, f"/orders/{order.pk}/refunds/", {"amount": 5}, key=None)
    assert (missing.status_code, missing.json()["code"]) == (400, "idempotency_key_missing")
    assert not RequestRow.objects.exists()


def test_a_refund_and_its_retry(client: APIClient, order: Order, faults: Faults) -> None:
    """One refund, one row, identical bytes."""
    path = f"/orders/{order.pk}/refunds/"
    first, again = post(client, path, {"amount": 400}), post(client, path, {"amount": 400})
    refund = Refund.objects.get()
    assert first.status_code == 201
    assert first.json() == {"order": "order-17", "amount": 400, "currency": "eur", "stripe_id": refund.stripe_id}
    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"
    assert len(faults.sends(**POSTS)) == 1


def test_two_partial_refunds(client: APIClient, order: Order) -> None:
    """Two keys are two refunds, and the second one without an amount is of the rest."""
    path = f"/orders/{order.pk}/refunds/"
    post(client, path, {"amount": 60_000 - 15_000}, key='"k-1"')
    post(client, path, {"amount": 45_000}, key='"k-2"')
    rest = post(client, path, {}, key='"k-3"')
    assert (rest.status_code, rest.json()["amount"]) == (201, 10_000)
    assert order.refundable == 0


def test_the_same_key_for_another_amount(client: APIClient, order: Order) -> None:
    """A key stands for one request."""
    path = f"/orders/{order.pk}/refunds/"
    post(client, path, {"amount": 400})
    reused = post(client, path, {"amount": 401})
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
    assert Refund.objects.count() == 1


@pytest.mark.parametrize(("amount", "status"), [(0, 400), (-1, 400), ("much", 400), (100_001, 409)])
def test_what_cannot_be_refunded(client: APIClient, order: Order, faults: Faults, amount: Any, status: int) -> None:
    """What is no amount, and more than is left, is refused, records no execution and leaves the key free."""
    path = f"/orders/{order.pk}/refunds/"
    assert post(client, path, {"amount": amount}).status_code == status
    assert not Execution.objects.exists()
    assert post(client, path, {"amount": 400}).status_code == 201


def test_an_unpaid_order_has_no_refund(client: APIClient, customer: User) -> None:
    """There is nothing to refund."""
    order = Order.objects.create(number="n", amount=5, currency="eur", customer=customer)
    assert post(client, f"/orders/{order.pk}/refunds/", {}).status_code == 409


def test_a_number_is_taken_once(client: APIClient) -> None:
    """Another order under the same number does not fit to what is there; it leaves the key free."""
    body = {"number": "n-1", "amount": 1000, "currency": "eur"}
    assert post(client, "/orders/", body).status_code == 201
    assert post(client, "/orders/", body, '"k-2"').status_code == 409
    assert post(client, "/orders/", {**body, "number": "n-2"}, '"k-2"').status_code == 201


def test_a_lost_reply_gets_its_answer(client: APIClient, order: Order, faults: Faults) -> None:
    """In doubt at first, found by the look-up, answered on the retry, never sent twice."""
    faults.add("lose_reply", **POSTS)
    path = f"/orders/{order.pk}/refunds/"
    first = post(client, path, {"amount": 400})
    assert (first.status_code, first.json()["code"]) == (409, "operation_uncertain")
    run_due()
    again = post(client, path, {"amount": 400})
    assert (again.status_code, again.json()["stripe_id"]) == (201, Refund.objects.get().stripe_id)
    assert len(faults.sends(**POSTS)) == 1


def test_a_lost_request_is_sent_after_the_barrier(client: APIClient, order: Order, faults: Faults) -> None:
    """The retry alone sends nothing; absence after the barrier does."""
    faults.add("lose_request", **POSTS)
    path = f"/orders/{order.pk}/refunds/"
    assert post(client, path, {"amount": 400}).status_code == 409
    run_due()
    assert post(client, path, {"amount": 400}).status_code == 409
    assert len(faults.sends(**POSTS)) == 1
    time_passes(RefundPayment().quiet + timedelta(seconds=30))
    run_due()
    assert post(client, path, {"amount": 400}).status_code == 201
    assert len(faults.sends(**POSTS)) == 2
    assert Refund.objects.count() == 1


def test_a_large_refund(client: APIClient, order: Order, faults: Faults, approver: User) -> None:
    """202 until another person agrees; then the retry gets its 201."""
    path = f"/orders/{order.pk}/refunds/"
    first = post(client, path, {"amount": 50_000})
    assert first.status_code == 202
    assert faults.sends(**POSTS) == []
    approval = Approval.objects.get()
    effects.grant(approval.execution_id, by=approver, digest=approval.digest)
    run_due()
    again = post(client, path, {"amount": 50_000})
    assert (again.status_code, again.json()["amount"]) == (201, 50_000)
    assert len(faults.sends(**POSTS)) == 1


def test_a_denied_refund(client: APIClient, order: Order, faults: Faults, approver: User) -> None:
    """A refund that a person refused is answered so, and was never sent."""
    path = f"/orders/{order.pk}/refunds/"
    post(client, path, {"amount": 50_000})
    approval = Approval.objects.get()
    effects.deny(approval.execution_id, by=approver, digest=approval.digest, comment="no")
    run_due()
    again = post(client, path, {"amount": 50_000})
    assert (again.status_code, again.json()["code"]) == (422, "rejected")
    assert faults.sends(**POSTS) == []


def test_a_refused_refund(client: APIClient, order: Order, faults: Faults) -> None:
    """What Stripe refuses is answered and replayed as a refusal."""
    faults.add("status", status=402, **POSTS)
    path = f"/orders/{order.pk}/refunds/"
    first, again = post(client, path, {"amount": 400}), post(client, path, {"amount": 400})
    assert first.status_code == again.status_code == 402
    assert first.content == again.content
    assert len(faults.sends(**POSTS)) == 1


def test_the_card_is_charged_once(client: APIClient, customer: User, faults: Faults) -> None:
    """The opaque view's answer is replayed like any other."""
    order = Order.objects.create(number="n", amount=500, currency="eur", customer=customer)
    first, again = post(client, f"/orders/{order.pk}/pay/", {}), post(client, f"/orders/{order.pk}/pay/", {})
    assert (first.status_code, again.content) == (201, first.content)
    assert len(faults.sends(method="POST")) == 1
    order.refresh_from_db()
    assert first.json()["payment_intent"] == order.payment_intent != ""


def test_an_opaque_view_in_doubt_never_runs_again(client: APIClient, customer: User, faults: Faults) -> None:
    """A view that called out itself and lost the answer stays in doubt."""
    order = Order.objects.create(number="n", amount=500, currency="eur", customer=customer)
    faults.add("lose_reply", method="POST", path="/v1/payment_intents")
    assert post(client, f"/orders/{order.pk}/pay/", {}).status_code >= 409
    run_due()
    again = post(client, f"/orders/{order.pk}/pay/", {})
    assert (again.status_code, again.json()["code"]) == (409, "operation_uncertain")
    assert len(faults.sends(method="POST", path="/v1/payment_intents")) == 1


def test_a_payout_that_a_person_resolves(client: APIClient, faults: Faults) -> None:
    """Nothing can tell what became of it; after a person's decision the retry gets the rebuilt answer."""
    faults.add("lose_reply", method="POST", path="/v1/payouts")
    body = {"amount": 900, "currency": "eur"}
    assert post(client, "/payouts/", body).status_code == 409
    run_due()
    execution = Execution.objects.get()
    assert execution.state == "needs_intervention"
    effects.resolve(
        execution.pk, decision="applied", revision=execution.revision, by="the clerk", reason="on the statement",
        reference="po_statement_4",
    )  # fmt: skip
    run_due()
    again = post(client, "/payouts/", body)
    assert again.status_code == 201
    assert again.json() == {"amount": 900, "currency": "eur", "stripe_id": "po_statement_4"}
    assert Payout.objects.get().execution == str(execution.pk)
    assert len(faults.sends(method="POST")) == 1


def test_an_assistant_proposes_a_refund_and_a_person_approves_it(customer: User, approver: User, order: Order) -> None:
    """A wrong order or amount is refused in words; nothing reaches Stripe before the approval, one refund after it."""
    for user, codename in ((customer, "add_refund"), (approver, "approve_execution")):
        user.user_permissions.add(Permission.objects.get(codename=codename))
    assistant, person = APIClient(), APIClient()
    assistant.force_login(customer)
    person.force_login(approver)
    payload = {"order": order.number, "payment_intent": order.payment_intent, "currency": "eur"}

    def propose(key: str, **fields: Any) -> Any:
        return post(
            assistant, "/effects/proposals/", {"operation": "payments.refund", "payload": payload | fields}, key
        )

    for wrong in ({"amount": 100_001}, {"amount": 5, "order": "other"}, {"amount": 5, "currency": "usd"}):
        refused = propose("wrong", **wrong)
        assert (refused.status_code, refused.json()["code"]) == (409, "proposal_refused")
    first, again = propose("k-1", amount=400), propose("k-1", amount=400)
    assert (first.status_code, first.content) == (again.status_code, again.content) == (201, first.content)
    run_due()
    assert not Refund.objects.exists()
    (waiting,) = person.get("/effects/approvals/").json()["results"]
    vote = {"decision": "approve", "digest": waiting["digest"]}
    assert person.post(f"/effects/approvals/{waiting['id']}/vote/", vote, format="json").status_code == 200
    run_due()
    run_due()
    assert assistant.get(first.json()["url"]).json()["state"] == "completed"
    assert Refund.objects.get().amount == 400
    assert order.refundable == 99_600
