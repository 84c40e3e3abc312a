"""Who may do what: each role against each verb, and the tenants apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from effects.models import Execution

VERBS = ("propose", "poll", "list", "approve", "deny", "withdraw")

#: What each role gets from each verb on a proposal of the agent's, made for ann. The list: whether it has some.
MATRIX: dict[str, tuple[int, int, int, int, int, int]] = {
    #              propose, poll, list, approve, deny, withdraw
    "nobody":     (401,     401,  401,  401,     401,  401),
    "stranger":   (403,     404,  0,    404,     404,  404),
    "agent":      (201,     200,  0,    403,     403,  200),
    "ann":        (403,     200,  1,    403,     403,  200),
    "for another": (201,    200,  0,    403,     403,  403),
    "other agent": (201,    404,  0,    404,     404,  404),
    "approver":   (403,     200,  1,    200,     200,  403),
    "viewer":     (403,     200,  0,    403,     403,  403),
    "canceller":  (403,     404,  0,    404,     404,  404),
    "supervisor": (403,     200,  0,    403,     403,  200),
    "superuser":  (201,     200,  1,    200,     200,  200),
    "left":       (401,     401,  401,  401,     401,  401),
    "elsewhere":  (403,     404,  0,    404,     404,  404),
}  # fmt: skip
RIGHTS = {
    "other agent": ("auth.add_group",),
    "approver": ("effects.approve_execution",),
    "viewer": ("effects.view_execution",),
    "canceller": ("effects.cancel_execution",),
    "supervisor": ("effects.view_execution", "effects.cancel_execution"),
    "elsewhere": ("effects.approve_execution", "effects.view_execution", "effects.cancel_execution"),
}


@pytest.fixture
def as_role(api: Any, agent: Any, person: Callable[..., Any]) -> Callable[[str], Any]:
    """Return the API as a role calls it."""
    ann = person("ann", "effects.approve_execution")
    person("another", "effects.approve_execution")

    def role(name: str) -> Any:
        if name == "nobody":
            return api(None)
        if name in {"agent", "ann"}:
            return api(agent.user, **{"X-Person": str(ann.pk)}) if name == "agent" else api(ann)
        if name == "for another":  # the same account, in another person's name, which sees everything
            agent.user.user_permissions.add(Permission.objects.get(codename="view_execution"))
            return api(User.objects.get(pk=agent.user.pk), **{"X-Person": str(person("zoe").pk)})
        user = person(name, *RIGHTS.get(name, ()))
        if name == "superuser":
            user.is_superuser = True
        if name == "left":
            user.is_superuser, user.is_active = True, False
        user.save()
        return api(user, **({"X-Tenant": "elsewhere"} if name == "elsewhere" else {}))

    return role


@pytest.mark.parametrize("role", MATRIX)
def test_a_role_gets_exactly_this(as_role: Callable[[str], Any], role: str) -> None:
    """401 or 403 for nobody, 404 for what is not theirs to see, 403 with words for what they see and may not do."""
    asks, caller = as_role("agent"), as_role(role)
    found = []
    for verb in VERBS:
        proposal = asks.proposed()
        answer = _do(verb, caller, proposal)
        is_list = verb == "list" and answer.status_code == 200
        found.append(min(len(answer.json()["results"]), 1) if is_list else answer.status_code)
        if answer.status_code >= 400:
            assert answer["Content-Type"] == "application/problem+json"
            assert answer["Cache-Control"] == "no-store"
            assert answer.json()["code"]
            assert Execution.objects.get(pk=proposal["ref"]).state == "awaiting_approval"
            assert proposal["summary"]["title"] not in answer.content.decode()
    assert dict(zip(VERBS, found, strict=True)) == dict(zip(VERBS, MATRIX[role], strict=True))


def _do(verb: str, caller: Any, proposal: dict[str, Any]) -> Any:
    match verb:
        case "propose":
            return caller.propose()
        case "poll":
            return caller.poll(proposal)
        case "list":
            return caller("GET", "approvals/")
        case "withdraw":
            return caller.withdraw(proposal)
        case _:
            return caller.vote(proposal, verb)


def test_two_tenants_do_not_meet_in_one_proposal(api: Any, person: Callable[..., Any]) -> None:
    """The same key and the same account elsewhere is another proposal, and neither is seen from the other side."""
    user = person("agent", "auth.add_group")
    person("grace", "effects.approve_execution")
    here, there = api(user, **{"X-Tenant": "here"}), api(user, **{"X-Tenant": "there"})
    first, second = here.propose(key="k").json(), there.propose(key="k").json()
    assert first["ref"] != second["ref"]
    assert there.poll(first).status_code == here.poll(second).status_code == 404


def test_what_is_no_json_or_another_method_is_a_problem_too(agent: Any) -> None:
    """REST framework's own refusals have its code, and `about:blank` for a type."""
    answer = agent("DELETE", "approvals/")
    assert (answer.status_code, answer.json()["code"], answer.json()["type"]) == (
        405,
        "method_not_allowed",
        "about:blank",
    )
    assert "GET" in answer["Allow"]
    unread = agent("POST", "proposals/", "no object", **{"Idempotency-Key": "k"})
    assert (unread.status_code, unread.json()["code"]) == (400, "request_invalid")
