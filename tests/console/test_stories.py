"""Stories in a real browser: an approver, a second one, an operator, an attacker; by keyboard, without scripts."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

import effects
from effects.models import Approval, Execution, Receipt
from effects.testing import provider_says, run_due, time_passes
from tests.console.chromium import Person
from tests.console.declared import Charge, PayOut
from tests.console.pages import page_of, verb_of

pytestmark = pytest.mark.django_db(transaction=True)
Seat = Callable[..., Person]
FRONT, QUEUE = "/admin/effects/", "/admin/effects/execution/needs-a-person/"


def state_of(ref: str) -> str:
    return str(Execution.objects.get(pk=ref).state)


def receipts_of(ref: str) -> list[str]:
    return list(Receipt.objects.filter(execution_id=ref).order_by("sequence").values_list("event", flat=True))


def test_approver_approves_what_they_read(seat: Seat, waiting: Any, ann: User) -> None:
    """An approver logs in, finds the payout in the queue, reads what exactly is sent, and approves it once."""
    ref = waiting().ref
    anns = seat().opens(f"/admin/login/?next={FRONT}").types("Username:", "ann").types("Password:", "x")
    anns.clicks("Log in", "button").clicks("Pay out to DE89")
    assert "1,250.00 EUR" in anns.text
    anns.clicks("Approve")
    text = anns.text
    assert "The provider bank/main is asked for “Pay out to DE89”, 1,250.00 EUR, as soon as a worker is free." in text
    assert Approval.objects.get().digest in text
    assert state_of(ref) == "awaiting_approval"
    anns.types("Comment", "seen the invoice").clicks("Approve", "button")
    assert "Your approval is recorded. Approved: 1 of 1, the licence is granted." in anns.text
    run_due()
    assert state_of(ref) == "completed"
    assert "It happened, and the proof is on file." in anns.opens(page_of(ref)).text
    assert "Waiting for your approval You may decide these, and have not yet. All of them" in anns.opens(QUEUE).text


def test_second_approver_comes_too_late(seat: Seat, waiting: Any, ann: User, ben: User) -> None:
    """Two have the page open; the first one's click decides, the second is told by whom, when, and that it was sent."""
    ref = waiting().ref
    anns, bens = seat(ann).opens(verb_of(ref, "approve")), seat(ben).opens(verb_of(ref, "approve"))
    anns.clicks("Approve", "button")
    run_due()
    bens.clicks("Approve", "button")
    assert bens.status == 409
    assert "Already approved by ann (" in bens.text
    assert "Your click changed nothing." in bens.text
    assert receipts_of(ref) == ["record", "grant", "permit", "complete"]


def test_second_approver_completes_a_quorum(seat: Seat, waiting: Any, ann: User, ben: User) -> None:
    """Of two needed the first is told that one more is, and the second's click makes it due."""
    ref = waiting(approvals=2).ref
    anns = seat(ann).opens(verb_of(ref, "approve")).clicks("Approve", "button")
    assert "It needs 1 more of 2 approvals" in anns.text
    assert state_of(ref) == "awaiting_approval"
    seat(ben).opens(QUEUE).clicks("Pay out to DE89").clicks("Approve").clicks("Approve", "button")
    assert state_of(ref) == "pending"
    run_due()
    assert "approved by ann" in anns.opens(page_of(ref)).text


def test_operator_resolves_a_lost_outcome(seat: Seat, doubtful: Any, olga: User) -> None:
    """The provider is asked and cannot tell; the operator decides by what they found, with reason and reference."""
    ref, olgas = doubtful().ref, seat(olga)
    with provider_says(PayOut, look_up=effects.Conflict("the bank shows two bookings")):
        olgas.opens(page_of(ref)).clicks("Look up now").clicks("Look up now", "button")
    assert "Handed to a person" in olgas.text
    olgas.opens(QUEUE).clicks("Pay out to DE89").clicks("Resolve")
    assert "Nothing checks your word. Look first at bank/main" in olgas.text
    olgas.ticks("Applied").types("Reason", "The statement shows it once.").types("Provider reference", "po_77")
    olgas.clicks("Resolve", "button")
    assert "Resolved. Resolved by a person, and nothing checked it: applied. It is completed." in olgas.text
    row = Execution.objects.get(pk=ref)
    assert (row.state, row.reason, row.reference) == ("completed", "operator", "po_77")


def test_operator_is_refused_what_may_still_land(seat: Seat, doubtful: Any, olga: User) -> None:
    """“Not applied” is refused while a request may still land, and what was typed stays on the page."""
    ref = doubtful().ref
    olgas = seat(olga).opens(verb_of(ref, "resolve")).ticks("Not applied").types("Reason", "no trace of it")
    olgas.clicks("Resolve", "button")
    assert olgas.status == 409
    assert "A request may still land until" in olgas.text
    assert olgas.evaluates("document.querySelector('[name=reason]').value") == "no trace of it"
    time_passes(timedelta(minutes=6))
    olgas.ticks("Not applied").clicks("Resolve", "button")
    assert state_of(ref) == "failed"


def test_attacker_reaches_nothing(seat: Seat, waiting: Any, doubtful: Any, person: Any) -> None:
    """Somebody who may only view posts to every verb, with a form stolen and with one made up: 403, nothing changes."""
    refs = [waiting().ref, doubtful().ref]
    before, approval = [receipts_of(ref) for ref in refs], Approval.objects.get()
    eves = seat(person("eve")).opens(page_of(refs[0]))
    assert eves.sees(".fx-verbs a") == 0
    stolen = {"revision": 1, "decision_id": "x", "reason": "r", "decision": "applied", "comment": "c",
              "approval": str(approval.pk), "digest": approval.digest}  # fmt: skip
    verbs = ("approve", "deny", "look-up", "resolve", "reopen", "order-resend", "withdraw", "cancel", "compensate",
             "supersede")  # fmt: skip
    assert {verb: eves.posts(verb_of(refs[0], verb), stolen) for verb in verbs} == dict.fromkeys(verbs, 403)
    # nobody was asked to approve the other one, which is all that somebody without rights learns there
    undecided = {"approve": 409, "deny": 409}
    assert {verb: eves.posts(verb_of(refs[1], verb), stolen) for verb in verbs} == {
        **dict.fromkeys(verbs, 403), **undecided
    }  # fmt: skip
    item = f"{refs[0]}:1:{approval.pk}:{approval.digest}"
    assert eves.posts(reverse("admin:effects_bulk_approve"), {"item": item}) == 200
    assert [receipts_of(ref) for ref in refs] == before


def test_attacker_without_a_token_is_refused(seat: Seat, waiting: Any, ann: User) -> None:
    """Another site's form, sent by an approver's browser, carries no token and is refused."""
    ref = waiting().ref
    anns = seat(ann).opens(verb_of(ref, "approve"))
    anns.submits_after(
        "document.querySelector('.fx-form [name=csrfmiddlewaretoken]').remove(); document.forms.length;"
        "document.querySelector('.fx-form').submit()"
    )
    assert anns.status == 403
    assert state_of(ref) == "awaiting_approval"


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [("digest", "0" * 64, 409), ("digest", "", 400), ("approval", "00000000-0000-7000-8000-000000000000", 409),
     ("approval", "x", 400), ("decision_id", "", 400), ("revision", "", 400)],
)  # fmt: skip
def test_tampered_forms_decide_nothing(
    field: str, value: str, status: int, seat: Seat, waiting: Any, ann: User
) -> None:  # fmt: skip
    """A digest, an approval or a revision that the page did not have is refused, in words."""
    ref = waiting().ref
    anns = seat(ann).opens(verb_of(ref, "approve"))
    anns.evaluates(f"document.querySelector('.fx-form [name={field}]').value = '{value}'")
    anns.clicks("Approve", "button")
    assert anns.status == status
    assert anns.sees(".errornote") >= 1
    assert state_of(ref) == "awaiting_approval"
    assert Approval.objects.get().votes.count() == 0


def test_stale_page_is_refused_and_the_fresh_one_decides(seat: Seat, waiting: Any, olga: User, ann: User) -> None:
    """A page that was opened before somebody voted cannot withdraw; it is shown anew, and then it can."""
    ref = waiting(approvals=2).ref
    olgas = seat(olga).opens(verb_of(ref, "withdraw")).types("Reason", "wrong account")
    effects.grant(ref, by=ann, digest=Approval.objects.get().digest)
    olgas.clicks("Withdraw", "button")
    assert olgas.status == 409
    assert "you saw 1; look at it again." in olgas.text
    assert "approved by ann" in olgas.text
    olgas.clicks("Withdraw", "button")
    assert state_of(ref) == "rejected"


def test_several_are_approved_together(seat: Seat, waiting: Any, ann: User, ben: User) -> None:
    """Ticked rows are listed with their total; one that changed meanwhile is left, and each is told by name."""
    refs = [waiting(f"p{n}", account=f"DE{n}", amount=1_000_00 * n).ref for n in (1, 2, 3)]
    anns = seat(ann).opens(QUEUE)
    for ref in refs:
        anns.evaluates(f"document.querySelector('[name=ref][value=\"{ref}\"]').click()")
    anns.clicks("Approve the ticked ones together…", "button")
    assert "You approve the 3 rows below, worth 6,000.00 EUR." in anns.text
    effects.deny(refs[1], by=ben, digest=Approval.objects.get(execution_id=refs[1]).digest, comment="No.")
    anns.types("Comment", "month's end").clicks("Approve: 3 rows", "button")
    assert "2 done, 1 changed meanwhile." in anns.text
    assert "Already denied by ben" in anns.text
    assert [state_of(ref) for ref in refs] == ["pending", "rejected", "pending"]


def test_what_happened_is_undone_and_what_did_not_is_asked_for_again(seat: Seat, person: Any) -> None:
    """An undoing and a second try are executions of their own: the page leads there, and says why and by whom."""
    chief = person("chief", "compensate_execution", "supersede_execution")
    payload = {"order": "A-17", "amount": 4_200}
    done = effects.perform(Charge, payload=payload, key="a", requested_by="shop").ref
    with provider_says(Charge, effects.Declined("no money")):
        failed = effects.perform(Charge, payload={**payload, "order": "A-18"}, key="b", requested_by="shop").ref
    chiefs = seat(chief).opens(page_of(done)).clicks("Undo").types("Reason", "sent back").clicks("Undo", "button")
    undoing = Execution.objects.get(compensates_id=done)
    assert chiefs.path == page_of(undoing.pk)
    assert "sent back" in chiefs.text
    assert undoing.state == "completed"
    chiefs.opens(page_of(failed)).clicks("Ask again").types("Reason", "topped up").clicks("Ask again", "button")
    successor = Execution.objects.get(supersedes_id=failed)
    assert chiefs.path == page_of(successor.pk)
    assert successor.state == "completed"
    assert "by chief" in chiefs.text


def test_everything_is_done_by_keyboard(seat: Seat, waiting: Any, ann: User) -> None:
    """From the queue to the recorded approval with the tabulator, Enter and letters; the focus can be seen."""
    ref = waiting().ref
    anns = seat(ann).opens(QUEUE)
    anns.tabs_to("Pay out to DE89").enters()
    anns.tabs_to("Approve").enters()
    anns.tabs_to("Comment").writes("read it")
    anns.tabs_to("Approve").enters()
    assert "Your approval is recorded." in anns.text
    assert Approval.objects.get().votes.get().comment == "read it"
    assert state_of(ref) == "pending"


def test_everything_works_without_scripts(seat: Seat, waiting: Any, doubtful: Any, ann: User, olga: User) -> None:
    """With JavaScript off people filter, read, approve one, approve several and resolve as they do with it."""
    refs, lost = [waiting(f"p{n}").ref for n in range(3)], doubtful().ref
    anns = seat(ann, scripts=False).opens(QUEUE + "?amount=1000").clicks("Pay out to DE89").clicks("Approve")
    anns.clicks("Approve", "button")
    assert "Your approval is recorded." in anns.text
    anns.opens(QUEUE).ticks("Tick Pay out to DE89").clicks("Approve the ticked ones together…", "button")
    anns.clicks("Approve: 1 row", "button")
    assert "1 done." in anns.text
    assert sorted(map(state_of, refs)) == ["awaiting_approval", "pending", "pending"]
    listed = seat(olga, scripts=False).opens(reverse("admin:effects_execution_changelist") + "?state=in_doubt")
    listed.clicks("Pay out to DE89").clicks("Resolve").ticks("Unknown").types("Reason", "the bank closed")
    listed.clicks("Resolve", "button")
    assert state_of(lost) == "abandoned"


def test_history_outlives_its_people(seat: Seat, waiting: Any, ann: User, ben: User) -> None:
    """After an approver's account is deleted the page still says who approved, when and what they wrote."""
    ref = waiting().ref
    effects.grant(ref, by=ann, digest=Approval.objects.get().digest, comment="seen it")
    run_due()
    ann.delete()
    text = seat(ben).opens(page_of(ref)).text
    assert "approved by ann" in text
    assert "seen it" in text
    assert state_of(ref) == "completed"
