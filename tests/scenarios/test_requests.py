"""Stories of retried HTTP requests: one operation, one answer, and no guessing when nobody knows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

import effects
from effects import transitions
from effects.declarations import operations
from effects.declarations.operations import StoredAnswer
from effects.models import Execution, Request
from effects.runtime import operators
from effects.testing import run_due, time_passes
from effects.testing.faults import Interrupted, interrupt_at
from effects.vocabulary import exceptions
from tests.core.declared import Charge, Plain
from tests.core.people import PAYLOAD, approve
from tests.core.pg_proxy import Fault, PgProxy
from tests.http import does
from tests.http.conftest import Sender
from tests.scenarios.bank import Ledger
from tests.scenarios.times import AFTER_LEASE, AFTER_QUIET

pytestmark = pytest.mark.django_db(transaction=True)


def body(response: Any) -> dict[str, Any]:
    """Return the JSON of an answer."""
    return dict(json.loads(response.content))


def resolve(row: Request, answer: StoredAnswer, decision_id: str = "d-1") -> Any:
    """Close a request in doubt as a person does who saw the provider's own page."""
    return operators.resolve_request(
        row.pk, decision="applied", revision=row.revision, by="zoe", reason="seen in the provider's dashboard",
        decision_id=decision_id, answer=answer,
    )  # fmt: skip


@does.does
def calls_out_then_exits(data: dict[str, Any]) -> Any:
    """The provider was called by hand and has done it; the process is ended before it can say so."""
    does.direct_calls.append(data)
    raise SystemExit(1)


@does.does
def charges_calls_out_then_exits(data: dict[str, Any]) -> Any:
    """One call through `perform`, one by hand, and the end."""
    effects.perform(Charge, payload=PAYLOAD)
    return calls_out_then_exits(data)


RECOVERED = StoredAnswer(201, (("Content-Type", "text/plain"),), b"recovered", 9)


def test_a_client_that_never_heard_asks_again(send: Sender, ledger: Ledger) -> None:
    """The second answer is the first one, byte for byte, and nobody works twice for it."""
    first = send("/declared/api/", do="charge")
    second = send("/declared/api/", do="charge")
    assert (first.status_code, "Idempotent-Replayed" in first) == (201, False)
    assert (second.status_code, second["Idempotent-Replayed"]) == (201, "true")
    assert second.content == first.content
    assert (len(does.calls), len(ledger.applied)) == (1, 1)


def test_an_answer_that_needed_no_call_is_replayed_too(send: Sender, ledger: Ledger) -> None:
    """ "Already up to date" is an answer like any other."""
    first = send("/opaque/api/", do="nothing")
    second = send("/opaque/api/", do="nothing")
    assert (second.content, second["Idempotent-Replayed"]) == (first.content, "true")
    assert (len(does.calls), ledger.asked) == (1, [])


def test_killed_after_the_providers_success_then_resolved_by_a_person_then_replayed(send: Sender) -> None:
    """The whole way: call, kill, honest 409, a person's decision, the client's answer."""
    with pytest.raises(SystemExit):
        send("/opaque/api/", do="calls_out_then_exits", raises=True)
    told = send("/opaque/api/", do="calls_out_then_exits")
    assert (told.status_code, body(told)["code"], body(told)["safe_new_key"]) == (409, "operation_uncertain", False)
    row = Request.objects.get(pk=body(told)["operation_ref"])
    resolve(row, RECOVERED)
    answered = send("/opaque/api/", do="calls_out_then_exits")
    assert (answered.status_code, answered.content, answered["Idempotent-Replayed"]) == (201, b"recovered", "true")
    assert len(does.direct_calls) == 1


def test_a_persons_decision_whose_answer_got_lost_is_sent_again(send: Sender) -> None:
    """The same decision id is the same decision, whatever the page says the second time."""
    with pytest.raises(SystemExit):
        send("/opaque/api/", do="calls_out_then_exits", raises=True)
    row = Request.objects.get()
    first = resolve(row, RECOVERED)
    assert resolve(row, StoredAnswer(500, (), b"no", 2)) == first
    with pytest.raises(exceptions.StaleRevisionError):
        resolve(row, RECOVERED, decision_id="d-2")
    assert send("/opaque/api/", do="calls_out_then_exits").content == b"recovered"


def test_what_the_journal_saw_is_not_all_that_an_opaque_view_did(
    send: Sender, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call was recorded and completed, the other by hand was not: no `answer=` may speak for both."""
    view = operations.find_operation("opaque.api")
    assert view is not None
    monkeypatch.setitem(operations._operations, view.name, replace(view, answer=lambda outcomes: RECOVERED))
    with pytest.raises(SystemExit):
        send("/opaque/api/", do="charges_calls_out_then_exits", raises=True)
    time_passes(AFTER_LEASE)
    run_due()
    assert Execution.objects.get().state == "completed"
    assert transitions.settle(Request.objects.get().pk).state == "in_doubt"
    assert send("/opaque/api/", do="charges_calls_out_then_exits").status_code == 409
    assert (len(ledger.applied), len(does.direct_calls)) == (1, 1)


def test_killed_between_the_providers_answer_and_our_record(send: Sender, ledger: Ledger) -> None:
    """A view that declares what it performs heals by itself: the look-up finds it, `answer=` tells the client."""
    with interrupt_at("send.replied"), pytest.raises(Interrupted):
        send("/declared/api/", do="charge", raises=True)
    assert send("/declared/api/", do="charge").status_code in (202, 409)
    time_passes(AFTER_LEASE)
    run_due()
    answered = send("/declared/api/", do="charge")
    assert (answered.status_code, body(answered)) == (201, {"charged": {"id": "tx_1"}})
    assert len(ledger.applied) == 1


def test_the_request_was_lost_on_its_way(send: Sender, ledger: Ledger) -> None:
    """Absence is believed after the quiet time, and then it is sent, once, under the same key."""
    ledger.refuses = TimeoutError("the request never arrived")
    assert send("/declared/api/", do="charge").status_code == 409
    run_due()
    assert ledger.applied == []
    time_passes(AFTER_QUIET)
    run_due()
    assert send("/declared/api/", do="charge").status_code == 201
    assert (len(ledger.asked), len(set(ledger.asked)), len(ledger.applied)) == (2, 1, 1)


def test_one_key_stands_for_one_request(send: Sender, ledger: Ledger) -> None:
    """Another body under the key is told so, learns nothing of the first, and does nothing."""
    send("/declared/api/", do="charge", note="one")
    other = send("/declared/api/", do="charge", note="two")
    assert (other.status_code, body(other)["code"], body(other)["differs"]) == (422, "idempotency_key_reused", ["body"])
    assert "operation_ref" not in body(other)
    assert len(ledger.applied) == 1


def test_a_malformed_key_costs_nothing(send: Sender) -> None:
    """It is refused before anything is recorded or run."""
    assert send("/declared/api/", "white space", do="charge").status_code == 400
    assert (does.calls, Request.objects.count()) == ([], 0)


def test_a_business_refusal_is_an_answer(send: Sender) -> None:
    """Its bytes are kept as those of a success are."""
    first = send("/opaque/api/", do="invalid")
    second = send("/opaque/api/", do="invalid")
    assert (first.status_code, second.status_code, second["Idempotent-Replayed"]) == (400, 400, "true")
    assert (second.content, len(does.calls)) == (first.content, 1)


def test_frozen_in_the_language_of_the_first_asker(send: Sender, settings: Any) -> None:
    """Whoever asks again in another language gets the same bytes, and is told in which language they are."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    first = send("/opaque/api/", do="not_found", headers={"Accept-Language": "de"})
    second = send("/opaque/api/", do="not_found", headers={"Accept-Language": "ja"})
    assert (first["Content-Language"], second["Content-Language"]) == ("de", "de")
    assert (first.status_code, second.status_code, second["Idempotent-Replayed"]) == (404, 404, "true")
    assert second.content == first.content
    other = send("/opaque/api/", "another", do="not_found", headers={"Accept-Language": "ja"})
    assert (other["Content-Language"], other.content != first.content) == ("ja", True)


def test_rows_binding_and_answer_are_one_commit(send: Sender, ledger: Ledger) -> None:
    """A transactional view: its order is there once, and the replay runs no line of it."""
    first = send("/transactional/api/", name="order-1")
    second = send("/transactional/api/", name="order-1")
    assert (first.status_code, second.content, second["Idempotent-Replayed"]) == (201, first.content, "true")
    assert (list(Group.objects.values_list("name", flat=True)), len(does.calls)) == (["order-1"], 1)


def test_a_bug_in_a_transactional_view_leaves_nothing(send: Sender) -> None:
    """No row, no binding: the corrected code may use the key."""
    assert send("/transactional/api/", do="boom", name="order-1").status_code == 500
    assert (Group.objects.count(), Request.objects.count()) == (0, 0)


def test_a_transactional_view_calls_nobody(send: Sender, ledger: Ledger) -> None:
    """A provider cannot be rolled back; nothing is sent and nothing is recorded."""
    assert send("/transactional/api/", do="charge").status_code == 500
    assert (ledger.asked, Execution.objects.count()) == ([], 0)


def test_a_lost_commit_is_never_a_second_order(protected_views: None, pg_proxy: PgProxy) -> None:
    """COMMIT got no answer: the client is told its order, or to send the same again; either way there is one."""
    send = Sender(None)
    with connection.cursor():
        pg_proxy.on_commit(Fault.LOSE_REPLY)
    first = send("/webhook/", name="order-1", headers={"X-Sender": "shop"})
    second = send("/webhook/", name="order-1", headers={"X-Sender": "shop"})
    assert (first.status_code, second.status_code, second["Idempotent-Replayed"]) == (201, 201, "true")
    assert list(Group.objects.values_list("name", flat=True)) == ["order-1"]


def test_told_that_a_new_key_is_safe_it_is(send: Sender, ledger: Ledger) -> None:
    """Resolved as not applied, nothing can be sent under the old key any more, and the client may start over."""
    ledger.refuses = TimeoutError("no answer")
    ref = body(send("/declared/api/", do="charge"))["operation_ref"]
    row = Execution.objects.get()
    assert body(send(f"/operations/{ref}/", None, method="GET"))["safe_new_key"] is False
    with pytest.raises(exceptions.TooSoonError):
        effects.resolve(row.pk, decision="not_applied", revision=row.revision, by="zoe", reason="nothing there")
    time_passes(AFTER_QUIET)
    effects.resolve(row.pk, decision="not_applied", revision=row.revision, by="zoe", reason="nothing there")
    run_due()
    status = body(send(f"/operations/{ref}/", None, method="GET"))
    assert (status["safe_new_key"], send("/declared/api/", do="charge").status_code) == (True, 402)
    assert send("/declared/api/", "a-new-key", do="charge").status_code == 201
    assert len(ledger.applied) == 1


def test_while_people_decide_the_key_is_taken(send: Sender, approver: User, ledger: Ledger) -> None:
    """The handler broke after it had asked: what people may still grant keeps the key, and then its answer comes."""
    assert send("/declared/api/", do="ask_then_boom").status_code in (202, 500)
    waiting = send("/declared/api/", do="ask_then_boom")
    assert (waiting.status_code, Request.objects.get().state, len(does.calls)) == (202, "waiting", 1)
    approve(Execution.objects.get(), approver)
    run_due()
    assert send("/declared/api/", do="ask_then_boom").status_code == 201
    assert (len(ledger.applied), len(does.calls)) == (1, 1)


def test_a_redirect_a_webhook_and_a_task_pay_one_order(ledger: Ledger) -> None:
    """Three ways to the same key, by three people: one charge."""
    everybody = ["the customer", "the webhook", "the task"]
    for who in everybody:
        assert isinstance(effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by=who), effects.Completed)
    assert len(ledger.applied) == 1
    assert [person["id"] for person in Execution.objects.get().requesters] == [
        "the customer",
        "the webhook",
        "the task",
    ]


def test_nobody_can_ask_and_nobody_repeats(ledger: Ledger) -> None:
    """A provider without look-up and without deduplication: one call, then a person, whatever happens."""
    ledger.replies = [TimeoutError("no answer")]
    outcome = effects.perform(Plain, payload=PAYLOAD, key="k1", requested_by="ann")
    for _ in range(3):
        run_due()
        time_passes(AFTER_QUIET)
        effects.perform(Plain, payload=PAYLOAD, key="k1", requested_by="ann")
    assert len(ledger.asked) == 1
    row = effects.get(outcome.ref)
    assert row.state == "needs_intervention"
    done = effects.resolve(
        row.id, decision="applied", revision=row.revision, by="zoe", reason="on the statement", output={"id": "tx_9"}
    )
    assert done.outcome.require() == {"id": "tx_9"}
