"""What a look-up says."""

import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import effects
from effects.contrib.httpx import ApiRequest
from effects.vocabulary.types import monotonic
from effects.vocabulary.verdicts import Absent, Found, Inconclusive, Unreachable
from tests.httpx.conftest import Transfer, context_for, declared
from tests.stripe.scripted import Scripted


def test_found(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """The project reads a success; the request was a GET without the header of the key."""
    api.says(200, {"data": [{"id": "t-1", "amount": 400}]})
    allowed = permit()
    verdict = transfer.verify(context_for(allowed))
    assert isinstance(verdict, Found)
    assert (verdict.reference, verdict.output) == ("t-1", {"id": "t-1", "amount": 400})
    ((method, path, headers, body),) = api.seen
    assert (method, path, body) == ("GET", f"/transfers?key={allowed.provider_key}", "")
    assert "idempotency-key" not in {name.lower() for name in headers}


def test_absent(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """The project says what absence looks like."""
    api.says(200, {"data": []})
    assert transfer.verify(context_for(permit())) == Absent()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_away(api: Scripted, transfer: Transfer, permit: Callable, status: int) -> None:
    """Who is busy, or behind somebody who cannot reach them, was not asked."""
    api.says(status, {"message": "later"})
    assert transfer.verify(context_for(permit())) == Unreachable("later", {"status": status})


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 405, 409, 410, 422])
@pytest.mark.parametrize("body", [{"data": []}, {"data": [{"id": "t-1"}]}], ids=["none", "one"])
def test_what_is_no_success_says_nothing(
    api: Scripted, transfer: Transfer, permit: Callable, status: int, body: Any
) -> None:
    """It is inconclusive, and the project's reading is not asked, which could take it for an empty list."""
    api.says(status, body, Location=f"{api.url}/elsewhere")
    verdict = transfer.verify(context_for(permit()))
    assert isinstance(verdict, Inconclusive)
    assert verdict.proof == {"status": status}
    assert len(api.seen) == 1


def test_a_404_is_no_absence(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """A wrong address has the same answer."""
    api.says(404, {"data": []})
    verdict = transfer.verify(context_for(permit()))
    assert isinstance(verdict, Inconclusive)
    assert verdict.proof == {"status": 404}


def test_a_404_is_absence_where_the_project_says_so(api: Scripted, permit: Callable) -> None:
    """For an API that promises it."""
    effect = declared(url=api.url, not_found=lambda self, context, answer: effects.Absent({"status": 404}))
    api.says(404, b"")
    assert effect.verify(context_for(permit())) == Absent({"status": 404})


@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b"\xff"])
def test_an_answer_that_cannot_be_read(api: Scripted, transfer: Transfer, permit: Callable, body: bytes) -> None:
    """It decides nothing."""
    api.says(200, body)
    assert isinstance(transfer.verify(context_for(permit())), Inconclusive)


def test_a_look_up_changes_nothing(api: Scripted, permit: Callable) -> None:
    """A look-up that would post is not made: without a permit it would be a second send."""
    effect = declared(url=api.url, look_up_request=lambda self, context: self.request(context))
    verdict = effect.verify(context_for(permit()))
    assert isinstance(verdict, Inconclusive)
    assert "GET" in verdict.reason
    assert api.seen == []


def test_nobody_listens(permit: Callable) -> None:
    """A provider that cannot be reached is evidence of nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        effect = declared(url=f"http://127.0.0.1:{free.getsockname()[1]}")
        assert isinstance(effect.verify(context_for(permit())), Unreachable)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
def test_a_broken_connection(api: Scripted, transfer: Transfer, permit: Callable, answer: bytes) -> None:
    """Nor is one that hangs up."""
    api.does(lambda wire: wire.write(answer))
    assert isinstance(transfer.verify(context_for(permit())), Unreachable)


def test_a_trickling_answer_ends_in_time(api: Scripted, permit: Callable) -> None:
    """A look-up takes no longer than a send may."""

    def answer(wire: Any) -> None:
        for _ in range(100):
            wire.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            wire.flush()
            time.sleep(0.05)

    api.does(answer)
    started = monotonic()
    effect = declared(url=api.url, request_timeout=timedelta(seconds=0.5))
    assert isinstance(effect.verify(context_for(permit())), Unreachable)
    assert monotonic() - started < 1.0


def test_a_request_that_cannot_be_written(permit: Callable) -> None:
    """The provider is not to blame, and trying again does not help."""
    effect = declared(look_up_request=lambda self, context: ApiRequest("GET", "/transfers"))
    assert isinstance(effect.verify(context_for(permit())), Inconclusive)


def test_an_answer_that_is_too_long(api: Scripted, permit: Callable) -> None:
    """Half a list is no list."""
    api.says(200, {"data": []})
    assert isinstance(declared(url=api.url, max_answer_bytes=5).verify(context_for(permit())), Inconclusive)
