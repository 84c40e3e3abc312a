"""Approvals: asked, voted, spent once, bound to what was seen, and all the ways in which they end unused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

import effects
from effects import transitions
from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt
from effects.runtime import background, operators
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Charge, ChargePayload, Ruled, RuledBlind
from tests.core.people import PAYLOAD, approve, asked, live, person

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
RULE = "effects.approve_execution"


@pytest.fixture
def ann() -> Any:
    """The person who asks; may approve, what others asked for."""
    return person("ann")


@pytest.fixture
def bob() -> Any:
    """The person who approves."""
    return person("bob")


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a test say the rule of `Ruled`."""
    return lambda **words: monkeypatch.setattr(Ruled, "rule", effects.ApprovalRule(approvers=RULE, **words))


def states(row: Execution) -> list[str]:
    """Return the states of the execution's approvals, oldest first."""
    return list(Approval.objects.filter(execution=row).order_by("created_at").values_list("state", flat=True))


# -- asking --------------------------------------------------------------------------------------------------------


def test_an_effect_with_a_rule_waits_for_people(ann: Any, bob: Any) -> None:
    """Nothing is sent before people decided, and what they decide about is on the approval."""
    with provider_says(Approved) as said:
        row = asked(Approved, by=ann)
        run_due()
    assert row.state == "awaiting_approval"
    assert row.due_at is None
    approval = live(row)
    assert (approval.state, approval.quorum, approval.summary["amount"]) == ("requested", 1, 1000)
    assert approval.decide_by - approval.created_at == timedelta(days=7)
    assert said.sends == []


def test_a_caller_may_demand_an_approval_where_the_effect_does_not(ann: Any, bob: Any) -> None:
    """`require_approval=True` tightens an effect without a rule."""
    with provider_says(Charge) as said:
        row = asked(Charge, by=ann, require_approval=True)
    assert live(row).approvers == RULE
    assert said.sends == []


def test_an_unknown_requester_is_refused_when_asked() -> None:
    """Nobody can be told apart from somebody unknown, so nothing is recorded."""
    person("bob")
    with pytest.raises(exceptions.NobodyEntitledError, match="requested_by"):
        effects.perform(Approved, payload=PAYLOAD, key="k1")
    assert not Execution.objects.exists()
    assert not Approval.objects.exists()


@pytest.mark.parametrize("nobody", ["", "  "])
def test_an_empty_name_is_nobodys(bob: Any, nobody: str) -> None:
    """A header that was not there is no requester who differs from every approver, and decides nothing."""
    with pytest.raises(exceptions.NobodyEntitledError, match="unknown"):
        effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=nobody)
    with pytest.raises(exceptions.ApprovalError, match="by="):
        operators.reopen(uuid4(), revision=1, by=nobody, reason="why not")


def test_an_unknown_person_cannot_join_what_others_must_approve(ann: Any, bob: Any) -> None:
    """Who joins without a name could be the approver."""
    row = asked(Approved, by=ann)
    with pytest.raises(exceptions.NobodyEntitledError, match="unknown"):
        effects.perform(Approved, payload=PAYLOAD, key="k1")
    assert Execution.objects.get() == row


def test_that_nobody_is_entitled_is_said_when_asked(ann: Any) -> None:
    """The requester is the only one with the permission: that is an error now, not an expiry in a week."""
    with pytest.raises(exceptions.NobodyEntitledError, match="Grant the permission"):
        effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    assert not Execution.objects.exists()


def test_inactive_people_do_not_count_as_entitled(ann: Any, bob: Any) -> None:
    """A deactivated account decides nothing."""
    bob.is_active = False
    bob.save()
    with pytest.raises(exceptions.NobodyEntitledError):
        effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)


def test_a_quorum_that_cannot_be_met_is_said_when_asked(ann: Any, bob: Any, rule: Any) -> None:
    """Two are needed and one is there."""
    rule(quorum=2)
    with pytest.raises(exceptions.NobodyEntitledError, match="2 approval"):
        effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by=ann)


def test_what_is_settled_is_told_even_when_nobody_is_entitled_any_more(ann: Any, bob: Any) -> None:
    """A repeated call gets the outcome, whoever left the company since."""
    row = asked(Approved, by=ann)
    with provider_says(Approved, effects.Applied("done", "ch_1")):
        approve(row, bob)
        run_due()
    bob.delete()
    again = effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    assert again.require() == "done"
    assert effects.perform(Approved, payload=PAYLOAD, key="k1").require() == "done"


def test_perform_later_waits_for_people_too(ann: Any, bob: Any) -> None:
    """It commits with the caller's rows, and is sent once approved."""
    with transaction.atomic():
        outcome = effects.perform_later(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    assert isinstance(outcome, effects.AwaitingApproval)
    row = Execution.objects.get()
    with provider_says(Approved, effects.Applied(None, "ch_1")) as said:
        run_due()
        assert said.sends == []
        approve(row, bob)
        run_due()
    assert effects.get(row.pk).state == "completed"


def test_perform_later_that_nobody_can_approve_writes_nothing(ann: Any) -> None:
    """It is refused in the caller's transaction, which can go on."""
    with transaction.atomic():
        with pytest.raises(exceptions.NobodyEntitledError):
            effects.perform_later(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
        person("carl")
    assert not Execution.objects.exists()


# -- deciding ------------------------------------------------------------------------------------------------------


def test_one_approval_is_worth_one_send_of_what_was_seen(ann: Any, bob: Any) -> None:
    """It is spent in the commit of the permit, and bound to the digest of the bytes that were sent."""
    row = asked(Approved, by=ann)
    digest = live(row).digest
    granted = approve(row, bob)
    assert granted.state == "pending"
    with provider_says(Approved, effects.Applied(None, "ch_1")) as said:
        run_due()
    approval, attempt = Approval.objects.get(), Attempt.objects.get()
    assert approval.state == "spent"
    assert attempt.approval == approval
    assert approval.spent_at == attempt.permitted_at
    assert attempt.payload_digest == row.payload_digest
    permit = Receipt.objects.get(event="permit")
    assert permit.evidence == {"attempt": 1, "approval": str(approval.pk), "digest": digest}
    assert [context.payload for context, _ in said.sends] == [PAYLOAD]


def test_a_quorum_of_two_takes_two_people(ann: Any, bob: Any, rule: Any) -> None:
    """The first vote grants nothing, and the same person cannot give the second."""
    carl = person("carl")
    rule(quorum=2)
    row = asked(Ruled, by=ann)
    assert approve(row, bob).state == "awaiting_approval"
    assert approve(row, bob).state == "awaiting_approval"
    assert ApprovalVote.objects.count() == 1
    assert approve(row, carl).state == "pending"
    assert [receipt.event for receipt in row.receipts.order_by("sequence")] == ["record", "vote", "grant"]


def test_a_double_click_is_one_vote(ann: Any, bob: Any) -> None:
    """The second click finds what the first one did."""
    row = asked(Approved, by=ann)
    digest = live(row).digest
    first = effects.grant(row.pk, by=bob, digest=digest)
    again = effects.grant(row.pk, by=bob, digest=digest)
    assert again == first
    assert ApprovalVote.objects.count() == 1


def test_a_second_approver_is_told_that_it_is_granted(ann: Any, bob: Any) -> None:
    """With a quorum of one the other click changes nothing and says so."""
    row = asked(Approved, by=ann)
    digest = live(row).digest
    approve(row, bob)
    with pytest.raises(exceptions.ApprovalError, match="granted already"):
        effects.grant(row.pk, by=person("carl"), digest=digest)
    assert effects.get(row.pk).state == "pending"


@pytest.mark.parametrize("verb", [effects.grant, effects.deny])
def test_the_requester_decides_nothing(ann: Any, bob: Any, verb: Any) -> None:
    """Who asked may neither approve nor deny."""
    row = asked(Approved, by=ann)
    with pytest.raises(exceptions.NotEntitledError, match="You asked"):
        verb(row.pk, by=ann, digest=live(row).digest)


def test_who_was_acted_for_decides_nothing(ann: Any, bob: Any) -> None:
    """A service account asks on behalf of a person: neither of them approves."""
    service = person("service")
    row = asked(Approved, by=service, on_behalf_of=ann)
    for requester in (service, ann):
        with pytest.raises(exceptions.NotEntitledError):
            approve(row, requester)
    assert approve(row, bob).state == "pending"


def test_everybody_who_joined_decides_nothing(ann: Any, bob: Any) -> None:
    """A redirect, a webhook and a task asked for the same: all three are requesters."""
    carl, dora = person("carl"), person("dora")
    row = asked(Approved, by=ann)
    asked(Approved, by=bob)
    effects.perform_later(Approved, payload=PAYLOAD, key="k1", requested_by=carl)
    for requester in (ann, bob, carl):
        with pytest.raises(exceptions.NotEntitledError):
            approve(row, requester)
    assert approve(row, dora).state == "pending"


def test_a_vote_of_somebody_who_asks_later_counts_no_more(ann: Any, bob: Any, rule: Any) -> None:
    """One of two voters joins as a requester before the second vote: a third person is needed."""
    carl, dora = person("carl"), person("dora")
    rule(quorum=2)
    row = asked(Ruled, by=ann)
    approve(row, bob)
    asked(Ruled, by=bob)
    assert approve(row, carl).state == "awaiting_approval"
    assert approve(row, dora).state == "pending"


def test_an_approver_who_asks_for_it_after_the_grant_spoils_the_licence(ann: Any, bob: Any) -> None:
    """Between grant and send the approver joined as a requester: the licence lapses, nothing is sent."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    with provider_says(Approved) as said:
        outcome = effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=bob)
    assert isinstance(outcome, effects.Rejected)
    assert outcome.reason == "lapsed"
    assert said.sends == []
    assert states(row) == ["lapsed"]


def test_without_four_eyes_the_requester_may_decide(ann: Any, rule: Any) -> None:
    """The rule says so, and then even an unknown requester is no obstacle."""
    rule(four_eyes=False)
    row = asked(Ruled, by=ann)
    assert approve(row, ann).state == "pending"
    assert isinstance(effects.perform(Ruled, payload=PAYLOAD, key="k2"), effects.AwaitingApproval)


@pytest.mark.parametrize("who", ["nobody", "bob", effects.Actor("user:1"), None])
def test_only_a_person_decides(ann: Any, bob: Any, who: Any) -> None:
    """A name, an actor or nobody is no user who is logged in."""
    row = asked(Approved, by=ann)
    with pytest.raises(exceptions.NotEntitledError, match="person who is logged in"):
        approve(row, who)


def test_a_person_without_the_permission_decides_nothing(ann: Any, bob: Any) -> None:
    """The message names the permission."""
    row = asked(Approved, by=ann)
    with pytest.raises(exceptions.NotEntitledError, match=RULE):
        approve(row, person("carl", approver=False))


def test_a_page_made_before_the_contents_changed_decides_nothing(ann: Any, bob: Any) -> None:
    """The digest of the page is not the approval's."""
    row = asked(Approved, by=ann)
    with pytest.raises(exceptions.StaleRevisionError, match="changed"):
        effects.grant(row.pk, by=bob, digest="0" * 64)


def test_bytes_changed_behind_the_digest_are_noticed(ann: Any, bob: Any) -> None:
    """Whoever writes into the row finds that the approval was one for other bytes, even if people see the same."""
    row = asked(Ruled, by=ann)
    seen = live(row)
    approve(row, bob)
    Execution.objects.filter(pk=row.pk).update(payload=row.payload.replace("c1", "c9"))
    with provider_says(Ruled) as said:
        run_due()
    assert said.sends == []
    assert states(row) == ["lapsed", "requested"]
    assert live(row).summary == seen.summary
    with pytest.raises(exceptions.ApprovalError):
        effects.grant(row.pk, by=bob, digest=seen.digest)


def test_who_approved_cannot_deny_with_a_second_click(ann: Any, bob: Any, rule: Any) -> None:
    """One person has one vote."""
    rule(quorum=2)
    person("carl")
    row = asked(Ruled, by=ann)
    approve(row, bob)
    with pytest.raises(exceptions.ApprovalError, match="decided this one before"):
        effects.deny(row.pk, by=bob, digest=live(row).digest)


def test_what_people_write_is_stored_cleaned(ann: Any, bob: Any) -> None:
    """NUL, lone surrogates and card numbers in a comment do not keep the decision from being recorded."""
    row = asked(Approved, by=ann)
    effects.deny(row.pk, by=bob, digest=live(row).digest, comment="no\x00\ud800 4242424242424242")
    vote = ApprovalVote.objects.get()
    assert "4242424242424242" not in vote.comment
    assert Execution.objects.get().failure_message == vote.comment


# -- ending unused -------------------------------------------------------------------------------------------------


def test_denied_before_the_first_send_is_rejected(ann: Any, bob: Any) -> None:
    """It was never sent, and a repeated denial is the same one."""
    row = asked(Approved, by=ann)
    digest = live(row).digest
    denied = effects.deny(row.pk, by=bob, digest=digest, comment="too much")
    assert effects.deny(row.pk, by=bob, digest=digest) == denied
    assert (denied.state, denied.reason) == ("rejected", "denied")
    assert states(row) == ["denied"]


@pytest.mark.parametrize("granted", [False, True])
def test_withdrawn_before_the_send_is_rejected(ann: Any, bob: Any, granted: bool) -> None:
    """A request for approval or an unused grant can be taken back, once."""
    row = asked(Approved, by=ann)
    if granted:
        approve(row, bob)
    withdrawn = effects.withdraw(row.pk, by=ann, reason="a mistake")
    assert (withdrawn.state, withdrawn.reason) == ("rejected", "withdrawn")
    with pytest.raises(exceptions.ApprovalError):
        effects.withdraw(row.pk, by=ann)
    with provider_says(Approved) as said:
        background.run(row.pk)
    assert said.sends == []


def test_what_was_spent_cannot_be_withdrawn(ann: Any, bob: Any) -> None:
    """The permit took it."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    with provider_says(Approved, effects.Applied()):
        run_due()
    with pytest.raises(exceptions.ApprovalError, match="spent"):
        effects.withdraw(row.pk, by=ann)


@pytest.mark.parametrize("granted", [False, True])
def test_cancelled_before_the_send_is_rejected(ann: Any, bob: Any, granted: bool) -> None:
    """The approval goes with it."""
    row = asked(Approved, by=ann)
    if granted:
        approve(row, bob)
    cancelled = effects.cancel(row.pk, by=ann, reason="order cancelled")
    assert (cancelled.state, cancelled.reason) == ("rejected", "cancelled")
    assert states(row) == ["withdrawn"]
    with pytest.raises(exceptions.WrongStateError):
        effects.cancel(row.pk, by=ann, reason="again")


def test_undecided_after_its_time_is_rejected(ann: Any, bob: Any) -> None:
    """The sweep ends it; a vote that comes too late is refused before that."""
    row = asked(Approved, by=ann)
    time_passes(timedelta(days=7))
    with pytest.raises(exceptions.ApprovalError, match="expired"):
        approve(row, bob)
    run_due()
    row.refresh_from_db()
    assert (row.state, row.reason, states(row)) == ("rejected", "approval_expired", ["expired"])


def test_a_sweep_that_comes_too_early_expires_nothing(ann: Any, bob: Any) -> None:
    """The time is compared under the lock."""
    row = asked(Approved, by=ann)
    assert transitions.expire_approval(live(row).pk).state == "awaiting_approval"


@pytest.mark.parametrize("end", [lambda row: run_due(), lambda row: background.run(row.pk)])
def test_granted_and_not_used_in_time_lapses(ann: Any, bob: Any, end: Any) -> None:
    """Whichever comes first, the sweep of approvals or the send, nothing is sent and nothing is spent."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    time_passes(DAY)
    with provider_says(Approved) as said:
        end(row)
    row.refresh_from_db()
    assert (row.state, row.reason, states(row)) == ("rejected", "lapsed", ["lapsed"])
    assert said.sends == []
    assert not Attempt.objects.exists()


def test_a_window_that_is_not_open_yet_is_waited_for(ann: Any, bob: Any, rule: Any) -> None:
    """It is due when the window opens, and its use-by counts from there."""
    opens = timezone.now() + timedelta(days=3)
    rule(not_before=opens)
    row = asked(Ruled, by=ann)
    assert approve(row, bob).due_at == opens
    with provider_says(Ruled, effects.Applied()) as said:
        run_due()
        background.run(row.pk)
        assert said.sends == []
        time_passes(timedelta(days=3))
        run_due()
    assert len(said.sends) == 1
    approval = Approval.objects.get()
    assert approval.use_by - approval.not_before == DAY


def test_a_window_is_checked_at_the_permit_itself(ann: Any, bob: Any, rule: Any) -> None:
    """A row that is due too early is put off to the window, its licence unspent."""
    rule(not_before=timezone.now() + DAY)
    row = asked(Ruled, by=ann)
    approve(row, bob)
    Execution.objects.filter(pk=row.pk).update(due_at=timezone.now() - DAY)
    with provider_says(Ruled) as said:
        background.run(row.pk)
    row.refresh_from_db()
    assert (row.state, row.due_at, states(row)) == ("pending", live(row).not_before, ["granted"])
    assert said.sends == []


@pytest.mark.parametrize("leave", ["deactivated", "deprived", "deleted"])
def test_an_approver_who_left_before_the_send_spoils_the_licence(ann: Any, bob: Any, leave: str) -> None:
    """Entitlement is asked again at the send; the default refuses."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    if leave == "deactivated":
        bob.is_active = False
        bob.save()
    elif leave == "deprived":
        bob.user_permissions.clear()
    else:
        bob.delete()
    with provider_says(Approved) as said:
        run_due()
    row.refresh_from_db()
    assert (row.state, row.reason, states(row)) == ("rejected", "lapsed", ["lapsed"])
    assert said.sends == []


# -- contents that change ------------------------------------------------------------------------------------------


def test_what_people_see_changed_after_the_approval(ann: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The approval is void, a new one shows the new contents, and only that one licenses the send."""
    row = asked(Ruled, by=ann)
    first = live(row)
    approve(row, bob)
    monkeypatch.setattr(Ruled, "price", "12.00")
    with provider_says(Ruled, effects.Applied()) as said:
        run_due()
        row.refresh_from_db()
        assert (row.state, row.reason, said.sends) == ("awaiting_approval", "contents_changed", [])
        second = live(row)
        assert (first.summary["facts"], second.summary["facts"]) == ([["price", "10.00"]], [["price", "12.00"]])
        assert second.digest != first.digest
        with pytest.raises(exceptions.ApprovalError):
            effects.grant(row.pk, by=bob, digest=first.digest)
        assert approve(row, bob).state == "pending"
        run_due()
    assert len(said.sends) == 1
    assert states(row) == ["lapsed", "spent"]


def test_not_now_needs_a_new_approval(ann: Any, bob: Any) -> None:
    """A licence is worth one send; the second one is asked for anew, under the same provider key."""
    row = asked(Approved, by=ann)
    with provider_says(Approved, effects.NotNow("busy"), effects.Applied()) as said:
        approve(row, bob)
        run_due()
        assert effects.get(row.pk).state == "pending"
        time_passes(timedelta(minutes=1))
        run_due()
        assert effects.get(row.pk).state == "awaiting_approval"
        approve(row, bob)
        run_due()
    assert effects.get(row.pk).state == "completed"
    assert states(row) == ["spent", "spent"]
    assert len({permit.provider_key for _, permit in said.sends}) == 1


def test_not_now_needs_no_new_approval_where_the_rule_covers_retries(ann: Any, bob: Any, rule: Any) -> None:
    """All sends carry the one licence, whose digest says that it covers them."""
    rule(covers_retries=True)
    row = asked(Ruled, by=ann)
    with provider_says(Ruled, effects.NotNow("busy"), effects.NotNow("busy"), effects.Applied()) as said:
        approve(row, bob)
        for _ in range(3):
            run_due()
            time_passes(timedelta(minutes=1))
    assert len(said.sends) == 3
    assert set(Attempt.objects.values_list("approval", flat=True)) == {Approval.objects.get().pk}


@pytest.mark.parametrize("change", ["contents", "window", "approver"])
def test_a_licence_that_covers_retries_covers_nothing_else(
    ann: Any, bob: Any, rule: Any, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Before the second send contents, use-by and approvers are checked again; then people are asked anew."""
    person("carl")
    rule(covers_retries=True)
    row = asked(Ruled, by=ann)
    with provider_says(Ruled, effects.NotNow("busy")) as said:
        approve(row, bob)
        run_due()
        time_passes(DAY if change == "window" else timedelta(minutes=1))
        if change == "contents":
            monkeypatch.setattr(Ruled, "price", "12.00")
        if change == "approver":
            bob.user_permissions.clear()
        run_due()
    assert len(said.sends) == 1
    assert states(row) == ["spent", "requested"]
    assert dict(live(row).summary["facts"])["price"] == ("12.00" if change == "contents" else "10.00")


def test_in_doubt_then_absent_is_approved_again_under_the_same_provider_key(ann: Any, bob: Any) -> None:
    """Doubt spends the licence too; the key at the provider stays, so that a late first request is the same one."""
    row = asked(Approved, by=ann)
    answers = (TimeoutError("t"), effects.Applied())
    with provider_says(Approved, *answers, look_up=effects.Absent()) as said:
        approve(row, bob)
        run_due()
        time_passes(timedelta(minutes=1))
        run_due()
        row.refresh_from_db()
        assert (row.state, len(said.sends)) == ("awaiting_approval", 1)
        approve(row, bob)
        run_due()
    assert effects.get(row.pk).state == "completed"
    assert {permit.provider_key for _, permit in said.sends} == {row.provider_key}


def test_denied_after_a_send_that_is_proven_absent_is_failed(ann: Any, bob: Any) -> None:
    """`rejected` says never sent, and this was."""
    row = asked(Approved, by=ann)
    with provider_says(Approved, effects.NotNow("busy")):
        approve(row, bob)
        run_due()
        time_passes(timedelta(minutes=1))
        run_due()
        denied = effects.deny(row.pk, by=bob, digest=live(row).digest)
    assert (denied.state, denied.reason) == ("failed", "denied")
    assert not denied.may_have_applied


def test_a_licence_is_no_reason_to_send_again_what_is_in_doubt(ann: Any, bob: Any) -> None:
    """Even one that covers retries covers them until one is not proven absent: then a person decides."""
    row = asked(RuledBlind, by=ann)
    with provider_says(RuledBlind, TimeoutError("t")) as said:
        approve(row, bob)
        run_due()
        time_passes(timedelta(minutes=10))
        run_due()
    row.refresh_from_db()
    assert (row.state, row.reason, len(said.sends)) == ("needs_intervention", "no_plan", 1)


def test_evidence_that_it_happened_ends_a_request_for_approval(ann: Any, bob: Any) -> None:
    """Nobody approves a send of what happened already."""
    row = asked(Approved, by=ann)
    approve(row, bob)
    operators.observe(row.pk, reference="ch_9", evidence={"from": "statement"})
    row.refresh_from_db()
    assert (row.state, states(row)) == ("needs_intervention", ["lapsed"])


def test_every_summary_column_follows_the_contents(ann: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lists filter and total by is what the approver is shown."""
    row = asked(Ruled, by=ann)
    approve(row, bob)
    monkeypatch.setattr(
        Ruled, "describe", lambda self, context: effects.Summary("Other", {}, 777, "usd", target="acct_2")
    )
    with provider_says(Ruled):
        run_due()
    row.refresh_from_db()
    assert (row.amount, row.currency, row.target) == (777, "usd", "acct_2")
    assert live(row).summary["title"] == "Other"


def test_another_payload_never_meets_an_approved_key(ann: Any, bob: Any) -> None:
    """The approval stands for one amount."""
    asked(Approved, by=ann)
    with pytest.raises(exceptions.PayloadConflictError):
        effects.perform(Approved, payload=ChargePayload("c1", 9000), key="k1", requested_by=ann)


def test_who_demands_an_approval_does_not_give_it(ann: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`require_approval=True` also turns on four eyes where the effect's own rule does without."""
    monkeypatch.setattr(Ruled, "rule", effects.ApprovalRule(approvers=RULE, four_eyes=False))
    lax, strict = asked(Ruled, by=ann), asked(Ruled, by=ann, key="k2", require_approval=True)
    assert approve(lax, ann).state == "pending"
    with pytest.raises(exceptions.NotEntitledError, match="You asked for this one"):
        approve(strict, ann)
    assert approve(strict, bob).state == "pending"


@pytest.mark.parametrize(
    ("attributes", "words"),
    [({"proposable_by": "propose"}, "permission"), ({"proposable_by": "a.propose"}, "dataclass")],
)
def test_what_may_be_proposed_says_who_may_and_what_is_in_it(attributes: dict[str, Any], words: str) -> None:
    """A permission, and a payload that is a dataclass: clients write it."""
    base = Ruled if words == "permission" else effects.Effect
    body = {"operation": "bank.proposed", "provider": "bank", "send": lambda self, context, permit: None, **attributes}
    with pytest.raises(exceptions.EffectDefinitionError, match=words):
        effects.register(type("Proposed", (base,), body))
