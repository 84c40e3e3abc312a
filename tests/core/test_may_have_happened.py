"""Whether it may have happened: said from the row, in every place, from the permit's commit on."""

from __future__ import annotations

from typing import Any

import pytest

import effects
from effects import transitions
from effects.journal.snapshots import outcome_of, snapshot
from effects.models import Execution
from effects.testing import provider_says
from effects.vocabulary import exceptions
from effects.vocabulary.states import NOTHING_HAPPENED, ExecutionState
from tests.core.declared import ChargePayload, Plain
from tests.core.people import PAYLOAD
from tests.core.racing import OnSend, together

pytestmark = pytest.mark.django_db
S = ExecutionState


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("evidence", [None, {"reference": "n1"}])
@pytest.mark.parametrize("open_attempts", [0, 1])
@pytest.mark.parametrize("state", list(ExecutionState))
def test_it_may_have_happened_unless_all_says_that_nothing_did(
    state: Any, open_attempts: int, evidence: Any, applied: bool
) -> None:
    """Over every state, with and without an open attempt, evidence, an earlier doubt: outcome and snapshot agree."""
    row = Execution(
        operation="bank.plain", state=str(state), open_attempts=open_attempts, applied_evidence=evidence,
        may_have_applied=applied, contract={"quiet": 1.0},
    )  # fmt: skip
    nothing = state in NOTHING_HAPPENED and not open_attempts and evidence is None and not applied
    assert row.may_have_happened is not nothing
    assert outcome_of(row).may_have_applied is not nothing
    assert snapshot(row).may_have_applied is not nothing
    assert exceptions.OutcomeError(outcome_of(row)).effect_may_have_happened is not nothing


def executing() -> Execution:
    """An execution whose sender is gone, and no sweep has run."""
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="k1")
    row = Execution.objects.get(pk=outcome.ref)
    transitions.permit(row.pk, attempt=row.pk, started=0.0, summary=row.summary)
    return Execution.objects.get()


def doubtful() -> Execution:
    with provider_says(Plain, TimeoutError()):
        effects.perform(Plain, payload=PAYLOAD, key="k1")
    return Execution.objects.get()


def done() -> Execution:
    with provider_says(Plain, effects.Applied(1, "n1")):
        effects.perform(Plain, payload=PAYLOAD, key="k1")
    return Execution.objects.get()


def pending() -> Execution:
    effects.perform_later(Plain, payload=PAYLOAD, key="k1")
    return Execution.objects.get()


def declined() -> Execution:
    with provider_says(Plain, effects.Declined("no")):
        effects.perform(Plain, payload=PAYLOAD, key="k1")
    return Execution.objects.get()


def other_payload(row: Execution, patch: Any) -> None:
    effects.perform(Plain, payload=ChargePayload("other", 1), key="k1")


def other_payload_later(row: Execution, patch: Any) -> None:
    effects.perform_later(Plain, payload=ChargePayload("other", 1), key="k1")


def unpayable_payload(row: Execution, patch: Any) -> None:
    effects.perform(Plain, payload={"customer": 1.5}, key="k1")


def a_broken_description(row: Execution, patch: Any) -> None:
    patch.setattr(Plain, "describe", lambda self, context: "no summary")
    effects.perform(Plain, payload=PAYLOAD, key="k1")


def another_safety_version(row: Execution, patch: Any) -> None:
    patch.setattr(Plain, "safety_version", 2)
    effects.perform(Plain, payload=PAYLOAD, key="k1")


def another_provider(row: Execution, patch: Any) -> None:
    patch.setattr(Plain, "provider", "bank/other")
    effects.perform(Plain, payload=PAYLOAD, key="k1")


def a_cancel(row: Execution, patch: Any) -> None:
    effects.cancel(row.pk, by="ann", reason="r", revision=row.revision + 1)


def a_stale_resolution(row: Execution, patch: Any) -> None:
    effects.resolve(row.pk, decision="applied", revision=row.revision + 7, by="ann", reason="r")


def a_reopening(row: Execution, patch: Any) -> None:
    effects.reopen(row.pk, revision=row.revision, by="ann", reason="r")


def an_undoing(row: Execution, patch: Any) -> None:
    effects.compensate(row.pk, requested_by="ann")


def an_undoing_of_what_is_gone(row: Execution, patch: Any) -> None:
    from effects.declarations import effect

    patch.delitem(effect._registry, "bank.plain")
    effects.compensate(row.pk, requested_by="ann")


def asked_again_too_early(row: Execution, patch: Any) -> None:
    effects.perform(Plain, payload=PAYLOAD, supersede=row.pk)


RAISES = [
    other_payload, other_payload_later, unpayable_payload, a_broken_description, another_safety_version,
    another_provider, a_cancel, a_stale_resolution, a_reopening, an_undoing, an_undoing_of_what_is_gone,
    asked_again_too_early,
]  # fmt: skip


@pytest.mark.parametrize("raising", RAISES)
@pytest.mark.parametrize("made", [executing, doubtful, done, pending, declined])
def test_an_error_about_a_row_says_what_the_row_says(made: Any, raising: Any, monkeypatch: Any) -> None:
    """An error's class cannot know; a caller who believes that nothing happened pays again under another key."""
    row = made()
    expected = row.may_have_happened
    errors: list[exceptions.EffectsError] = []
    with monkeypatch.context() as patch, provider_says(Plain, effects.Declined("no")):
        try:
            raising(row, patch)
        except exceptions.EffectsError as error:
            errors.append(error)
    assert [error.effect_may_have_happened for error in errors] in ([], [expected])
    assert errors or made not in (executing, doubtful)


def test_who_meets_what_is_being_sent_hears_that_it_may_have_happened() -> None:
    """Outcome, require(), get and the snapshot, while the provider is called."""
    seen: list[Any] = []

    def look() -> None:
        outcome = effects.perform(Plain, payload=PAYLOAD, key="k1")
        seen.append(outcome.may_have_applied)
        with pytest.raises(exceptions.OutcomeError) as raised:
            outcome.require()
        seen.append(raised.value.effect_may_have_happened)
        seen.append(effects.get(outcome.ref).may_have_applied)

    with provider_says(Plain, effects.Declined("no")) as said:
        said.sends = OnSend(look)
        outcome = effects.perform(Plain, payload=PAYLOAD, key="k1")
    assert seen == [True, True, True]
    assert (outcome.may_have_applied, Execution.objects.get().may_have_applied) == (False, False)


@pytest.mark.django_db(transaction=True)
def test_of_many_callers_at_once_none_is_told_that_it_did_not_happen() -> None:
    """All but one meet the row while it is sent."""
    told: list[bool] = []

    def others() -> None:
        results = together(*[lambda: effects.perform(Plain, payload=PAYLOAD, key="k1")] * 5)
        told.extend(outcome.may_have_applied for outcome in results)

    with provider_says(Plain, effects.Applied(1, "n1")) as said:
        said.sends = OnSend(others)
        effects.perform(Plain, payload=PAYLOAD, key="k1")
    assert told == [True] * 5


def test_an_error_before_the_first_commit_says_that_nothing_happened() -> None:
    """Nothing is known under the key, and what was written is taken back."""
    with pytest.raises(exceptions.NobodyEntitledError) as raised:
        effects.perform(Plain, payload=PAYLOAD, key="k9", require_approval=True, requested_by="ann")
    assert raised.value.effect_may_have_happened is False
