"""Async views behind a real ASGI server, where clients hang up. Row 26 of the HTTP contract, and what follows of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

import effects
from effects.http import leases
from effects.journal import faults
from effects.models import Execution, Request
from effects.testing import provider_says, time_passes
from tests.core.declared import Charge
from tests.http import async_shop
from tests.http.asgi import Server

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


@pytest.fixture
def server(async_views: None, user: User) -> Iterator[Server]:
    """The views behind a uvicorn."""
    with Server(user) as running:
        yield running
        async_shop.gate.open()


@pytest.fixture
def hold_at() -> Iterator[Callable[[str], tuple[threading.Event, threading.Event]]]:
    """Hold the process at a fault point, the first time; returns "it is there" and "go on"."""
    go_on = threading.Event()

    def arrange(point: str) -> tuple[threading.Event, threading.Event]:
        there = threading.Event()

        def watch(name: str) -> None:
            if name == point and not there.is_set():
                there.set()
                assert go_on.wait(20)

        faults.arm(watch)
        return there, go_on

    yield arrange
    go_on.set()
    faults.disarm()


def becomes(state: str, key: str = "k") -> bool:
    """Wait until a request is in a state: the client is gone, so nothing announces it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if Request.objects.filter(key=key, state=state).exists():
            return True
        time.sleep(0.02)
    raise AssertionError(f"it is {Request.objects.get(key=key).state}")


def test_requests_do_not_wait_for_each_other(server: Server) -> None:
    """While one handler is held, its duplicate learns 409 and another request is answered."""
    first = server.begin("/opaque/function/", do="hold")
    assert async_shop.gate.entered.wait(10)
    status, told = server.send("/opaque/function/", do="hold")
    assert (status, told["code"]) == (409, "operation_in_progress")
    assert server.send("/opaque/function/", "other")[0] == 200
    async_shop.gate.open()
    assert first.answer()[0] == 200
    assert server.send("/opaque/function/", do="hold") == (200, {"n": 2})


@pytest.mark.parametrize(
    ("kind", "do", "expected"),
    [("opaque", "calls_out_then_hold", "in_doubt"), ("declared", "hold", "released")],
)
def test_row_26_a_client_hangs_up(server: Server, kind: str, do: str, expected: str) -> None:
    """The handler is cancelled and its request closed at once: in doubt, or free where nothing was sent."""
    first = server.begin(f"/{kind}/function/", do=do)
    assert async_shop.gate.entered.wait(10)
    first.hang_up()
    assert becomes(expected)
    assert async_shop.ends == ["cancelled"]


def test_row_26_after_the_effect(server: Server) -> None:
    """What was performed is answered by `answer=`, and the retry replays it."""
    with provider_says(Charge, DONE) as provider:
        first = server.begin("/declared/function/", do="charge_then_hold")
        assert async_shop.gate.entered.wait(10)
        first.hang_up()
        assert becomes("answered")
        status, told = server.send("/declared/function/", do="charge_then_hold")
    assert (status, told) == (201, {"charged": {"id": "ch_1"}})
    assert len(provider.sends) == 1


def test_row_26_during_the_call(server: Server) -> None:
    """The provider is at work when the client hangs up: its reply is waited for and recorded, then the request ends."""
    called, reply = threading.Event(), threading.Event()

    def slow(context: Any, permit: Any) -> Any:
        called.set()
        assert reply.wait(20)
        return DONE

    with provider_says(Charge, slow) as provider:
        first = server.begin("/declared/function/", do="charge")
        assert called.wait(10)
        first.hang_up()
        # the server has seen it once another of its requests was answered
        assert server.send("/opaque/function/", "other")[0] == 200
        assert Request.objects.get(key="k").state == "running"
        reply.set()
        assert becomes("answered")
    assert Execution.objects.get().state == "completed"
    assert len(provider.sends) == 1


def test_row_26_inside_of_finishing(server: Server) -> None:
    """The rows are undone; nothing was sent, so the key is free."""
    first = server.begin("/declared/function/", do="finish_and_hold", name="a")
    assert async_shop.gate.entered.wait(10)
    first.hang_up()
    assert becomes("released")
    assert not Group.objects.exists()


def test_row_26_before_the_handler_began(server: Server, hold_at: Any) -> None:
    """Hung up while the request was being opened: an opaque handler is not called at all, and the key is free."""
    there, go_on = hold_at("handler.started")
    first = server.begin("/opaque/function/", do="calls_out_then_hold")
    assert there.wait(10)
    first.hang_up()
    assert server.send("/opaque/function/", "other")[0] == 200
    go_on.set()
    assert becomes("released")
    assert [call.get("do") for call in async_shop.calls] == [None]


def test_row_26_while_the_answer_is_recorded(server: Server, hold_at: Any) -> None:
    """Recording goes on to its end; the retry gets the answer."""
    there, go_on = hold_at("answering_a_request.before_commit")
    first = server.begin("/opaque/function/")
    assert there.wait(10)
    first.hang_up()
    # answered by another thread, whose fault point is passed
    assert server.send("/opaque/function/", "other")[0] == 200
    go_on.set()
    assert becomes("answered")
    assert server.send("/opaque/function/")[0] == 200
    assert len(async_shop.calls) == 2


def test_row_39_the_lease_of_a_waiting_handler_is_renewed(
    server: Server, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that awaits for longer than its lease keeps it."""
    settings.EFFECTS = {"REQUEST_LEASE": timedelta(milliseconds=300)}
    renewer = leases.Renewer()  # that of the process still waits for a third of a longer lease
    monkeypatch.setattr(leases, "_renewer", renewer)
    first = server.begin("/opaque/function/", do="hold")
    assert async_shop.gate.entered.wait(10)
    opened = Request.objects.get().lease_expires_at
    deadline = time.monotonic() + 10
    while Request.objects.get().lease_expires_at == opened:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    async_shop.gate.open()
    assert first.answer()[0] == 200
    renewer.stop()


def test_row_39_a_handler_that_was_taken_over(server: Server) -> None:
    """Its late answer is not sent as if it were the frozen one."""
    first = server.begin("/opaque/function/", do="hold")
    assert async_shop.gate.entered.wait(10)
    time_passes(timedelta(minutes=2))
    assert server.send("/opaque/function/", do="hold")[1]["code"] == "operation_uncertain"
    async_shop.gate.open()
    assert first.answer()[1]["code"] == "operation_uncertain"


def test_row_26_the_server_stops(async_views: None, user: User) -> None:
    """A handler that comes to its end in the time that the server gives is answered and recorded."""
    with Server(user) as server:
        first = server.begin("/opaque/function/", do="hold")
        assert async_shop.gate.entered.wait(10)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        async_shop.gate.open()
        assert first.answer()[0] == 200
        stopping.join(20)
    assert becomes("answered")
