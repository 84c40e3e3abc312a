"""Compensations: undoing something completed, as a new execution that names it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import effects
from effects.models import Approval, Execution, Receipt, RequestExecution
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Charge, ChargePayload
from tests.core.people import approve, person
from tests.core.racing import together
from tests.core.test_requests import handled, opened

pytestmark = pytest.mark.django_db
PAYLOAD = ChargePayload("c1", 1000)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")
UNDONE = effects.Applied({"id": "re_1"}, "re_1")
wire: list[tuple[str, str, str]] = []
told: list[tuple[str, str, bool]] = []


@effects.register
class Transfer(effects.Effect[ChargePayload]):
    """A transfer that can be called back, and looked up."""

    operation = "bank.transfer"
    provider = "bank/acct_test"
    reversible = True
    lookup = effects.Authoritative(quiet=timedelta(minutes=1))

    def send(self, context: Any, permit: Any) -> Any:
        wire.append(("send", context.ref, permit.provider_key))
        return DONE

    def compensate(self, context: Any, permit: Any) -> Any:
        wire.append(("compensate", context.compensates, permit.provider_key))
        return UNDONE

    def verify(self, context: Any) -> Any:
        return effects.Found("re_1" if context.compensates else "ch_1")

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        told.append((context.compensates or context.ref, str(outcome.state), context.compensates is not None))


@pytest.fixture(autouse=True)
def empty() -> None:
    """Nothing was sent before the test."""
    wire.clear()
    told.clear()


def again(row: Execution) -> Execution:
    """Return the row as it is now."""
    return Execution.objects.get(pk=row.pk)


def completed() -> Execution:
    """Return a completed transfer."""
    outcome = effects.perform(Transfer, payload=PAYLOAD, key="order-17", requested_by="ann")
    assert isinstance(outcome, effects.Completed)
    return Execution.objects.get(pk=outcome.ref)


def test_it_is_an_execution_of_its_own_that_names_the_original() -> None:
    """`compensate` is called once, not `send`, under a provider key of its own; the original stays completed."""
    row = completed()
    outcome = effects.compensate(row.pk, requested_by="zoe")
    assert outcome.require() == {"id": "re_1"}
    undoing = Execution.objects.get(pk=outcome.ref)
    assert (undoing.compensates_id, undoing.tenant, undoing.operation) == (row.pk, row.tenant, row.operation)
    assert wire == [("send", str(row.pk), row.provider_key), ("compensate", str(row.pk), undoing.provider_key)]
    assert undoing.provider_key != row.provider_key
    assert again(row).state == "completed"
    assert undoing.requested_by == {"id": "zoe", "label": "zoe"}


def test_the_hook_is_told_that_it_is_an_undoing() -> None:
    """The project's rows of both are written by one `settled`, which can tell them apart."""
    row = completed()
    effects.compensate(row.pk)
    assert told == [(str(row.pk), "completed", False), (str(row.pk), "completed", True)]


def test_asked_twice_it_is_one() -> None:
    """One original has one undoing, whoever asks and how often."""
    row = completed()
    first = effects.compensate(row.pk, requested_by="zoe")
    second = effects.compensate(row.pk, requested_by="bob")
    assert first == second
    assert [verb for verb, *_ in wire] == ["send", "compensate"]


def test_it_is_undone_as_somebody_saw_it() -> None:
    """An earlier revision of the original is refused and nothing is sent; the reason is kept on the undoing."""
    row = completed()
    with pytest.raises(exceptions.StaleRevisionError):
        effects.compensate(row.pk, requested_by="zoe", reason="sent back", revision=row.revision - 1)
    assert [verb for verb, *_ in wire] == ["send"]
    undoing = effects.compensate(row.pk, requested_by="zoe", reason="sent back", revision=row.revision)
    assert Receipt.objects.get(execution_id=undoing.ref, event="record").evidence["reason"] == "sent back"


@pytest.mark.django_db(transaction=True)
def test_two_operators_at_one_instant_undo_once() -> None:
    """They meet in one execution."""
    row = completed()
    results = together(
        lambda: effects.compensate(row.pk, requested_by="zoe"), lambda: effects.compensate(row.pk, requested_by="bob")
    )
    assert not [result for result in results if isinstance(result, Exception)], results
    assert len({result.ref for result in results}) == 1
    assert [verb for verb, *_ in wire] == ["send", "compensate"]


@pytest.mark.parametrize(
    "answer", [TimeoutError("nobody knows"), effects.Submitted("ch_1"), effects.Declined("no"), effects.NotNow()]
)
def test_only_what_is_completed_is_undone(answer: Any) -> None:
    """Undoing what may not have happened would do the opposite, once."""
    with provider_says(Transfer, answer):
        outcome = effects.perform(Transfer, payload=PAYLOAD, key="order-17")
    with pytest.raises(exceptions.WrongStateError):
        effects.compensate(outcome.ref)
    assert wire == []
    assert Execution.objects.count() == 1


def test_what_the_provider_undid_is_not_undone_twice() -> None:
    """A person said that it happened and was undone there: another undoing would take the money twice."""
    with provider_says(Transfer, TimeoutError("nobody knows"), look_up=effects.Conflict("returned")):
        outcome = effects.perform(Transfer, payload=PAYLOAD, key="order-17")
        run_due()
    row = Execution.objects.get(pk=outcome.ref)
    effects.resolve(row.pk, decision="undone", revision=row.revision, by="zoe", reason="the bank returned it")
    with pytest.raises(exceptions.WrongStateError):
        effects.compensate(row.pk)
    assert wire == []


def test_what_was_contradicted_meanwhile_is_not_undone() -> None:
    """The bank returned the first: nothing is left to be undone."""
    row = completed()
    effects.observe(row.pk, reference="ch_1", evidence={"returned": True}, undone=True)
    with pytest.raises(exceptions.WrongStateError):
        effects.compensate(row.pk)
    assert [verb for verb, *_ in wire] == ["send"]


def test_contradicted_between_the_approval_and_the_send_it_is_refused() -> None:
    """The original is locked and looked at again by the permit itself."""
    row = completed()
    zoe, bob = person("zoe", approver=False), person("bob")
    outcome = effects.compensate(row.pk, requested_by=zoe, require_approval=True)
    assert isinstance(outcome, effects.AwaitingApproval)
    undoing = Execution.objects.get(pk=outcome.ref)
    approve(undoing, bob)
    effects.observe(row.pk, reference="ch_1", evidence={"returned": True}, undone=True)
    run_due()
    background.run(undoing.pk)
    assert [verb for verb, *_ in wire] == ["send"]
    assert (again(undoing).state, again(undoing).reason) == ("rejected", "precondition")
    assert Approval.objects.get().state == "lapsed"


def test_approved_it_is_undone_by_a_worker() -> None:
    """A worker that knows only the row calls `compensate` too."""
    row = completed()
    zoe, bob = person("zoe", approver=False), person("bob")
    outcome = effects.compensate(row.pk, requested_by=zoe, require_approval=True)
    approve(Execution.objects.get(pk=outcome.ref), bob)
    run_due()
    assert [verb for verb, *_ in wire] == ["send", "compensate"]
    assert effects.get(outcome.ref).state == "completed"


def test_in_doubt_it_is_looked_up_like_any_other() -> None:
    """An undoing without an answer is never sent again on a guess."""
    row = completed()
    with provider_says(Transfer, TimeoutError("nobody knows"), look_up=effects.Found("re_1")) as said:
        outcome = effects.compensate(row.pk)
        assert isinstance(outcome, effects.Uncertain)
        run_due()
    assert len(said.sends) == 1
    assert said.look_ups[0].compensates == str(row.pk)
    assert effects.get(outcome.ref).state == "completed"


def test_refused_the_original_stays_as_it_is() -> None:
    """The undoing failed; that is all."""
    row = completed()
    with provider_says(Transfer, effects.Declined("too late")):
        outcome = effects.compensate(row.pk)
    assert isinstance(outcome, effects.Failed)
    assert again(row).state == "completed"


def test_an_undoing_is_not_undone() -> None:
    """It is performed anew instead."""
    outcome = effects.compensate(completed().pk)
    with pytest.raises(exceptions.WrongStateError):
        effects.compensate(outcome.ref)


def test_what_declares_no_undoing_has_none() -> None:
    """Said before anything is written."""
    with provider_says(Charge, DONE):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
    with pytest.raises(exceptions.EffectDefinitionError):
        effects.compensate(outcome.ref)
    assert Execution.objects.count() == 1


def test_an_unknown_ref_is_not_found() -> None:
    """Nothing is recorded for it."""
    with pytest.raises(exceptions.ExecutionNotFoundError):
        effects.compensate("0198c0de-0000-7000-8000-000000000000")


def test_reversible_without_compensate_is_an_error_at_import() -> None:
    """A promise that the declaration cannot keep."""
    with pytest.raises(exceptions.EffectDefinitionError, match="compensate"):

        @effects.register
        class Broken(effects.Effect[ChargePayload]):
            operation = "bank.broken"
            provider = "bank/acct_test"
            reversible = True

            def send(self, context: Any, permit: Any) -> Any:
                return DONE


def test_a_handlers_undoing_holds_its_answer_and_has_its_person() -> None:
    """As with `perform`: after a crash the request is answered by what became of the undoing."""
    row = completed()
    request = opened(declared=(Transfer.operation,))
    (outcome,) = handled(request, lambda: effects.compensate(row.pk))
    link = RequestExecution.objects.get()
    assert (link.request_id, str(link.execution_id), link.holds) == (request.pk, outcome.ref, True)
    assert Execution.objects.get(pk=outcome.ref).requested_by == {"id": "ann", "label": "ann"}


def test_a_handler_undoes_only_what_its_view_declares() -> None:
    """An undeclared undoing would be unknown when it is decided what becomes of the request."""
    row = completed()
    with pytest.raises(exceptions.UndeclaredEffectError):
        handled(opened(), lambda: effects.compensate(row.pk))
    assert Execution.objects.count() == 1


def test_a_handler_whose_request_was_taken_over_undoes_nothing() -> None:
    """Its successor may be undoing it."""
    row = completed()
    request = opened(declared=(Transfer.operation,))
    time_passes(timedelta(minutes=2))
    run_due()
    with pytest.raises(exceptions.RequestEndedError):
        handled(request, lambda: effects.compensate(row.pk))
    assert [verb for verb, *_ in wire] == ["send"]
