"""Proposing, following and taking back."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

import effects
from effects.models import Approval, Attempt, Execution, Request
from effects.testing import provider_says, run_due
from tests.api.declared import Gift, Lax

both_ways = pytest.mark.parametrize("api", [False, True], ids=["autocommit", "atomic_requests"], indirect=True)


@both_ways
def test_a_proposal_is_recorded_and_not_sent(agent: Any, approver: Any) -> None:
    """201 with its address; the provider hears nothing, however often workers look."""
    with provider_says(Gift) as provider:
        answer = agent.propose()
        run_due()
    assert answer.status_code == 201
    proposal = answer.json()
    assert answer["Location"] == proposal["url"] == f"/effects/proposals/{proposal['ref']}/"
    assert proposal["state"] == "awaiting_approval"
    assert proposal["requested_by"]["label"] == "agent"
    assert proposal["summary"]["title"] == "Gift to ada"
    assert not provider.sends
    assert not Attempt.objects.exists()


@both_ways
def test_it_is_sent_once_after_the_approval(agent: Any, approver: Any) -> None:
    """Two clicks and two passes of the workers are one send, of the payload that was proposed."""
    with provider_says(Gift, effects.Applied({"gift": 1}, "gift-1")) as provider:
        proposal = agent.proposed(amount=7)
        assert approver.vote(proposal).status_code == 200
        assert not provider.sends
        assert approver.vote(proposal).status_code == 200
        run_due()
        run_due()
    ((context, _permit),) = provider.sends
    assert context.payload.amount == 7
    told = agent.poll(proposal).json()
    assert (told["state"], told["settled"], told["reference"]) == ("completed", True, "gift-1")
    assert told["poll_after_seconds"] is None


@both_ways
def test_the_same_request_again_is_the_same_proposal(agent: Any, approver: Any) -> None:
    """The same bytes, one execution; another body under the key is refused, another key is another proposal."""
    first, second = agent.propose(key="k1"), agent.propose(key="k1")
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert second["Idempotent-Replayed"] == "true"
    other = agent.propose(key="k1", amount=6)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Execution.objects.count() == 1
    agent.propose(key="k2")
    assert Execution.objects.count() == 2


def test_a_double_click_is_one_proposal(agent: Any, approver: Any) -> None:
    """Two threads at one barrier: one runs, the other gets the replay or 409."""
    barrier, answers = threading.Barrier(2), []

    def send() -> None:
        try:
            barrier.wait(10)
            answers.append(agent.propose(key="double").status_code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) in ([201, 201], [201, 409])
    assert Execution.objects.count() == Approval.objects.count() == 1


def test_without_a_key_nothing_is_recorded(agent: Any, approver: Any) -> None:
    """A key is required."""
    answer = agent("POST", "proposals/", {"operation": "api.gift", "payload": {"to": "ada", "amount": 5}})
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_missing")
    assert not Execution.objects.exists()


@pytest.mark.parametrize("operation", ["api.closed", "api.lax", "no.such", "", "x" * 300, "bad\x00name"])
def test_only_what_declares_it_to_those_who_may(agent: Any, approver: Any, operation: str) -> None:
    """Not proposable, another permission too, unknown: the same words, which do not tell what effects there are."""
    answer = agent.propose(operation)
    expected = {"": 400, "x" * 300: 400, "bad\x00name": 400}.get(operation, 403)
    assert answer.status_code == expected, answer.content
    assert answer.json()["code"] == ("not_proposable" if expected == 403 else "request_invalid")
    assert answer["Content-Type"] == "application/problem+json"
    assert not Execution.objects.exists()


def test_not_even_a_superuser_proposes_what_declares_nothing(api: Any, person: Any, approver: Any) -> None:
    """The effect decides, not the account: no permission stands for all effects."""
    root = person("root")
    root.is_superuser = True
    root.save()
    assert api(root).propose("api.closed").json()["code"] == "not_proposable"
    assert api(root).propose("api.gift").status_code == 201


@pytest.mark.parametrize(
    ("payload", "errors"),
    [
        ({"amount": "5"}, {"#/payload/amount": "expected int, found str."}),
        ({"amount": 1.5, "to": None}, {"#/payload/amount": "a float", "#/payload/to": "expected str, found null."}),
        ({"what": 1}, {"#/payload/what": "There is no such field."}),
        ({"items": [{"name": "x", "count": 1}, {"name": "y", "count": "2"}]}, {"#/payload/items/1/count": "expected"}),
        ({"amount": 0}, {"#/payload": "amount is above zero"}),
        ({"amount": 2**60}, {"#/payload/amount": ""}),
    ],
)
def test_a_payload_is_held_to_its_declaration(
    agent: Any, approver: Any, payload: dict[str, Any], errors: dict[str, str]
) -> None:
    """400 with every field that is wrong; the key is free for the corrected request."""
    answer = agent.propose(key="k", **payload)
    assert (answer.status_code, answer.json()["code"]) == (400, "payload_invalid")
    told = {it["pointer"]: it["detail"] for it in answer.json()["errors"]}
    assert set(told) == set(errors)
    for pointer, words in errors.items():
        assert words in told[pointer]
    assert not Execution.objects.exists()
    assert agent.propose(key="k").status_code == 201


def test_a_missing_field_is_named(agent: Any, approver: Any) -> None:
    """All of them at once."""
    body = {"operation": "api.gift", "payload": {}}
    answer = agent("POST", "proposals/", body, **{"Idempotency-Key": "k"})
    assert {it["pointer"] for it in answer.json()["errors"]} == {"#/payload/to", "#/payload/amount"}


@both_ways
def test_an_effect_refuses_proposals_in_words(agent: Any, approver: Any) -> None:
    """`refuse_proposal` sees payload, user and tenant; nothing is recorded and the key is free."""
    answer = agent.propose(key="k", amount=2000)
    assert (answer.status_code, answer.json()["code"]) == (409, "proposal_refused")
    assert "agent may give ada at most 1000." in answer.json()["detail"]
    assert not Execution.objects.exists()
    assert not Request.objects.filter(holds_key=True).exists()


def test_what_nobody_could_approve_is_not_recorded(agent: Any) -> None:
    """There is no approver but perhaps the one who asks."""
    answer = agent.propose()
    assert (answer.status_code, answer.json()["code"]) == (409, "nobody_entitled")
    assert not Execution.objects.exists()


def test_the_effects_own_rule_is_only_tightened(api: Any, person: Any) -> None:
    """Also where the effect would let those who ask approve, who proposes does not."""
    rights = ("auth.add_group", "auth.change_group", "auth.delete_group")
    agent, other = api(person("agent", *rights)), api(person("other", "auth.delete_group"))
    with provider_says(Lax, effects.Applied()) as provider:
        proposal = agent.proposed("api.lax")
        refused = agent.vote(proposal)
        run_due()
        assert (refused.status_code, refused.json()["code"]) == (403, "not_entitled")
        assert not provider.sends
        assert other.vote(proposal).status_code == 200
        run_due()
    assert len(provider.sends) == 1


# -- following --------------------------------------------------------------------------------------------------------


def test_polling_costs_nothing_while_nothing_changes(agent: Any, approver: Any, person: Any) -> None:
    """ETag and 304, with a hint when to ask again; a vote is another ETag."""
    person("second", "effects.approve_execution")
    proposal = agent.proposed("api.double")
    first = agent.poll(proposal)
    assert (first.status_code, first["Retry-After"]) == (200, "30")
    again = agent.poll(proposal, **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["Retry-After"]) == (304, b"", "30")
    approver.vote(first.json())
    changed = agent.poll(proposal, **{"If-None-Match": first["ETag"]})
    assert changed.status_code == 200
    assert [vote["by"] for vote in changed.json()["approval"]["votes"]] == ["grace"]


def test_who_may_not_see_payloads_does_not(agent: Any, approver: Any, api: Any, person: Any) -> None:
    """The summary is for all who may see the proposal, payload and output for `effects.view_payload`."""
    chief = api(person("chief", "effects.view_execution", "effects.view_payload"))
    with provider_says(Gift, effects.Applied({"voucher": "4711"})):
        proposal = agent.proposed(secret="hush")
        approver.vote(proposal)
        run_due()
    for caller in (agent, approver):
        answer = caller.poll(proposal)
        assert b"hush" not in answer.content
        assert b"4711" not in answer.content
        assert answer.json()["payload_hidden"] is True
    shown = chief.poll(proposal).json()
    assert (shown["payload"]["secret"], shown["output"]) == ("hush", {"voucher": "4711"})


# -- taking back ------------------------------------------------------------------------------------------------------


@both_ways
def test_a_proposal_is_taken_back(agent: Any, approver: Any) -> None:
    """It ends rejected and is never sent; a second click changes nothing, an approval after it is refused."""
    with provider_says(Gift) as provider:
        proposal = agent.proposed()
        for _ in range(2):
            answer = agent.withdraw(proposal)
            assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (
                200,
                "rejected",
                "withdrawn",
            )
        late = approver.vote(proposal)
        run_due()
    assert (late.status_code, late.json()["code"]) in ((409, "stale_revision"), (409, "already_decided"))
    assert not provider.sends


def test_what_was_sent_is_not_taken_back(agent: Any, approver: Any) -> None:
    """409, and it stays completed."""
    with provider_says(Gift, effects.Applied()):
        proposal = agent.proposed()
        approver.vote(proposal)
        run_due()
    assert agent.withdraw(proposal).status_code == 409
    assert agent.poll(proposal).json()["state"] == "completed"
