"""What goes over the wire, and what ends it."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
import stripe

from effects.contrib.stripe import CreateRefund, get_client, until
from effects.vocabulary.failures import Doubt, InvalidRequest, NotSent, Unauthenticated
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import Applied, monotonic
from project.services.faults import Faults
from tests.stripe.conftest import context_for, paid, refund_of
from tests.stripe.scripted import Scripted

REFUND = {"id": "re_1", "object": "refund", "status": "succeeded", "amount": 400, "currency": "eur"}


def test_one_send_is_one_request_under_the_key(faults: Faults, refunds: CreateRefund, permit: Callable) -> None:
    """One permit puts one POST on the wire, with the provider key as idempotency key and in the metadata."""
    intent, allowed = paid(), permit()
    context = context_for(refund_of(intent, metadata={"order": "17"}), allowed)
    result = refunds.send(context, allowed)
    (send,) = faults.wait_for("done", method="POST", path="/v1/refunds")
    assert isinstance(result, Applied)
    assert result.reference == send.object
    assert result.output == {"id": send.object, "status": "succeeded", "amount": 400, "currency": "eur"}
    assert send.idempotency_key == allowed.provider_key
    assert send.form == {
        "payment_intent": intent,
        "amount": "400",
        "metadata[order]": "17",
        "metadata[effects_key]": allowed.provider_key,
        "metadata[effects_ref]": context.ref,
    }


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_what_the_sdk_would_repeat_is_sent_once(
    faults: Faults, refunds: CreateRefund, permit: Callable, status: int
) -> None:
    """Answers that the SDK repeats a request for by default are answers to one request here."""
    faults.add("status", path="/v1/refunds", status=status, times=None)
    with pytest.raises(Exception, match="ordered by a fault"):
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert len(faults.sends(path="/v1/refunds")) == 1


def test_an_option_does_not_bring_repetitions_back(faults: Faults) -> None:
    """Even a call that asks the SDK for retries is one request."""
    faults.add("lose_reply", path="/v1/payment_intents", times=None)
    params: Any = {"amount": 100, "currency": "eur"}
    with pytest.raises(Doubt):
        get_client().v1.payment_intents.create(params, {"max_network_retries": 3})
    assert len(faults.sends(path="/v1/payment_intents")) == 1


def test_no_telemetry(scripted: Scripted, refunds: CreateRefund, permit: Callable) -> None:
    """Nothing is told about this machine or about earlier requests."""
    for _ in range(2):
        scripted.says(200, REFUND, Request_Id="req_1")
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    for _, _, headers, _ in scripted.seen:
        assert not [name for name in headers if "client" in name.lower()]


def test_a_redirect_is_not_followed(scripted: Scripted, refunds: CreateRefund, permit: Callable) -> None:
    """A redirect is an answer that proves nothing; what it points at is never asked."""
    scripted.says(307, {"message": "there"}, Location=f"{scripted.url}/elsewhere")
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert caught.value.reason is ExecutionReason.PROVIDER_ERROR
    assert [path for _, path, _, _ in scripted.seen] == ["/v1/refunds"]


def trickle(head: bytes, part: bytes, every: float) -> Callable[[Any], None]:
    """Return an answer whose parts come one by one, for ever."""

    def answer(wire: Any) -> None:
        wire.write(head)
        while True:
            wire.write(part)
            wire.flush()
            time.sleep(every)

    return answer


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X-A: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"H"),
    ],
    ids=["headers", "body", "trailers", "interim answers", "status line"],
)
def test_a_trickling_answer_ends_at_the_deadline(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, head: bytes, part: bytes
) -> None:
    """The deadline is one for the whole request, not one for each read."""
    scripted.does(trickle(head, part, 0.05))
    allowed, started = permit(0.5), monotonic()
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(), allowed), allowed)
    assert caught.value.reason is ExecutionReason.TIMEOUT
    assert 0.4 < monotonic() - started < 1.0


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b" " * 100_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"186a0\r\n" + b" " * 100_000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: b\r\n" * 10_000),
    ],
    ids=["body", "chunks", "trailers"],
)
def test_an_answer_without_end_ends_at_its_size(
    scripted: Scripted, refunds: CreateRefund, permit: Callable, head: bytes, part: bytes
) -> None:
    """No answer fills the memory, however fast it comes: one too long is doubt, long before the deadline."""
    scripted.does(trickle(head, part, 0))
    allowed = permit(60)
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(), allowed), allowed)
    assert caught.value.code == "answer_too_long"


def test_a_hanging_provider_ends_at_the_deadline(faults: Faults, refunds: CreateRefund, permit: Callable) -> None:
    """No answer within the permit's time is doubt by time-out."""
    faults.add("hang", path="/v1/refunds")
    allowed, started = permit(0.5), monotonic()
    with pytest.raises(Doubt) as caught:
        refunds.send(context_for(refund_of(), allowed), allowed)
    assert caught.value.reason is ExecutionReason.TIMEOUT
    assert monotonic() - started < 1.5


def test_after_the_deadline_nothing_is_sent(faults: Faults, refunds: CreateRefund, permit: Callable) -> None:
    """A permit that has run out sends nothing, and says so."""
    allowed = permit(-0.1)
    with pytest.raises(NotSent):
        refunds.send(context_for(refund_of(), allowed), allowed)
    assert faults.sends(path="/v1/refunds") == []


def test_nobody_listens(settings: Any, refunds: CreateRefund, permit: Callable) -> None:
    """A refused connection proves that nothing was sent."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.STRIPE_API_KEY = "sk_test_x"
        settings.STRIPE_API_BASE = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(NotSent):
            refunds.send(context_for(refund_of(), allowed := permit()), allowed)


@pytest.mark.parametrize("base", ["http://no-such-host.invalid", f"http://{'a' * 70}.invalid"])
def test_no_such_name(settings: Any, refunds: CreateRefund, permit: Callable, base: str) -> None:
    """A name that cannot be resolved proves that nothing was sent."""
    settings.STRIPE_API_BASE, settings.STRIPE_API_KEY = base, "sk_test_x"
    with pytest.raises(NotSent):
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)


def test_no_tls(scripted: Scripted, settings: Any, refunds: CreateRefund, permit: Callable) -> None:
    """A handshake that fails proves that nothing was sent."""
    settings.STRIPE_API_BASE = scripted.url.replace("http:", "https:")
    with pytest.raises(NotSent):
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert scripted.seen == []


def test_a_key_that_no_header_can_hold(
    scripted: Scripted, settings: Any, refunds: CreateRefund, permit: Callable
) -> None:
    """A request that cannot be written was not sent."""
    settings.STRIPE_API_KEY = "sk_test\nx"
    with pytest.raises(NotSent):
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)
    assert scripted.seen == []


def test_without_a_key_nothing_is_sent(settings: Any, refunds: CreateRefund, permit: Callable) -> None:
    """A project without a key learns it as a refusal, not as a doubt."""
    settings.STRIPE_API_KEY = ""
    with pytest.raises(Unauthenticated, match="STRIPE_API_KEY"):
        refunds.send(context_for(refund_of(), allowed := permit()), allowed)


def test_the_sdk_s_own_settings_stay(faults: Faults, refunds: CreateRefund, permit: Callable) -> None:
    """The `stripe` module is neither read for keys nor changed."""
    before = (stripe.api_key, stripe.api_base, stripe.max_network_retries, stripe.default_http_client)
    refunds.send(context_for(refund_of(paid()), allowed := permit()), allowed)
    assert (stripe.api_key, stripe.api_base, stripe.max_network_retries, stripe.default_http_client) == before


def test_one_client_for_one_account(settings: Any) -> None:
    """The client follows the settings and is kept for as long as they stay."""
    settings.STRIPE_API_KEY = "sk_test_1"
    first = get_client()
    assert get_client() is first
    settings.STRIPE_API_KEY = "sk_test_2"
    assert get_client() is not first


def test_deadlines_nest(scripted: Scripted) -> None:
    """The innermost deadline counts, and ends with its block."""
    scripted.says(404, {"error": {"type": "invalid_request_error", "message": "none"}})
    with until(monotonic() + 5):
        with until(monotonic() - 1), pytest.raises(NotSent):
            get_client().v1.refunds.retrieve("re_1")
        with pytest.raises(stripe.InvalidRequestError):
            get_client().v1.refunds.retrieve("re_1")


def test_the_provider_s_own_words_are_kept(faults: Faults, refunds: CreateRefund, permit: Callable) -> None:
    """A refusal by the provider carries its message."""
    with pytest.raises(InvalidRequest, match="Not Found"):
        refunds.send(context_for(refund_of("pi_unknown"), allowed := permit()), allowed)
