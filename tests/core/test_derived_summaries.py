"""What people are shown of an execution that undoes another one, asks again for it, or sends it a second time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import effects
from effects.journal.snapshots import context_of
from effects.journal.summaries import of_purpose, summary_of
from effects.models import Approval, Execution, Receipt
from effects.runtime import background
from effects.testing import provider_says
from effects.vocabulary import exceptions
from effects.vocabulary.states import ApprovalPurpose
from tests.core.people import approve, live, person

pytestmark = pytest.mark.django_db
DECLINED = effects.Declined("no", code="card_declined")


@dataclass(frozen=True)
class Fee:
    """What is charged."""

    order: str
    amount: int
    title: str = "Charge for 17"


@effects.register
class Deed(effects.Effect[Fee]):
    """Asks people each time, and says the same of a deed and of its undoing."""

    operation = "derived.charge"
    provider = "bank/derived"
    reversible = True
    lookup = effects.Eventual(quiet=timedelta(minutes=5))

    def send(self, context: Any, permit: Any) -> Any:
        return effects.Applied({"id": "ch_1"}, "ch_1")

    compensate = send

    def verify(self, context: Any) -> Any:
        return effects.Inconclusive("not asked")

    def approval(self, context: Any) -> effects.ApprovalRule:
        return effects.ApprovalRule("effects.approve_execution")

    def describe(self, context: Any) -> effects.Summary:
        return effects.Summary(context.payload.title, {"Order": context.payload.order}, context.payload.amount, "eur")


@pytest.fixture(autouse=True)
def bob() -> Any:
    """Who approves."""
    return person("bob")


def asked(title: str = "Charge for 17", key: str = "order-17") -> Execution:
    """Ask for a deed."""
    outcome = effects.perform(Deed, payload=Fee("17", 5000, title), key=key, requested_by="ann")
    return Execution.objects.get(pk=outcome.ref)


def done(bob: Any, answer: Any = None, **options: Any) -> Execution:
    """Return a deed that was approved and sent."""
    row = asked(**options)
    with provider_says(Deed, answer or effects.Applied({"id": "ch_1"}, "ch_1")):
        approve(row, bob)
        background.run(row.pk)
    return Execution.objects.get(pk=row.pk)


def undone(bob: Any, answer: Any = None, **options: Any) -> tuple[Execution, Execution]:
    """Return a deed, and its undoing, which waits for people."""
    row = done(bob, answer, **options)
    return row, Execution.objects.get(pk=effects.compensate(row.pk, requested_by="zoe").ref)


def succeeded(bob: Any) -> tuple[Execution, Execution]:
    """Return a deed that was declined, and its successor, which waits for people."""
    row = done(bob, DECLINED)
    return row, Execution.objects.get(pk=effects.supersede(row.pk, requested_by="zoe", reason="new card").ref)


def undone_again(bob: Any) -> tuple[Execution, Execution]:
    """Return an undoing that was denied, and the one that asks for it again."""
    _deed, undoing = undone(bob)
    effects.deny(undoing.pk, by=bob, digest=live(undoing).digest, comment="why?")
    return undoing, Execution.objects.get(pk=effects.supersede(undoing.pk, requested_by="zoe", reason="because").ref)


def performed_again(bob: Any) -> tuple[Execution, Execution]:
    """Return a deed that was declined, and the one that code performs in its place."""
    row = done(bob, DECLINED)
    outcome = effects.perform(
        Deed, payload=Fee("17", 4000), key="order-17", supersede=row.pk, requested_by="ann"
    )  # fmt: skip
    return row, Execution.objects.get(pk=outcome.ref)


@pytest.mark.parametrize(
    ("derive", "title", "fact"),
    [
        (undone, "Undo: Charge for 17", ["Undoes", "Charge for 17, ref {ref}"]),
        (succeeded, "Again: Charge for 17",
         ["Asked again after", "Charge for 17 (failed: card declined), ref {ref}"]),
        (performed_again, "Again: Charge for 17",
         ["Asked again after", "Charge for 17 (failed: card declined), ref {ref}"]),
        (undone_again, "Again: Undo: Charge for 17",
         ["Asked again after", "Undo: Charge for 17 (rejected: denied), ref {ref}"]),
    ],
)  # fmt: skip
def test_what_is_derived_says_so_before_people_decide(derive: Callable[[Any], Any], title: str, fact: list[str],
                                                      bob: Any) -> None:  # fmt: skip
    """In the title, in a fact that names the other execution, and on the approval; the effect's own facts follow."""
    other, row = derive(bob)
    approval = live(row)
    assert approval.summary == row.summary
    assert row.summary["title"] == title
    assert [fact[0], fact[1].format(ref=other.pk)] in row.summary["facts"]
    assert row.summary["facts"][-1] == ["Order", "17"]
    evidence = Receipt.objects.get(execution=row, event="record").evidence
    assert str(other.pk) in (evidence.get("compensates"), evidence.get("supersedes"))


@pytest.mark.parametrize("derive", [undone, succeeded, performed_again, undone_again])
def test_an_approval_of_a_deed_is_none_of_what_is_derived_from_it(derive: Callable[[Any], Any], bob: Any) -> None:
    """Their digests differ, although `describe` says the same of both; the wrong one is refused."""
    other, row = derive(bob)
    before = Approval.objects.filter(execution=other).latest("pk")
    assert before.digest != live(row).digest
    assert row.summary_digest != other.summary_digest
    with pytest.raises(exceptions.StaleRevisionError):
        effects.grant(row.pk, by=bob, digest=before.digest)
    # computed again before the permit it is the same, and the approval holds
    approve(row, bob)
    background.run(row.pk)
    assert Execution.objects.get(pk=row.pk).state == "completed"


def test_the_same_key_and_contents_have_another_digest_where_they_undo(bob: Any) -> None:
    """What is digested holds the relation itself: not the undoing's own key alone tells them apart."""
    row, undoing = undone(bob)
    plain = summary_of(Deed(), context_of(row, Fee("17", 5000)))
    shown = summary_of(Deed(), context_of(undoing, Fee("17", 5000)))
    assert plain == row.summary
    assert shown == undoing.summary
    assert shown != plain


def test_an_undoing_of_what_happened_in_part_says_which_part(bob: Any) -> None:
    """The amount is the whole one's; the fact says how many of its items happened."""
    part = effects.Partial([effects.Item("a", applied=True), effects.Item("b", applied=False)])
    row, undoing = undone(bob, part)
    assert row.state == "partially_completed"
    assert ["Undoes", f"Charge for 17 (of which 1 of 2 items happened), ref {row.pk}"] in undoing.summary["facts"]


@pytest.mark.parametrize("title", ["x" * 400, "", "  ", "Undo: nothing", "\x00"])
def test_no_title_hides_that_it_undoes(title: str, bob: Any) -> None:
    """However long, empty or odd the effect's own one is, the heading stands before it; nothing is shown nameless."""
    row, undoing = undone(bob, title=title)
    assert undoing.summary["title"].startswith("Undo: ")
    assert len(undoing.summary["title"]) <= 255
    assert row.summary["title"].strip()
    assert undoing.summary["title"] != row.summary["title"]


def test_a_second_send_is_called_one(bob: Any) -> None:
    """Who approves an ordered resend reads that it is sent again; the row itself keeps its title."""
    row = done(bob, TimeoutError("no answer"))
    Execution.objects.filter(pk=row.pk).update(state="needs_intervention", reason="no_plan", due_at=None)
    row = Execution.objects.get(pk=row.pk)
    effects.order_resend(row.pk, by=person("zoe"), reason="the bank lost it", revision=row.revision)
    approval, first = live(row), Approval.objects.filter(execution=row).earliest("pk")
    assert approval.purpose == "resend"
    assert approval.summary["title"] == "Send again: Charge for 17"
    assert approval.summary["facts"][0][0] == "Sent before"
    assert approval.summary["facts"][1:] == first.summary["facts"]
    assert approval.digest != first.digest
    assert Execution.objects.get(pk=row.pk).summary["title"] == "Charge for 17"
    assert approval.summary == of_purpose(row.summary, ApprovalPurpose.RESEND)


def test_an_undoing_follows_its_original_when_retention_dropped_that_ones_words(bob: Any) -> None:
    """The words are frozen with the undoing: an original that was pruned meanwhile voids no approval."""
    row, undoing = undone(bob)
    Execution.objects.filter(pk=row.pk).update(summary={})
    approve(undoing, bob)
    background.run(undoing.pk)
    assert Execution.objects.get(pk=undoing.pk).state == "completed"
