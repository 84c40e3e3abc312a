"""What a deploy may change: payloads, outputs and safety versions of rows that older code wrote."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

import effects
from effects import transitions
from effects.declarations.effect import get_effect
from effects.declarations.operations import StoredAnswer
from effects.models import Execution, Receipt, Request
from effects.runtime import background, operators
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from effects.vocabulary.outcomes import MissingOutput
from tests.core.declared import Charge, ChargePayload, Noted, Opaque, Order, Plain
from tests.core.people import PAYLOAD, approve, asked, person
from tests.core.test_requests import answers, conclude, handled, opened

__all__ = ["answers"]

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Charged:
    """What a charge gives in the present code."""

    id: str
    fee: int


def unreadable(self: Any, value: Any, version: int) -> Any:
    raise KeyError(f"what version {version} had")


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let new code declare an effect otherwise."""

    def change(effect: type[effects.Effect[Any]], **declared: Any) -> None:
        for name, value in declared.items():
            monkeypatch.setattr(effect, name, value)

    return change


@pytest.fixture
def reads_no_payload(deploy: Any) -> None:
    """New code whose `upgrade` raises."""
    for effect in (Charge, Plain, Noted, Order):
        deploy(effect, payload_version=2, upgrade=unreadable)


UNREADABLE_OUTPUTS: dict[str, dict[str, Any]] = {
    "a field is missing": {"output_type": Charged},
    "upgrade_output raises": {"output_version": 2, "upgrade_output": unreadable},
    "the class refuses it": {"output_type": int},
}


@pytest.fixture(params=UNREADABLE_OUTPUTS)
def reads_no_output(request: Any, deploy: Any) -> Callable[[], None]:
    """New code that cannot read what older code stored, once called."""
    return lambda: [deploy(effect, **UNREADABLE_OUTPUTS[request.param]) for effect in (Charge, Noted)] and None


def completed(effect: Any = Charge, key: str = "k1") -> Execution:
    with provider_says(effect, effects.Applied({"id": "ch_1"}, "ch_1")):
        outcome = effects.perform(effect, payload=PAYLOAD, key=key)
    assert outcome.require() == {"id": "ch_1"}
    return Execution.objects.get(pk=outcome.ref)


def sends() -> int:
    return Receipt.objects.filter(event__in=["permit", "resend"]).count()


@pytest.fixture
def sound() -> Iterator[None]:
    """The audit finds nothing at the end."""
    yield
    call_command("effects_audit", verbosity=0)


# -- outputs -------------------------------------------------------------------------------------------------------


def test_an_output_is_read_as_its_type_and_upgraded(deploy: Any) -> None:
    """A dataclass, of this version or an older one."""
    row = completed()
    deploy(
        Charge, output_type=Charged, output_version=2, upgrade_output=lambda self, old, version: {**old, "fee": version}
    )
    assert effects.get(row.pk).outcome.require() == Charged("ch_1", 1)
    with provider_says(Charge, effects.Applied(Charged("ch_2", 5))):
        assert effects.perform(Charge, payload=PAYLOAD, key="k2").require() == Charged("ch_2", 5)
    assert Execution.objects.get(key="k2").output_version == 2


def test_an_output_that_cannot_be_read_permits_no_other_send(reads_no_output: Any) -> None:
    """`get`, `perform`, `wait` and a superseding say that it is completed; only its output raises, and says why."""
    row = completed()
    reads_no_output()
    with provider_says(Charge) as said:
        for outcome in (
            effects.get(row.pk).outcome,
            effects.perform(Charge, payload=PAYLOAD, key="k1"),
            effects.wait(row.pk, timedelta(0)),
        ):
            assert isinstance(outcome, effects.Completed)
            assert outcome.reference == "ch_1"
            assert isinstance(outcome.output, MissingOutput)
            with pytest.raises(exceptions.OutputUnavailableError, match="cannot be read by this code") as refused:
                outcome.require()
            assert (refused.value.why, refused.value.effect_may_have_happened) == ("unreadable", True)
            assert refused.value.code == "operation_result_unavailable"
        with pytest.raises(exceptions.WrongStateError):
            effects.perform(Charge, payload=PAYLOAD, key="k1", supersede=row.pk)
    assert (said.sends, sends()) == ([], 1)


@pytest.mark.parametrize(
    "use",
    [
        lambda output: output["id"], lambda output: output.id, bool, list,
        lambda output: f"{output}", str, lambda output: "id" in output,
        lambda output: output or {"id": "none"}, len, lambda output: output > 0,
        lambda output: output == {"id": "ch_1"}, lambda output: output != "x", ["x"].index, [{}, None].count,
        lambda output: output == None, lambda output: output in ({}, []), iter,  # noqa: E711
        lambda output: {**output}, lambda output: [*output], sorted,
        lambda output: effects.Completed("r", "bank.charge", output=output) == effects.Completed("r", "bank.charge"),
        lambda output: pickle.loads(pickle.dumps(output)) == "x", lambda output: copy.deepcopy(output) == "x",
        lambda output: json.dumps(output, default=str), lambda output: json.dumps({"output": output}, default=dict),
    ],
)  # fmt: skip
def test_whatever_is_done_with_it_says_so(use: Any, deploy: Any) -> None:
    """No hook and no answer takes it for an empty output; printing and comparing outcomes is harmless."""
    row = completed()
    deploy(Charge, output_type=Charged)
    outcome = effects.get(row.pk).outcome
    with pytest.raises(exceptions.OutputUnavailableError):
        use(outcome.output)  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        json.dumps(outcome.output)  # type: ignore[attr-defined]
    assert "no output: " in repr(outcome)
    assert outcome == effects.get(row.pk).outcome == pickle.loads(pickle.dumps(outcome)) == copy.deepcopy(outcome)
    assert len({outcome, effects.get(row.pk).outcome}) == 1


def test_it_crashes_no_sweep_and_no_page(reads_no_output: Any, admin_client: Any, sound: None) -> None:
    """The others are settled, the page shows what is stored and why the code cannot read it."""
    row = completed()
    effects.perform_later(Charge, payload=PAYLOAD, key="other")
    reads_no_output()
    with provider_says(Charge, effects.Applied({"id": "ch_2"})):
        assert run_due()["run_due.completed"] == 1
    page = admin_client.get(reverse("admin:effects_execution_change", args=[row.pk])).content.decode()
    assert "ch_1" in page
    assert "cannot be read by this code" in page


def test_a_hook_that_uses_it_stays_due_and_one_that_does_not_runs(
    reads_no_output: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of the project's own is not written with nothing in it; mended code writes it."""
    monkeypatch.setattr(Noted, "then", staticmethod(lambda context, outcome: 1 / 0))
    row = completed(Noted)
    seen: list[Any] = []
    monkeypatch.setattr(Noted, "then", staticmethod(lambda context, outcome: seen.append(outcome.output["id"])))
    with monkeypatch.context() as patch:
        for name, value in next(iter(UNREADABLE_OUTPUTS.values())).items():
            patch.setattr(Noted, name, value)
        time_passes(MINUTE)
        assert run_due() == {"run_hooks.failed": 1}
        row.refresh_from_db()
        assert "cannot be read by this code" in row.hook_error
    time_passes(timedelta(hours=1))
    run_due()
    assert seen == ["ch_1"]


def test_an_answer_that_needs_it_stays_due_and_shows(reads_no_output: Any, answers: Any, monkeypatch: Any) -> None:
    """No answer without it is frozen for ever while a deploy can still mend it."""
    answers(lambda outcomes: StoredAnswer(200, (), outcomes[0].require()["id"].encode()))
    request = opened()
    with provider_says(Charge, TimeoutError(), look_up=effects.Found("ch_1", {"id": "ch_1"})):
        handled(request, lambda: effects.perform(Charge, payload=PAYLOAD, key="k1"))
        conclude(request)
        with monkeypatch.context() as patch:
            for name, value in {"output_version": 1, "output_type": Charged}.items():
                patch.setattr(Charge, name, value)
            time_passes(timedelta(minutes=10))
            run_due()
            row = Request.objects.get(pk=request.pk)
            assert (row.state, row.due_at is not None) == ("waiting", True)
            assert "cannot be read by this code" in row.answer_error
        time_passes(timedelta(minutes=10))
        run_due()
    row.refresh_from_db()
    assert (row.state, bytes(row.answer_body or b"")) == ("answered", b"ch_1")


def test_a_replay_needs_no_output(reads_no_output: Any) -> None:
    """The bytes of the first answer are those, whatever this code makes of outputs."""
    request = opened()
    with provider_says(Charge, effects.Applied({"id": "ch_1"})):
        handled(request, lambda: effects.perform(Charge, payload=PAYLOAD, key="k1"))
    conclude(request)
    reads_no_output()
    from tests.core.test_requests import opening

    found = transitions.open_request(opening()).request
    assert found is not None
    assert found.answer is not None


def test_an_effect_that_is_gone_leaves_its_outputs_as_they_were_stored() -> None:
    """Nobody knows its type any more, and its rows are still read."""
    row = completed()
    Execution.objects.filter(pk=row.pk).update(operation="bank.gone")
    assert effects.get(row.pk).outcome.require() == {"id": "ch_1"}


# -- payloads ------------------------------------------------------------------------------------------------------


def test_a_payload_of_an_older_version_is_upgraded_and_compared(deploy: Any) -> None:
    """A worker sends it in the new shape; a retry in the new shape meets it, another payload does not."""
    effects.perform_later(Plain, payload=PAYLOAD, key="k1")

    def upgrade(self: Any, payload: Any, version: int) -> Any:
        return {**payload, "currency": "usd"}

    deploy(Plain, payload_version=2, upgrade=upgrade)
    with provider_says(Plain, effects.Applied()) as said:
        run_due()
        assert said.sends[0][0].payload.currency == "usd"
        same = effects.perform(Plain, payload=ChargePayload("c1", 1000, "usd"), key="k1")
        assert same.ref == str(Execution.objects.get().pk)
        with pytest.raises(exceptions.PayloadConflictError):
            effects.perform(Plain, payload=PAYLOAD, key="k1")
    assert len(said.sends) == 1


def test_a_payload_that_cannot_be_read_is_not_sent_and_reaches_a_person(
    reads_no_payload: None, admin_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It backs off, and from the third time on the console lists it; mended code sends it."""
    monkeypatch.setattr(Plain, "payload_version", 1)
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="k1")
    with monkeypatch.context() as patch, provider_says(Plain) as said:
        patch.setattr(Plain, "payload_version", 2)
        for _ in range(3):
            assert run_due() == {"run_due.errors": 1}
            time_passes(timedelta(hours=1))
        assert said.sends == []
        row = Execution.objects.get(pk=outcome.ref)
        assert (row.state, row.trouble_count) == ("pending", 3)
        assert "Mend upgrade() or the payload's class" in row.trouble
        queue = admin_client.get(reverse("admin:effects_needs_a_person")).content.decode()
        assert "Mend upgrade()" in queue
        assert admin_client.get(reverse("admin:effects_execution_change", args=[row.pk])).status_code == 200
        effects.cancel(row.pk, by="ann", reason="never mind")
    assert effects.get(row.pk).state == "rejected"


def test_a_retry_that_cannot_be_compared_is_refused_by_its_own_error(reads_no_payload: None, deploy: Any) -> None:
    """Nobody can say whether it is the same payload; nothing is sent, and the error says that it may have happened."""
    deploy(Charge, payload_version=1)
    done = completed()
    deploy(Charge, payload_version=2)
    with provider_says(Charge) as said, pytest.raises(exceptions.PayloadUnreadableError, match="version 1") as refused:
        effects.perform(Charge, payload=ChargePayload("c2", 1), key="k1")
    assert refused.value.effect_may_have_happened
    assert said.sends == []
    # the same bytes are the same payload, whoever can read them
    assert effects.perform(Charge, payload=PAYLOAD, key="k1").ref == str(done.pk)


def test_a_look_up_that_cannot_read_it_decides_nothing(deploy: Any) -> None:
    """It spends the budget and then is a person's, as every look-up that cannot decide."""
    with provider_says(Order, TimeoutError()):
        outcome = effects.perform(Order, payload=PAYLOAD, key="k1")
    deploy(Order, payload_version=2, upgrade=unreadable)
    with provider_says(Order, look_up=effects.Absent()) as said:
        for _ in range(10):
            time_passes(timedelta(hours=2))
            run_due()
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.reason) == ("needs_intervention", "budget_spent")
    assert (said.look_ups, sends()) == ([], 1)


def test_a_hook_and_an_undoing_that_cannot_read_it_say_so(deploy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook stays due; the undoing raises before anything is written."""
    monkeypatch.setattr(Noted, "then", staticmethod(lambda context, outcome: 1 / 0))
    row = completed(Noted)
    deploy(Noted, payload_version=2, upgrade=unreadable, reversible=True)
    time_passes(MINUTE)
    assert run_due() == {"run_hooks.failed": 1}
    row.refresh_from_db()
    assert "Mend upgrade()" in row.hook_error
    with pytest.raises(exceptions.PayloadUnreadableError, match="KeyError"):
        effects.compensate(row.pk, requested_by="ann")
    assert Execution.objects.count() == 1


# -- safety version ------------------------------------------------------------------------------------------------


def unsettled(state: str) -> Execution:
    """Return an execution of `Order` in that state, due."""
    if state == "pending":
        outcome = effects.perform_later(Order, payload=PAYLOAD, key="k1", requested_by="ann")
    elif state == "awaiting_approval":
        person("bob")
        return asked(Order, by=person("ann", approver=False), require_approval=True)
    else:
        with provider_says(Order, effects.Submitted("o1") if state == "accepted" else TimeoutError()):
            outcome = effects.perform(Order, payload=PAYLOAD, key="k1", requested_by="ann")
    row = Execution.objects.get(pk=outcome.ref)
    if state == "needs_intervention":
        with provider_says(Order, look_up=effects.Conflict("another amount")):
            operators.look_up_now(row.pk)
        row.refresh_from_db()
    assert row.state == state
    return row


UNSETTLED = ["pending", "awaiting_approval", "uncertain", "accepted", "needs_intervention"]


@pytest.mark.parametrize("state", UNSETTLED)
@pytest.mark.parametrize("declared", [{"safety_version": 2}, {"provider": "bank/other"}])
def test_code_of_another_safety_version_touches_nothing_unsettled(deploy: Any, state: str, declared: Any) -> None:
    """It is neither met, sent nor looked up; each refusal has the code; it reaches a person, who may resolve it."""
    row = unsettled(state)
    bob = person("bob2")
    deploy(Order, **declared)
    with provider_says(Order, look_up=effects.Found("o1")) as said:
        with pytest.raises(exceptions.PolicyChangedError) as refused:
            effects.perform(
                Order, payload=PAYLOAD, key=row.key, requested_by="ann", require_approval=state == "awaiting_approval"
            )
        assert refused.value.code == "operation_policy_changed"
        if state == "awaiting_approval":
            approve(row, bob)
        if state == "needs_intervention":
            with pytest.raises(exceptions.PolicyChangedError):
                operators.order_resend(
                    row.pk, revision=row.revision, by="ann", reason="again", confirm=row.amount or row.key
                )
        for _ in range(3):
            time_passes(timedelta(hours=2))
            run_due()
    assert (said.sends, said.look_ups) == ([], [])
    row.refresh_from_db()
    if state != "needs_intervention":
        assert row.trouble_count == 3
        assert row.trouble.startswith("PolicyChangedError: ")
    if state in ("uncertain", "accepted", "needs_intervention"):
        effects.resolve(row.pk, decision="applied", revision=row.revision, by=bob, reason="seen at the bank")
    else:
        effects.cancel(row.pk, by="ann", reason="old") if row.state == "pending" else None
    assert effects.get(row.pk).settled


def test_settled_rows_of_another_safety_version_are_met(deploy: Any) -> None:
    """Nothing is touched any more, so a retry gets its outcome."""
    row = completed()
    deploy(Charge, safety_version=2, provider="bank/other", request_timeout=timedelta(seconds=99))
    with provider_says(Charge) as said:
        assert effects.perform(Charge, payload=PAYLOAD, key="k1").ref == str(row.pk)
    assert said.sends == []


@pytest.mark.parametrize(
    "declared",
    [
        {"request_timeout": timedelta(seconds=99)}, {"lookup": None}, {"lookup": effects.Eventual()},
        {"repeatable": True}, {"deduplicates": effects.Deduplication(timedelta(hours=1))},
        {"retry": effects.Retry(attempts=9)}, {"risk": effects.Risk.LOW}, {"reversible": True},
    ],
)  # fmt: skip
def test_a_deploy_changes_no_unsettled_rows_terms(deploy: Any, declared: dict[str, Any]) -> None:
    """The row keeps what it was recorded under; who asks under other terms is refused, by the name of the term."""
    row = unsettled("pending")
    frozen = dict(row.contract)
    deploy(Order, **declared)
    with pytest.raises(exceptions.PolicyChangedError):
        effects.perform(Order, payload=PAYLOAD, key="k1", requested_by="ann")
    with provider_says(Order, effects.Applied()):
        background.run(row.pk)
    row.refresh_from_db()
    assert (row.state, row.contract) == ("completed", frozen)
    assert get_effect(Order) is get_effect("bank.order")


def test_what_newer_code_recorded_is_not_guessed_at(deploy: Any) -> None:
    """A deploy was taken back: 1000 may be cents there and euros here. It waits for the newer code, and shows."""
    with_new = effects.perform_later(Opaque, payload={"amount": 1000}, key="k1")
    Execution.objects.filter(pk=with_new.ref).update(payload_version=2)
    with provider_says(Opaque, effects.Applied()) as said:
        run_due()
    row = Execution.objects.get(pk=with_new.ref)
    assert said.sends == []
    assert row.state == "pending"
    assert "newer code" in row.trouble
    # the same bytes are the same payload, whatever they mean
    assert effects.perform_later(Opaque, payload={"amount": 1000}, key="k1").ref == with_new.ref
    with pytest.raises(exceptions.PayloadUnreadableError):
        effects.perform_later(Opaque, payload={"amount": 1}, key="k1")


def test_an_output_that_newer_code_stored_is_not_guessed_at(deploy: Any) -> None:
    """It is as one that cannot be read."""
    row = completed()
    Execution.objects.filter(pk=row.pk).update(output_version=9)
    with pytest.raises(exceptions.OutputUnavailableError, match="newer code"):
        effects.get(row.pk).outcome.require()
