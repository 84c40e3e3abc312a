"""Rows 11 to 13, 44 to 46 and 48 to 50: what nobody knows yet, and what becomes of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

import effects
from effects.declarations.operations import StoredAnswer
from effects.models import Approval, Execution, Request
from effects.runtime import operators
from effects.sweeps import prune
from effects.testing import run_due, time_passes
from effects.vocabulary.exceptions import DuplicatePerformError, WrongStateError
from tests.crash import provider
from tests.http.conftest import Sender
from tests.http.rows.conftest import Ledger, trouble
from tests.http.rows.declared import Order, Pay

pytestmark = pytest.mark.django_db(transaction=True)
LATER = timedelta(minutes=10)


def body(response: Any) -> dict[str, Any]:
    return dict(json.loads(response.content))


def code(response: Any) -> str:
    return str(body(response).get("code", ""))


def in_doubt(response: Any) -> bool:
    """Whether the client is told that nobody knows."""
    told = (response.status_code, code(response)) == (409, "operation_uncertain")
    assert not told or ("Retry-After" not in response and body(response)["safe_new_key"] is False)
    return told


def resolve(decision: str, key: str = "k", answer: Any = None) -> None:
    """Let a person close a request in doubt."""
    row = Request.objects.get(key=key, holds_key=True)
    operators.resolve_request(
        row.pk, decision=decision, revision=row.revision, decision_id=f"d {key}", by="olga", reason="the books say so",
        **({"answer": answer} if answer else {}),
    )  # fmt: skip


# -- rows 11 and 12: the owner is dead (by SIGKILL: test_processes) ----------------------------------------------------


def test_row_11_a_declared_view_that_sent_nothing_runs_again(send: Sender, ledger: Ledger, in_thread: Any) -> None:
    """Under the same key, once the lease is past; the old owner, if it lives after all, can send nothing."""
    trouble("gate")
    first = in_thread(send, "/declared/api/", do="hold")
    assert provider.ask("wait_held")
    time_passes(timedelta(minutes=2))
    second = send("/declared/api/", do="hold")
    assert second.status_code == 201
    provider.ask("release")
    assert first().status_code in (409, 503)
    assert send("/declared/api/", do="hold").content == second.content
    assert ledger.applied() == 1


def test_row_11_an_opaque_view_is_in_doubt(send: Sender, ledger: Ledger, in_thread: Any) -> None:
    """It may have called out itself; its late answer is not sent, and a person closes it."""
    trouble("gate")
    first = in_thread(send, "/opaque/api/", do="hold")
    assert provider.ask("wait_held")
    time_passes(timedelta(minutes=2))
    assert in_doubt(send("/opaque/api/", do="hold"))
    provider.ask("release")
    assert in_doubt(first())
    time_passes(LATER)
    run_due()
    assert in_doubt(send("/opaque/api/", do="hold"))
    assert ledger.applied() == 1


def test_row_12_after_an_attempt_it_is_uncertain_until_reconciled(send: Sender, ledger: Ledger, in_thread: Any) -> None:
    """No Retry-After, nothing sent again, never pruned; the look-up that finds it gives the answer."""
    trouble("late")
    first = in_thread(send, "/declared/api/", do="perform")
    assert provider.ask("wait_held")
    time_passes(timedelta(minutes=2))
    assert in_doubt(send("/declared/api/", do="perform"))
    provider.ask("release")
    first()
    assert ledger.applied() == 1
    time_passes(LATER)
    run_due()
    answer = send("/declared/api/", do="perform")
    assert (answer.status_code, body(answer)) == (201, {"paid": {"id": "pay_1"}})
    assert ledger.applied() == 1


@pytest.mark.parametrize("kind", ["opaque", "declared"])
def test_row_12_what_is_in_doubt_is_never_pruned(send: Sender, ledger: Ledger, kind: str) -> None:
    """Not after a year either."""
    trouble("reply_lost")
    assert send(f"/{kind}/api/", do="pay" if kind == "declared" else "boom", after=True).status_code in (409, 500)
    time_passes(timedelta(days=400))
    prune.run_once()
    assert in_doubt(send(f"/{kind}/api/", do="pay" if kind == "declared" else "boom", after=True))
    assert Request.objects.get().holds_key
    assert ledger.applied() == 1


# -- row 13 ------------------------------------------------------------------------------------------------------------


def test_row_13_applied_is_answered_by_the_view(send: Sender, ledger: Ledger) -> None:
    """The reply was lost, a look-up finds it: `answer=` answers, and the replays are of that."""
    trouble("reply_lost")
    assert in_doubt(send("/declared/api/"))
    time_passes(LATER)
    run_due()
    answers = [send("/declared/api/") for _ in range(2)]
    assert [(each.status_code, body(each)) for each in answers] == [(201, {"paid": {"id": "pay_1"}})] * 2
    assert ledger.applied() == 1


def test_row_13_not_applied_is_said(send: Sender, ledger: Ledger) -> None:
    """The request got lost, and a person has read the books: `answer=` answers, or 409 operation_not_applied."""
    for kind in ("declared", "opaque"):
        trouble("request_lost")
        assert in_doubt(send(f"/{kind}/api/", kind, do="perform"))
        row = Execution.objects.get(state="uncertain")
        time_passes(LATER)
        operators.resolve(
            row.pk, decision="not_applied", revision=row.revision, by="olga", reason="not there", decision_id=kind
        )
        run_due()
    declared, opaque = (send(f"/{kind}/api/", kind, do="perform") for kind in ("declared", "opaque"))
    assert (declared.status_code, set(body(declared))) == (402, {"declined"})
    assert (opaque.status_code, code(opaque)) == (409, "operation_not_applied")
    assert ledger.applied() == 0


@pytest.mark.parametrize("kind", ["opaque", "declared"])
def test_row_13_refused_by_people(send: Sender, approver: User, ledger: Ledger, kind: str) -> None:
    """409 operation_rejected, and a new key is safe where nothing but `perform` can have called out."""
    assert send(f"/{kind}/api/", do="ask").status_code == 202
    approval = Approval.objects.get()
    effects.deny(approval.execution_id, by=approver, digest=approval.digest)
    run_due()
    answer = send(f"/{kind}/api/", do="ask")
    assert (answer.status_code, code(answer)) == (409, "operation_rejected")
    assert body(answer)["safe_new_key"] is (kind == "declared")
    assert ledger.applied() == 0


def test_row_13_closed_by_a_person(send: Sender, ledger: Ledger) -> None:
    """409 operation_resolved, or the answer that the person gave."""
    for key in ("a", "b", "c"):
        assert send("/opaque/api/", key, do="boom", after=True, number=key).status_code == 500
    resolve("applied", "a")
    resolve("unknown", "b")
    given = StoredAnswer(status=201, headers=(("Content-Type", "application/json"),), body=b"{}", size=2)
    resolve("applied", "c", given)
    answers = {key: send("/opaque/api/", key, do="boom", after=True, number=key) for key in ("a", "b", "c")}
    assert [(each.status_code, code(each)) for each in answers.values()] == [
        (409, "operation_resolved"), (409, "operation_resolved"), (201, ""),
    ]  # fmt: skip
    assert answers["c"].content == b"{}"
    assert ledger.applied() == 3


# -- row 44: people take their time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["", "boom"])
def test_row_44_waiting_is_not_not_applied(send: Sender, approver: User, ledger: Ledger, then: str) -> None:
    """202 on each retry, also after a bug and an hour; after the grant the answer of `answer=`, once."""
    first = send("/declared/api/", do="ask", then=then)
    assert first.status_code == (500 if then else 202)
    for _ in range(2):
        waiting = send("/declared/api/", do="ask", then=then)
        assert (waiting.status_code, code(waiting)) == (202, "operation_awaiting_approval")
        assert waiting["Location"] == body(waiting)["status_url"]
        assert int(waiting["Retry-After"]) > 0
        assert body(waiting)["safe_new_key"] is False
        time_passes(timedelta(hours=1))
        run_due()
    approval = Approval.objects.get()
    effects.grant(approval.execution_id, by=approver, digest=approval.digest)
    run_due()
    answers = [send("/declared/api/", do="ask", then=then) for _ in range(2)]
    assert [(each.status_code, body(each)) for each in answers] == [(201, {"paid": {"id": "pay_1"}})] * 2
    assert ledger.applied() == 1


# -- rows 45 and 46 ----------------------------------------------------------------------------------------------------


def test_row_45_two_equal_performs_without_keys(send: Sender, ledger: Ledger) -> None:
    """An error, not a silent skip: it was paid once, and the view did not go on as if twice."""
    for kind in ("declared", "opaque"):
        with pytest.raises(DuplicatePerformError):
            send(f"/{kind}/api/", kind, do="twice", raises=True)
    assert ledger.applied() == 2
    assert Execution.objects.count() == 2


def test_row_46_half_of_the_work_is_never_completed(send: Sender, ledger: Ledger) -> None:
    """Lost after the first of two effects: `answer=` says that it is not finished, and a person decides."""
    assert send("/two/", do="two", then="boom").status_code == 500
    time_passes(LATER)
    run_due()
    assert in_doubt(send("/two/", do="two", then="boom"))
    assert Request.objects.get().state == "in_doubt"
    resolve("applied")
    answer = send("/two/", do="two", then="boom")
    assert (answer.status_code, code(answer)) == (409, "operation_result_unavailable")
    assert ledger.applied() == 1


# -- rows 48 to 50 -----------------------------------------------------------------------------------------------------


def test_row_48_rows_intent_and_answer_in_one_commit(send: Sender, ledger: Ledger) -> None:
    """All of them or none; the answer is not held back, and it is sent once."""
    assert send("/transactional/api/", do="later", then="boom").status_code == 500
    assert (ledger.rows(), Execution.objects.count(), Request.objects.count()) == (0, 0, 0)
    first = send("/transactional/api/", do="later")
    assert (first.status_code, ledger.rows(), Execution.objects.get().state) == (201, 1, "pending")
    for _ in range(2):
        run_due()
        assert send("/transactional/api/", do="later").content == first.content
    assert Execution.objects.get().state == "completed"
    assert ledger.applied() == 1


def test_row_49_safe_new_key_is_kept(send: Sender, approver: User, ledger: Ledger) -> None:
    """Once it was told, nobody can send anything under the old key any more: the handler, people, or its own code."""
    assert send("/declared/api/", do="ask").status_code == 202
    approval = Approval.objects.get()
    effects.deny(approval.execution_id, by=approver, digest=approval.digest)
    run_due()
    answer = send("/declared/api/", do="ask")
    assert body(answer)["safe_new_key"] is True
    execution = approval.execution_id
    with pytest.raises((WrongStateError, effects.EffectsError)):
        effects.grant(execution, by=approver, digest=approval.digest)
    with pytest.raises((WrongStateError, effects.EffectsError)):
        effects.perform("rows.ask", payload=Order("o-1"), supersede=execution)
    for _ in range(2):
        time_passes(LATER)
        run_due()
        assert body(send("/declared/api/", do="ask"))["safe_new_key"] is True
    assert ledger.applied() == 0
    assert send("/declared/api/", "new", do="perform").status_code == 201
    assert ledger.applied() == 1


def test_row_49_it_is_not_told_too_early(send: Sender, approver: User, ledger: Ledger) -> None:
    """Not in doubt, not while people decide, and never in a view that may have called out itself."""
    trouble("request_lost")
    told = [send("/declared/api/", "u"), send("/declared/api/", "w", do="ask")]
    for kind, key in (("opaque", "o"), ("opaque", "p")):
        send(f"/{kind}/api/", key, do="perform" if key == "p" else "boom", amount=-1)
        told.append(send(f"/operations/{Request.objects.get(key=key).pk}/", None, method="GET"))
    assert [body(each)["safe_new_key"] for each in told] == [False] * 4
    assert ledger.applied() == 0


def test_row_50_require_cuts_a_handler_short(send: Sender, ledger: Ledger) -> None:
    """More work was to come: `answer=` or a person decides, it is never completed by itself."""
    trouble("reply_lost")
    assert in_doubt(send("/two/", do="two"))
    time_passes(LATER)
    run_due()
    assert Execution.objects.get().state == "completed"
    assert Group.objects.filter(name__startswith="paid ").count() == 1
    for _ in range(2):
        assert in_doubt(send("/two/", do="two"))
        run_due()
    assert Request.objects.get().state == "in_doubt"
    assert ledger.applied() == 1
    assert Pay.operation in Request.objects.get().declared


def test_row_50_a_declined_first_step_is_answered_or_in_doubt(send: Sender, ledger: Ledger) -> None:
    """`require()` of a failure raises too: what `answer=` does not call finished stays a person's."""
    answers = [send("/two/", do="two", amount=-1) for _ in range(2)]
    assert [each.status_code for each in answers] == [409, 409]
    assert code(answers[0]) == code(answers[1])
    assert ledger.applied() == 0
