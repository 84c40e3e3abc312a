"""What a look-up at Stripe says."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

import effects
from effects.contrib.stripe import CreatePaymentIntent, CreateRefund, PaymentIntentPayload, RefundPayload
from effects.vocabulary.exceptions import PayloadError
from effects.vocabulary.hydration import hydrate
from effects.vocabulary.verdicts import Absent, Conflict, Found, Inconclusive, InProgress, ProvenFailed, Unreachable
from project.services import stripe as localstripe
from project.services.faults import Faults
from tests.stripe.conftest import context_for, paid, payment, refund_of
from tests.stripe.scripted import Scripted


def change(faults: Faults, refund: str, **fields: Any) -> None:
    """Change a refund at localstripe, as Stripe's own systems would."""
    answer = requests.post(
        f"{faults.url}/v1/refunds/{refund}",
        json=fields,  # a form would leave it with an amount that is a text
        headers={"Authorization": f"Bearer {localstripe.API_KEY}"},
        timeout=10,
    )
    answer.raise_for_status()


@pytest.fixture
def sent(faults: Faults, refunds: CreateRefund, permit: Callable) -> tuple[Any, str]:
    """A refund that was sent: its context and its id at Stripe."""
    allowed = permit()
    context = context_for(refund_of(paid()), allowed)
    result = refunds.send(context, allowed)
    assert isinstance(result, effects.Applied)
    return context, result.reference


def test_found(refunds: CreateRefund, sent: tuple[Any, str]) -> None:
    """A refund that carries our key is found, with what `send` would have kept of it."""
    context, refund = sent
    verdict = refunds.verify(context)
    assert isinstance(verdict, Found)
    assert verdict.reference == refund
    assert verdict.output == {"id": refund, "status": "succeeded", "amount": 400, "currency": "eur"}


def test_absent(faults: Faults, refunds: CreateRefund, permit: Callable) -> None:
    """Other refunds of the same payment are not ours."""
    intent, allowed = paid(), permit()
    refunds.send(context_for(refund_of(intent), allowed), allowed)
    verdict = refunds.verify(context_for(refund_of(intent), permit()))
    assert verdict == Absent({"listed": 1})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("pending", InProgress),
        ("requires_action", InProgress),
        ("failed", ProvenFailed),
        ("canceled", ProvenFailed),
        ("a new word", Inconclusive),
    ],
)
def test_the_status_decides(
    faults: Faults, refunds: CreateRefund, sent: tuple[Any, str], status: str, kind: type[Any]
) -> None:
    """A refund under way is in progress, a failed one is proven failed, an unknown word decides nothing."""
    context, refund = sent
    change(faults, refund, status=status)
    assert isinstance(refunds.verify(context), kind)


@pytest.mark.parametrize("change_to", [{"amount": 1}, {"currency": "usd"}])
def test_other_money_is_a_conflict(
    faults: Faults, refunds: CreateRefund, sent: tuple[Any, str], change_to: dict[str, Any]
) -> None:
    """A refund under our key of another amount or currency is a person's."""
    context, refund = sent
    change(faults, refund, **change_to)
    verdict = refunds.verify(context)
    assert isinstance(verdict, Conflict)
    assert verdict.reference == refund


def test_two_refunds_under_one_key_are_a_conflict(
    faults: Faults, refunds: CreateRefund, sent: tuple[Any, str], permit: Callable
) -> None:
    """A request that was carried out twice is a conflict that names both."""
    context, refund = sent
    again = permit(key=context.provider_key)
    second = refunds.send(context, again)
    assert isinstance(second, effects.Applied)
    verdict = refunds.verify(context)
    assert isinstance(verdict, Conflict)
    assert sorted(verdict.proof["references"]) == sorted([refund, second.reference])


@pytest.mark.parametrize(
    ("fault", "more"),
    [("lose_request", {}), ("cut", {}), ("status", {"status": 500}), ("status", {"status": 429})],
)
def test_a_provider_that_cannot_be_asked(
    faults: Faults, refunds: CreateRefund, sent: tuple[Any, str], fault: str, more: dict[str, Any]
) -> None:
    """A broken connection, a 5xx and a 429 are evidence of nothing."""
    faults.add(fault, method="GET", path="/v1/refunds", **more)
    assert isinstance(refunds.verify(sent[0]), Unreachable)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_look_up_that_is_refused(faults: Faults, refunds: CreateRefund, sent: tuple[Any, str], status: int) -> None:
    """A 4xx is no absence, not even 404."""
    faults.add("status", method="GET", path="/v1/refunds", status=status)
    assert isinstance(refunds.verify(sent[0]), Inconclusive)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", {}, {"data": None}])
def test_a_list_that_cannot_be_read(scripted: Scripted, refunds: CreateRefund, permit: Callable, body: Any) -> None:
    """A success that cannot be read is no absence."""
    scripted.says(200, body)
    assert isinstance(refunds.verify(context_for(refund_of(), permit())), Inconclusive)


def test_a_list_is_read_to_its_end(scripted: Scripted, refunds: CreateRefund, permit: Callable) -> None:
    """Absence is said of all pages; the second one starts where the first one ended."""
    others = [{"id": f"re_{n}", "metadata": {}} for n in range(2)]
    ours = {"id": "re_9", "status": "succeeded", "amount": 400, "currency": "eur"}
    context = context_for(refund_of(), permit())
    ours["metadata"] = {"effects_key": context.provider_key}
    scripted.says(200, {"object": "list", "data": others, "has_more": True})
    scripted.says(200, {"object": "list", "data": [ours], "has_more": False})
    assert isinstance(refunds.verify(context), Found)
    queries = [parse_qs(urlsplit(path).query) for _, path, _, _ in scripted.seen]
    assert queries == [
        {"payment_intent": ["pi_1"], "limit": ["100"]},
        {"payment_intent": ["pi_1"], "limit": ["100"], "starting_after": ["re_1"]},
    ]


def test_an_endless_list_decides_nothing(scripted: Scripted, refunds: CreateRefund, permit: Callable) -> None:
    """A list longer than a look-up may read is inconclusive, never absent."""
    for n in range(refunds.max_pages):
        scripted.says(200, {"object": "list", "data": [{"id": f"re_{n}", "metadata": None}], "has_more": True})
    verdict = refunds.verify(context_for(refund_of(), permit()))
    assert isinstance(verdict, Inconclusive)
    assert len(scripted.seen) == refunds.max_pages


def test_a_list_past_our_time_is_no_absence(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages together have one deadline."""
    monkeypatch.setattr(type(refunds), "request_timeout", -effects.Retry().first)
    assert isinstance(refunds.verify(context_for(refund_of(), permit())), Unreachable)
    assert scripted.seen == []


def test_a_payment_is_found(faults: Faults, intents: CreatePaymentIntent, permit: Callable) -> None:
    """A payment intent is found by its mark among all others."""
    allowed = permit()
    context = context_for(payment(payment_method="pm_card_visa", confirm=True), allowed)
    assert isinstance(intents.verify(context), Absent)
    sent = intents.send(context, allowed)
    verdict = intents.verify(context)
    assert isinstance(verdict, Found)
    assert isinstance(sent, effects.Applied)
    assert verdict.reference == sent.reference


def test_a_declined_payment_is_proven_failed(faults: Faults, intents: CreatePaymentIntent, permit: Callable) -> None:
    """The intent of a declined card is there, and shows that nothing was charged."""
    allowed = permit()
    context = context_for(payment(payment_method="pm_card_chargeCustomerFail", confirm=True), allowed)
    with pytest.raises(effects.Declined):
        intents.send(context, allowed)
    verdict = intents.verify(context)
    assert isinstance(verdict, ProvenFailed)
    assert verdict.code == "card_declined"


def test_payments_are_narrowed_by_time_and_customer(scripted: Scripted, permit: Callable) -> None:
    """A look-up of a payment reads what its customer was charged since shortly before it was recorded."""

    class Real(CreatePaymentIntent):
        operation = "test.real"

    scripted.says(200, {"object": "list", "data": [], "has_more": False})
    context = context_for(payment(customer="cus_1"), permit())
    assert isinstance(Real().verify(context), Absent)
    query = parse_qs(urlsplit(scripted.seen[0][1]).query)
    assert query["customer"] == ["cus_1"]
    recorded = int(context.ref.replace("-", "")[:12], 16) // 1000
    assert recorded - int(query["created[gte]"][0]) == pytest.approx(3600, abs=1)


def test_a_payment_that_is_known_is_fetched(faults: Faults, intents: CreatePaymentIntent, permit: Callable) -> None:
    """Where Stripe's id is known nothing is listed."""
    allowed = permit()
    context = context_for(payment(), allowed)
    sent = intents.send(context, allowed)
    assert isinstance(sent, effects.Applied)
    verdict = intents.verify(context_for(payment(), allowed, reference=sent.reference))
    assert isinstance(verdict, Found)
    (get,) = faults.sends(method="GET")
    assert get.path == f"/v1/payment_intents/{sent.reference}"


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (RefundPayload, {"amount": 1, "currency": "eur"}),
        (RefundPayload, {"amount": 1, "currency": "eur", "payment_intent": "pi_1", "charge": "ch_1"}),
        (RefundPayload, {"amount": 0, "currency": "eur", "charge": "ch_1"}),
        (RefundPayload, {"amount": 1, "currency": "EUR", "charge": "ch_1"}),
        (PaymentIntentPayload, {"amount": -1, "currency": "eur"}),
        (PaymentIntentPayload, {"amount": 1, "currency": "eur", "confirm": True}),
        (PaymentIntentPayload, {"amount": 1, "currency": "euro"}),
        (PaymentIntentPayload, {"amount": 1, "currency": "eur", "payment_method": "pm_1", "off_session": True}),
    ],
)
def test_payloads_refuse_nonsense(cls: type[Any], fields: dict[str, Any]) -> None:
    """What cannot be meant is refused before anything is recorded."""
    with pytest.raises(PayloadError):
        hydrate(cls, fields)
