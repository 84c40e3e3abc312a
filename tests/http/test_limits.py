"""`MAX_OPEN_PER_TENANT` and `MAX_IN_DOUBT_PER_TENANT`: refused before work is done, and free while they are off."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

import effects
from effects.conf import settings as ours
from effects.models import Execution, Request
from effects.testing import provider_says
from effects.transitions import _limits
from effects.vocabulary.exceptions import CapacityError
from tests.core.counting import counted
from tests.core.declared import Approved, Charge
from tests.http import does
from tests.http.conftest import Sender
from tests.http.reading import body, code

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


def refused(response: Any) -> bool:
    """Whether it is 503 at a limit; such an answer says when to come again and that nothing was done."""
    if response.status_code != 503:
        return False
    assert code(response) == "execution_capacity"
    assert int(response["Retry-After"]) > 0
    assert body(response)["safe_new_key"] is False
    return True


@pytest.mark.parametrize("kind", ["transactional", "opaque", "declared"])
def test_a_tenant_with_too_much_open(send: Sender, in_thread: Any, settings: Any, kind: str) -> None:
    """A new request is refused before its key is claimed and its handler runs, and may come again."""
    settings.EFFECTS = {"MAX_OPEN_PER_TENANT": 1}
    first = in_thread(send, "/opaque/api/", "held", do="hold")
    assert does.gate.entered.wait(10)
    assert refused(send(f"/{kind}/api/", do="nothing"))
    assert Request.objects.count() == 1
    assert len(does.calls) == 1
    does.gate.opened.set()
    assert first().status_code == 200
    assert send(f"/{kind}/api/", do="nothing").status_code == 200


def test_what_is_known_is_never_refused(send: Sender, in_thread: Any, settings: Any) -> None:
    """A replay is a replay and a duplicate of an open request is a duplicate, however much is open."""
    answered = send("/opaque/api/", "answered", do="nothing")
    settings.EFFECTS = {"MAX_OPEN_PER_TENANT": 1}
    first = in_thread(send, "/opaque/api/", "held", do="hold")
    assert does.gate.entered.wait(10)
    assert send("/opaque/api/", "answered", do="nothing").content == answered.content
    assert code(send("/opaque/api/", "held", do="hold")) == "operation_in_progress"
    assert send("/opaque/api/", "held", do="nothing").status_code == 422
    does.gate.opened.set()
    first()


def test_a_tenant_with_too_much_in_doubt(send: Sender, settings: Any) -> None:
    """Doubt has a limit of its own, over requests and over executions."""
    settings.EFFECTS = {"MAX_IN_DOUBT_PER_TENANT": 1}
    with provider_says(Charge, TimeoutError("t")):
        assert code(send("/declared/api/", "d", do="charge")) == "operation_uncertain"
    assert refused(send("/opaque/api/", do="nothing"))
    settings.EFFECTS = {"MAX_IN_DOUBT_PER_TENANT": 2}
    assert send("/opaque/api/", "o", do="boom").status_code == 500
    assert send("/opaque/api/", "p", do="boom").status_code == 500
    assert refused(send("/opaque/api/", do="nothing"))
    assert code(send("/opaque/api/", "o", do="boom")) == "operation_uncertain"


def test_a_tenant_does_not_pay_for_another(send: Sender, settings: Any, approver: User) -> None:
    """Each is counted alone."""
    effects.perform(Approved, payload=does.PAYLOAD, key="a", tenant="one", requested_by="someone")
    settings.EFFECTS = {"MAX_OPEN_PER_TENANT": 1, "TENANT": lambda request: request.META.get("HTTP_X_TENANT", "one")}
    assert refused(send("/opaque/api/", do="nothing"))
    assert send("/opaque/api/", do="nothing", headers={"X-Tenant": "two"}).status_code == 200


def test_perform_outside_of_requests(settings: Any, approver: User) -> None:
    """It is a clear exception, nothing was recorded; a known key is met and an undoing is let through."""
    with provider_says(Charge, DONE, TimeoutError("t")):
        settled = effects.perform(Charge, payload=does.PAYLOAD, key="settled")
        settings.EFFECTS = {"MAX_IN_DOUBT_PER_TENANT": 1}
        assert effects.perform(Charge, payload=does.PAYLOAD, key="doubted").state == "uncertain"
        with pytest.raises(CapacityError, match="MAX_IN_DOUBT_PER_TENANT") as refusal:
            effects.perform(Charge, payload=does.PAYLOAD, key="new")
        with pytest.raises(CapacityError):
            effects.perform_later(Charge, payload=does.PAYLOAD, key="new")
        assert effects.perform(Charge, payload=does.PAYLOAD, key="settled").ref == settled.ref
        assert effects.perform(Charge, payload=does.PAYLOAD, key="doubted").state == "uncertain"
        assert effects.perform(Charge, payload=does.PAYLOAD, key="new", tenant="other").state == "uncertain"
    assert (refusal.value.code, refusal.value.effect_may_have_happened) == ("execution_capacity", False)
    assert Execution.objects.count() == 3


def test_a_handler_that_was_let_in_performs_all(send: Sender, settings: Any) -> None:
    """What belongs to an open request is not refused in the middle of it."""
    settings.EFFECTS = {"MAX_OPEN_PER_TENANT": 1, "MAX_IN_DOUBT_PER_TENANT": 1}
    with provider_says(Charge, DONE):
        assert send("/declared/api/", do="charge").status_code == 201


def test_limits_cost_nothing_while_they_are_off(send: Sender, settings: Any) -> None:
    """The same statement, and no other one; with a limit a request costs no query more, `perform` one."""

    def cost(key: str) -> tuple[int, int]:
        with counted() as request:
            assert send("/opaque/api/", key, do="nothing").status_code == 200
        with provider_says(Charge, DONE), counted() as performed:
            effects.perform(Charge, payload=does.PAYLOAD, key=key)
        assert ("room" in "".join(request.statements)) == (ours.MAX_OPEN_PER_TENANT is not None)
        return request.queries, performed.queries

    off = cost("off")
    settings.EFFECTS = {"MAX_OPEN_PER_TENANT": 10, "MAX_IN_DOUBT_PER_TENANT": 10}
    assert cost("on") == (off[0], off[1] + 1)


def test_counting_uses_the_partial_indexes(settings: Any) -> None:
    """No scan of a table: each state is found by an index of its own, however many rows have ended."""
    settings.EFFECTS = {"MAX_OPEN_PER_TENANT": 10, "MAX_IN_DOUBT_PER_TENANT": 10}
    condition = _limits.over_limits("", requests=True)
    assert condition is not None
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN SELECT {condition[0]}", condition[1])
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("SET enable_seqscan = on")
    assert "Seq Scan" not in plan, plan
