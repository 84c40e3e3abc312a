"""Nobody votes on what they did not see: without a summary that tells, the payload is shown, or the vote is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import effects
from effects.http.api.callers import Caller, find_execution
from effects.http.api.serializers import ApprovalSerializer, ProposalSerializer, approval_data, proposal_data
from effects.http.api.views import ApprovalsView
from effects.models import Approval, Execution, PendingNotice
from effects.people.notices import read_notice
from effects.vocabulary import exceptions
from effects.vocabulary.types import Actor
from tests.console.pages import page_of, send, text_of, verb_of

pytestmark = pytest.mark.django_db


class _Asks(effects.Effect[dict]):  # type: ignore[type-arg]
    provider = "blind/main"

    def send(self, context: Any, permit: Any) -> effects.Applied:
        return effects.Applied({"id": "x"}, "x")

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule("effects.approve_execution")


@effects.register
class Silent(_Asks):
    """Describes nothing."""

    operation = "blind.silent"


@effects.register
class Said(_Asks):
    """Describes what its payload says."""

    operation = "blind.said"

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary(**context.payload["said"])


@dataclass(frozen=True)
class Case:
    effect: type[effects.Effect[Any]]
    payload: dict[str, Any]


BLIND = {
    "no describe": Case(Silent, {"order": "DE-4711", "amount": 713_00}),
    "a title alone": Case(Said, {"order": "DE-4711", "said": {"title": "Pay somebody"}}),
    "an empty title": Case(Said, {"order": "DE-4711", "said": {"title": ""}}),
    "facts that say nothing": Case(Said, {"order": "DE-4711", "said": {"title": "Pay", "facts": {"Note": " "}}}),
    "a target alone": Case(Said, {"order": "DE-4711", "said": {"title": "Pay", "target": "Meridian"}}),
}
TOLD = {
    "an amount": Case(Said, {"order": "DE-4711", "said": {"title": "Pay", "amount": 0, "currency": "eur"}}),
    "a fact": Case(Said, {"order": "DE-4711", "said": {"title": "Pay", "facts": {"To": "Meridian"}}}),
}
SHOWN = "DE-4711"


def asked(case: Case, key: str = "k1") -> Execution:
    """Ask for it."""
    outcome = effects.perform(case.effect, payload=case.payload, key=key, requested_by="clerk")
    return Execution.objects.get(pk=outcome.ref)


def seen_by(user: User, row: Execution, principal: Actor | None = None) -> Any:
    """Return what the API finds for a person."""
    return find_execution(Caller(user, Actor.of(user), row.tenant, principal), row.pk)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", BLIND.values(), ids=BLIND)
def test_an_approver_is_shown_the_payload_where_nothing_else_tells(
    case: Case, browser: Callable[[User], Client], ann: User, person: Any
) -> None:
    """On the row's page, on the vote's pages and in the API, without `view_payload`; others who may view are not."""
    row, client = asked(case), browser(ann)
    for address in (page_of(row.pk), verb_of(row.pk, "approve"), verb_of(row.pk, "deny")):
        assert SHOWN in text_of(client.get(address)), address
        assert SHOWN not in text_of(browser(person("viewer" + address[-5:-1])).get(address)), address
    assert "of exactly what is shown here" in text_of(client.get(verb_of(row.pk, "approve")))
    seen = seen_by(ann, row)
    assert ApprovalSerializer(approval_data(seen)).data["payload"] == case.payload
    proposal = ProposalSerializer(proposal_data(seen)).data
    assert (proposal["payload_hidden"], proposal["payload"]) == (False, case.payload)
    assert send(client, verb_of(row.pk, "approve")).status_code == 302
    # decided: there is nothing more to see it for
    assert SHOWN not in text_of(client.get(page_of(row.pk)))
    assert ProposalSerializer(proposal_data(seen_by(ann, row))).data["payload_hidden"] is True


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD)
def test_a_summary_that_tells_is_what_they_decide_by(case: Case, browser: Any, ann: User) -> None:
    """The payload stays hidden, and the page claims no more than that it sums it up."""
    row, client = asked(case), browser(ann)
    for address in (page_of(row.pk), verb_of(row.pk, "approve")):
        assert SHOWN not in text_of(client.get(address))
    text = text_of(client.get(verb_of(row.pk, "approve")))
    assert "exactly what is shown here" not in text
    assert "of the contents that are summed up here" in text
    data = ProposalSerializer(proposal_data(seen_by(ann, row))).data
    assert (data["payload"], data["payload_hidden"], data["approval"]["payload"]) == (None, True, None)


def test_who_asked_and_who_acts_for_somebody_are_shown_no_more_than_before(person: Any, ann: User) -> None:
    """They cannot decide it, so there is nothing that they have to see it for."""
    both = person("both", "approve_execution")
    row = Execution.objects.get(pk=effects.perform(
        Silent, payload={"order": SHOWN}, key="k2", requested_by=both
    ).ref)  # fmt: skip
    assert seen_by(both, row).contents is None
    assert seen_by(ann, row).contents == {"order": SHOWN}
    assert seen_by(ann, row, Actor("user:99")).contents is None


def test_several_are_not_approved_by_their_titles(browser: Any, ann: User) -> None:
    """The bulk page leaves them out, in words, and a form that names one all the same is refused for it."""
    blind, told = asked(BLIND["no describe"], "k1"), asked(TOLD["an amount"], "k2")
    client, address = browser(ann), reverse("admin:effects_bulk_approve")
    text = text_of(client.get(f"{address}?ref={blind.pk}&ref={told.pk}"))
    assert "Approve: 1 row" in text
    assert "open its own page, which shows the payload" in text
    items = []
    for row in (blind, told):
        approval = Approval.objects.get(execution=row)
        items.append(f"{row.pk}:{row.revision}:{approval.pk}:{approval.digest}")
    assert "1 done, 1 refused" in text_of(client.post(address, {"item": items}))
    assert Execution.objects.get(pk=blind.pk).state == "awaiting_approval"


def test_what_the_redactor_hides_stays_hidden_and_the_page_says_so(browser: Any, ann: User, settings: Any) -> None:
    """A redactor of later days reads what was recorded before it; nobody is told that all is shown."""
    row = asked(BLIND["no describe"])
    settings.EFFECTS = {**settings.EFFECTS, "REDACTOR": f"{__name__}.hide"}
    text = text_of(browser(ann).get(verb_of(row.pk, "approve")))
    assert SHOWN not in text
    assert "71300" in text
    assert "exactly" not in text
    assert "parts of it hidden" in text
    assert seen_by(ann, row).contents == {"order": "[hidden]", "amount": 713_00}


def hide(text: str, place: str) -> str:
    """What a project's `REDACTOR` is."""
    return text.replace(SHOWN, "[hidden]")


@pytest.mark.parametrize("payload", ["{not json", '{"amount": 1.5}', '{"$secret": 7}', "[" * 100_000])
def test_what_cannot_be_shown_cannot_be_voted_on(payload: str, browser: Any, ann: User) -> None:
    """In words: on the page, for the API, and for code that calls `grant` and `deny`; nothing is recorded."""
    row = asked(BLIND["no describe"])
    Execution.objects.filter(pk=row.pk).update(payload=payload)
    approval = Approval.objects.get(execution=row)
    response = browser(ann).get(verb_of(row.pk, "approve"))
    assert "nobody decides unseen" in text_of(response)
    for call in (effects.grant, effects.deny):
        with pytest.raises(exceptions.NotEntitledError, match="nobody decides unseen"):
            call(row.pk, by=ann, digest=approval.digest)
    data = ApprovalSerializer(approval_data(seen_by(ann, row))).data
    assert (data["can_decide"], data["payload"]) == (False, None)
    assert not approval.votes.exists()


def test_a_notice_has_what_its_reader_decides_by(settings: Any, ann: User) -> None:
    """Whoever lets people decide from a message of their own can show it; not where the summary tells."""
    settings.EFFECTS = {"NOTIFY": "effects.contrib.mail.notices.notify"}
    for case, key, shown in ((BLIND["no describe"], "k1", True), (TOLD["a fact"], "k2", False)):
        row = asked(case, key)
        notice: Any = read_notice(PendingNotice.objects.filter(execution=row).earliest("pk").pk)
        assert notice.approval.payload == (case.payload if shown else None)


def test_the_apis_list_loads_such_payloads_in_one_query(ann: User, rf: Any) -> None:
    """However many of them there are."""
    rest_framework = pytest.importorskip("rest_framework.test")

    def count() -> int:
        request = rest_framework.APIRequestFactory().get("/")
        rest_framework.force_authenticate(request, User.objects.get(pk=ann.pk))
        with CaptureQueriesContext(connection) as queries:
            response = ApprovalsView.as_view()(request)
        assert all(it["payload"] for it in response.data["results"])
        return len(queries)

    asked(BLIND["no describe"], "k0")
    first = count()
    for number in range(1, 8):
        asked(BLIND["a title alone"], f"k{number}")
    assert count() == first
