"""What a page shows, or takes, beyond what its reader may see, or saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import F
from django.test import Client
from django.urls import reverse

import effects
from effects.models import Approval, Execution, RequestExecution
from effects.vocabulary import exceptions
from tests.console.pages import form_of, page_of, text_of, verb_of
from tests.console.scene import make_request

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]


@pytest.mark.parametrize("sees", [True, False])
def test_a_clients_key_takes_the_permission_to_view_requests(sees: bool, waiting: Any, browser: Browser,
                                                             person: Any) -> None:  # fmt: skip
    """Neither the execution's page nor a search by subject tells of its requests to whoever may not see them."""
    ref = waiting().ref
    request = make_request("clients-key-4711")
    RequestExecution.objects.create(request=request, execution_id=ref, position=0, holds=True)
    viewer = person("viewer")
    if not sees:
        viewer.user_permissions.remove(Permission.objects.get(codename="view_request"))
    client = browser(viewer)
    assert ("clients-key-4711" in text_of(client.get(page_of(ref)))) is sees
    found = text_of(client.get(reverse("admin:effects_execution_changelist") + "?q=user:7"))
    assert ("Pay out to DE89" in found) is sees


@pytest.mark.parametrize(("amount", "currency", "shown"), [(99_00, "eur", "99.00 EUR"), (7, "jpy", "7 JPY")])
def test_the_list_of_approvals_shows_what_each_was_asked_for(amount: int, currency: str, shown: str, waiting: Any,
                                                             browser: Browser, ann: User) -> None:  # fmt: skip
    """After a void the row has another amount than the approval that was asked for before: each line keeps its own."""
    ref = waiting().ref
    old = Approval.objects.get(execution_id=ref)
    Execution.objects.filter(pk=ref).update(amount=amount, currency=currency)
    Approval.objects.filter(pk=old.pk).update(state="lapsed")
    new: Any = Approval.objects.get(pk=old.pk)
    new.pk, new.state, new._state.adding = effects.models.base.new_id(), "requested", True
    new.summary = {**old.summary, "amount": amount, "currency": currency}
    new.save(force_insert=True)
    text = text_of(browser(ann).get(reverse("admin:effects_approval_changelist")))
    assert text.count("1,250.00 EUR") == 1
    assert text.count(shown) == 1


@pytest.mark.parametrize("change", ["a vote", "a requester", "anything else"])
@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_a_vote_on_an_older_page_is_refused(verb: str, change: str, waiting: Any, browser: Browser, ann: User,
                                            ben: User, person: Any) -> None:  # fmt: skip
    """Who read "nothing is sent yet" does not send it, since others voted or asked meanwhile."""
    person("cora", "approve_execution")
    ref = waiting(approvals=2).ref
    client = browser(ben)
    page = client.get(verb_of(ref, verb))
    approval = Approval.objects.get(execution_id=ref)
    if change == "a vote":
        effects.grant(ref, by=ann, digest=approval.digest)
    elif change == "a requester":
        waiting(approvals=2, by="another clerk")
    else:
        Execution.objects.filter(pk=ref).update(revision=F("revision") + 1)
    seen = int(form_of(page)["revision"])
    assert Execution.objects.get(pk=ref).revision != seen
    answer = client.post(verb_of(ref, verb), {**form_of(page), "comment": "fine"})
    assert answer.status_code == 409
    assert not approval.votes.filter(actor_id=f"user:{ben.pk}").exists()
    call = effects.grant if verb == "approve" else effects.deny
    with pytest.raises(exceptions.StaleRevisionError):
        call(ref, by=ben, digest=approval.digest, revision=seen)
    # on the page as it is now, it counts; a second click changes nothing
    form = {**form_of(client.get(verb_of(ref, verb))), "comment": "fine"}
    assert [client.post(verb_of(ref, verb), form).status_code for _ in range(2)] == [302, 302]
    assert approval.votes.filter(actor_id=f"user:{ben.pk}").count() == 1
