"""Stories in which people decide, through the admin's own pages."""

from __future__ import annotations

from datetime import timedelta

from effects.models import Execution
from effects.testing import time_passes
from project.demo.browsers import Browser, Page
from project.demo.stage import Stage, Telling, counted, new_key
from project.payments.models import Payout

__all__ = ["AWAITING", "approve", "large_refund", "nobody_can_tell", "verb_page"]

AWAITING = "202 awaiting approval"


def large_refund(stage: Stage, told: Telling) -> None:
    """Ask for a large refund; another person approves it an hour later, and a second approver comes too late."""
    order, key, client = stage.paid_order(150_000), new_key(), stage.client
    path, data = f"/orders/{order.pk}/refunds/", {"amount": 150_000}
    stage.note("a refund of 1500 € needs a person")
    first = client.post(path, data, key)
    execution = stage.execution_about(order)
    told.expect(not stage.provider.refunds(order.number), "it was sent before anybody approved it")
    stage.note("an hour passes: the journal is made that much older")
    time_passes(timedelta(hours=1))
    waiting = client.post(path, data, key)
    stage.note("Maria and Omar look at it; Maria approves first")
    maria, omar = stage.browser(stage.people.approver), stage.browser(stage.people.colleague)
    late = verb_page(omar, execution, "approve")
    approve(maria, execution)
    last = client.insist(path, data, key)
    stage.note("Omar clicks too, on a page that is old by now")
    refused = omar.submit(late, late.form("digest"), {"comment": "Fine with me too."})
    again = client.post(path, data, key)
    approval = execution.approvals.get()
    told.happened = (
        "1500 € need another person. An hour later Maria approves in the admin, and Celery sends it. Omar clicks a "
        "moment later, on a page that is old by then: "
        f"{'nothing changes' if _changed_nothing(execution) else 'IT COUNTS AS WELL'}."
    )
    told.saw = (
        first.words,
        f"an hour later: {waiting.status}",
        f"approved: {last.words}",
        "again: the same bytes",
    )
    told.expect_answer(first, AWAITING)
    told.expect_answer(waiting, AWAITING)
    told.expect_replayed(stage, key, again)
    told.expect(approval.state == "spent", f"the approval is {approval.state}, not spent")
    told.expect("changed nothing" in refused.text, "the second approver was not told that the click changed nothing")
    told.expect(_changed_nothing(execution), "the second approver's click changed something")
    told.expect_one_refund(stage, order)


def nobody_can_tell(stage: Stage, told: Telling) -> None:
    """Lose the answer of a provider that cannot be asked; a person finds out and says so in the admin."""
    key, client, data = new_key(), stage.client, {"amount": 75_000, "currency": "eur"}
    before = {payout.id for payout in stage.provider.payouts()}
    stage.faults.add("lose_reply", method="POST", path="/v1/payouts")
    stage.note("the reply is lost, and this provider cannot be asked")
    first = client.post("/payouts/", data, key)
    execution = stage.execution_of(str(first.data["operation_ref"]))
    stage.wait_until("a person is asked", lambda: _state(execution) == "needs_intervention")
    stage.note("Maria finds it in the bank's statement and says so")
    (found,) = [payout for payout in stage.provider.payouts() if payout.id not in before]
    browser = stage.browser(stage.people.approver)
    page = verb_page(browser, execution, "resolve")
    said = {"decision": "applied", "reference": found.id, "reason": "It is in the bank's statement of today."}
    decided = browser.submit(page, page.form("decision_id"), said)
    last = client.insist("/payouts/", data, key)
    again = client.post("/payouts/", data, key)
    payouts = Payout.objects.filter(stripe_id=found.id)
    told.happened = (
        "The reply to a payout is lost, and this provider cannot be asked: it waits for a person and is never sent "
        f"again. Maria finds {found.id} in the bank's statement and resolves it in the admin."
    )
    told.saw = (first.words, f"resolved: {last.words}", "again: the same bytes")
    told.provider = counted(len(stage.provider.payouts()) - len(before), "payout")
    told.shop = counted(len(payouts), "payout")
    told.expect_answer(first, "409 uncertain")
    told.expect("Resolved." in decided.said, f"the admin answered {decided.status}: {decided.said}")
    told.expect_replayed(stage, key, again)
    told.expect(last.data.get("stripe_id") == found.id, "the answer does not name what the person found")
    told.expect(_state(execution) == "completed", f"it is {_state(execution)}")
    told.expect(len(payouts) == 1, f"the shop has {counted(len(payouts), 'payout')} of it")
    told.expect(len(stage.faults.sends(method="POST", path="/v1/payouts")) == 1, "it was sent more than once")


def verb_page(browser: Browser, execution: Execution, verb: str) -> Page:
    """Open the page on which a person decides about an execution."""
    return browser.open(f"/admin/effects/execution/{execution.pk}/{verb}/")


def approve(browser: Browser, execution: Execution) -> Page:
    """Approve an execution on its page."""
    page = verb_page(browser, execution, "approve")
    return browser.submit(page, page.form("digest"), {"comment": "Agreed with the customer."})


def _changed_nothing(execution: Execution) -> bool:
    """Tell whether one vote, one approval and one send is all that there is."""
    approval = execution.approvals.get()
    return approval.votes.count() == 1 and execution.attempt_rows.count() == 1


def _state(execution: Execution) -> str:
    return Execution.objects.values_list("state", flat=True).get(pk=execution.pk)
