"""Where a decision could go wrong: other evidence, stale pages, hidden findings, second sends, unchecked words."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse

import effects
from effects.models import Approval, Execution, Receipt, Resolution
from effects.testing import provider_says, run_due, time_passes
from tests.console.declared import Charge, PayOut, Payout
from tests.console.pages import form_of, page_of, send, text_of, verb_of
from tests.console.test_pages import make_request

pytestmark = pytest.mark.django_db
SAW = "I have seen it on the statement of May 4th"
TITLE = "I have evidence that says otherwise"
TWO = effects.Conflict("two refunds under our key: re_1 and re_2", "re_1, re_2", {"references": ["re_1", "re_2"]})


@pytest.fixture
def beth(person: Callable[..., User]) -> User:
    """Somebody from accounts, who has bank statements and decides nothing."""
    return person("beth", "observe_execution")


@pytest.fixture
def chief(person: Callable[..., User]) -> User:
    """Decides everything but evidence, and approves nothing."""
    return person("chief", "resolve_execution", "order_resend_execution", "supersede_execution", "compensate_execution")


@pytest.fixture
def disputed(doubtful: Any) -> Callable[..., str]:
    """Make an execution whose look-up found two refunds."""

    def make(key: str = "d1", **fields: Any) -> str:
        ref: str = doubtful(key, **fields).ref
        time_passes(timedelta(minutes=6))
        with provider_says(PayOut, look_up=TWO):
            effects.look_up_now(ref)
        return ref

    return make


def decided(ref: str, decision: str, **options: Any) -> str:
    """Have zoe decide what became of it."""
    time_passes(timedelta(minutes=6))
    row = Execution.objects.get(pk=ref)
    effects.resolve(ref, decision=decision, revision=row.revision, by="zoe", reason="the bank told me", **options)
    return ref


def state_of(ref: str) -> str:
    return str(Execution.objects.get(pk=ref).state)


# -- evidence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "statement"),
    [("not_applied", "applied"), ("unknown", "applied"), ("applied", "not_applied"), ("undone", "applied")],
)
def test_what_was_decided_wrongly_has_a_way_back(
    decision: str, statement: str, doubtful: Any, browser: Any, beth: User, olga: User
) -> None:
    """The settled page offers evidence to whoever may bring some; then it needs a person, who is told what was said."""
    ref, client = decided(doubtful().ref, decision), browser(beth)
    assert TITLE in text_of(client.get(page_of(ref)))
    response = send(client, verb_of(ref, "evidence"), statement=statement, reason=SAW, reference="po_9")
    assert response.status_code == 302
    assert state_of(ref) == "needs_intervention"
    text = text_of(client.get(page_of(ref)))
    assert "Your evidence is recorded. Contradicted: it is a person's now. It is needs intervention." in text
    assert SAW in text
    assert SAW in text_of(browser(olga).get(verb_of(ref, "resolve")))


def test_what_cannot_be_said_is_said_beforehand(browser: Any, beth: User) -> None:
    """Of a provider's own "applied" the page says that "not applied" is no evidence; sent all the same it is 409."""
    ref = effects.perform(Charge, payload={"order": "A-1", "amount": 900}, key="c", requested_by="clerk").ref
    client = browser(beth)
    assert "That it did not happen cannot be said here: the provider's own proof" in text_of(
        client.get(verb_of(ref, "evidence"))
    )
    response = send(client, verb_of(ref, "evidence"), statement="not_applied", reason=SAW)
    assert response.status_code == 409
    assert SAW in response.content.decode()
    assert state_of(ref) == "completed"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"statement": "applied", "reason": SAW}, "tick that there is none"),
        ({"statement": "undone", "reason": SAW}, "tick that there is none"),
        ({"statement": "applied", "reason": SAW, "reference": "x", "no_reference": "on"}, "take one of the two away"),
        ({"statement": "applied", "reference": "x"}, "This field is required"),
        ({"reason": SAW, "reference": "x"}, "This field is required"),
    ],
)
def test_incomplete_evidence_is_refused(
    typed: dict[str, str], said: str, doubtful: Any, browser: Any, beth: User
) -> None:
    """A reference, or the word that there is none; what it says; and what was seen."""
    ref = decided(doubtful().ref, "unknown")
    response = send(browser(beth), verb_of(ref, "evidence"), **typed)
    assert response.status_code == 400
    assert said in text_of(response)
    assert state_of(ref) == "abandoned"


def test_evidence_is_not_brought_while_it_is_sent(doubtful: Any, browser: Any, beth: User) -> None:
    """The page asks to wait until the send has ended."""
    ref = doubtful().ref
    Execution.objects.filter(pk=ref).update(
        state="executing", open_attempts=1, lease_expires_at="2099-01-01T00:00Z"
    )  # fmt: skip
    assert "It is being sent just now." in text_of(browser(beth).get(verb_of(ref, "evidence")))


@pytest.mark.parametrize("reach", ["its own page", "the page of an approver"])
def test_asking_again_of_what_a_person_declared_failed_warns(
    reach: str, doubtful: Any, browser: Any, chief: User, ann: User, ben: User
) -> None:
    """Whoever asks again, and whoever approves that, is told that nothing checked it and what it costs if wrong."""
    ref = doubtful(approvals=0).ref
    decided(ref, "not_applied")
    warned = "That it did not happen is what zoe said on"
    if reach == "its own page":
        text = text_of(browser(chief).get(verb_of(ref, "supersede")))
    else:
        payload = Payout("DE89", 5000)
        again = effects.perform(
            PayOut, payload=payload, key="d1", requested_by="clerk", supersede=ref, require_approval=True
        )
        text = text_of(browser(ann).get(verb_of(again.ref, "approve")))
    assert warned in text
    assert "If that is wrong, this does it a second time." in text


def test_asking_again_of_what_the_provider_declined_does_not_warn(browser: Any, chief: User) -> None:
    """The control: a provider's own answer is proof."""
    with provider_says(Charge, effects.Declined("no")):
        ref = effects.perform(Charge, payload={"order": "A", "amount": 9}, key="c", requested_by="clerk").ref
    assert "nothing checked it" not in text_of(browser(chief).get(verb_of(ref, "supersede")))


def test_undoing_what_a_person_said_warns(browser: Any, chief: User) -> None:
    """Taking back what never was is money, too."""
    with provider_says(Charge, TimeoutError()):
        ref = effects.perform(Charge, payload={"order": "A", "amount": 9}, key="c", requested_by="clerk").ref
    decided(ref, "applied", reference="ch_1")
    text = text_of(browser(chief).get(verb_of(ref, "compensate")))
    assert "That it happened is what zoe said, and nothing checked it" in text


# -- stale pages -----------------------------------------------------------------------------------------------------


def test_two_people_resolve_the_same(doubtful: Any, browser: Any, person: Any) -> None:
    """The second one's words stay, the first one's decision is shown, and his words become evidence by one click."""
    ref = doubtful().ref
    time_passes(timedelta(minutes=6))
    client = browser(person("otto", "resolve_execution", "observe_execution"))
    opened = client.get(verb_of(ref, "resolve"))
    decided(ref, "unknown")
    typed = {"decision": "applied", "reason": SAW, "reference": "po_9", "output": '{"id": 7}'}
    response = client.post(verb_of(ref, "resolve"), {**form_of(opened), **typed})
    text = text_of(response)
    assert response.status_code == 409
    for said in ("you saw", "What changed since you opened the page", "unknown by zoe", "the bank told me",
                 "What you typed", SAW, "po_9", '{"id": 7}', "It happened. It completes", TITLE):  # fmt: skip
        assert said in text
    evidence = {**form_of(response), "statement": "applied", "reason": SAW, "reference": "po_9"}
    assert f'action="{verb_of(ref, "evidence")}"' in response.content.decode()
    assert client.post(verb_of(ref, "evidence"), evidence).status_code == 302
    assert state_of(ref) == "needs_intervention"


def test_without_the_permission_the_words_stay_all_the_same(doubtful: Any, browser: Any, olga: User) -> None:
    """Whoever may bring no evidence keeps their words to hand them on."""
    ref, client = doubtful().ref, browser(olga)
    opened = client.get(verb_of(ref, "resolve"))
    decided(ref, "unknown")
    response = client.post(
        verb_of(ref, "resolve"), {**form_of(opened), "decision": "applied", "reason": SAW, "reference": "x"}
    )
    assert SAW in text_of(response)
    assert "Bring it as evidence" not in response.content.decode()


@pytest.mark.parametrize("verb", ["approve", "deny", "withdraw", "cancel", "reopen", "order-resend", "supersede"])
def test_each_verb_keeps_the_words_of_a_page_that_is_too_late(
    verb: str, waiting: Any, doubtful: Any, browser: Any, person: Any
) -> None:
    """Whatever became of the row: the words are on the page that refuses them, with what changed since."""
    root = User.objects.create_superuser("root", password="x")
    client = browser(root)
    if verb in ("approve", "deny", "withdraw"):
        ref = waiting().ref
    elif verb == "cancel":
        with transaction.atomic():
            ref = effects.perform_later(PayOut, payload=Payout("DE89", 500), key="p", requested_by="clerk").ref
    elif verb == "supersede":
        ref = decided(doubtful().ref, "not_applied")
    else:
        ref = doubtful().ref
        Execution.objects.filter(pk=ref).update(state="needs_intervention", reason="budget_spent", due_at=None)
    form = form_of(client.get(verb_of(ref, verb)))
    if verb in ("reopen", "order-resend"):
        decided(ref, "unknown")
    else:
        effects.observe(ref, reference="po_7", evidence={"from": "a statement"})
    response = client.post(verb_of(ref, verb), {**form, "reason": SAW, "comment": SAW})
    assert response.status_code == 409
    assert SAW in text_of(response)
    assert "What changed since you opened the page" in text_of(response)


def test_what_is_still_possible_is_decided_anew_with_the_words_kept(doubtful: Any, browser: Any, olga: User) -> None:
    """Evidence came meanwhile: the page shows it, keeps all that was typed, and decides on the new revision."""
    ref, client = doubtful().ref, browser(olga)
    opened = client.get(verb_of(ref, "resolve"))
    effects.observe(ref, reference="po_7", evidence={"from": "a statement"})
    typed = {"decision": "applied", "reason": SAW, "reference": "po_7"}
    response = client.post(verb_of(ref, "resolve"), {**form_of(opened), **typed})
    body = response.content.decode()
    assert response.status_code == 409
    assert "Evidence from elsewhere kept" in text_of(response)
    assert SAW in body
    assert 'value="po_7"' in body
    assert client.post(verb_of(ref, "resolve"), {**form_of(response), **typed}).status_code == 302


def test_the_words_about_a_request_stay(browser: Any, olga: User) -> None:
    """A request that another person closed meanwhile refuses the second decision, and shows both."""
    row, client = make_request("r1"), browser(olga)
    address = verb_of(row.pk, "resolve", "request")
    form = form_of(client.get(address))
    effects.runtime.operators.resolve_request(
        row.pk, decision="unknown", revision=row.revision, by="zoe", reason="no trace"
    )
    response = client.post(address, {**form, "decision": "applied", "reason": SAW})
    assert response.status_code == 409
    for said in (SAW, "What changed since you opened the page", "no trace"):
        assert said in text_of(response)


def test_a_bulk_vote_keeps_its_comment(waiting: Any, browser: Any, person: Any, ben: User) -> None:
    """A row that changed says what changed; it is looked at again with the comment, and only then decided."""
    anna = person("anna", "approve_execution")
    refs = [waiting(key, approvals=2).ref for key in ("p1", "p2")]
    client, address = browser(anna), reverse("admin:effects_bulk_approve")
    opened = client.get(address, {"ref": refs})
    items = re.findall(r'name="item" value="([^"]+)"', opened.content.decode())
    effects.grant(refs[0], by=ben, digest=Approval.objects.get(execution_id=refs[0]).digest)
    response = client.post(address, {"item": items, "comment": SAW})
    text = text_of(response)
    assert "1 done, 1 changed meanwhile" in text
    assert "Since then, the newest first: Approved: 1 of 2 by ben." in text
    assert SAW in text
    looked = client.post(address, {"again": [refs[0]], "comment": SAW})
    assert SAW in looked.content.decode()
    items = re.findall(r'name="item" value="([^"]+)"', looked.content.decode())
    assert "1 done" in text_of(client.post(address, {"item": items, "comment": SAW}))
    long = client.post(address, {"item": items, "comment": "x" * 3000})
    assert long.status_code == 400
    assert "x" * 3000 in long.content.decode()


def test_receipts_stay_closed_to_approvers(waiting: Any, browser: Any, person: Any, ben: User) -> None:
    """Receipts are not theirs who may only vote, on a stale page either; their words stay."""
    nora = person("nora", "approve_execution", views=False)
    ref, client = waiting(approvals=2).ref, browser(nora)
    form = form_of(client.get(verb_of(ref, "approve")))
    effects.grant(ref, by=ben, digest=Approval.objects.get().digest, comment="between us")
    response = client.post(verb_of(ref, "approve"), {**form, "comment": SAW})
    assert response.status_code == 409
    assert SAW in response.content.decode()
    assert "What changed since" not in text_of(response)


# -- findings and second sends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["resolve", "order-resend", "reopen", "evidence"])
def test_what_was_found_stands_where_it_is_decided(verb: str, disputed: Any, browser: Any, person: Any) -> None:
    """The last look-up's words and both references stand on the page; later evidence beside them."""
    ref = disputed()
    root = browser(User.objects.create_superuser("root", password="x"))
    text = text_of(root.get(verb_of(ref, verb)))
    for said in ("What was found last", "two refunds under our key: re_1 and re_2", "References at the provider",
                 "re_1 , re_2"):  # fmt: skip
        assert said in text
    effects.observe(ref, reference="re_3", evidence={})
    assert "re_3" in text_of(root.get(verb_of(ref, verb)))


def test_approvers_of_a_second_send_see_what_was_found(waiting: Any, browser: Any, ann: User, ben: User) -> None:
    """They decide whether it is sent again beside two refunds."""
    ref = waiting().ref
    effects.grant(ref, by=ann, digest=Approval.objects.get().digest)
    with provider_says(PayOut, TimeoutError()):
        run_due()
    time_passes(timedelta(minutes=6))
    with provider_says(PayOut, look_up=TWO):
        effects.look_up_now(ref)
    effects.order_resend(ref, by="zoe", reason="pay", revision=Execution.objects.get(pk=ref).revision)
    assert "two refunds under our key" in text_of(browser(ben).get(verb_of(ref, "approve")))


@pytest.mark.parametrize(
    ("typed", "status"),
    [("1,250.00 EUR", 302), ("1250,00", 302), ("", 400), ("1250", 400), ("1,250.01 EUR", 400), ("yes", 400)],
)
def test_after_a_conflict_the_amount_is_typed(
    typed: str, status: int, disputed: Any, browser: Any, chief: User
) -> None:
    """Whoever has it sent again beside two refunds types what it costs; anything else orders nothing."""
    ref = disputed(amount=125_000)
    response = send(browser(chief), verb_of(ref, "order-resend"), reason=SAW, confirm=typed)
    assert response.status_code == status
    assert Receipt.objects.filter(event="order_resend").exists() == (status == 302)


def test_the_conflict_is_remembered_after_a_reopening(disputed: Any, browser: Any, chief: User) -> None:
    """A budget that was spent since clears nothing up; without a conflict nothing has to be typed."""
    ref = disputed()
    effects.reopen(ref, by="zoe", reason="look again", revision=Execution.objects.get(pk=ref).revision)
    Execution.objects.filter(pk=ref).update(state="needs_intervention", reason="budget_spent", due_at=None)
    assert "Type the amount again" in text_of(browser(chief).get(verb_of(ref, "order-resend")))
    with pytest.raises(effects.vocabulary.exceptions.WrongStateError, match="its amount in minor units"):
        effects.order_resend(ref, by="zoe", reason="pay", revision=Execution.objects.get(pk=ref).revision)


# -- unchecked words ---------------------------------------------------------------------------------------------------


def test_a_resolution_asks_for_the_reference(doubtful: Any, browser: Any, olga: User) -> None:
    """Of what happened: the reference, or a tick that there is none; the one on file is filled in."""
    ref, client = doubtful().ref, browser(olga)
    for decision in ("applied", "undone"):
        response = send(client, verb_of(ref, "resolve"), decision=decision, reason=SAW)
        assert response.status_code == 400
        assert "tick that there is none" in text_of(response)
    assert state_of(ref) == "uncertain"
    effects.observe(ref, reference="po_7", evidence={})
    assert 'value="po_7"' in client.get(verb_of(ref, "resolve")).content.decode()
    assert send(client, verb_of(ref, "resolve"), decision="applied", reason=SAW, no_reference="on").status_code == 302
    assert effects.get(ref).reference == "po_7"


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ("applied", "It happened, as zoe said on"), ("undone", "It happened, as zoe said on"),
        ("not_applied", "It did not happen, as zoe said on"), ("unknown", "as zoe decided on"),
    ],
)  # fmt: skip
def test_the_page_says_whose_word_it_is(decision: str, said: str, doubtful: Any, browser: Any, olga: User) -> None:
    """No proof is claimed that nobody has, and the timeline says so too."""
    text = text_of(browser(olga).get(page_of(decided(doubtful().ref, decision))))
    assert said in text
    assert "nothing checked it" in text
    assert "the proof is on file" not in text
    assert "Resolved by a person, and nothing checked it" in text
    assert Resolution.objects.get().actor_label == "zoe"


def test_a_provider_s_proof_stays_proof(doubtful: Any, browser: Any, olga: User) -> None:
    """The control: resolved beside proof that a program has, it is on file."""
    ref = doubtful().ref
    effects.observe(ref, reference="po_7", evidence={"from": "a webhook"})
    decided(ref, "applied")
    assert "It happened, and the proof is on file." in text_of(browser(olga).get(page_of(ref)))
