"""Superseding: a new execution takes over the key of one that failed or was rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import effects
from effects import transitions
from effects.declarations import operations
from effects.declarations.operations import ProtectedOperation, StoredAnswer
from effects.journal import current
from effects.models import Approval, Execution, Receipt, Request, RequestExecution
from effects.runtime import background
from effects.testing import provider_says, run_due
from effects.transitions import successions
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Charge, ChargePayload, Plain
from tests.core.people import PAYLOAD, approve, asked, person
from tests.core.racing import held, in_thread, second_connection, together, wait_until_blocked

pytestmark = pytest.mark.django_db
DONE = effects.Applied({"id": "ch_2"}, "ch_2")
CORRECTED = ChargePayload("c1", 900)
VIEW = "orders.retry"


def again(row: Execution) -> Execution:
    """Return the row as it is now."""
    return Execution.objects.get(pk=row.pk)


def declined(effect: Any = Plain, key: str = "k1") -> Execution:
    """Return an execution that the provider refused."""
    with provider_says(effect, effects.Declined("insufficient funds")):
        outcome = effects.perform(effect, payload=PAYLOAD, key=key, requested_by="ann")
    assert isinstance(outcome, effects.Failed)
    return Execution.objects.get(pk=outcome.ref)


def succeed(old: Execution, answer: Any = DONE, **options: Any) -> tuple[effects.Outcome, Any]:
    """Perform what supersedes `old`; return the outcome and what the provider saw."""
    with provider_says(old.operation, answer) as said:
        words: dict[str, Any] = {"payload": PAYLOAD, "requested_by": "ann", "supersede": old.pk, **options}
        return effects.perform(old.operation, **words), said


def test_it_is_sent_anew_under_another_provider_key() -> None:
    """The provider must not take it for the one that it refused."""
    old = declined()
    outcome, said = succeed(old)
    assert isinstance(outcome, effects.Completed)
    new = Execution.objects.get(pk=outcome.ref)
    assert (new.key, new.generation, new.supersedes_id) == ("k1", 2, old.pk)
    assert said.sends[0][1].provider_key == new.provider_key != old.provider_key
    assert (again(old).state, again(old).holds_key) == ("failed", False)
    assert Receipt.objects.get(event="supersede").evidence == {"successor": str(new.pk)}


def test_it_may_correct_the_payload() -> None:
    """This is how an amount is corrected: the key stands for the successor's payload from then on."""
    outcome, said = succeed(declined(), payload=CORRECTED)
    assert said.sends[0][0].payload == CORRECTED
    with provider_says(Plain, DONE) as later:
        assert effects.perform(Plain, payload=CORRECTED, key="k1").ref == outcome.ref
        with pytest.raises(exceptions.PayloadConflictError):
            effects.perform(Plain, payload=PAYLOAD, key="k1")
    assert later.sends == []


def test_without_supersede_a_refused_key_stays_refused() -> None:
    """Asking again with the same key is a retry of the same request, and is told its outcome."""
    old = declined()
    with provider_says(Plain, DONE) as said:
        assert effects.perform(Plain, payload=PAYLOAD, key="k1").ref == str(old.pk)
    assert said.sends == []


def test_repeated_it_returns_the_successors_outcome() -> None:
    """A retry of the retry sends nothing."""
    old = declined()
    first, _ = succeed(old)
    second, said = succeed(old)
    assert (second, said.sends) == (first, [])


def test_generations_follow_each_other() -> None:
    """Each refusal can be followed by another try, each under a provider key of its own."""
    old = declined()
    second, _ = succeed(old, effects.Declined("still none"))
    third, _ = succeed(Execution.objects.get(pk=second.ref))
    assert isinstance(third, effects.Completed)
    keys = set(Execution.objects.values_list("generation", "provider_key"))
    assert ({generation for generation, _ in keys}, len({key for _, key in keys})) == ({1, 2, 3}, 3)
    assert Execution.objects.filter(holds_key=True).count() == 1


def test_a_rejected_one_is_superseded_too() -> None:
    """How one asks people again."""
    ann, bob = person("ann", approver=False), person("bob")
    row = asked(Approved, by=ann)
    effects.deny(row.pk, by=bob, digest=Approval.objects.get().digest)
    outcome, said = succeed(again(row), requested_by=ann)
    assert isinstance(outcome, effects.AwaitingApproval)
    assert said.sends == []
    successor = Execution.objects.get(pk=outcome.ref)
    approve(successor, bob)
    with provider_says(Approved, DONE):
        run_due()
    assert again(successor).state == "completed"


@pytest.mark.parametrize("answer", [DONE, TimeoutError("nobody knows"), effects.Submitted("ch_1"), effects.NotNow()])
def test_only_what_did_not_happen_is_superseded(answer: Any) -> None:
    """A new key beside something that may have happened is how one charges twice."""
    with provider_says(Charge, answer):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
    with provider_says(Charge, DONE) as said, pytest.raises(exceptions.WrongStateError):
        effects.perform(Charge, payload=PAYLOAD, supersede=outcome.ref)
    assert said.sends == []
    assert Execution.objects.count() == 1


@pytest.mark.parametrize("other", [{"key": "k2"}, {"tenant": "other"}])
def test_a_successor_takes_over_the_very_key(other: dict[str, str]) -> None:
    """Another key or another tenant is another fact."""
    old = declined()
    with pytest.raises(exceptions.WrongStateError, match="very key"):
        succeed(old, **other)
    assert again(old).holds_key


def test_another_effect_is_no_successor() -> None:
    """Its operation is a part of the key."""
    old = declined()
    with provider_says(Charge, DONE) as said, pytest.raises(exceptions.WrongStateError):
        effects.perform(Charge, payload=PAYLOAD, supersede=old.pk)
    assert said.sends == []


def test_an_unknown_ref_is_not_found() -> None:
    """Nothing is recorded for it."""
    with pytest.raises(exceptions.ExecutionNotFoundError):
        effects.perform(Plain, payload=PAYLOAD, key="k1", supersede="0198c0de-0000-7000-8000-000000000000")
    assert not Execution.objects.exists()


def test_proof_that_the_old_one_happened_stops_its_successor() -> None:
    """A webhook about the first, while the second waits for people: it is never sent."""
    ann, bob = person("ann", approver=False), person("bob")
    first = asked(Approved, by=ann)
    approve(first, bob)
    with provider_says(Approved, effects.Declined("no")):
        run_due()
    outcome, _ = succeed(again(first), requested_by=ann)
    successor = Execution.objects.get(pk=outcome.ref)
    approve(successor, bob)
    effects.observe(first.pk, reference="ch_1", evidence={"webhook": 1})
    assert again(first).state == "needs_intervention"
    with provider_says(Approved, DONE) as said:
        run_due()
        background.run(successor.pk)
    assert said.sends == []
    assert (again(successor).state, again(successor).reason) == ("rejected", "precondition")


def test_what_passed_its_key_on_is_never_sent_again() -> None:
    """Proof about the old one makes it a person's, who cannot have it sent beside its successor."""
    old = declined()
    succeed(old)
    effects.observe(old.pk, reference="ch_1", evidence={})
    row = again(old)
    assert row.state == "needs_intervention"
    Execution.objects.filter(pk=old.pk).update(applied_evidence=None)
    with pytest.raises(exceptions.WrongStateError):
        effects.order_resend(old.pk, revision=row.revision, by="zoe", reason="again")


# -- requests ------------------------------------------------------------------------------------------------------


@pytest.fixture
def view() -> Iterator[None]:
    """A declared view that answers with the state of its first outcome."""

    def answer(outcomes: Any) -> StoredAnswer:
        body = str(outcomes[0].state).encode()
        return StoredAnswer(200, (), body, len(body))

    operations.add_operation(ProtectedOperation(VIEW, "journaled", performs=(Plain.operation,), answer=answer))
    yield
    operations._operations.pop(VIEW, None)


def opened(key: str) -> Request:
    """Open a request; return its row."""
    found = transitions.open_request(
        transitions.Opening(
            operation=VIEW, mode="journaled", tenant="", subject="user:1", scope="", key=key,
            fingerprint={"body": "d"}, fingerprint_version=1, local_writes=False, declared=(Plain.operation,),
        )
    )  # fmt: skip
    return Request.objects.get(pk=found.row.pk)


def handled(request: Request, call: Callable[[], Any]) -> Any:
    """Make the call as the request's handler."""
    operation = ProtectedOperation(VIEW, "journaled", performs=(Plain.operation,))
    handle = current.RequestHandle(
        id=request.pk, epoch=request.epoch, operation=operation, tenant="", subject="user:1", actor=effects.Actor("ann")
    )
    with current.in_request(handle):
        return call()


def test_requests_that_held_the_old_one_are_answered_by_the_successor(view: None) -> None:
    """A handler that was cut short after a refusal: whoever asks again meets in the successor, and so does it."""
    request = opened("c-1")
    with provider_says(Plain, effects.Declined("no")):
        outcome = handled(request, lambda: effects.perform(Plain, payload=PAYLOAD, key="k1"))
    transitions.abort(request.pk, epoch=request.epoch, why="a bug")
    succeed(Execution.objects.get(pk=outcome.ref))
    run_due()
    row = Request.objects.get()
    assert row.state == "answered"
    assert bytes(row.answer_body) == b"completed"
    links = RequestExecution.objects.filter(request=row).order_by("execution__generation")
    assert list(links.values_list("execution__generation", "holds")) == [(1, False), (2, True)]


def test_a_request_that_has_ended_keeps_its_answer(view: None) -> None:
    """What its client was told stays what it was told."""
    request = opened("c-1")
    with provider_says(Plain, effects.Declined("no")):
        outcome = handled(request, lambda: effects.perform(Plain, payload=PAYLOAD, key="k1"))
    transitions.conclude(request.pk, epoch=request.epoch, answer=StoredAnswer(402, (), b"no", 2))
    succeed(Execution.objects.get(pk=outcome.ref))
    run_due()
    assert bytes(Request.objects.get().answer_body) == b"no"
    assert RequestExecution.objects.count() == 1


def test_a_key_derived_from_a_request_that_has_ended_cannot_be_superseded(view: None) -> None:
    """Its client holds the promise that nothing is sent under it any more."""
    request = opened("c-1")
    with provider_says(Plain, effects.Declined("no")):
        outcome = handled(request, lambda: effects.perform(Plain, payload=PAYLOAD))
    transitions.conclude(request.pk, epoch=request.epoch, answer=StoredAnswer(402, (), b"no", 2))
    with pytest.raises(exceptions.WrongStateError, match="ended"):
        succeed(Execution.objects.get(pk=outcome.ref))


@pytest.mark.parametrize("by", ["perform", "supersede"])
def test_a_handler_supersedes_what_an_earlier_request_left(view: None, by: str) -> None:
    """The new request holds the successor."""
    old = declined()
    request = opened("c-2")

    def call() -> effects.Outcome:
        if by == "supersede":
            return effects.supersede(old.pk, requested_by="ann", reason="topped up")
        return effects.perform(Plain, payload=PAYLOAD, key="k1", supersede=old.pk)

    with provider_says(Plain, DONE):
        outcome = handled(request, call)
    link = RequestExecution.objects.get(request=request)
    assert (str(link.execution_id), link.holds) == (outcome.ref, True)


@pytest.mark.django_db(transaction=True)
def test_two_at_one_instant_make_one_successor() -> None:
    """Two operators press "charge again": one successor, one send."""
    old = declined()

    def press() -> effects.Outcome:
        return effects.perform(Plain, payload=PAYLOAD, requested_by="ann", supersede=old.pk)

    with provider_says(Plain, DONE) as said:
        results = together(press, press)
    assert not [result for result in results if isinstance(result, Exception)], results
    assert {result.ref for result in results} == {str(Execution.objects.get(generation=2).pk)}
    assert len(said.sends) == 1


def test_the_old_one_stays_with_its_refusal() -> None:
    """For whoever asks why there are two."""
    old = declined()
    before = effects.get(old.pk).outcome
    succeed(old)
    assert effects.get(old.pk).outcome == before
    assert isinstance(before, effects.Failed)


def test_a_person_asks_again_with_a_reason() -> None:
    """`supersede` sends the same contents once, keeps the reason on both receipts, and for whom it was asked."""
    old = declined()
    with provider_says(Plain, DONE) as said:
        outcomes = [
            effects.supersede(old.pk, requested_by="olga", reason="topped up", revision=old.revision) for _ in range(2)
        ]
    new = Execution.objects.get(pk=outcomes[0].ref)
    assert outcomes[0] == outcomes[1]
    assert [context.payload for context, _ in said.sends] == [PAYLOAD]
    assert (new.supersedes_id, new.requested_by, new.on_behalf_of) == (
        old.pk, {"id": "olga", "label": "olga"}, old.on_behalf_of
    )  # fmt: skip
    assert Receipt.objects.get(execution=old, event="supersede").evidence["reason"] == "topped up"
    assert Receipt.objects.get(execution=new, event="record").evidence["reason"] == "topped up"


def test_nobody_who_asked_for_the_old_one_approves_the_new_one() -> None:
    """Four eyes look through the successor: the first requester and whoever asks again are both refused."""
    ann, ben = person("ann"), person("ben")
    outcome = effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    effects.deny(outcome.ref, by=ben, digest=Approval.objects.get().digest)
    olga, zoe = person("olga"), person("zoe")
    again_ref = effects.supersede(outcome.ref, requested_by=olga, reason="the invoice is right after all").ref
    digest = Approval.objects.get(execution_id=again_ref).digest
    for asker in (ann, olga):
        with pytest.raises(exceptions.NotEntitledError):
            effects.grant(again_ref, by=asker, digest=digest)
    assert effects.grant(again_ref, by=zoe, digest=digest).state == "pending"


def test_a_person_asks_again_for_what_they_saw() -> None:
    """A page of an earlier revision asks for nothing, and says so; nothing is recorded and nothing sent."""
    old = declined()
    with provider_says(Plain, DONE) as said, pytest.raises(exceptions.StaleRevisionError):
        effects.supersede(old.pk, requested_by="olga", reason="topped up", revision=old.revision - 1)
    assert said.sends == []
    assert (Execution.objects.count(), again(old).holds_key) == (1, True)


def test_a_key_that_only_looks_derived_can_be_superseded() -> None:
    """`request:` with what is no request's id is the caller's own key."""
    old = declined(key="request:order-17")
    outcome, _ = succeed(old)
    assert isinstance(outcome, effects.Completed)


@pytest.mark.django_db(transaction=True)
def test_who_meets_it_while_it_is_superseded_meets_the_successor() -> None:
    """Between meeting and locking the key passes on: the caller joins whoever has it then."""
    old = declined()
    with held("effects_execution", old.pk) as second:
        thread, result = in_thread(lambda: effects.perform(Plain, payload=PAYLOAD, key="k1", requested_by="bob"))
        wait_until_blocked()
        names = ", ".join(field.column for field in Execution._meta.concrete_fields)
        new = uuid4()
        values = names.replace("provider_key", "'fx_other'", 1).replace("id,", f"'{new}'::uuid,", 1)
        second.execute("UPDATE effects_execution SET holds_key = false WHERE id = %s", [old.pk])
        values = values.replace("holds_key", "true", 1).replace("generation", "2", 1)
        second.execute(f"INSERT INTO effects_execution ({names}) SELECT {values} FROM effects_execution")
        second.commit()
    thread.join(20)
    assert result[0].ref == str(new)


def two_that_hold_the_others(view: None) -> tuple[list[Request], list[Execution]]:
    """Return two running requests, the older first, each with an execution of its own that was refused."""
    requests, refused = [opened("c-1"), opened("c-2")], []
    for number, request in enumerate(requests):
        with provider_says(Plain, effects.Declined("no")):
            outcome = handled(
                request, lambda key=f"k{number}": effects.perform(Plain, payload=PAYLOAD, key=key, requested_by="ann")
            )
        refused.append(Execution.objects.get(pk=outcome.ref))
    assert requests[0].pk < requests[1].pk
    return requests, refused


def asking_again(request: Request, old: Execution) -> Callable[[], Any]:
    """The handler of `request` asks again for what another request performed."""
    return lambda: handled(
        request,
        lambda: effects.perform(Plain, payload=PAYLOAD, key=old.key, requested_by="ann", supersede=old.pk),
    )


def is_free(request: Request) -> bool:
    """Whether nobody has locked the request."""
    with second_connection() as third:
        sql = "SELECT 1 FROM effects_request WHERE id = %s FOR UPDATE SKIP LOCKED"
        return third.execute(sql, [request.pk]).fetchone() is not None


@pytest.mark.django_db(transaction=True)
def test_handlers_that_supersede_what_the_other_holds_both_come_through(view: None) -> None:
    """Each locks both requests, in one order: neither is told that the journal is too busy."""
    (first, second), (x, y) = two_that_hold_the_others(view)
    with provider_says(Plain, DONE) as said:
        results = together(asking_again(first, y), asking_again(second, x))
    assert [type(result) for result in results] == [effects.Completed] * 2, results
    assert len(said.sends) == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_handler_holds_nothing_while_it_waits_for_an_older_request(
    view: None, monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    """Control: locking its own request first, it would hold what the other one waits for."""
    if not in_order:
        monkeypatch.setattr(successions, "sorted", lambda ids: sorted(ids, reverse=True), raising=False)
    (first, second), (x, _y) = two_that_hold_the_others(view)
    with provider_says(Plain, DONE):
        with held("effects_request", first.pk):
            thread, result = in_thread(asking_again(second, x))
            wait_until_blocked()
            assert is_free(second) is in_order
        thread.join(20)
    assert isinstance(result[0], effects.Completed), result
