"""Rows 26, 38 to 40, 43 and 51: many processes, dead processes, slow ones, and clients that are gone."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from effects.models import Attempt, Execution, Request
from effects.runtime import operators
from effects.testing import run_due, time_passes
from project.services.processes import Processes
from tests.crash import provider
from tests.http.conftest import Sender
from tests.http.rows import server
from tests.http.rows.asked import KILL
from tests.http.rows.conftest import Ledger, end, trouble
from tests.http.rows.server import Answer, Server
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)
LATER = timedelta(minutes=10)


def heal() -> None:
    """Let the time pass in which leases end and look-ups are believed, and the sweeps come by."""
    for _ in range(2):
        time_passes(LATER)
        run_due()


def at_once(many: int, send: Callable[[], Answer | None]) -> list[Answer | None]:
    """Send that many requests at one instant, each by a client of its own."""
    barrier, found = threading.Barrier(many), list[Answer | None]()

    def one() -> None:
        barrier.wait(30)
        found.append(send())

    clients = [threading.Thread(target=one) for _ in range(many)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    assert len(found) == many
    return found


# -- row 26 ------------------------------------------------------------------------------------------------------------


@each_kind
def test_row_26_the_client_disconnects(live: Server, ledger: Ledger, kind: str) -> None:
    """The outcome is recorded all the same, and a retry gets the answer."""
    trouble("gate")
    with live.open(f"/{kind}/api/", do="hold"):
        assert provider.ask("wait_held")
    provider.ask("release")
    answers = live.insist(f"/{kind}/api/", do="hold", until=lambda answer: answer.status != 409)
    assert (answers[-1].status, answers[-1].replayed) == (201, True)
    assert {answer.code for answer in answers[:-1]} <= {"operation_in_progress"}
    assert ledger.of(kind) == 1


@each_kind
def test_row_26_a_worker_is_asked_to_end(live: Server, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """SIGTERM in the middle of a handler: it is finished, answered and recorded."""
    trouble("gate")
    first = in_thread(live.send, f"/{kind}/api/", do="hold")
    assert provider.ask("wait_held")
    end(provider.ask("holder"), signal.SIGTERM)
    provider.ask("release")
    answer = first()
    again = live.insist(f"/{kind}/api/", do="hold", until=lambda answer: answer.status != 409)[-1]
    assert (again.status, again.replayed) == (201, True)
    assert answer is not None
    assert answer.content == again.content
    assert ledger.of(kind) == 1


@each_kind
@pytest.mark.parametrize("interrupt", ["exit", "cancelled", "keyboard"])
def test_row_26_an_interrupt_in_the_handler_is_recorded(
    send: Sender, ledger: Ledger, kind: str, interrupt: str
) -> None:
    """SystemExit, CancelledError, KeyboardInterrupt: closed at once by rows 11 and 12, and raised on."""
    for after in (False, True):
        sent = {"do": "interrupt", "kind": interrupt, "after": after}
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - which one is said below
            send(f"/{kind}/api/", str(after), raises=True, **sent)
        assert type(raised.value).__name__ in ("SystemExit", "CancelledError", "KeyboardInterrupt")
        states = list(Request.objects.filter(key=str(after)).values_list("state", flat=True))
        closed = "answered" if after else "released"
        assert states == {"transactional": [], "opaque": ["in_doubt"], "declared": [closed]}[kind]
    assert ledger.of(kind) == (0 if kind == "transactional" else 1)


# -- row 38 ------------------------------------------------------------------------------------------------------------


@each_kind
def test_row_38_many_at_one_instant(live: Server, ledger: Ledger, kind: str) -> None:
    """Through four processes: one effect, no 500; the others get 409 or the very bytes of the one."""
    answers = at_once(200 if kind == "declared" else 100, lambda: live.send(f"/{kind}/api/"))
    good = [answer for answer in answers if answer is not None and answer.status == 201]
    assert Counter(answer.status if answer else 0 for answer in answers).keys() <= {201, 409}
    assert {answer.code for answer in answers if answer and answer.status == 409} <= {"operation_in_progress"}
    assert len({answer.content for answer in good}) == 1
    assert [answer.replayed for answer in good].count(False) == 1
    assert Request.objects.count() == 1
    assert ledger.of(kind) == 1


@pytest.mark.parametrize("kind", ["declared", "opaque"])
def test_row_38_many_and_the_worker_is_killed(live: Server, ledger: Ledger, kind: str) -> None:
    """SIGKILL to the process that holds the order at the provider, with all else that it serves: at most one effect."""
    trouble("late")
    answers: list[Answer | None] = []
    many = 200 if kind == "declared" else 100
    crowd = threading.Thread(target=lambda: answers.extend(at_once(many, lambda: live.send(f"/{kind}/api/"))))
    crowd.start()
    assert provider.ask("wait_held")
    end(provider.ask("holder"), signal.SIGKILL)
    provider.ask("release")
    crowd.join(90)
    assert Counter(answer.status if answer else 0 for answer in answers).keys() <= {0, 409}
    assert ledger.applied() == 1
    heal()
    after = at_once(8, lambda: live.send(f"/{kind}/api/"))
    if kind == "declared":
        assert {(answer.status, answer.content) for answer in after if answer} == {(201, b'{"paid":{"id":"pay_1"}}')}
    else:
        assert {answer.code for answer in after if answer} == {"operation_uncertain"}
    assert ledger.applied() == 1


# -- row 39 ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _hasty_server(processes: Processes, provider_process: str, django_db_setup: None) -> Iterator[Server]:
    started = server.start(processes, workers=1, ROWS_LEASE_SECONDS="1")
    yield started
    started.process.kill()
    processes.stop_one(started.process)


@pytest.fixture
def hasty(protected_views: None, password: None, atomic_requests: bool, _hasty_server: Server) -> Server:
    """A server whose every timeout is about a second: lease, worker's watchdog, idle transactions."""
    return _hasty_server.with_setting(atomic_requests)


def test_row_39_slower_than_every_timeout(hasty: Server, ledger: Ledger) -> None:
    """Retried again and again by impatient clients: it runs once, to its end; the lease is renewed."""
    trouble("gate")
    with hasty.open("/declared/api/", do="hold"):
        assert provider.ask("wait_held")
    row = Request.objects.get()
    end_of_lease = row.lease_expires_at

    def outlived() -> bool:
        """Whether three leases have passed since, by the database's clock."""
        answer = hasty.get("/declared/api/", do="hold")
        assert (answer.status, answer.code) == (409, "operation_in_progress")
        return bool(Request.objects.get().lease_expires_at > end_of_lease + timedelta(seconds=3))

    hasty.process.wait_until(outlived)
    provider.ask("release")
    answers = hasty.insist("/declared/api/", do="hold", until=lambda answer: answer.status != 409)
    assert (answers[-1].status, answers[-1].replayed) == (201, True)
    assert Request.objects.get().epoch == 1
    assert ledger.applied() == 1


@pytest.mark.parametrize("kind", ["opaque", "declared"])
def test_row_39_past_the_limit_it_is_fenced(live: Server, ledger: Ledger, in_thread: Any, kind: str) -> None:
    """Past `HANDLER_MAX` another may take over; the late answer is never sent as if it were the frozen one."""
    trouble("gate")
    first = in_thread(live.get, f"/{kind}/api/", do="hold")
    assert provider.ask("wait_held")
    time_passes(timedelta(minutes=11))
    second = live.get(f"/{kind}/api/", do="hold")
    provider.ask("release")
    late = first()
    assert late.status in (409, 503)
    if kind == "declared":
        assert second.status == 201
        assert live.get(f"/{kind}/api/", do="hold").content == second.content
    else:
        assert second.code == late.code == "operation_uncertain"
    assert ledger.applied() == 1


# -- row 40 ------------------------------------------------------------------------------------------------------------

OPENED = ("opening_a_request.after_commit", "handler.started")
WIRE = ("wire.connected", "wire.sent", "wire.answered")
ENDED = ("handler.returned", "answering_a_request.before_commit")
SENT = ("send.replied", "recording_an_outcome.before_commit", "hook.before", "hook.after")
POINTS: dict[str, tuple[str, ...]] = {
    "transactional": ("answering_a_transactional_request.before_commit",),
    "opaque": (*OPENED, *WIRE, *ENDED),
    "declared": (
        *OPENED, "performing_an_effect.before_commit", "performing_an_effect.after_commit", "send.before_call",
        *WIRE, *SENT, "recording_an_outcome.after_commit", *ENDED,
    ),
}  # fmt: skip
FREE = "opening_a_request.before_commit"
KEPT = {
    "transactional": "answering_a_transactional_request.after_commit",
    "opaque": "answering_a_request.after_commit",
    "declared": "answering_a_request.after_commit",
}


def killed_at(live: Server, kind: str, point: str) -> None:
    """Let the process that serves a request kill itself there."""
    key = point.replace("_", "-")
    assert live.send(f"/{kind}/api/", key, number=key, headers={KILL: point}) is None, point


def retried(live: Server, kind: str, point: str) -> Answer:
    """Send it again."""
    key = point.replace("_", "-")
    return live.get(f"/{kind}/api/", key, number=key)


@each_kind
def test_row_40_killed_at_each_point(live: Server, ledger: Ledger, kind: str) -> None:
    """In progress for the lease; then it runs, is answered or in doubt, by rows 11 and 12; at most one effect."""
    points = POINTS[kind]
    for point in points:
        killed_at(live, kind, point)
    early = retried(live, kind, points[-1])
    deadline = time.monotonic() + 20
    while kind == "transactional" and early.status == 409 and time.monotonic() < deadline:
        early = retried(live, kind, points[-1])  # its key is held until PostgreSQL notices that the process is gone
    assert early.status == (201 if kind == "transactional" else 409)
    assert early.code == ("" if kind == "transactional" else "operation_in_progress")
    time_passes(timedelta(minutes=2))
    soon = {point: retried(live, kind, point) for point in points}
    heal()
    for point in points:
        first, second = retried(live, kind, point), retried(live, kind, point)
        assert (first.status, first.content) == (second.status, second.content)
        if kind == "opaque":
            assert first.code == soon[point].code == "operation_uncertain", point
        else:
            assert first.status == 201, (point, first.content)
    applied = Counter(entry["key"] for entry in provider.ask("books")["applied"])
    assert set(applied.values()) <= {1}
    wanted = {"transactional": 1, "opaque": len({"wire.sent", "wire.answered", *ENDED}), "declared": len(points)}
    assert ledger.of(kind) == wanted[kind]
    if kind == "declared":
        assert soon["handler.started"].status == 201
        assert soon["wire.sent"].code == "operation_uncertain"


#: Between the opening and the first call, with the order at the provider, and before the answer is kept.
ASYNC_POINTS = {
    "opaque": ("handler.started", "wire.sent", "answering_a_request.before_commit"),
    "declared": ("performing_an_effect.after_commit", "wire.sent", "recording_an_outcome.after_commit"),
}


@pytest.mark.parametrize("kind", ASYNC_POINTS)
def test_row_40_an_async_view_is_killed(live_async: Server, ledger: Ledger, kind: str) -> None:
    """Behind uvicorn it is the same: in progress for the lease, then answered or in doubt; at most one effect."""
    url, points = f"/{kind}/async/", ASYNC_POINTS[kind]
    for point in points:
        assert live_async.send(url, point, number=point, headers={KILL: point}) is None, point
        assert live_async.get(url, point, number=point).code == "operation_in_progress", point
    heal()
    for point in points:
        again = live_async.get(url, point, number=point)
        wanted = (409, "operation_uncertain") if kind == "opaque" else (201, "")
        assert (again.status, again.code) == wanted, (point, again.content)
    applied = Counter(entry["key"] for entry in provider.ask("books")["applied"])
    assert set(applied.values()) == {1}
    assert ledger.applied() == (2 if kind == "opaque" else 3)


@each_kind
def test_row_40_killed_before_the_claim_and_after_the_answer(live: Server, ledger: Ledger, kind: str) -> None:
    """Before it nothing has happened and the key is free; after it the answer is there for the retry."""
    if kind != "transactional":
        killed_at(live, kind, FREE)
        assert Request.objects.count() == 0
        assert retried(live, kind, FREE).status == 201
    killed_at(live, kind, KEPT[kind])
    answer = retried(live, kind, KEPT[kind])
    assert (answer.status, answer.replayed) == (201, True)
    assert ledger.of(kind) == (1 if kind == "transactional" else 2)


# -- rows 43 and 51 ----------------------------------------------------------------------------------------------------


def test_row_43_an_opaque_view_killed_after_its_call(live: Server, ledger: Ledger) -> None:
    """SIGKILL: in doubt on every retry, for ever; never run again; a person closes it."""
    assert live.send("/opaque/api/", headers={KILL: "wire.sent"}) is None
    assert live.get("/opaque/api/").code == "operation_in_progress"
    for _ in range(3):
        time_passes(LATER)
        answer = live.get("/opaque/api/")
        assert (answer.status, answer.code) == (409, "operation_uncertain")
        assert "retry-after" not in answer.headers
        run_due()
    row = Request.objects.get()
    operators.resolve_request(
        row.pk, decision="applied", revision=row.revision, decision_id="d", by="olga", reason="it is in the books"
    )
    assert live.get("/opaque/api/").code == "operation_resolved"
    assert ledger.applied() == 1


@pytest.mark.parametrize("what", ["reply_lost", "raise_status", "return_status"])
def test_row_43_an_opaque_view_that_failed_after_its_call(send: Sender, ledger: Ledger, what: str) -> None:
    """A timeout, a 5xx raised or returned: in doubt, never run again."""
    sent: dict[str, Any] = {"do": what, "status": 502, "after": True}
    if what == "reply_lost":
        trouble(what)
        sent = {"do": "pay"}
    assert send("/opaque/api/", **sent).status_code >= 500
    for _ in range(2):
        answer = send("/opaque/api/", **sent)
        assert (answer.status_code, answer.json()["code"]) == (409, "operation_uncertain")
        heal()
    assert ledger.applied() == 1


def test_row_51_performed_and_called_directly(live: Server, ledger: Ledger, in_thread: Any, user: User) -> None:
    """SIGKILL after both: what was performed settles, the request stays in doubt until a person resolves it."""
    trouble("gate")
    first = in_thread(live.send, "/opaque/api/", do="perform_and_call")
    assert provider.ask("wait_held")
    end(provider.ask("holder"), signal.SIGKILL)
    assert first() is None
    provider.ask("release")
    assert Execution.objects.get().state == "completed"
    for _ in range(2):
        heal()
        answer = live.get("/opaque/api/", do="perform_and_call")
        assert (answer.status, answer.code) == (409, "operation_uncertain")
    row = Request.objects.get()
    operators.resolve_request(
        row.pk, decision="applied", revision=row.revision, decision_id="d", by="olga", reason="both are in the books"
    )
    assert live.get("/opaque/api/", do="perform_and_call").status == 409
    assert Attempt.objects.count() == 1
    assert ledger.applied() == 2


@pytest.mark.parametrize("point", ["send.replied", "wire.sent"])
def test_row_51_killed_in_the_performed_one(live: Server, ledger: Ledger, point: str) -> None:
    """The look-up settles the performed one; whether the direct call was made nobody can say."""
    sent = {"do": "perform_and_call"}
    assert live.send("/opaque/api/", **sent, headers={KILL: point}) is None
    heal()
    heal()
    assert Execution.objects.get().state == "completed"
    assert live.get("/opaque/api/", **sent).code == "operation_uncertain"
    assert ledger.applied() == 1
