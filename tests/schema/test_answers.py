"""Each kind of answer is in the schema: its status, media type, headers and body."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from drf_spectacular.generators import SchemaGenerator
from rest_framework.throttling import BaseThrottle

from effects.http.problems import CODES, problem
from effects.models import Request
from effects.testing import run_due
from project.payments import views
from project.payments.models import Order
from project.services.faults import Faults
from tests.schema import running
from tests.schema.shop import Shop

ORDERS, PAY, REFUNDS = "/orders/", "/orders/{order_id}/pay/", "/orders/{order_id}/refunds/"
PROPOSALS, PROPOSAL, VOTE = "/effects/proposals/", "/effects/proposals/{ref}/", "/effects/approvals/{approval_id}/vote/"
APPROVALS, STATUS = "/effects/approvals/", "/operations/{ref}/"
NEW = {"number": "n-1", "amount": 1000, "currency": "eur"}
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def document() -> Any:
    """The schema as it is served."""
    return SchemaGenerator().get_schema(public=True)


@pytest.mark.parametrize(
    ("status", "method", "path", "options"),
    [
        (401, "POST", ORDERS, {"body": NEW, "key": "k", "password": "wrong"}),
        (401, "POST", PROPOSALS, {"body": {}, "key": "k", "password": "wrong"}),
        (401, "GET", "/orders/{order_id}/", {"order_id": 1, "password": "wrong"}),
        (401, "GET", APPROVALS, {"password": "wrong"}),
        (401, "GET", STATUS, {"ref": NOBODY, "password": "wrong"}),
        (404, "POST", PAY, {"order_id": 0, "key": "k"}),
        (404, "POST", PAY, {"order_id": "none", "key": "k"}),
        (404, "GET", PROPOSAL, {"ref": "none"}),
        (404, "POST", VOTE, {"approval_id": "none", "body": {}}),
        (404, "GET", STATUS, {"ref": "none"}),
        (404, "GET", STATUS, {"ref": "{" + NOBODY + "}"}),
        (406, "POST", ORDERS, {"body": NEW, "key": "k", "headers": {"Accept": "image/png"}}),
        (406, "GET", APPROVALS, {"headers": {"Accept": "image/png"}}),
        (415, "POST", ORDERS, {"raw": b"<x/>", "key": "k", "headers": {"Content-Type": "text/xml"}}),
        (415, "POST", PROPOSALS, {"raw": b"<x/>", "key": "k", "headers": {"Content-Type": "text/xml"}}),
        (400, "POST", PAY, {"order_id": 1, "raw": b"{", "key": "k", "headers": {"Content-Type": "application/json"}}),
        (400, "POST", PROPOSALS, {"raw": b"{", "key": "k", "headers": {"Content-Type": "application/json"}}),
        (400, "POST", ORDERS, {"body": {"amount": "much"}, "key": "k"}),
        (400, "POST", ORDERS, {"body": [], "key": "k"}),
        (400, "POST", ORDERS, {"body": NEW}),
        (400, "POST", ORDERS, {"body": NEW, "key": "a, b"}),
    ],
)
def test_a_refusal_is_in_the_schema(ask: Any, status: int, method: str, path: str, options: dict[str, Any]) -> None:
    """REST framework's, and ours before anything is recorded; an address that is none included."""
    assert ask(method, path, **options).status_code == status


def test_what_becomes_of_a_refund_is_in_the_schema(ask: Any, order: Order) -> None:
    """Waiting for people, its status, what is to be decided, decided, answered, and its replay."""
    whole = {"order_id": order.pk, "key": "whole", "body": {}}
    assert ask("POST", REFUNDS, **whole).status_code == 202
    ref = str(Request.objects.get(key="whole").pk)
    assert ask("GET", STATUS, ref=ref).json()["operation_state"] == "awaiting_approval"
    assert ask("POST", REFUNDS, {"amount": 5}, order_id=order.pk, key="whole").status_code == 422
    seen = ask("GET", APPROVALS, user="approver").json()["results"][0]
    vote = {"decision": "approve", "digest": seen["digest"], "comment": "fine"}
    here = {"approval_id": seen["id"]}
    assert ask("POST", VOTE, vote, **here).status_code == 403
    assert ask("POST", VOTE, {**vote, "digest": "0" * 64}, user="approver", **here).status_code == 409
    assert ask("POST", VOTE, vote, user="approver", **here).status_code == 200
    shown = ask("GET", PROPOSAL, ref=seen["ref"])
    etag = shown.headers["etag"][0]
    assert ask("GET", PROPOSAL, ref=seen["ref"], headers={"If-None-Match": etag}).status_code == 304
    run_due()
    assert ask("GET", PROPOSAL, ref=seen["ref"]).json()["state"] == "completed"
    for _ in range(2):
        assert ask("POST", REFUNDS, **whole).status_code == 201
    assert ask("GET", STATUS, ref=ref).json()["code"] == "operation_answered"
    assert ask("POST", REFUNDS, {}, order_id=order.pk, key="more").status_code == 409


def test_doubt_and_failure_are_in_the_schema(ask: Any, order: Order, faults: Faults) -> None:
    """A lost reply, with its status; and the provider's refusal, first and replayed."""
    faults.add("lose_reply", method="POST", path="/v1/refunds")
    assert ask("POST", REFUNDS, {"amount": 5}, order_id=order.pk, key="lost").status_code == 409
    ref = str(Request.objects.get(key="lost").pk)
    assert ask("GET", STATUS, ref=ref).json()["code"] == "operation_uncertain"
    Order.objects.filter(pk=order.pk).update(payment_intent="pi_unknown")
    for _ in range(2):
        assert ask("POST", REFUNDS, {"amount": 5}, order_id=order.pk, key="unknown").status_code == 402


def test_limits_are_in_the_schema(ask: Any, order: Order, settings: Any) -> None:
    """A body that is too large, and too many open operations."""
    settings.EFFECTS = {**settings.EFFECTS, "MAX_FINGERPRINT_BYTES": 20}
    assert ask("POST", REFUNDS, {"amount": 5, "why": "x" * 30}, order_id=order.pk, key="k").status_code == 413
    settings.EFFECTS = {**settings.EFFECTS, "MAX_FINGERPRINT_BYTES": 1000, "MAX_OPEN_PER_TENANT": 1}
    assert ask("POST", REFUNDS, {}, order_id=order.pk, key="one").status_code == 202
    assert ask("POST", REFUNDS, {"amount": 5}, order_id=order.pk, key="two").status_code == 503


def test_a_throttle_is_in_the_schema(order: Order, monkeypatch: Any) -> None:
    """429 with its header, where a view has throttles, and nowhere else."""

    class Closed(BaseThrottle):
        def allow_request(self, request: Any, view: Any) -> bool:
            return False

        def wait(self) -> float:
            return 5.0

    monkeypatch.setattr(views.OrdersView, "throttle_classes", [Closed])
    ask = running.Asker(running.load(Shop()))
    assert ask("POST", ORDERS, NEW, key="k").status_code == 429
    assert "429" not in ask.schema.raw_schema["paths"]["/payouts/"]["post"]["responses"]


@pytest.mark.parametrize("path", [REFUNDS, PROPOSALS])
@pytest.mark.parametrize("code", sorted(CODES.keys() - {"operation_not_found"}))
def test_each_problem_fits_the_one_schema_of_its_status(document: Any, path: str, code: str) -> None:
    """Under each status there is one schema for problems, and it names the codes that they can have."""
    answer = problem(code, operation_ref=NOBODY, operation_state="uncertain", status_url="/operations/1/")
    responses = document["paths"][path]["post"]["responses"]
    schema = responses[str(answer.status_code)]["content"]["application/problem+json"]["schema"]
    fits = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    members = json.loads(answer.content)
    fits.validate(members)
    assert not fits.is_valid({**members, "code": "operation_not_found"})
