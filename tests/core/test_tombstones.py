"""What retention drops of a settled execution, what stays for ever, and what is never touched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction
from django.urls import reverse

import effects
from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.models import Approval, ApprovalVote, Attempt, Execution, Receipt, Resolution
from effects.runtime import operators
from effects.sweeps import SWEEPS
from effects.testing import provider_says, run_due, time_passes
from effects.transitions import tombstones
from effects.vocabulary import exceptions
from effects.vocabulary.outcomes import MissingOutput
from tests.core.declared import Approved, Charge, ChargePayload, Noted, Order, Plain
from tests.core.people import PAYLOAD, approve, asked, person
from tests.core.racing import together
from tests.core.test_requests import answers, conclude, handled, opened

__all__ = ["answers"]

pytestmark = pytest.mark.django_db
YEAR = timedelta(days=365)
DAY = timedelta(days=1)
WORDS = "the customer said so"


@pytest.fixture(autouse=True)
def retention(settings: Any) -> None:
    """Settled executions keep their contents for a year."""
    settings.EFFECTS = {"DISPATCH": "none", "EXECUTION_RETENTION": YEAR}


def completed(effect: Any = Charge, key: str = "k1", **options: Any) -> Execution:
    with provider_says(effect, effects.Applied({"id": "ch_1", "name": WORDS}, "ch_1")):
        return Execution.objects.get(pk=effects.perform(effect, payload=PAYLOAD, key=key, **options).ref)


def pruned(row: Execution) -> Execution:
    """Let a year and a day pass, sweep, and return the row."""
    time_passes(YEAR + DAY)
    SWEEPS["prune"].run_once()
    row.refresh_from_db()
    return row


def everything_of(row: Execution) -> str:
    """Return all that the journal holds about an execution, as text."""
    with connection.cursor() as cursor:
        texts = []
        for table, column in (
            ("effects_execution", "id"), ("effects_receipt", "execution_id"), ("effects_attempt", "execution_id"),
            ("effects_approval", "execution_id"), ("effects_resolution", "execution_id"),
        ):  # fmt: skip
            cursor.execute(f"SELECT t::text FROM {table} t WHERE {column} = %s", [row.pk])
            texts += [text for (text,) in cursor.fetchall()]
        cursor.execute(
            "SELECT v::text FROM effects_approvalvote v JOIN effects_approval a ON a.id = approval_id "
            "WHERE execution_id = %s", [row.pk],
        )  # fmt: skip
        return "\n".join([*texts, *(text for (text,) in cursor.fetchall())])


def bare(row: Execution) -> dict[str, Any]:
    """Return what stays of a row for ever."""
    stays = (
        "operation", "tenant", "key", "binding", "holds_key", "generation", "provider", "provider_key",
        "payload_digest", "payload_version", "safety_version", "summary_digest", "contract", "risk", "amount",
        "currency", "state", "reason", "revision", "may_have_applied", "epoch", "attempts", "open_attempts",
        "lookups_spent", "reference", "failure_code", "requested_by", "requesters", "supersedes_id", "compensates_id",
    )  # fmt: skip
    return {name: getattr(row, name) for name in stays}


# -- what goes and what stays --------------------------------------------------------------------------------------


def rich(key: str = "k1") -> Execution:
    """Return an execution with words in every column and table that may hold some."""
    people = get_user_model().objects
    ann = people.filter(username="ann").first() or person("ann", approver=False)
    bob = people.filter(username="bob").first() or person("bob")
    row = asked(Approved, by=ann, key=key)
    effects.grant(row.pk, by=bob, digest=Approval.objects.get(execution=row).digest, comment=WORDS)
    with provider_says(
        Approved, effects.Doubt(WORDS, code="http_500"), look_up=effects.Conflict(WORDS, proof={"x": WORDS})
    ):
        run_due()
        operators.look_up_now(row.pk)
    row.refresh_from_db()
    effects.resolve(
        row.pk, decision="applied", revision=row.revision, by=bob, reason=WORDS, evidence={"seen": WORDS},
        output={"said": WORDS}, reference="ch_9",
    )  # fmt: skip
    row.refresh_from_db()
    return row


def test_words_go_and_what_proves_stays() -> None:
    """Payload, output, summary and messages are gone from every table; key, digests, state and decisions are there."""
    row = rich()
    before, digests = bare(row), list(Approval.objects.values_list("digest", "state", "quorum"))
    order = list(
        row.receipts.order_by("sequence").values_list("sequence", "event", "from_state", "to_state", "actor_id")
    )
    assert WORDS in everything_of(row)
    assert '"customer"' in everything_of(row)
    row = pruned(row)
    text = everything_of(row)
    assert WORDS not in text
    assert "customer" not in text
    assert bare(row) == before
    assert list(Approval.objects.values_list("digest", "state", "quorum")) == digests
    assert ApprovalVote.objects.get().decision == "approve"
    assert (Resolution.objects.get().decision, Resolution.objects.get().actor_label) == ("applied", "bob")
    assert Attempt.objects.get().failure_code == "http_500"
    receipts = row.receipts.order_by("sequence")
    assert list(receipts.values_list("sequence", "event", "from_state", "to_state", "actor_id"))[:-1] == order
    last = receipts.last()
    assert last is not None
    assert last.event == "prune"
    assert last.evidence["rule"].startswith("EXECUTION_RETENTION, 31536000 s")
    assert last.at == row.pruned_at


def test_the_door_is_shut_again_behind_it() -> None:
    """In the very transaction that pruned, receipts are append-only again."""
    row = completed()
    time_passes(YEAR + DAY)
    with transaction.atomic():
        tombstones._drop_words([row.pk])
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            Receipt.objects.update(event="x")


def test_without_the_setting_everything_is_kept(settings: Any) -> None:
    """Nothing is dropped that nobody asked to drop, and nothing is looked for."""
    settings.EFFECTS = {}
    row = pruned(completed())
    assert (row.pruned_at, transitions.list_prunable(10), transitions.prune_executions([row.pk])) == (None, [], 0)


def test_each_is_dropped_in_its_time_in_bounded_batches() -> None:
    """The oldest first, while there is time; what was settled within the year stays whole."""
    first, second = completed(key="k1"), completed(key="k2")
    time_passes(DAY)
    young = completed(key="k3")
    time_passes(YEAR - timedelta(hours=1))
    assert SWEEPS["prune"].run_once(1, budget=timedelta(0))["executions"] == 1
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.pruned_at is not None, second.pruned_at is not None) == (True, False)
    assert SWEEPS["prune"].run_once()["executions"] == 1
    assert SWEEPS["prune"].run_once()["executions"] == 0
    young.refresh_from_db()
    assert young.pruned_at is None


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_drop_it_once() -> None:
    """The others do not wait for the row: they leave it, or find it pruned."""
    row = completed()
    time_passes(YEAR + DAY)
    results = together(*[lambda: transitions.prune_executions([row.pk])] * 3)
    assert sorted(results) == [0, 0, 1]
    assert Receipt.objects.filter(event="prune").count() == 1


# -- meeting it ----------------------------------------------------------------------------------------------------


def test_a_late_duplicate_meets_it_and_nothing_is_sent_again(admin_client: Any) -> None:
    """The same payload gets its outcome, without the output; another one is refused by the digest alone."""
    row = pruned(completed())
    with provider_says(Charge) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1")
        assert isinstance(outcome, effects.Completed)
        assert (outcome.ref, outcome.reference) == (str(row.pk), "ch_1")
        assert isinstance(outcome.output, MissingOutput)
        for use in (outcome.require, lambda: outcome.output["id"]):
            with pytest.raises(exceptions.OutputUnavailableError, match="no longer kept: retention dropped it") as gone:
                use()
            assert gone.value.why == "expired"
        with pytest.raises(exceptions.PayloadConflictError):
            effects.perform(Charge, payload=ChargePayload("c2", 1), key="k1")
        later = effects.perform_later(Charge, payload=PAYLOAD, key="k1")
        assert later.ref == str(row.pk)
        run_due()
    assert said.sends == []
    page = admin_client.get(reverse("admin:effects_execution_change", args=[row.pk])).content.decode()
    assert "Retention dropped its payload" in page
    assert admin_client.get(reverse("admin:effects_execution_changelist")).status_code == 200


def test_a_duplicate_of_a_newer_version_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its payload is gone and only the old shape's digest is left: an honest no, never a second send."""
    pruned(completed(Plain))
    monkeypatch.setattr(Plain, "payload_version", 2)
    with provider_says(Plain) as said:
        assert effects.perform(Plain, payload=PAYLOAD, key="k1").may_have_applied  # the same bytes
        with pytest.raises(exceptions.PayloadUnreadableError, match="dropped by retention") as refused:
            effects.perform(Plain, payload=ChargePayload("c1", 1000, "usd"), key="k1")
    assert refused.value.effect_may_have_happened
    assert said.sends == []


def test_an_answer_that_needs_the_output_is_an_honest_no(answers: Any) -> None:
    """A request that meets a tombstone and is cut short ends without a stored answer, not with a wrong one."""
    pruned(completed())
    answers(lambda outcomes: StoredAnswer(200, (), outcomes[0].output["id"].encode()))
    request = opened()
    handled(request, lambda: effects.perform(Charge, payload=PAYLOAD, key="k1", tenant=""))
    transitions.abort(request.pk, epoch=request.epoch, why="killed")
    found = transitions.settle(request.pk)
    assert (found.state, found.answer) == ("answered", None)


def test_it_can_neither_be_undone_nor_sent_again() -> None:
    """Its payload is gone: each says so, and nothing is written."""
    row = pruned(completed(Order))
    Order.reversible = True
    try:
        with pytest.raises(exceptions.PayloadUnreadableError, match="dropped by retention"):
            effects.compensate(row.pk, requested_by="ann")
    finally:
        Order.reversible = False
    effects.observe(row.pk, reference="ch_other", evidence={"from": "a statement"})
    row.refresh_from_db()
    assert row.state == "needs_intervention"
    with pytest.raises(exceptions.WrongStateError, match=r"proof|Proof"):
        operators.order_resend(row.pk, revision=row.revision, by="ann", reason="again")
    Execution.objects.filter(pk=row.pk).update(applied_evidence=None)
    with pytest.raises(exceptions.WrongStateError, match="retention dropped its payload"):
        operators.order_resend(row.pk, revision=row.revision, by="ann", reason="again")


def test_what_failed_can_still_be_superseded() -> None:
    """The successor brings a payload of its own."""
    with provider_says(Plain, effects.Declined(WORDS, code="no_funds")):
        failed = effects.perform(Plain, payload=PAYLOAD, key="k1")
    row = pruned(Execution.objects.get(pk=failed.ref))
    assert effects.get(row.pk).outcome.code == "no_funds"  # type: ignore[attr-defined]
    assert effects.get(row.pk).outcome.message == ""  # type: ignore[attr-defined]
    with provider_says(Plain, effects.Applied()):
        assert isinstance(effects.perform(Plain, payload=PAYLOAD, key="k1", supersede=row.pk), effects.Completed)


def test_late_evidence_is_weighed_by_the_references_that_stay() -> None:
    """The same reference changes nothing, another one is a person's; what a person then writes ages in its turn."""
    row = pruned(completed(Noted))
    effects.observe(row.pk, reference="ch_1", evidence={"from": WORDS})
    assert effects.get(row.pk).state == "completed"
    effects.observe(row.pk, reference="ch_2", evidence={"from": WORDS})
    row.refresh_from_db()
    assert row.state == "needs_intervention"
    time_passes(YEAR + DAY)
    SWEEPS["prune"].run_once()
    assert WORDS in everything_of(row)  # in doubt
    effects.resolve(
        row.pk, decision="applied", revision=row.revision, by="ann", reason=WORDS, output={"said": WORDS}
    )  # fmt: skip
    row.refresh_from_db()
    assert effects.get(row.pk).outcome.require() == {"said": WORDS}
    assert row.hook_due_at is None
    row = pruned(row)
    assert WORDS not in everything_of(row)
    assert Receipt.objects.filter(event="prune").count() == 2


def test_that_it_was_undone_stays_with_what_proves_it() -> None:
    """So that a late proof of success is still weighed against it, and nothing completes it behind a person's back."""
    row = completed()
    effects.observe(row.pk, reference="ch_1", evidence={"from": WORDS}, undone=True)
    row.refresh_from_db()
    effects.resolve(row.pk, decision="undone", revision=row.revision, by="ann", reason=WORDS)
    assert pruned(row).applied_evidence == {"reference": "ch_1", "undone": True}


# -- what is never touched -----------------------------------------------------------------------------------------


def uncertain() -> Execution:
    with provider_says(Order, TimeoutError(WORDS)):
        return Execution.objects.get(pk=effects.perform(Order, payload=PAYLOAD, key="k1").ref)


def with_a_hook_due() -> Execution:
    Noted.then = staticmethod(lambda context, outcome: 1 / 0)
    try:
        return completed(Noted)
    finally:
        Noted.then = staticmethod(lambda context, outcome: None)


def of_an_unanswered_request() -> Execution:
    request = opened()
    with provider_says(Charge, effects.Applied()), provider_says(Noted, TimeoutError()):
        handled(
            request,
            lambda: effects.perform(Charge, payload=PAYLOAD, key="k1"),
            lambda: effects.perform(Noted, payload=PAYLOAD, key="k2"),
        )
    conclude(request)
    return Execution.objects.get(key="k1")


def with_an_open_successor() -> Execution:
    with provider_says(Order, effects.Declined("no"), TimeoutError()):
        failed = effects.perform(Order, payload=PAYLOAD, key="k1")
        effects.perform(Order, payload=PAYLOAD, key="k1", supersede=failed.ref)
    return Execution.objects.get(pk=failed.ref)


def with_an_open_undoing() -> Execution:
    row = completed(Order)
    Order.reversible = True
    try:
        with provider_says(Order, TimeoutError()):
            effects.compensate(row.pk, requested_by="ann")
    finally:
        Order.reversible = False
    return row


def undoing_what_is_in_doubt() -> Execution:
    row = completed(Order)
    Order.reversible = True
    try:
        with provider_says(Order, effects.Applied()):
            undoing = effects.compensate(row.pk, requested_by="ann")
    finally:
        Order.reversible = False
    effects.observe(row.pk, reference="ch_other", evidence={})
    return Execution.objects.get(pk=undoing.ref)


def successor_of_what_was_contradicted() -> Execution:
    with provider_says(Order, effects.Declined("no"), effects.Applied()):
        failed = effects.perform(Order, payload=PAYLOAD, key="k1")
        successor = effects.perform(Order, payload=PAYLOAD, key="k1", supersede=failed.ref)
    effects.observe(failed.ref, reference="ch_first", evidence={})
    return Execution.objects.get(pk=successor.ref)


@pytest.mark.parametrize(
    "make",
    [
        uncertain, with_a_hook_due, of_an_unanswered_request, with_an_open_successor, with_an_open_undoing,
        undoing_what_is_in_doubt, successor_of_what_was_contradicted,
    ],
)  # fmt: skip
def test_what_somebody_may_still_need_is_never_pruned(make: Any) -> None:
    """Whatever its age; and the verb itself looks again, so that no race prunes it."""
    row = pruned(make())
    assert row.pruned_at is None
    assert row.payload
    assert transitions.prune_executions([row.pk]) == 0


def test_what_was_needed_is_pruned_once_it_is_not(answers: Any) -> None:
    """When the request is answered and the other execution settled, the year has passed for both."""
    row = of_an_unanswered_request()
    assert pruned(row).pruned_at is None
    other = Execution.objects.get(key="k2")
    other.refresh_from_db()
    answers(lambda outcomes: StoredAnswer(200, (), b"ok"))
    effects.resolve(other.pk, decision="unknown", revision=other.revision, by="ann", reason="nobody will know")
    time_passes(timedelta(hours=1))
    run_due()
    assert pruned(row).pruned_at is not None


def test_approvals_are_compared_by_their_digests_still() -> None:
    """A second click on a page as old as that changes nothing, and is told how it ended."""
    ann, bob = person("ann", approver=False), person("bob")
    row = asked(Approved, by=ann)
    digest = Approval.objects.get(execution=row).digest
    approve(row, bob)
    with provider_says(Approved, effects.Applied()):
        run_due()
    row = pruned(row)
    assert row.pruned_at is not None
    assert effects.grant(row.pk, by=bob, digest=digest).state == "completed"
