"""Rows 1 to 10 and 13 to 15 of the HTTP contract: first use, replay, keys, fingerprints, identity, error answers."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

import effects
from effects.models import Execution, Request
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge
from tests.http import does
from tests.http.conftest import Sender

KINDS = ("transactional", "opaque", "declared")
PLACES = ("api/", "things/", "things/1/below/", "things/1/above/", "function/", "plain/", "class/")
both_settings = pytest.mark.parametrize("atomic_requests", [False, True], indirect=True, ids=["", "atomic"])
pytestmark = pytest.mark.django_db(transaction=True)


def code(response: Any) -> str:
    return str(json.loads(response.content)["code"])


@both_settings
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_row_1_2_29_one_run_then_the_same_bytes(send: Sender, atomic_requests: bool, kind: str, place: str) -> None:
    """In every place and kind, the first request runs and the second gets its status, bytes and headers."""
    do = "nothing" if kind == "declared" else "create"
    first = send(f"/{kind}/{place}", do=do, name="a")
    second = send(f"/{kind}/{place}", do=do, name="a")
    assert first.status_code == (200 if kind == "declared" else 201), first.content
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second["Content-Type"] == first["Content-Type"]
    assert "Idempotent-Replayed" not in first
    assert second["Idempotent-Replayed"] == "true"
    assert len(does.calls) == 1
    row = Request.objects.get()
    assert (row.state, row.answer_status, row.handler_returned) == ("answered", first.status_code, True)


def test_row_1_the_claim_is_durable_before_a_journaled_view_runs(send: Sender, in_thread: Any) -> None:
    """While the handler runs, its request stands in the table for every connection."""
    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    assert Request.objects.get().state == "running"
    does.gate.opened.set()
    assert first().status_code == 200


def test_row_3_a_missing_key_is_refused_with_a_link(send: Sender) -> None:
    """400, the page that explains, nothing recorded."""
    response = send("/transactional/api/", None, name="a")
    assert (response.status_code, code(response)) == (400, "idempotency_key_missing")
    assert "describedby" in response["Link"]
    assert not Request.objects.exists()
    assert not does.calls


def test_row_3_an_optional_view_runs_plainly_and_says_so(send: Sender) -> None:
    """Without a key it runs each time, and its answer says that it was not protected; with one it is."""
    for name in ("a", "b"):
        response = send("/optional/", None, name=name)
        assert (response.status_code, response["Idempotency-Status"]) == (201, "ignored")
    assert send("/optional/", None, do="write_then_invalid", name="c").status_code == 400
    assert sorted(Group.objects.values_list("name", flat=True)) == ["a", "b"]
    assert not Request.objects.exists()
    assert "Idempotency-Status" not in send("/optional/", name="d")
    assert send("/optional/", name="d")["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("key", ["", " ", '"', "a,b", "x" * 256, '"\\"'])
def test_row_4_a_malformed_key_is_refused_before_anything(send: Sender, key: str) -> None:
    """400, no row, no handler."""
    response = send("/transactional/api/", key, name="a")
    assert (response.status_code, code(response)) == (400, "idempotency_key_invalid")
    assert not Request.objects.exists()
    assert not does.calls


def test_row_5_quoted_and_bare_are_one_key(send: Sender) -> None:
    """The key is its value, however it is written."""
    first = send("/transactional/api/", "K-1", name="a")
    second = send("/transactional/api/", '"K-1";v=1', name="a")
    assert first.content == second.content
    assert len(does.calls) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_row_6_another_request_under_the_key_is_refused(send: Sender, kind: str) -> None:
    """422 names the kinds of parts that differ, no value and no reference."""
    send(f"/{kind}/api/", do="nothing", name="a")
    for changed, part in (
        ({"url": f"/{kind}/api/", "name": "OTHER"}, "body"),
        ({"url": f"/{kind}/api/?x=1", "name": "a"}, "query"),
    ):
        url = changed.pop("url")
        response = send(url, do="nothing", **changed)
        assert (response.status_code, code(response)) == (422, "idempotency_key_reused")
        assert json.loads(response.content)["differs"] == [part]
        assert b"OTHER" not in response.content
        assert b"operation_ref" not in response.content
    assert len(does.calls) == 1


def test_row_6_while_the_first_is_in_flight(send: Sender, in_thread: Any) -> None:
    """A journaled request refuses another one under its key at once; a transactional one as soon as it committed."""
    first = in_thread(send, "/opaque/api/", do="hold")
    assert does.gate.entered.wait(10)
    assert send("/opaque/api/", do="nothing").status_code == 422
    does.gate.opened.set()
    first()
    does.reset()
    first = in_thread(send, "/transactional/api/", "t", do="hold")
    assert does.gate.entered.wait(10)
    assert code(send("/transactional/api/", "t", do="nothing")) == "operation_in_progress"
    does.gate.opened.set()
    first()
    assert send("/transactional/api/", "t", do="nothing").status_code == 422


def test_row_7_another_operation_under_the_key(send: Sender) -> None:
    """One key of one caller means one operation, unless a view has a scope of its own."""
    send("/transactional/api/", do="nothing")
    assert send("/transactional/api/", method="PATCH", do="nothing").status_code == 422
    assert send("/scoped/", do="nothing").status_code == 200


def test_row_8_keys_of_others_are_others(send: Sender, settings: Any) -> None:
    """Users and tenants are independent."""
    settings.EFFECTS = {"TENANT": lambda request: request.META.get("HTTP_X_TENANT", "")}
    other = Sender(User.objects.create_user("bob"))
    answers = [
        send("/transactional/api/", name="a"),
        other("/transactional/api/", name="b"),
        send("/transactional/api/", name="c", headers={"X-Tenant": "t2"}),
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert len(does.calls) == 3


def test_row_9_nobody_has_no_keys(send: Sender) -> None:
    """An anonymous caller is refused, unless the view says who it is."""
    nobody = Sender(None)
    assert nobody("/transactional/api/", name="a").status_code in (401, 403)
    assert nobody("/transactional/plain/", name="a").status_code == 403
    assert nobody("/webhook/", name="a").status_code == 403
    assert not Request.objects.exists()
    first = nobody("/webhook/", name="a", headers={"X-Sender": "stripe"})
    second = nobody("/webhook/", name="b", headers={"X-Sender": "adyen"})
    assert (first.status_code, second.status_code) == (201, 201)
    assert set(Request.objects.values_list("subject", flat=True)) == {"stripe", "adyen"}


@pytest.mark.parametrize("kind", KINDS)
def test_row_10_the_first_is_still_running(send: Sender, in_thread: Any, kind: str) -> None:
    """409 with Retry-After at once, then the replay."""
    first = in_thread(send, f"/{kind}/api/", do="hold")
    assert does.gate.entered.wait(10)
    second = send(f"/{kind}/api/", do="hold")
    assert (second.status_code, code(second), second["Retry-After"]) == (409, "operation_in_progress", "1")
    does.gate.opened.set()
    assert first().content == send(f"/{kind}/api/", do="hold").content
    assert len(does.calls) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_row_10_a_duplicate_may_wait(send: Sender, in_thread: Any, method: str) -> None:
    """With `wait=` it gets the first answer as soon as that is there."""
    first = in_thread(send, "/patient/", method=method, do="hold")
    assert does.gate.entered.wait(10)
    second = in_thread(send, "/patient/", method=method, do="hold")
    does.gate.opened.set()
    assert second().content == first().content
    assert second()["Idempotent-Replayed"] == "true"


# -- row 14: errors of the client ----------------------------------------------------------------------------------


@both_settings
@pytest.mark.parametrize("kind", ["transactional", "declared"])
@pytest.mark.parametrize("do", ["invalid", "not_found", "forbidden", "django_404"])
def test_row_14_a_refusal_that_wrote_nothing_frees_the_key(
    send: Sender, atomic_requests: bool, kind: str, do: str
) -> None:
    """The corrected request may use the same key."""
    assert send(f"/{kind}/api/", do=do).status_code in (400, 403, 404)
    assert not Request.objects.filter(holds_key=True).exists()
    assert send(f"/{kind}/api/", do="nothing").status_code == 200


@both_settings
def test_row_14_raised_rolls_the_rows_back_and_is_stored(send: Sender, atomic_requests: bool) -> None:
    """After a write, the 400 is the answer to this key; its rows are gone, as in REST framework."""
    first = send("/transactional/api/", do="write_then_invalid", name="a")
    second = send("/transactional/api/", do="write_then_invalid", name="a")
    assert (first.status_code, second.content) == (400, first.content)
    assert second["Idempotent-Replayed"] == "true"
    assert not Group.objects.exists()
    assert len(does.calls) == 1


def test_row_14_returned_commits_the_rows(send: Sender) -> None:
    """A returned 409 stands with its rows, and is replayed."""
    first = send("/transactional/api/", do="write_then_409", name="a")
    assert send("/transactional/api/", do="write_then_409", name="a").content == first.content
    assert Group.objects.get().name == "a"
    assert len(does.calls) == 1


def test_row_14_what_passes_is_not_stored(send: Sender) -> None:
    """A raised 429 leaves nothing behind, so the key stays free."""
    assert send("/transactional/api/", do="write_then_throttled", name="a").status_code == 429
    assert not Request.objects.exists()
    assert not Group.objects.exists()


def test_row_14_an_opaque_view_keeps_every_refusal(send: Sender) -> None:
    """It may have called out before it refused."""
    for do, status in (("invalid", 400), ("forbidden", 403)):
        first = send("/opaque/api/", do, do=do)
        assert first.status_code == status
        assert send("/opaque/api/", do, do=do)["Idempotent-Replayed"] == "true"
    assert len(does.calls) == 2


def test_row_14_the_project_says_otherwise(send: Sender) -> None:
    """`freeze=`, `current().freeze()` and `current().release()` decide."""
    assert send("/freezing/", do="invalid").status_code == 400
    assert send("/freezing/", do="invalid")["Idempotent-Replayed"] == "true"
    first = send("/declared/api/", "f", do="says_freeze")
    assert send("/declared/api/", "f", do="says_freeze").content == first.content
    assert send("/opaque/api/", "r", do="says_release").status_code == 503
    assert Request.objects.get(key="r").state == "released"


def test_row_14_local_writes_give_up_release(send: Sender) -> None:
    """A view that writes where nobody looks keeps its refusals."""
    assert send("/writing/", do="write_then_invalid", name="a").status_code == 400
    assert send("/writing/", do="write_then_invalid", name="a")["Idempotent-Replayed"] == "true"


# -- row 15: refused before the view ---------------------------------------------------------------------------------


def test_row_15_nothing_is_recorded_of_what_the_framework_refuses(send: Sender) -> None:
    """Authentication, throttles, parsers and routing answer as ever, and no key is taken."""
    assert Sender(None)("/opaque/api/", do="nothing").status_code in (401, 403)
    assert send("/opaque/api/", do="nothing", headers={"X-Throttle": "1"}).status_code == 429
    assert send("/json_only/", body=b"{broken").status_code == 400
    assert send("/json_only/", body=b"<a/>", content_type="application/xml").status_code == 415
    assert send("/opaque/api/", method="DELETE").status_code == 405
    assert not Request.objects.exists()
    assert not does.calls


def test_row_17_a_replay_asks_the_project(send: Sender, settings: Any) -> None:
    """`REPLAY_CHECK` refuses who lost the right to see the answer."""
    send("/transactional/api/", do="nothing")
    settings.EFFECTS = {"REPLAY_CHECK": lambda request, found: found.operation != "transactional.api"}
    assert send("/transactional/api/", do="nothing").status_code == 403


def test_row_18_19_past_retention(send: Sender) -> None:
    """First the answer is dropped, then the key is free."""
    send("/transactional/api/", do="nothing")
    time_passes(timedelta(hours=73))
    assert code(send("/transactional/api/", do="nothing")) == "operation_result_expired"
    run_due()
    assert code(send("/transactional/api/", do="nothing")) == "operation_result_expired"
    time_passes(timedelta(days=31))
    run_due()
    assert send("/transactional/api/", do="nothing").status_code == 200
    assert len(does.calls) == 2


def test_row_14_freeze_callable_frees_where_allowed(send: Sender) -> None:
    """`freeze=` returning False frees the key where nothing was sent, and stores where something was."""
    assert send("/freezing/", method="PATCH", do="invalid").status_code == 400
    assert Request.objects.get().state == "released"
    with provider_says(Charge, effects.Declined("no")):
        assert send("/freezing/", "d", method="PATCH", do="charge").status_code == 402
    assert Request.objects.get(key="d").state == "answered"


def test_row_21_a_body_too_large_to_compare(send: Sender, settings: Any) -> None:
    """413, nothing recorded."""
    settings.EFFECTS = {"MAX_FINGERPRINT_BYTES": 100}
    response = send("/transactional/api/", do="nothing", x="y" * 200)
    assert (response.status_code, code(response)) == (413, "idempotency_request_invalid")
    assert not Request.objects.exists()


def test_row_30_rules_that_are_not_known(send: Sender) -> None:
    """A fingerprint of an unknown definition cannot be compared, so the answer is an honest no."""
    send("/transactional/api/", do="nothing")
    Request.objects.update(fingerprint_version=99)
    assert code(send("/transactional/api/", do="nothing")) == "operation_policy_changed"


def test_an_unsettled_effect_of_another_safety_version(send: Sender) -> None:
    """This code may not touch it, and says so."""
    with provider_says(Charge, TimeoutError("t")):
        send("/declared/api/", do="charge")
    Execution.objects.update(safety_version=2)
    assert code(send("/declared/api/", do="charge")) == "operation_policy_changed"


def test_row_37_a_permission_has_read_the_body(send: Sender) -> None:
    """It is compared all the same."""
    first = send("/read_before/", do="nothing", name="a")
    assert send("/read_before/", do="nothing", name="a").content == first.content
    assert send("/read_before/", do="nothing", name="b").status_code == 422
