"""What a project may override keeps the deadline, the one request and the redirect that is not followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import stripe

from effects.contrib.stripe import CreateRefund, DeadlineTransport, get_client
from effects.vocabulary.failures import Doubt, InvalidRequest
from effects.vocabulary.types import Applied, monotonic
from effects.vocabulary.verdicts import Inconclusive
from tests.stripe.conftest import Refunds, context_for, refund_of
from tests.stripe.scripted import Scripted

REFUND = {"id": "re_1", "object": "refund", "status": "succeeded", "amount": 400, "currency": "eur"}


def trickle(wire: Any) -> None:
    """Say something of an answer every 50 ms, for ever."""
    wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        wire.write(b" ")
        wire.flush()
        time.sleep(0.05)


def redirect(script: Scripted) -> None:
    script.says(307, {"message": "there"}, Location=f"{script.url}/elsewhere")


#: What a project's `client()` may return, by the address of the API.
SAFE: dict[str, Callable[[str], Any]] = {
    "another account": lambda url: get_client(api_key="sk_test_other"),
    "a connected account": lambda url: get_client(stripe_account="acct_1"),
    "its own, with our transport": lambda url: stripe.StripeClient(
        "sk_test_own", base_addresses={"api": url}, max_network_retries=3, http_client=DeadlineTransport()
    ),
}
UNSAFE: dict[str, Callable[[str], Any]] = {
    "its own": lambda url: stripe.StripeClient("sk_test_own", base_addresses={"api": url}),
    "its own, with retries": lambda url: stripe.StripeClient(
        "sk_test_own", base_addresses={"api": url}, max_network_retries=3, stripe_account="acct_1"
    ),
    "its own, with the SDK's HTTP layer": lambda url: stripe.StripeClient(
        "sk_test_own", base_addresses={"api": url}, http_client=stripe.RequestsClient(timeout=80)
    ),
    "the module": lambda url: stripe,
    "nothing": lambda url: None,
}


def refunds_with(make: Callable[[str], Any], script: Scripted) -> CreateRefund:
    class Own(Refunds):
        operation = "test.own_client"

        def client(self, context: Any) -> Any:
            return make(script.url)

    return Own()


@pytest.mark.parametrize("make", SAFE.values(), ids=SAFE.keys())
class TestClientsThatKeepIt:
    def test_one_request_whatever_is_answered(self, scripted: Scripted, permit: Callable, make: Any) -> None:
        """An answer that the SDK would repeat the request for, and a redirect, are each answers to one request."""
        for answer in (lambda: scripted.says(503, {"error": {"message": "no"}}), lambda: redirect(scripted)):
            scripted.seen.clear()
            answer()
            with pytest.raises(Doubt):
                refunds_with(make, scripted).send(context_for(refund_of(), allowed := permit()), allowed)
            assert [path for _, path, _, _ in scripted.seen] == ["/v1/refunds"]

    def test_the_deadline_ends_it(self, scripted: Scripted, permit: Callable, make: Any) -> None:
        """An answer that trickles in ends with the permit."""
        scripted.does(trickle)
        allowed, begun = permit(0.5), monotonic()
        with pytest.raises(Doubt):
            refunds_with(make, scripted).send(context_for(refund_of(), allowed), allowed)
        assert monotonic() - begun < 5


@pytest.mark.parametrize("make", UNSAFE.values(), ids=UNSAFE.keys())
def test_a_client_that_drops_the_guarantees_sends_nothing(scripted: Scripted, permit: Callable, make: Any) -> None:
    """It is refused in words at the send, proven not applied, and at the look-up; no request was made."""
    own = refunds_with(make, scripted)
    with pytest.raises(InvalidRequest, match=r"Return get_client\(api_key"):
        own.send(context_for(refund_of(), allowed := permit()), allowed)
    assert isinstance(own.verify(context_for(refund_of(), allowed)), Inconclusive)
    assert scripted.seen == []


def test_a_connected_account_is_named_on_the_wire(scripted: Scripted, permit: Callable) -> None:
    """`get_client(stripe_account=…)` acts for that account, under the key that it was given."""
    scripted.says(200, REFUND, Request_Id="req_1")
    own = refunds_with(lambda url: get_client(api_key="sk_test_platform", stripe_account="acct_1"), scripted)
    assert isinstance(own.send(context_for(refund_of(), allowed := permit()), allowed), Applied)
    ((_, _, headers, _),) = scripted.seen
    named = {name.lower(): value for name, value in headers.items()}
    assert (named["stripe-account"], named["authorization"]) == ("acct_1", "Bearer sk_test_platform")


def test_settings_of_the_module_bring_nothing_back(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a project sets on the `stripe` module for its other code changes neither key nor number of requests."""
    monkeypatch.setattr(stripe, "max_network_retries", 5)
    monkeypatch.setattr(stripe, "api_key", "sk_test_global")
    monkeypatch.setattr(stripe, "default_http_client", stripe.RequestsClient())
    scripted.says(503, {"error": {"message": "no"}})
    with pytest.raises(Doubt):
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    ((_, _, headers, _),) = scripted.seen
    assert headers["Authorization"] == "Bearer sk_test_scripted"


class Twice(Refunds):
    operation = "test.twice"

    def create(self, client: Any, params: Any, options: Any) -> object:
        client.v1.refunds.create(params, options)
        return client.v1.refunds.create(params, {**options, "idempotency_key": "another"})


class Options(Refunds):
    operation = "test.options"

    def create(self, client: Any, params: Any, options: Any) -> object:
        return client.v1.refunds.create(params, {**options, "max_network_retries": 3, "stripe_account": "acct_1"})


class Asks(Refunds):
    operation = "test.asks"

    def create(self, client: Any, params: Any, options: Any) -> object:
        client.v1.refunds.retrieve("re_0")
        return client.v1.refunds.create(params, options)


class Async(Refunds):
    operation = "test.async"

    def create(self, client: Any, params: Any, options: Any) -> object:
        return asyncio.run(client.v1.refunds.create_async(params, options))


@pytest.mark.parametrize(
    ("effect", "answers", "raises", "posts"),
    [
        (Twice, [200, 200], Doubt, 1),
        (Options, [503], Doubt, 1),
        (Asks, [200, 200], None, 1),
        (Async, [], InvalidRequest, 0),
    ],
)
def test_one_permit_is_one_request_whatever_create_does(
    scripted: Scripted, permit: Callable, effect: type[CreateRefund], answers: list[int], raises: Any, posts: int
) -> None:
    """A second request that changes something is not made, whatever an override of `create` asks for."""
    for status in answers:
        scripted.says(status, REFUND, Request_Id="req_1")
    context = context_for(refund_of(), allowed := permit())
    if raises is None:
        assert isinstance(effect().send(context, allowed), Applied)
    else:
        with pytest.raises(raises):
            effect().send(context, allowed)
    assert len([method for method, *_ in scripted.seen if method == "POST"]) == posts
