"""What each answer to a send proves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from effects.contrib.stripe import CreatePaymentIntent, CreateRefund
from effects.vocabulary import failures
from effects.vocabulary.failures import Declined, Doubt, NotNow
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import Applied, Submitted
from project.services.faults import Faults
from tests.stripe.conftest import context_for, paid, payment, refund_of
from tests.stripe.scripted import Scripted


def error(type_: str = "invalid_request_error", **fields: Any) -> dict[str, Any]:
    """Return an error in Stripe's words."""
    return {"error": {"type": type_, "message": "said so", **fields}}


@pytest.mark.parametrize(
    ("status", "body", "proof"),
    [
        (400, error(code="charge_already_refunded"), failures.InvalidRequest),
        (401, error(), failures.Unauthenticated),
        (402, error("card_error", code="card_declined"), failures.Declined),
        (403, error(), failures.Forbidden),
        (404, error(code="resource_missing"), failures.InvalidRequest),
        (405, error(), failures.InvalidRequest),
        (400, error(code="rate_limit"), failures.InvalidRequest),
        (425, b"too early", failures.NotNow),
        (429, error("rate_limit_error"), failures.NotNow),
        (429, b"<html>slow down</html>", failures.NotNow),
    ],
)
def test_a_refusal_proves_that_nothing_was_applied(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, status: int, body: Any, proof: type[Exception]
) -> None:
    """Statuses that Stripe refuses with, in its own words, are refusals."""
    scripted.says(status, body)
    with pytest.raises(proof) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert failures.classify(caught.value).not_applied


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (409, error("idempotency_error", code="idempotency_key_in_use")),
        (400, error("idempotency_error", code="idempotency_key_in_use")),
        (409, error("idempotency_error")),
        (400, error(code="idempotency_key_in_use")),
        (409, error()),
        (424, error()),
        (500, error("api_error")),
        (502, b"<html>bad gateway</html>"),
        (503, error("api_error")),
        (504, b""),
        (400, b"<html>who was this?</html>"),
        (403, b"<html>a firewall</html>"),
        (404, b"[]"),
        (302, b""),
        (200, b""),
        (200, b"<html>welcome</html>"),
        (200, b"[]"),
        (200, b"null"),
        (200, b"{}"),
        (200, {"object": "refund", "status": "succeeded"}),
        (200, b"\xff\xfe"),
    ],
)
def test_what_proves_nothing_is_doubt(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, status: int, body: Any
) -> None:
    """A key in use, a provider's error, someone else's page and an unreadable success are doubt."""
    scripted.says(status, body)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it is taken for is the point
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    found = failures.classify(caught.value)
    assert not found.not_applied
    assert found.reason is ExecutionReason.PROVIDER_ERROR


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, error("idempotency_error")), (422, error("idempotency_error")), (400, error("idempotency_error", code="x"))],
)
def test_a_key_of_other_contents_is_a_person_s(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, status: int, body: Any
) -> None:
    """Stripe knows the key from another request: what it has under it is not what was asked for."""
    scripted.says(status, body)
    with pytest.raises(failures.KeyReused) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    found = failures.classify(caught.value)
    assert found.is_key_reused
    assert not found.not_applied
    assert found.message


def test_a_408_is_a_timeout(scripted: Scripted, refunds: CreateRefund, permit: Callable) -> None:
    """A time-out that the provider's side reports is doubt by time-out."""
    scripted.says(408, error())
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert caught.value.reason is ExecutionReason.TIMEOUT


@pytest.mark.parametrize(("status", "kind"), [(429, NotNow), (503, Doubt)])
def test_the_provider_s_wish_is_kept(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, status: int, kind: type[Exception]
) -> None:
    """Retry-After reaches the runtime, of a refusal and of a doubt."""
    scripted.says(status, error("api_error"), Retry_After="7")
    with pytest.raises(kind) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert failures.classify(caught.value).retry_after == timedelta(seconds=7)


@pytest.mark.parametrize("fault", ["lose_request", "lose_reply", "cut"])
def test_a_broken_connection_is_doubt(faults: Faults, refunds: CreateRefund, permit: Callable, fault: str) -> None:
    """After the first byte a closed connection tells nothing: the request was lost, or the answer was."""
    intent = paid()
    faults.add(fault, method="POST", path="/v1/refunds")
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(intent), allowed := permit()), allowed)
    assert caught.value.reason is ExecutionReason.NO_REPLY
    assert len(faults.sends(method="POST", path="/v1/refunds")) == 1


@pytest.mark.parametrize(
    ("status", "code"), [(401, "Unauthenticated"), (403, "Forbidden"), (404, "InvalidRequest"), (402, "Declined")]
)
def test_refusals_over_a_bad_network(
    faults: Faults, refunds: CreateRefund, permit: Callable, status: int, code: str
) -> None:
    """The same refusals through the proxy, each from one request."""
    faults.add("status", path="/v1/refunds", status=status)
    with pytest.raises(failures.ProvenNotApplied) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert type(caught.value).__name__ == code
    assert len(faults.sends(path="/v1/refunds")) == 1


@pytest.mark.parametrize("status", ["pending", "requires_action"])
def test_a_pending_refund_is_submitted(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, status: str
) -> None:
    """A refund that Stripe has taken and not carried out is no proof."""
    scripted.says(200, {"id": "re_1", "status": status, "amount": 400, "currency": "eur"})
    assert refunds.send(context_for(refund_of(), allowed := permit()), allowed) == Submitted("re_1")


@pytest.mark.parametrize(
    ("status", "more", "code"),
    [
        ("failed", {"failure_reason": "expired_or_canceled_card"}, "expired_or_canceled_card"),
        ("canceled", {}, "canceled"),
    ],
)
def test_a_failed_refund_is_declined(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, status: str, more: dict[str, Any], code: str
) -> None:
    """A refund that Stripe made and could not carry out is a refusal, with its id."""
    scripted.says(200, {"id": "re_1", "status": status, "amount": 400, "currency": "eur", **more})
    with pytest.raises(Declined) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert (caught.value.code, caught.value.reference) == (code, "re_1")


@pytest.mark.parametrize(
    "other", [{"amount": 401}, {"currency": "usd"}, {"status": "a new word"}, {"status": None}], ids=str
)
def test_another_refund_than_asked_for_is_doubt(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, other: dict[str, Any]
) -> None:
    """An answer about other money, or with a status that nobody knows, proves nothing and names the object."""
    scripted.says(200, {"id": "re_1", "status": "succeeded", "amount": 400, "currency": "eur", **other})
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert caught.value.reference == "re_1"


def test_a_payment_is_charged(faults: Faults, intents: CreatePaymentIntent, permit: Callable) -> None:
    """A confirmed payment intent that succeeded is applied."""
    payload = payment(payment_method="pm_card_visa", confirm=True)
    result = intents.send(context_for(payload, allowed := permit()), allowed)
    assert isinstance(result, Applied)
    assert result.output["status"] == "succeeded"


def test_an_intent_is_created(faults: Faults, intents: CreatePaymentIntent, permit: Callable) -> None:
    """Without `confirm` the intent itself is what was asked for."""
    result = intents.send(context_for(payment(), allowed := permit()), allowed)
    assert isinstance(result, Applied)
    assert result.output["status"] == "requires_payment_method"


def test_a_declined_card(faults: Faults, intents: CreatePaymentIntent, permit: Callable) -> None:
    """A card that is declined is a refusal with Stripe's code."""
    payload = payment(payment_method="pm_card_chargeCustomerFail", confirm=True)
    with pytest.raises(Declined) as caught:
        intents.send(context_for(payload, allowed := permit()), allowed)
    assert caught.value.code == "card_declined"


@pytest.mark.parametrize("status", ["processing", "requires_action"])
def test_a_payment_under_way_is_submitted(
    scripted: Scripted, intents: CreatePaymentIntent, permit: Callable, status: str
) -> None:
    """A bank that still works and a customer who has to authenticate are no proof."""
    scripted.says(200, {"id": "pi_1", "status": status, "amount": 700, "currency": "eur"})
    payload = payment(payment_method="pm_1", confirm=True)
    assert intents.send(context_for(payload, allowed := permit()), allowed) == Submitted("pi_1")


def test_a_declined_payment_names_its_intent(
    scripted: Scripted, intents: CreatePaymentIntent, permit: Callable
) -> None:
    """The intent that Stripe keeps of a declined payment is the refusal's reference."""
    said = error("card_error", code="card_declined", decline_code="do_not_honor", payment_intent={"id": "pi_1"})
    scripted.says(402, said)
    payload = payment(payment_method="pm_1", confirm=True)
    with pytest.raises(Declined) as caught:
        intents.send(context_for(payload, allowed := permit()), allowed)
    assert (caught.value.code, caught.value.reference) == ("do_not_honor", "pi_1")
