"""Each fault of the proxy does what it says, and the ledger counts it."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import requests

from project.services import stripe
from project.services.faults import Faults
from project.services.processes import Service

PATH = "/v1/payment_intents"


@pytest.fixture
def marker(request: pytest.FixtureRequest) -> str:
    """A text that only this test's requests have."""
    return str(request.node.name)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for clients that wait."""
    with ThreadPoolExecutor(32) as executor:
        yield executor


def post(faults: Faults, marker: str, **arguments: Any) -> requests.Response:
    """Create a payment intent through the proxy."""
    return requests.post(
        faults.url + PATH,
        data={"amount": "100", "currency": "eur", "metadata[marker]": marker},
        headers={"Authorization": f"Bearer {stripe.API_KEY}", "Idempotency-Key": f"key of {marker}"},
        **{"timeout": 30, **arguments},
    )


def applied(server: Service, marker: str) -> int:
    """Count what the provider really has, asked past the proxy."""
    answer = requests.get(
        server.url + PATH,
        params={"limit": 1000},
        headers={"Authorization": f"Bearer {stripe.API_KEY}"},
        timeout=30,
    )
    return sum(each["metadata"].get("marker") == marker for each in answer.json()["data"])


def test_without_a_fault_everything_passes(faults: Faults, stripe_server: Service, marker: str) -> None:
    """The provider's answer comes back, and the request is written down."""
    answer = post(faults, marker)
    assert answer.status_code == 200
    assert answer.json()["metadata"] == {"marker": marker}
    (send,) = faults.wait_for("done", path=PATH)
    assert (send.method, send.path, send.idempotency_key) == ("POST", PATH, f"key of {marker}")
    assert send.form == {"amount": "100", "currency": "eur", "metadata[marker]": marker}
    assert (send.forwarded, send.status, send.object) == (1, 200, answer.json()["id"])
    assert (send.fault, send.replied, send.open) == (None, True, False)
    assert applied(stripe_server, marker) == 1


def test_a_lost_reply_was_applied(faults: Faults, stripe_server: Service, marker: str) -> None:
    """The provider has it, the client sees a closed connection, and the next request passes."""
    faults.add("lose_reply", method="POST", path=PATH, contains=marker)
    with pytest.raises(requests.ConnectionError):
        post(faults, marker)
    (send,) = faults.wait_for("done")
    assert (send.fault, send.forwarded, send.status, send.replied) == ("lose_reply", 1, 200, False)
    assert applied(stripe_server, marker) == 1
    assert post(faults, marker).status_code == 200


def test_a_lost_request_was_not(faults: Faults, stripe_server: Service, marker: str) -> None:
    """The provider has nothing, the client sees the same as for a lost reply."""
    faults.add("lose_request", contains=marker)
    with pytest.raises(requests.ConnectionError):
        post(faults, marker)
    (send,) = faults.wait_for("done")
    assert (send.fault, send.forwarded, send.status, send.replied) == ("lose_request", 0, None, False)
    assert applied(stripe_server, marker) == 0


def test_a_delayed_request_lands_after_its_client_went(faults: Faults, stripe_server: Service, marker: str) -> None:
    """A client's timeout does not take back what is under way."""
    faults.add("delay", seconds=1)
    with pytest.raises(requests.Timeout):
        post(faults, marker, timeout=0.2)
    (send,) = faults.wait_for("done")
    assert (send.fault, send.forwarded) == ("delay", 1)
    assert applied(stripe_server, marker) == 1


def test_a_delayed_reply_was_applied_before_the_wait(
    faults: Faults, stripe_server: Service, marker: str, pool: ThreadPoolExecutor
) -> None:
    """The provider has it while the client still waits."""
    faults.add("delay_reply", seconds=1)
    answer = pool.submit(post, faults, marker)
    (send,) = faults.wait_for("forwarded")
    assert send.open
    assert applied(stripe_server, marker) == 1
    assert answer.result().status_code == 200


@pytest.mark.parametrize("forward", [False, True])
def test_what_hangs_can_be_released(
    faults: Faults, stripe_server: Service, marker: str, pool: ThreadPoolExecutor, forward: bool
) -> None:
    """A hanging request is a gate, before the provider or behind it."""
    faults.add("hang", forward=forward)
    answer: Future[requests.Response] = pool.submit(post, faults, marker)
    faults.wait_for("forwarded" if forward else "arrived")
    assert applied(stripe_server, marker) == int(forward)
    assert not answer.done()
    faults.release()
    assert answer.result().status_code == 200
    assert applied(stripe_server, marker) == 1


@pytest.mark.parametrize("forward", [False, True])
def test_what_hangs_ends_with_its_client(faults: Faults, stripe_server: Service, marker: str, forward: bool) -> None:
    """A client that gave up before the provider heard of it leaves nothing behind."""
    faults.add("hang", forward=forward)
    with pytest.raises(requests.Timeout):
        post(faults, marker, timeout=0.3)
    (send,) = faults.wait_for("done")
    assert (send.forwarded, send.replied) == (int(forward), False)
    assert applied(stripe_server, marker) == int(forward)


def test_what_hangs_has_a_limit(faults: Faults, marker: str) -> None:
    """Without a release the connection is closed in the end."""
    faults.add("hang", seconds=0.1)
    with pytest.raises(requests.ConnectionError):
        post(faults, marker)


def test_a_duplicate_reaches_the_provider_twice(faults: Faults, stripe_server: Service, marker: str) -> None:
    """The client sees one answer; localstripe, which knows no idempotency keys, did it twice."""
    faults.add("duplicate")
    assert post(faults, marker).status_code == 200
    (send,) = faults.wait_for("done")
    assert send.forwarded == 2
    assert applied(stripe_server, marker) == 2


def test_a_cut_answer_is_half_an_answer(faults: Faults, stripe_server: Service, marker: str) -> None:
    """The provider has it, and the client can see that the answer is not whole."""
    faults.add("cut")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        post(faults, marker)
    (send,) = faults.wait_for("done")
    assert (send.forwarded, send.replied) == (1, False)
    assert applied(stripe_server, marker) == 1


@pytest.mark.parametrize("forward", [False, True])
def test_a_status_can_be_ordered(faults: Faults, stripe_server: Service, marker: str, forward: bool) -> None:
    """A 5xx says nothing about whether it was applied."""
    faults.add("status", status=502, forward=forward)
    assert post(faults, marker).status_code == 502
    assert applied(stripe_server, marker) == int(forward)


def test_orders_are_for_those_that_fit_and_for_so_many(faults: Faults, marker: str) -> None:
    """Method, path and contents select; each order is used up in turn."""
    faults.add("status", path="/v1/refunds*", times=None)
    faults.add("status", method="GET", times=None)
    faults.add("status", contains="something else", times=None)
    faults.add("status", contains=f"key of {marker}", times=None)
    faults.add("status", contains=marker, path="/v1/pay*", times=2, status=500)
    faults.add("status", contains=marker, status=501)
    assert [post(faults, marker).status_code for _ in range(4)] == [500, 500, 501, 200]
    faults.add("status", times=None)
    faults.clear()
    assert post(faults, marker).status_code == 200


def test_every_send_is_counted_once(
    faults: Faults, stripe_server: Service, marker: str, pool: ThreadPoolExecutor
) -> None:
    """Many clients at once lose no entry, and a limited order hits exactly so many of them."""
    faults.add("lose_reply", contains=marker, times=7)
    start = threading.Barrier(32)

    def client() -> bool:
        start.wait()
        try:
            return post(faults, marker).status_code == 200
        except requests.ConnectionError:
            return False

    answered = [each.result() for each in [pool.submit(client) for _ in range(32)]]
    sends = faults.wait_for("done", count=32)
    assert answered.count(False) == 7
    assert [each.id for each in sends] == list(range(1, 33))
    assert sum(each.fault == "lose_reply" for each in sends) == 7
    assert sum(each.forwarded for each in sends) == applied(stripe_server, marker) == 32


def test_nonsense_is_refused_and_nothing_is_waited_for_in_vain(faults: Faults) -> None:
    """An unknown fault is an error at once; a wait has an end."""
    with pytest.raises(ValueError, match="unknown fault"):
        faults.add("explode")
    with pytest.raises(TimeoutError):
        faults.wait_for(path="/nothing", seconds=0.1)
    faults.reset()
    assert faults.sends() == []
