"""What waits for people, and their votes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

import effects
from effects.models import Approval, Execution
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import ActorError
from tests.api.declared import Double, Gift


def waiting(caller: Any, query: str = "", **headers: str) -> list[dict[str, Any]]:
    """Return what waits for a caller."""
    answer = caller("GET", f"approvals/{query}", **headers)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_what_waits_is_listed_for_those_who_hold_the_permission(agent: Any, approver: Any) -> None:
    """With all that a vote needs; for nobody else."""
    proposal = agent.proposed()
    (found,) = waiting(approver)
    assert found == {**proposal["approval"], "can_decide": True, "why_not": ""}
    assert waiting(agent) == []


def test_a_person_reads_why_they_cannot_decide(api: Any, person: Any, approver: Any) -> None:
    """Asked for it, voted, too late: in words, beside what they may decide."""
    both = api(person("both", "auth.add_group", "effects.approve_execution"))
    person("third", "effects.approve_execution")
    both.proposed()
    (own,) = waiting(both)
    assert own["can_decide"] is False
    assert "You asked for this one" in own["why_not"]
    double = both.proposed("api.double")
    assert approver.vote(double).status_code == 200
    mine, other = sorted((it["why_not"] for it in waiting(approver)), key=len, reverse=True)
    assert mine.startswith("You approved it. It needs one more from those with the permission")
    assert other == ""
    time_passes(timedelta(days=8))
    assert all("It expired 1\xa0day ago; nothing was sent." in it["why_not"] for it in waiting(approver))


def test_the_list_goes_on_from_a_cursor_and_counts_nothing(agent: Any, approver: Any) -> None:
    """Oldest first, each once, also when some are decided in between; the same number of queries for any page."""
    proposals = [agent.proposed(amount=number) for number in range(1, 8)]
    with CaptureQueriesContext(
        connection,
    ) as three:
        first = approver("GET", "approvals/?page_size=3").json()
    assert [it["ref"] for it in first["results"]] == [it["ref"] for it in proposals[:3]]
    approver.vote(proposals[0])
    second = approver("GET", first["next"].partition("/effects/")[2]).json()
    assert [it["ref"] for it in second["results"]] == [it["ref"] for it in proposals[3:6]]
    with CaptureQueriesContext(connection) as seven:
        waiting(approver, "?page_size=7")
    assert len(seven) == len(three)
    assert not any("COUNT(" in query["sql"].upper() for query in (*seven, *three))


@pytest.mark.parametrize("cursor", ["x", "cD1ub25zZW5zZQ==", "bz05OTk5OTk5OTk="])
def test_a_cursor_of_ones_own_making_is_refused(approver: Any, cursor: str) -> None:
    """404 or an empty page, never a 500."""
    assert approver("GET", f"approvals/?cursor={cursor}").status_code in {200, 404}


def test_a_stale_digest_is_refused(agent: Any, approver: Any) -> None:
    """409, nothing is recorded or sent."""
    proposal = agent.proposed()
    with provider_says(Gift) as provider:
        answer = approver.vote(proposal, digest="0" * 64)
        run_due()
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_revision")
    assert not provider.sends
    assert Approval.objects.get().votes.count() == 0


def test_a_stale_revision_is_refused_and_none_is_taken(agent: Any, approver: Any, api: Any, person: Any) -> None:
    """Another vote came in between: read again. The digest alone is enough, for who does not care for that."""
    second = api(person("second", "effects.approve_execution"))
    with provider_says(Double, effects.Applied()) as provider:
        proposal = agent.proposed("api.double")
        assert approver.vote(proposal).status_code == 200
        assert approver.vote(proposal).status_code == 200, "a second click"
        stale = second.vote(proposal)
        assert (stale.status_code, stale.json()["code"]) == (409, "stale_revision")
        approval = proposal["approval"]
        body = {"decision": "approve", "digest": approval["digest"]}
        assert second("POST", f"approvals/{approval['id']}/vote/", body).status_code == 200
        run_due()
    assert len(provider.sends) == 1


def test_a_denial_ends_it(agent: Any, approver: Any) -> None:
    """One is enough, its words are kept, and an approval after it is refused."""
    proposal = agent.proposed()
    answer = approver.vote(proposal, "deny", comment="Not this one.")
    assert (answer.json()["state"], answer.json()["reason"]) == ("rejected", "denied")
    assert agent.poll(proposal).json()["failure_message"] == "Not this one."
    again = approver.vote(proposal, revision=answer.json()["revision"])
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")


def test_an_approval_of_an_expired_page_is_refused(agent: Any, approver: Any) -> None:
    """Too late is too late, whether a sweep has seen it or not."""
    proposal = agent.proposed()
    time_passes(timedelta(days=8))
    assert approver.vote(proposal).json()["code"] == "already_decided"
    run_due()
    assert Execution.objects.get().state == "rejected"


@pytest.mark.parametrize(
    "wrong", [{"decision": "maybe"}, {"digest": ""}, {"digest": "x" * 65}, {"revision": 0}, {"comment": "c" * 2001}]
)
def test_a_vote_that_says_nothing_clear_is_none(agent: Any, approver: Any, wrong: dict[str, Any]) -> None:
    """400 that names the field."""
    answer = approver.vote(agent.proposed(), **{"decision": "approve", **wrong})
    assert (answer.status_code, answer.json()["code"]) == (400, "request_invalid")
    assert [it["pointer"] for it in answer.json()["errors"]] == [f"#/{next(iter(wrong))}"]


def test_an_assistant_and_the_person_behind_it(agent: Any, approver: Any, api: Any, person: Any) -> None:
    """The person for whom it was proposed cannot approve it, nor can the assistant; an independent one can."""
    boss = person("boss", "effects.approve_execution")
    agent.user.user_permissions.set([*agent.user.user_permissions.all(), *boss.user_permissions.all()])
    assistant = api(agent.user, **{"X-Person": str(boss.pk)})
    with provider_says(Gift, effects.Applied()) as provider:
        proposal = assistant.proposed()
        assert (proposal["requested_by"]["label"], proposal["on_behalf_of"]["label"]) == ("agent", "boss")
        for who, words in ((api(boss), "on your behalf"), (assistant, "You act for boss"), (agent, "")):
            answer = who.vote(proposal)
            assert answer.status_code == 403, answer.content
            assert words in answer.json()["detail"]
        run_due()
        assert not provider.sends
        assert approver.vote(proposal).status_code == 200
        run_due()
    assert len(provider.sends) == 1
    assert waiting(assistant) == []


def test_an_assistant_does_not_vote_for_its_person(api: Any, agent: Any, person: Any, approver: Any) -> None:
    """An account with every right, on somebody else's proposal: it acts for a person, and people vote themselves."""
    rights = ("effects.view_execution", "effects.approve_execution")
    boss, account = person("boss"), person("account", *rights)
    proposal = agent.proposed()
    answer = api(account, **{"X-Person": str(boss.pk)}).vote(proposal)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_entitled")
    assert "You act for boss" in answer.json()["detail"]
    assert api(account).vote(proposal).status_code == 200


def test_an_assistant_sees_what_it_asked_for_the_present_person_alone(
    agent: Any, approver: Any, api: Any, person: Any
) -> None:
    """One account that acts for two people does not mix them up."""
    ann, bob = person("ann"), person("bob")
    for_ann, for_bob = api(agent.user, **{"X-Person": str(ann.pk)}), api(agent.user, **{"X-Person": str(bob.pk)})
    proposal = for_ann.proposed()
    assert for_ann.poll(proposal).status_code == api(ann).poll(proposal).status_code == 200
    assert for_bob.poll(proposal).status_code == for_bob.withdraw(proposal).status_code == 404
    same_key = [one.propose(key="same").json()["ref"] for one in (for_ann, for_bob)]
    assert len(set(same_key)) == 2
    assert api(ann).withdraw(proposal).status_code == 200


def test_a_person_takes_back_what_was_granted_and_not_sent(agent: Any, approver: Any) -> None:
    """The approval's row decides the race with the send."""
    proposal = agent.proposed()
    approver.vote(proposal)
    with provider_says(Gift) as provider:
        assert agent.withdraw(proposal).json()["state"] == "rejected"
        run_due()
    assert not provider.sends


@pytest.mark.parametrize("name", ["name", "number", "id", "capitals"])
def test_the_person_behind_an_assistant_is_one_by_whatever_name(
    name: str, agent: Any, api: Any, person: Any, settings: Any
) -> None:
    """What the hook returns: a user's name, number or id is that user, who cannot approve it."""
    boss = person("boss", "effects.approve_execution")
    person("grace", "effects.approve_execution")
    said = {"name": "boss", "number": str(boss.pk), "id": f"user:{boss.pk}", "capitals": " BOSS"}[name]
    settings.EFFECTS = {**settings.EFFECTS, "ON_BEHALF_OF": lambda request: None if request.user == boss else said}
    proposal = agent.proposed()
    assert proposal["on_behalf_of"] == {"id": f"user:{boss.pk}", "label": "boss"}
    assert api(boss).vote(proposal).status_code == 403


@pytest.mark.parametrize("returned", ["pk", "a group", "bytes"])
def test_a_hook_that_returns_a_number_is_an_error(returned: str, agent: Any, person: Any, settings: Any) -> None:
    """It would have recorded nobody; nothing is recorded, and the error says what to return."""
    boss = person("boss", "effects.approve_execution")
    wrong = {"pk": boss.pk, "a group": Group(pk=boss.pk, name="x"), "bytes": b"boss"}[returned]
    settings.EFFECTS = {**settings.EFFECTS, "ON_BEHALF_OF": lambda request: wrong}
    with pytest.raises(ActorError, match="ON_BEHALF_OF returned"):
        agent.proposed()
    assert not Execution.objects.exists()
