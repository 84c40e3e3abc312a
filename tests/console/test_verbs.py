"""The verbs' pages: who may, what is refused in words, and that one decision is one decision."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

import effects
from effects.models import Approval, Execution, Receipt, Request, Resolution
from effects.testing import provider_says, run_due, time_passes
from tests.console.declared import PayOut, Payout, Untold
from tests.console.pages import form_of, page_of, send, text_of, verb_of
from tests.console.test_pages import make_request

pytestmark = pytest.mark.django_db
VERBS = ["approve", "deny", "look-up", "resolve", "reopen", "order-resend", "withdraw", "cancel", "evidence"]


def state_of(ref: str) -> str:
    return str(Execution.objects.get(pk=ref).state)


def receipts_of(ref: str) -> list[str]:
    return list(Receipt.objects.filter(execution_id=ref).order_by("sequence").values_list("event", flat=True))


def needs_person(ref: str) -> None:
    Execution.objects.filter(pk=ref).update(state="needs_intervention", reason="budget_spent", due_at=None)


def test_approval_page_says_what_exactly_is_done(waiting: Any, browser: Any, ann: User) -> None:
    """The page repeats amount, currency, target, provider, who asked, the digest and what one approval is worth."""
    ref = waiting().ref
    response = browser(ann).get(verb_of(ref, "approve"))
    text, approval = text_of(response), Approval.objects.get()
    for said in (
        "The provider bank/main is asked for “Pay out to DE89”, 1,250.00 EUR, as soon as a worker is free.",
        "Asked by clerk",
        approval.digest,
        "revision 1",
        "The approval is worth one send",
    ):
        assert said in text
    assert form_of(response)["digest"] == approval.digest


def test_approved_is_due_and_sent(waiting: Any, browser: Any, ann: User) -> None:
    """An approval makes the send due; the page says so, and after the worker's run that it happened."""
    ref, client = waiting().ref, browser(ann)
    response = send(client, verb_of(ref, "approve"), comment="seen the invoice")
    assert response.status_code == 302
    assert response["Location"] == page_of(ref)
    text = text_of(client.get(page_of(ref)))
    assert "Your approval is recorded. Approved: 1 of 1, the licence is granted. It is pending." in text
    assert "approved by ann" in text
    assert "seen the invoice" in text
    run_due()
    assert state_of(ref) == "completed"
    assert "It happened, and the proof is on file." in text_of(client.get(page_of(ref)))


def test_votes_of_a_quorum_add_up(waiting: Any, browser: Any, ann: User, ben: User) -> None:
    """The first of two approvers is told that one more is needed; the second decides on a page that says so as well."""
    ref = waiting(approvals=2).ref
    bens, address = browser(ben), verb_of(ref, "approve")
    opened = bens.get(address)
    anns = browser(ann)
    send(anns, address)
    assert state_of(ref) == "awaiting_approval"
    text = text_of(anns.get(page_of(ref)))
    assert "It needs 1 more of 2 approvals, from those with the permission" in text
    assert "Approved: 1 of 2" in text
    assert "You decided it at" in text_of(anns.get(address))
    # that page said that his vote would be the first, and send nothing
    assert bens.post(address, form_of(opened)).status_code == 409
    assert send(bens, address).status_code == 302
    assert state_of(ref) == "pending"


def test_requester_cannot_approve(waiting: Any, browser: Any, ann: User) -> None:
    """Whoever asked for it is refused with 403, by page and by POST, and told why."""
    ref = waiting(by=ann).ref
    approval, client = Approval.objects.get(), browser(ann)
    response = client.get(verb_of(ref, "approve"))
    assert response.status_code == 403
    assert "You asked for this one" in text_of(response)
    assert form_of(response) == {}
    forged = {"approval": approval.pk, "digest": approval.digest, "revision": 1, "decision_id": "x"}
    assert client.post(verb_of(ref, "approve"), forged).status_code == 403
    assert state_of(ref) == "awaiting_approval"


@pytest.mark.parametrize("verb", VERBS)
def test_post_without_permission_is_forbidden(
    verb: str, waiting: Any, doubtful: Any, browser: Any, person: Callable[..., User]
) -> None:
    """Somebody who may only view gets 403 with the reason for each verb, and nothing changes."""
    ref = waiting().ref if verb in ("approve", "deny", "withdraw", "cancel") else doubtful().ref
    before, client = receipts_of(ref), browser(person("eve"))
    typed = {"revision": 1, "decision_id": "x", "reason": "r", "decision": "applied", "comment": "c",
             "approval": uuid4(), "digest": "0"}  # fmt: skip
    for response in (client.post(verb_of(ref, verb), typed), client.get(verb_of(ref, verb))):
        assert response.status_code == 403
        assert "permission" in text_of(response)
    assert receipts_of(ref) == before


def test_permission_for_one_row_is_enough(
    doubtful: Any, browser: Any, person: Callable[..., User], settings: Any
) -> None:
    """A backend with permissions for single objects opens a verb for that row, and for no other."""
    mine, other = doubtful("d1").ref, doubtful("d2").ref
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend", "tests.console.test_verbs.OneRow"
    ]  # fmt: skip
    OneRow.row = mine
    client = Client()
    client.force_login(person("eve"), backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(verb_of(mine, "resolve")).status_code == 200
    assert client.get(verb_of(other, "resolve")).status_code == 403


class OneRow:
    """Grants everything on one row."""

    row = ""

    def authenticate(self, request: Any) -> None:
        return None

    def has_perm(self, user: Any, perm: str, obj: Any = None) -> bool:
        return obj is not None and str(obj.pk) == self.row


def test_changed_digest_is_refused(waiting: Any, browser: Any, ann: User) -> None:
    """A page opened before the contents changed gets 409, says so, and shows the new contents with their digest."""
    ref, client = waiting().ref, browser(ann)
    opened = client.get(verb_of(ref, "approve"))
    Approval.objects.update(digest="f" * 64)
    response = client.post(verb_of(ref, "approve"), form_of(opened))
    assert response.status_code == 409
    assert "The contents changed" in text_of(response)
    assert form_of(response)["digest"] == "f" * 64
    assert state_of(ref) == "awaiting_approval"


def test_double_click_is_one_decision(waiting: Any, browser: Any, ann: User) -> None:
    """The same page sent twice is one vote and one grant; the second answer says that nothing changed."""
    ref, client = waiting().ref, browser(ann)
    form = form_of(client.get(verb_of(ref, "approve")))
    first, second = (client.post(verb_of(ref, "approve"), form) for _ in range(2))
    assert (first.status_code, second.status_code) == (302, 302)
    assert receipts_of(ref) == ["record", "grant"]
    assert "recorded before; sending it again changed nothing" in text_of(client.get(page_of(ref)))


def test_late_double_click_licenses_no_other_send(waiting: Any, browser: Any, ann: User) -> None:
    """A page sent again, after its licence was spent and a new one is asked for, is no vote on the new one."""
    ref, client = waiting().ref, browser(ann)
    form = form_of(client.get(verb_of(ref, "approve")))
    client.post(verb_of(ref, "approve"), form)
    with provider_says(PayOut, effects.NotNow("busy")):
        run_due()
    time_passes(timedelta(minutes=1))
    run_due()
    assert state_of(ref) == "awaiting_approval"
    assert Approval.objects.get(state="requested").digest == form["digest"]
    client.post(verb_of(ref, "approve"), form)
    assert state_of(ref) == "awaiting_approval"
    assert Approval.objects.get(state="requested").votes.count() == 0


def test_second_approver_changes_nothing(waiting: Any, browser: Any, ann: User, ben: User) -> None:
    """A second approver's click on a page opened before gets 409: by whom it was approved and when it was sent."""
    ref, bens = waiting().ref, browser(ben)
    opened = bens.get(verb_of(ref, "approve"))
    send(browser(ann), verb_of(ref, "approve"))
    run_due()
    before = receipts_of(ref)
    response = bens.post(verb_of(ref, "approve"), form_of(opened))
    text = text_of(response)
    assert response.status_code == 409
    assert "Already approved by ann (" in text
    assert "; sent at 2" in text
    assert "Your click changed nothing." in text
    assert receipts_of(ref) == before
    assert state_of(ref) == "completed"
    assert "Already approved by ann (" in text_of(bens.get(verb_of(ref, "approve")))


def test_denied_is_over(waiting: Any, browser: Any, ann: User, ben: User) -> None:
    """A refusal takes a reason, ends it, and is told to the next approver."""
    ref, anns, bens = waiting(approvals=2).ref, browser(ann), browser(ben)
    opened = bens.get(verb_of(ref, "approve"))
    assert send(anns, verb_of(ref, "deny")).status_code == 400
    assert send(anns, verb_of(ref, "deny"), comment="unknown account").status_code == 302
    assert state_of(ref) == "rejected"
    assert "unknown account" in text_of(anns.get(page_of(ref)))
    response = bens.post(verb_of(ref, "approve"), form_of(opened))
    assert response.status_code == 409
    assert "Already denied by ann" in text_of(response)


def test_expired_is_refused_in_words(waiting: Any, browser: Any, ann: User) -> None:
    """Past decide-by an open page is refused with 409, and the page says how long ago it expired."""
    ref, client = waiting().ref, browser(ann)
    opened = client.get(verb_of(ref, "approve"))
    time_passes(timedelta(days=8))
    response = client.post(verb_of(ref, "approve"), form_of(opened))
    assert response.status_code == 409
    assert "It expired" in text_of(response)
    assert "The time to decide was over at" in text_of(client.get(verb_of(ref, "approve")))


def test_votes_outlive_their_voter(waiting: Any, browser: Any, ann: User, olga: User) -> None:
    """A deleted approver's vote is still shown, with name, time and comment."""
    ref = waiting(approvals=2).ref
    send(browser(ann), verb_of(ref, "approve"), comment="checked")
    ann.delete()
    text = text_of(browser(olga).get(page_of(ref)))
    assert "approved by ann" in text
    assert "checked" in text


def test_resolved_is_one_decision_with_its_reason(doubtful: Any, browser: Any, olga: User) -> None:
    """Resolving as applied completes with reference and output; sent twice it is one resolution."""
    ref, client = doubtful().ref, browser(olga)
    typed = {"decision": "applied", "reason": "it is in the bank's list", "reference": "po_9", "output": '{"id": 9}'}
    form = form_of(client.get(verb_of(ref, "resolve")))
    answers = [client.post(verb_of(ref, "resolve"), {**form, **typed}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [302, 302]
    outcome = effects.get(ref).outcome
    assert outcome.require() == {"id": 9}
    assert effects.get(ref).reference == "po_9"
    assert Resolution.objects.get().actor_label == "olga"
    assert "Resolved by a person, and nothing checked it: applied by olga" in text_of(client.get(page_of(ref)))


def test_not_applied_waits_for_the_barrier(doubtful: Any, browser: Any, olga: User) -> None:
    """Before the barrier "not applied" gets 409 and says until when; what was typed stays; after it, it is believed."""
    ref, client = doubtful().ref, browser(olga)
    typed = {"decision": "not_applied", "reason": "not in the list"}
    assert "“not applied” is refused before" in text_of(client.get(verb_of(ref, "resolve")))
    response = send(client, verb_of(ref, "resolve"), **typed)
    assert response.status_code == 409
    assert "A request may still land until" in text_of(response)
    body = response.content.decode()
    assert "not in the list" in body
    assert re.search(r'<input [^>]*value="not_applied"[^>]* checked', body)
    assert state_of(ref) == "uncertain"
    time_passes(timedelta(minutes=6))
    assert send(client, verb_of(ref, "resolve"), **typed).status_code == 302
    assert state_of(ref) == "failed"


def test_stale_resolution_is_refused(doubtful: Any, browser: Any, olga: User) -> None:
    """A page opened before new evidence came gets 409; the fresh page can decide."""
    ref, client = doubtful().ref, browser(olga)
    opened = client.get(verb_of(ref, "resolve"))
    effects.observe(ref, reference="po_7", evidence={"from": "a statement"})
    typed = {"decision": "unknown", "reason": "no trace"}
    response = client.post(verb_of(ref, "resolve"), {**form_of(opened), **typed})
    assert response.status_code == 409
    assert "you saw" in text_of(response)
    assert "Proof that it happened is on file" in text_of(response)
    assert client.post(verb_of(ref, "resolve"), {**form_of(response), **typed}).status_code == 302
    assert state_of(ref) == "abandoned"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"decision": "applied"}, "This field is required"),
        ({"decision": "applied", "reason": "  "}, "This field is required"),
        ({"decision": "both", "reason": "r"}, "Select a valid choice"),
        ({"reason": "r"}, "This field is required"),
        ({"decision": "applied", "reason": "r", "output": "{"}, "valid JSON"),
        ({"decision": "applied", "reason": "r", "output": '{"amount": 1.5}'}, "It cannot be kept exactly"),
        ({"decision": "applied", "reason": "r", "output": "NaN"}, "It cannot be kept exactly"),
        ({"decision": "unknown", "reason": "r", "reference": "po_1"}, "Only what happened has one"),
        ({"decision": "applied", "reason": "r\x00"}, "Null characters are not allowed"),
        ({"decision": "applied", "reason": "r", "revision": "x"}, "This page is incomplete"),
        ({"decision": "applied", "reason": "r", "decision_id": ""}, "This page is incomplete"),
    ],
)
def test_incomplete_resolutions_are_refused(
    typed: dict[str, str], said: str, doubtful: Any, browser: Any, olga: User
) -> None:
    """What is missing or cannot be kept is named on the page, with 400; nothing changes."""
    ref = doubtful().ref
    response = send(browser(olga), verb_of(ref, "resolve"), **typed)
    assert response.status_code == 400
    assert said in text_of(response)
    assert state_of(ref) == "uncertain"


def test_look_up_now_asks_and_tells(doubtful: Any, browser: Any, olga: User) -> None:
    """Asking the provider tells what it said: undecided, asked too early, found."""
    ref, client = doubtful().ref, browser(olga)
    with provider_says(PayOut, look_up=[effects.Inconclusive("?"), effects.Absent(), effects.Found("po_3", {"id": 3})]):
        for said in ("it could not decide", "no trace of it, asked too early to believe that", "found, it happened"):
            assert send(client, verb_of(ref, "look-up")).status_code == 302
            assert f"The provider was asked. Look-up: {said}." in text_of(client.get(page_of(ref)))
    assert state_of(ref) == "completed"


def test_reopened_is_asked_again(doubtful: Any, browser: Any, olga: User) -> None:
    """Reopening gives a new budget once, sends nothing, and is offered only where somebody can be asked."""
    ref, client = doubtful().ref, browser(olga)
    needs_person(ref)
    assert "reopen it, and the provider is asked again" in text_of(client.get(verb_of(ref, "look-up")))
    form = {**form_of(client.get(verb_of(ref, "reopen"))), "reason": "the bank is back"}
    assert [client.post(verb_of(ref, "reopen"), form).status_code for _ in range(2)] == [302, 302]
    assert state_of(ref) == "uncertain"
    assert receipts_of(ref).count("reopen") == 1
    with provider_says(Untold, TimeoutError()):
        other = effects.perform(Untold, payload={}, key="u", requested_by="clerk").ref
    needs_person(other)
    assert "declares no look-up. Resolve it instead." in text_of(client.get(verb_of(other, "reopen")))
    refused = client.post(verb_of(other, "reopen"), {"revision": 3, "decision_id": "x", "reason": "r"})
    assert refused.status_code == 409


def test_cancelled_is_never_sent(waiting: Any, browser: Any, olga: User) -> None:
    """Cancelling takes a reason and the page's revision; sent twice it is one decision."""
    with transaction.atomic():
        ref = effects.perform_later(PayOut, payload=Payout("DE89", 1), key="c1", requested_by="clerk").ref
    client = browser(olga)
    assert "withdraw that, and it ends" in text_of(client.get(verb_of(waiting().ref, "cancel")))
    form = {**form_of(client.get(verb_of(ref, "cancel"))), "reason": "wrong order"}
    stale = client.post(verb_of(ref, "cancel"), {**form, "revision": "0"})
    assert stale.status_code == 409
    assert "is at revision 1, you saw 0; look at it again." in text_of(stale)
    assert [client.post(verb_of(ref, "cancel"), form).status_code for _ in range(2)] == [302, 302]
    assert state_of(ref) == "rejected"
    assert receipts_of(ref) == ["record", "refuse"]
    assert "only what was not sent can be cancelled" in text_of(client.get(verb_of(ref, "cancel")))


def test_requester_withdraws(waiting: Any, browser: Any, person: Any, ben: User) -> None:
    """Whoever asked may take it back before it is sent; others need the permission to cancel."""
    clerk = person("clerk")
    ref = waiting(by=clerk).ref
    assert "You did not ask for it" in text_of(browser(ben).get(verb_of(ref, "withdraw")))
    assert send(browser(clerk), verb_of(ref, "withdraw"), reason="typo").status_code == 302
    assert state_of(ref) == "rejected"
    assert "is withdrawn since" in text_of(browser(ben).get(verb_of(ref, "approve")))


def test_another_send_is_ordered_once(doubtful: Any, browser: Any, person: Any) -> None:
    """An order to send again says that it may happen twice, takes a reason, and is one send."""
    chief = person("chief", "order_resend_execution")
    ref, client = doubtful().ref, browser(chief)
    assert "only what waits for a person is sent again by order" in text_of(client.get(verb_of(ref, "order-resend")))
    needs_person(ref)
    opened = client.get(verb_of(ref, "order-resend"))
    assert "If the first one arrived it happens twice" in text_of(opened)
    assert "50.00 EUR, is sent again to bank/main, under the same key" in text_of(opened)
    form = {**form_of(opened), "reason": "the bank has no trace"}
    assert [client.post(verb_of(ref, "order-resend"), form).status_code for _ in range(2)] == [302, 302]
    text = text_of(client.get(page_of(ref)))
    assert "Another send is ordered; it is due now" in text
    assert "Another send is ordered already." in text
    with provider_says(PayOut, effects.Applied({"id": 1}, "po_5")) as said:
        run_due()
    assert len(said.sends) == 1
    assert state_of(ref) == "completed"


def test_ordered_send_waits_for_other_people(waiting: Any, browser: Any, ann: User, person: Any) -> None:
    """Where the rule asks for an approval the orderer cannot give it; somebody else can, told what is at stake."""
    chief = person("chief", "order_resend_execution", "approve_execution")
    ref = waiting().ref
    send(browser(ann), verb_of(ref, "approve"))
    with provider_says(PayOut, TimeoutError()):
        run_due()
    needs_person(ref)
    send(browser(chief), verb_of(ref, "order-resend"), reason="no trace")
    assert "You asked for this one" in text_of(browser(chief).get(verb_of(ref, "approve")))
    opened = browser(ann).get(verb_of(ref, "approve"))
    assert "It may have happened before: this sends it again" in text_of(opened)
    assert browser(ann).post(verb_of(ref, "approve"), form_of(opened)).status_code == 302
    with provider_says(PayOut, effects.Applied({"id": 1}, "po_5")):
        run_due()
    assert state_of(ref) == "completed"


def test_request_in_doubt_is_resolved(browser: Any, olga: User, ann: User) -> None:
    """A request in doubt is closed once, by whoever may resolve, with a reason; its page says how."""
    request, client = make_request("r1"), browser(olga)
    address = verb_of(request.pk, "resolve", "request")
    assert browser(ann).post(address).status_code == 403
    form = {**form_of(client.get(address)), "decision": "not_applied", "reason": "no charge at the bank"}
    assert [client.post(address, form).status_code for _ in range(2)] == [302, 302]
    row = Request.objects.get()
    assert (row.state, row.reason, row.receipts.count()) == ("resolved", "not_applied", 1)
    text = text_of(client.get(page_of(request.pk, "request")))
    assert "no charge at the bank" in text
    assert "A person closed it without an answer." in text
    late = client.post(address, {**form, "decision_id": "another", "revision": "2"})
    assert late.status_code == 409
    assert "only what is in doubt is resolved" in text_of(late)


def test_other_methods_are_refused(waiting: Any, browser: Any, ann: User) -> None:
    """A verb's page knows GET, HEAD and POST alone."""
    ref = waiting().ref
    assert browser(ann).put(verb_of(ref, "approve")).status_code == 405
    assert browser(ann).delete(verb_of(ref, "approve")).status_code == 405


def test_posts_take_the_csrf_token(waiting: Any, ann: User) -> None:
    """A form sent from somewhere else is refused before anything is decided."""
    ref = waiting().ref
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    form = form_of(client.get(verb_of(ref, "approve")))
    assert client.post(verb_of(ref, "approve"), form).status_code == 403
    assert state_of(ref) == "awaiting_approval"


def test_approval_of_another_execution_is_refused(waiting: Any, browser: Any, ann: User) -> None:
    """A form that names the approval of another execution decides neither."""
    first, second = waiting("p1").ref, waiting("p2").ref
    client = browser(ann)
    form = form_of(client.get(verb_of(second, "approve")))
    response = client.post(verb_of(first, "approve"), form)
    assert response.status_code == 409
    assert "not one of this execution" in text_of(response)
    assert {state_of(first), state_of(second)} == {"awaiting_approval"}


@pytest.mark.django_db(transaction=True)
def test_verbs_commit_under_atomic_requests(waiting: Any, browser: Any, ann: User, settings: Any) -> None:
    """ATOMIC_REQUESTS wraps no verb's page: its commit is proven before the page answers."""
    ref, client = waiting().ref, browser(ann)
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert send(client, verb_of(ref, "approve")).status_code == 302
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert state_of(ref) == "pending"


def test_a_verb_costs_no_more_with_a_long_history(waiting: Any, browser: Any, ann: User) -> None:
    """A verb's page reads no timeline: its queries do not grow with receipts."""
    ref, client = waiting().ref, browser(ann)
    client.get(verb_of(ref, "approve"))

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(verb_of(ref, "approve"))
        return len(queries)

    first = count()
    for _ in range(5):
        effects.perform(PayOut, payload=Payout("DE89", 125_000, 1), key="p1", requested_by=str(uuid4()))
    assert count() == first
