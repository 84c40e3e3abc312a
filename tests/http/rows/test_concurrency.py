"""Row 10: the first is still running."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.crash import provider
from tests.http.conftest import Sender
from tests.http.rows.conftest import Ledger, trouble
from tests.http.rows.server import Server
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_row_10_409_with_retry_after(live: Server, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """At once, in every process; afterwards the replay."""
    trouble("gate")
    first = in_thread(live.get, f"/{kind}/api/", do="hold")
    assert provider.ask("wait_held")
    for _ in range(5):
        answer = live.get(f"/{kind}/api/", do="hold")
        assert (answer.status, answer.code) == (409, "operation_in_progress")
        assert int(answer.headers["retry-after"]) > 0
    provider.ask("release")
    assert live.get(f"/{kind}/api/", do="hold").status in (201, 409)
    assert first().content == live.get(f"/{kind}/api/", do="hold").content
    assert ledger.of(kind) == 1


@each_kind
def test_row_10_an_option_waits_and_replays(live: Server, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """With `wait=` the duplicate gets the first one's bytes as soon as they are there."""
    trouble("gate")
    url = f"/patient/{kind}/"
    first = in_thread(live.get, url, do="hold")
    assert provider.ask("wait_held")
    others = [in_thread(live.get, url, do="hold") for _ in range(3)]
    provider.ask("release")
    content = first().content
    assert {(answer.status, answer.content, answer.replayed) for answer in (wait() for wait in others)} == {
        (201, content, True)
    }
    assert ledger.of(kind) == 1


def test_row_10_the_wait_is_bounded(send: Sender, ledger: Ledger, in_thread: Any) -> None:
    """After it, 409 as ever."""
    trouble("gate")
    first = in_thread(send, "/impatient/", do="hold")
    assert provider.ask("wait_held")
    answer = send("/impatient/", do="hold")
    assert (answer.status_code, json.loads(answer.content)["code"]) == (409, "operation_in_progress")
    provider.ask("release")
    assert first().status_code == 201
    assert ledger.applied() == 1
