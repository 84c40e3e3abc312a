"""Lineage: who asked for what an execution follows never approves it, and it is asked about the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

import effects
from effects.declarations.operations import ProtectedOperation
from effects.journal import current
from effects.journal.lineage import COLUMNS, Origin
from effects.models import Execution
from effects.people import eligibility
from effects.testing import provider_says, run_due
from effects.vocabulary import exceptions
from tests.core.declared import Approved, ChargePayload
from tests.core.people import PAYLOAD, approve, asked, live, person
from tests.core.test_requests import opened

pytestmark = pytest.mark.django_db
DONE = effects.Applied({"id": "ch_1"}, "ch_1")
UNDONE = effects.Applied({"id": "re_1"}, "re_1")


@effects.register
class Loan(effects.Effect[ChargePayload]):
    """Needs one other person, also to be called back; people may approve what it is about."""

    operation = "bank.loan"
    provider = "bank/acct_test"
    reversible = True
    lookup = effects.Authoritative()
    asked_about: list[Any] = []
    rule: effects.ApprovalRule | None = effects.ApprovalRule(approvers="effects.approve_execution")

    def send(self, context: Any, permit: Any) -> Any:
        return DONE

    def compensate(self, context: Any, permit: Any) -> Any:
        return UNDONE

    def verify(self, context: Any) -> Any:
        return effects.Found("re_1" if context.compensates else "ch_1")

    def approval(self, context: Any) -> effects.ApprovalRule | None:
        self.asked_about.append((context.about, context.on_behalf_of and str(context.on_behalf_of)))
        return self.rule


@pytest.fixture
def people() -> dict[str, Any]:
    """Return who asks, for whom, who joins, and others, by name; all of them may approve."""
    return {name: person(name) for name in ("ann", "ben", "joe", "carl", "dora", "vera", "zoe")}


def again(row: Execution) -> Execution:
    """Return the row as it is now."""
    return Execution.objects.get(pk=row.pk)


def recorded(outcome: effects.Outcome) -> Execution:
    """Return the row of an outcome."""
    return Execution.objects.get(pk=outcome.ref)


def first(people: dict[str, Any], effect: Any = Loan) -> Execution:
    """Return what ann asked for on behalf of ben, and joe joined."""
    Loan.asked_about.clear()
    about = Group.objects.create(name="order 17")
    row = asked(effect, by=people["ann"], on_behalf_of=people["ben"], about=about, tenant="acme")
    asked(effect, by=people["joe"], tenant="acme")
    return row


def denied(row: Execution, by: Any) -> Execution:
    """Have somebody deny it."""
    effects.deny(row.pk, by=by, digest=live(row).digest)
    return again(row)


def completed(row: Execution, by: Any) -> Execution:
    """Have somebody approve it, and send it."""
    approve(row, by)
    run_due()
    assert again(row).state == "completed"
    return again(row)


def succeed(row: Execution, by: Any) -> Execution:
    """Ask again, as a person does."""
    return recorded(effects.supersede(row.pk, requested_by=by, reason="it is right after all"))


def perform_again(row: Execution, by: Any) -> Execution:
    """Ask again, as a program does."""
    return recorded(
        effects.perform(row.operation, payload=PAYLOAD, supersede=row.pk, requested_by=by, tenant=row.tenant)
    )


def perform_in_a_request(row: Execution, by: Any) -> Execution:
    """Ask again, as an HTTP handler does for its own user."""
    request = opened(key=f"retry-{row.generation}-{row.pk}", declared=(Loan.operation,))
    view = ProtectedOperation("loans.retry", "journaled", performs=(Loan.operation,))
    handle = current.RequestHandle(
        id=request.pk, epoch=request.epoch, operation=view,
        tenant="acme", subject="user:1", actor=effects.Actor.of(by),
    )  # fmt: skip
    with current.in_request(handle):
        return recorded(effects.perform(row.operation, payload=PAYLOAD, supersede=row.pk))


def undo(row: Execution, by: Any) -> Execution:
    """Have it undone."""
    return recorded(effects.compensate(row.pk, requested_by=by, reason="not owed"))


def successor_of_a_successor(row: Execution, people: dict[str, Any], step: Any) -> Execution:
    """Denied, asked again by carl, denied, asked again by dora."""
    return step(denied(step(denied(row, people["vera"]), people["carl"]), people["vera"]), people["dora"])


def undoing(row: Execution, people: dict[str, Any], step: Any) -> Execution:
    """Completed, and to be undone for carl."""
    return undo(completed(row, people["vera"]), people["carl"])


def undoing_of_a_successor(row: Execution, people: dict[str, Any], step: Any) -> Execution:
    """Denied, asked again by carl, completed, to be undone for dora."""
    return undo(completed(step(denied(row, people["vera"]), people["carl"]), people["vera"]), people["dora"])


def successor_of_an_undoing(row: Execution, people: dict[str, Any], step: Any) -> Execution:
    """Completed, an undoing asked for by carl, denied, asked for again by dora."""
    return step(denied(undoing(row, people, step), people["vera"]), people["dora"])


LINES = [successor_of_a_successor, undoing, undoing_of_a_successor, successor_of_an_undoing]
STEPS = [succeed, perform_again, perform_in_a_request]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("line", LINES)
def test_nobody_who_asked_for_a_predecessor_approves(line: Any, step: Any, people: dict[str, Any]) -> None:
    """Whoever asked, was acted for, or joined, at any depth, is refused in words; a stranger may agree."""
    row = line(first(people), people, step)
    askers = ["ann", "ben", "joe"] + (["dora"] if line is not undoing else []) + ["carl"]
    for name in askers:
        found = eligibility.eligibility(row, live(row), people[name])
        assert found.code in ("asked", "asked_before", "asked_for_you"), (name, found)
        with pytest.raises(exceptions.NotEntitledError):
            effects.grant(row.pk, by=people[name], digest=live(row).digest)
        with pytest.raises(exceptions.NotEntitledError):
            effects.deny(row.pk, by=people[name], digest=live(row).digest)
    told = {user.username for user in eligibility.entitled_people(row, live(row), limit=100)}
    assert told == {"vera", "zoe"} | ({"dora"} if line is undoing else set())
    approve(row, people["zoe"])
    run_due()
    assert again(row).state == "completed"


def test_who_joins_an_original_after_its_undoing_was_asked_for_does_not_approve_it(people: dict[str, Any]) -> None:
    """The line is read when somebody votes, and again when it is sent: no copy of it grows old."""
    original = completed(first(people), people["vera"])
    row = undo(original, people["carl"])
    effects.perform(Loan, payload=PAYLOAD, key="k1", tenant="acme", requested_by=people["zoe"])
    with pytest.raises(exceptions.NotEntitledError, match="undoes"):
        approve(row, people["zoe"])
    approve(row, people["dora"])
    effects.perform(Loan, payload=PAYLOAD, key="k1", tenant="acme", requested_by=people["dora"])
    run_due()
    assert (again(row).state, again(row).reason) == ("rejected", "lapsed")


def test_an_ordered_resend_of_a_successor_is_approved_by_none_of_them(people: dict[str, Any]) -> None:
    """Four eyes look through the resend, the successor and what it followed."""
    row = succeed(denied(first(people, Approved), people["vera"]), people["carl"])
    approve(row, people["vera"])
    with provider_says(Approved, TimeoutError("nobody knows"), look_up=effects.Conflict("two of them")):
        run_due()
    row = again(row)
    assert row.state == "needs_intervention"
    effects.order_resend(row.pk, revision=row.revision, by=people["dora"], reason="the bank says: send it")
    for name in ("ann", "ben", "joe", "carl", "dora"):
        with pytest.raises(exceptions.NotEntitledError):
            approve(row, people[name])
    assert approve(row, people["zoe"]).ref == str(row.pk)
    assert live(row).state == "granted"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("line", LINES)
def test_what_it_is_about_and_for_whom_is_inherited(line: Any, step: Any, people: dict[str, Any]) -> None:
    """`approval()` and permissions for one object are asked about the same object, for the same person."""
    origin = first(people)
    row = line(origin, people, step)
    about = (origin.about_type, origin.about_id)
    assert about[0] == "auth.Group"
    assert (row.about_type, row.about_id, row.on_behalf_of) == (*about, origin.on_behalf_of)
    assert Loan.asked_about[-1] == (about, "ben")


def test_what_the_caller_says_instead_stands(people: dict[str, Any]) -> None:
    """A program may name another object and another person; who was acted for before does not approve all the same."""
    old = denied(first(people), people["vera"])
    other = Group.objects.create(name="order 18")
    outcome = effects.perform(
        Loan, payload=PAYLOAD, supersede=old.pk, requested_by=people["carl"], on_behalf_of=people["dora"], about=other
    )
    row = recorded(outcome)
    assert (row.about_id, row.on_behalf_of["label"]) == (str(other.pk), "dora")
    for name in ("ann", "ben", "dora"):
        with pytest.raises(exceptions.NotEntitledError):
            approve(row, people[name])


def test_it_is_refused_when_only_those_who_asked_before_could_approve(people: dict[str, Any]) -> None:
    """Nobody is left: said when it is asked for, and nothing is recorded."""
    old = denied(first(people), people["vera"])
    for name in ("vera", "zoe", "dora"):
        people[name].user_permissions.clear()
    with pytest.raises(exceptions.NobodyEntitledError):
        effects.supersede(old.pk, requested_by=people["carl"], reason="again")
    assert (Execution.objects.count(), again(old).holds_key) == (1, True)


@pytest.mark.parametrize("step", [succeed, perform_again])
def test_what_people_had_to_approve_in_any_case_they_have_to_again(
    step: Any, people: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal that was denied is not sent unapproved because somebody asks for it again."""
    monkeypatch.setattr(Loan, "rule", None)
    row = asked(Loan, by=people["ann"], require_approval=True)
    row = step(denied(row, people["vera"]), people["carl"])
    row = step(denied(row, people["vera"]), people["dora"])
    assert (row.state, row.contract["require_approval"]) == ("awaiting_approval", True)


def test_those_who_asked_for_what_is_undone_cannot_stop_its_undoing(people: dict[str, Any]) -> None:
    """Who had the undoing recorded may take it back."""
    for name in ("ann", "carl"):
        people[name].user_permissions.clear()
    row = undo(completed(first(people), people["vera"]), people["carl"])
    for name in ("ann", "ben", "joe"):
        with pytest.raises(exceptions.NotEntitledError):
            effects.withdraw(row.pk, by=people[name])
    assert effects.withdraw(row.pk, by=people["carl"]).state == "rejected"


def note(notice: Any) -> None:
    """What a project's NOTIFY is."""
    told.append((str(notice.event), {user.username for user in notice.people}))


told: list[tuple[str, set[str]]] = []


def test_those_who_asked_before_are_told_what_became_of_it(people: dict[str, Any], settings: Any) -> None:
    """And are not asked to approve it."""
    row = succeed(denied(first(people), people["vera"]), people["carl"])
    run_due()
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": f"{__name__}.note"}
    told.clear()
    approve(row, people["zoe"])
    run_due()
    assert told == [("approval_granted", {"ann", "ben", "joe", "carl"})]


def test_the_line_costs_one_statement_however_long_it_is(people: dict[str, Any]) -> None:
    """And nothing where there is none."""
    row = first(people)
    with CaptureQueriesContext(connection) as none:
        eligibility.requester_ids(row)
    for turn in range(6):
        row = succeed(denied(row, people["vera"]), people["carl" if turn % 2 else "dora"])
    with CaptureQueriesContext(connection) as one:
        ids = eligibility.requester_ids(row)
    assert (len(none), len(one)) == (0, 1)
    assert ids == {f"user:{people[name].pk}" for name in ("ann", "ben", "joe", "carl", "dora")}


def test_every_column_is_said_to_be_inherited_derived_or_fresh() -> None:
    """A new column has to say what a derived row does with it."""
    assert set(COLUMNS) == {field.name for field in Execution._meta.concrete_fields}
    assert all(column.why.endswith(".") for column in COLUMNS.values())


@pytest.mark.parametrize("step", STEPS)
def test_what_is_said_to_be_inherited_is(step: Callable[..., Execution], people: dict[str, Any]) -> None:
    """The table says what is so: by each way to undo and to ask again."""
    old = denied(first(people), people["vera"])
    new = step(old, people["carl"])
    original = completed(new, people["vera"])
    undone_by = undo(original, people["dora"])
    for before, after, kind in ((again(old), again(new), "successor"), (original, undone_by, "undoing")):
        inherited = [name for name, column in COLUMNS.items() if getattr(column, kind) is Origin.INHERITED]
        assert inherited
        for name in inherited:
            assert getattr(after, name) == getattr(before, name), name
