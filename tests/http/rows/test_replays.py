"""Rows 1, 2, 17, 24, 25, 35, 36 and 47: the first answer, and what a retry gets of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models.signals import post_save

from effects.models import Request
from tests.crash import provider
from tests.http.conftest import Sender
from tests.http.rows import shop
from tests.http.rows.conftest import Ledger, trouble
from tests.http.rows.server import Server
from tests.http.rows.shop import KINDS, PLACES

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_row_01_the_first_use_is_the_views_own(send: Sender, ledger: Ledger, kind: str) -> None:
    """Its own answer, without a replay header, and one effect."""
    response = send(f"/{kind}/api/")
    assert response.status_code == 201
    assert set(json.loads(response.content)) == {"paid", "run"}
    assert "Idempotent-Replayed" not in response
    assert ledger.of(kind) == 1


@pytest.mark.parametrize("kind", ["opaque", "declared"])
def test_row_01_the_claim_is_durable_before_the_view_runs(
    live: Server, ledger: Ledger, in_thread: Any, kind: str
) -> None:
    """While the handler runs in another process, its request stands in the table."""
    trouble("gate")
    first = in_thread(live.get, f"/{kind}/api/", do="hold")
    assert provider.ask("wait_held")
    assert Request.objects.get().state == "running"
    provider.ask("release")
    assert first().status == 201
    assert ledger.of(kind) == 1


@pytest.fixture
def observed() -> Iterator[list[str]]:
    """What signals and on_commit hooks have noted."""
    found: list[str] = []

    def saved(sender: Any, instance: Any, **_: Any) -> None:
        if not instance.name.startswith("paid "):
            found.append("signal")
            transaction.on_commit(lambda: found.append("hook"))

    post_save.connect(saved, sender=Group)
    yield found
    post_save.disconnect(saved, sender=Group)


@each_kind
def test_row_02_a_retry_gets_the_same_bytes(send: Sender, ledger: Ledger, observed: list[str], kind: str) -> None:
    """In every place: stored status, bytes and headers; no view code, signal or hook runs again."""
    for place in PLACES:
        first = send(f"/{kind}/{place}", place, number=place)
        ran, noticed = len(shop.seen), list(observed)
        for _ in range(2):
            again = send(f"/{kind}/{place}", place, number=place)
            assert (again.status_code, again.content) == (201, first.content)
            assert again["Content-Type"] == first["Content-Type"]
            assert again["Idempotent-Replayed"] == "true"
        assert (len(shop.seen), observed) == (ran, noticed)
    assert observed == (["signal", "hook"] * len(PLACES) if kind == "transactional" else [])
    assert ledger.of(kind) == len(PLACES)


@each_kind
def test_row_02_the_retry_comes_to_another_process(live: Server, ledger: Ledger, kind: str) -> None:
    """Twenty retries of four workers get the same bytes."""
    first = live.get(f"/{kind}/api/")
    again = [live.get(f"/{kind}/api/") for _ in range(20)]
    assert {(answer.status, answer.content, answer.replayed) for answer in again} == {(201, first.content, True)}
    assert ledger.of(kind) == 1


@each_kind
def test_row_17_access_was_revoked_since(send: Sender, user: User, ledger: Ledger, settings: Any, kind: str) -> None:
    """Permissions, authentication and `REPLAY_CHECK` are asked on a replay too; nothing of the answer comes out."""
    first = send(f"/{kind}/api/")
    settings.EFFECTS = {"DISPATCH": "none", "REPLAY_CHECK": lambda request, found: False}
    refused = [send(f"/{kind}/api/")]
    settings.EFFECTS = {"DISPATCH": "none"}
    User.objects.filter(pk=user.pk).update(first_name="revoked")
    refused.append(send(f"/{kind}/api/"))
    User.objects.filter(pk=user.pk).update(first_name="", is_active=False)
    refused.append(send(f"/{kind}/api/"))
    refused.append(Sender(None)(f"/{kind}/api/"))
    assert {answer.status_code for answer in refused} <= {401, 403}
    assert not [answer for answer in refused if json.loads(first.content)["run"].encode() in answer.content]
    User.objects.filter(pk=user.pk).update(is_active=True)
    assert send(f"/{kind}/api/").content == first.content
    assert ledger.of(kind) == 1


@each_kind
def test_row_24_another_accept_gets_the_stored_representation(send: Sender, ledger: Ledger, kind: str) -> None:
    """Its bytes, its Content-Type, its Vary; no 406 for a renderer that the view has, and no second run."""
    first = send(f"/{kind}/api/", headers={"Accept": "application/json"})
    assert "Accept" in first["Vary"]
    for accept in ("text/html", "application/json; indent=4", "*/*"):
        again = send(f"/{kind}/api/", headers={"Accept": accept})
        assert (again.status_code, again.content, again["Content-Type"]) == (201, first.content, "application/json")
        assert "Accept" in again["Vary"]
    assert ledger.of(kind) == 1


#: Never stored, whatever a handler sets: of one client, of one moment, or of one hop.
NEVER = (
    "Set-Cookie", "WWW-Authenticate", "Date", "X-Trace-Id", "traceparent", "X-RateLimit-Remaining", "RateLimit",
    "Access-Control-Allow-Origin", "Connection", "Content-Encoding", "Content-Length", "Allow", "Server",
)  # fmt: skip


@each_kind
def test_row_25_what_belongs_to_one_exchange_is_never_stored(send: Sender, ledger: Ledger, kind: str) -> None:
    """Neither in the row nor in the replay; what belongs to the answer is in both."""
    first, again = send(f"/{kind}/api/", do="headers"), send(f"/{kind}/api/", do="headers")
    stored = {name.lower() for name, _ in Request.objects.get().answer_headers}
    assert not stored & {name.lower() for name in NEVER}
    assert not [name for name in NEVER if name in again and name not in ("Allow", "Content-Length")]
    assert not again.cookies
    for name in ("Location", "ETag", "Link", "Content-Language"):
        assert again[name] == first[name]
    assert ledger.of(kind) == 1


@each_kind
def test_row_35_empty_answers_are_answers(send: Sender, ledger: Ledger, kind: str) -> None:
    """204 and an empty 200 come again as they were, flagged."""
    for number, status in enumerate((204, 200), 1):
        for replayed in (None, "true"):
            answer = send(f"/{kind}/api/", str(status), do="empty", status=status, number=str(status))
            assert (answer.status_code, answer.content) == (status, b"")
            assert answer.get("Idempotent-Replayed") == replayed
        assert ledger.of(kind) == number


@each_kind
def test_row_36_the_handler_changes_its_data(send: Sender, ledger: Ledger, kind: str) -> None:
    """Key and fingerprint were taken before: the same request is a replay, another one is refused."""
    first = send(f"/{kind}/api/", do="change", number="1")
    again = send(f"/{kind}/api/", do="change", number="1")
    assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")
    assert send(f"/{kind}/api/", do="change", number="2").status_code == 422
    assert ledger.of(kind) == 1


@each_kind
def test_row_47_html_is_not_frozen(send: Sender, ledger: Ledger, kind: str) -> None:
    """Neither a page of the view's own nor the browsable API's: a token of one session is in it."""
    browser = {"Accept": "text/html,application/xhtml+xml;q=0.9"}
    for number, (do, headers) in enumerate((("page", {}), ("pay", browser)), 1):
        first = send(f"/{kind}/api/", do, do=do, number=do, headers=headers)
        assert first["Content-Type"].startswith("text/html")
        assert (b"csrf" in first.content) or do == "pay"
        again = send(f"/{kind}/api/", do, do=do, number=do)
        assert (again.status_code, json.loads(again.content)["code"]) == (409, "operation_result_unavailable")
        row = Request.objects.get(key=do)
        assert (row.state, row.answer_missing, row.answer_body) == ("answered", "html", None)
        assert ledger.of(kind) == number
