"""A tombstone comes to rest again, whatever is said of it after its contents are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

import effects
from effects import transitions
from effects.inspection import audit
from effects.models import Execution, Receipt
from effects.runtime import operators
from effects.sweeps import SWEEPS
from effects.testing import provider_says, run_due, time_passes
from effects.transitions import News, Says
from effects.transitions._words import holds_words
from effects.vocabulary import exceptions
from effects.vocabulary.states import EXECUTION_SETTLED, ExecutionState
from tests.core.declared import Noted, Plain
from tests.core.people import PAYLOAD
from tests.core.test_requests import answers, conclude, handled, opened
from tests.core.test_tombstones import DAY, WORDS, YEAR, everything_of, pruned

__all__ = ["answers"]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def retention(settings: Any) -> None:
    """Settled executions keep their contents for a year."""
    settings.EFFECTS = {"DISPATCH": "none", "EXECUTION_RETENTION": YEAR}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the hook of `Noted` was told."""
    states: list[str] = []
    monkeypatch.setattr(Noted, "then", staticmethod(lambda context, outcome: states.append(str(outcome.state))))
    return states


def tombstone(*answers: Any, effect: Any = Noted, **options: Any) -> Execution:
    """Return the tombstone of an execution that its provider answered so."""
    with provider_says(effect, *answers):
        outcome = effects.perform(effect, payload=PAYLOAD, key="k1", **options)
    return pruned(Execution.objects.get(pk=outcome.ref))


def completed() -> Execution:
    return tombstone(effects.Applied(None, "ch_1"))


def without_a_reference() -> Execution:
    return tombstone(effects.Applied())


def failed() -> Execution:
    return tombstone(effects.Declined(WORDS))


def rejected() -> Execution:
    ref = effects.perform_later(Noted, payload=PAYLOAD, key="k1").ref
    effects.cancel(ref, by="ann", reason=WORDS)
    return pruned(Execution.objects.get(pk=ref))


def abandoned() -> Execution:
    with provider_says(Noted, TimeoutError()):
        row = Execution.objects.get(pk=effects.perform(Noted, payload=PAYLOAD, key="k1").ref)
    effects.resolve(row.pk, decision="unknown", revision=row.revision, by="ann", reason=WORDS)
    return pruned(row)


def contradicted(row: Execution) -> Execution:
    """Let the provider say of a tombstone what it does not say."""
    undone = row.state == ExecutionState.COMPLETED
    effects.observe(row.pk, reference="ch_1", evidence={"from": WORDS}, undone=undone)
    row.refresh_from_db()
    assert row.state == "needs_intervention"
    return row


def resolved(row: Execution, decision: str) -> Execution:
    effects.resolve(row.pk, decision=decision, revision=row.revision, by="ann", reason=WORDS)
    row.refresh_from_db()
    return row


def events(row: Execution) -> list[str]:
    return list(Receipt.objects.filter(execution=row).order_by("sequence").values_list("event", flat=True))


def findings() -> list[Any]:
    return list(audit.audit(audit.Scope(now=timezone.now()), Counter()))


# -- hooks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [completed, failed, rejected, abandoned])
@pytest.mark.parametrize("decision", ["applied", "undone", "unknown"])
def test_the_hook_of_a_tombstone_that_is_settled_anew_ends_and_it_is_pruned_again(
    make: Callable[[], Execution], decision: str, told: list[str]
) -> None:
    """It is never given a payload that is gone; a receipt says that it did not run, and what was written ages."""
    row = resolved(contradicted(make()), decision)
    assert (row.hook_due_at, row.hook_error, row.hook_failures) == (None, "", 0)
    assert events(row)[-2:] == ["resolve", "end_hook"]
    assert len(told) == 1
    assert WORDS in everything_of(row)
    row = pruned(row)
    assert WORDS not in everything_of(row)
    assert (events(row).count("prune"), row.ages_from, findings()) == (2, None, [])


def test_it_rests_again_as_often_as_it_is_contradicted(told: list[str]) -> None:
    """Given up, then found by a statement, then returned by a bank: each time its hook ends and its words go."""
    row = resolved(contradicted(abandoned()), "unknown")
    row = pruned(row)
    row = pruned(resolved(contradicted(row), "applied"))
    row = pruned(resolved(contradicted(row), "undone"))
    assert (row.hook_due_at, row.ages_from, len(told)) == (None, None, 1)
    assert (events(row).count("end_hook"), events(row).count("prune")) == (3, 4)
    assert WORDS not in everything_of(row)
    assert findings() == []


def test_the_hook_of_an_effect_that_is_gone_ends_too(told: list[str]) -> None:
    """No deploy brings its payload back."""
    row = contradicted(completed())
    Execution.objects.filter(pk=row.pk).update(operation="bank.gone")
    row = resolved(row, "applied")
    assert (row.hook_due_at, events(row)[-1]) == (None, "end_hook")
    assert WORDS not in everything_of(pruned(row))


def test_an_effect_without_a_hook_has_none_that_ends() -> None:
    """Its receipts say nothing of what it never had."""
    row = resolved(contradicted(tombstone(effects.Declined(WORDS), effect=Plain)), "applied")
    assert events(row)[-1] == "resolve"
    assert WORDS not in everything_of(pruned(row))


def test_a_hook_that_is_due_on_a_tombstone_ends_at_the_next_sweep(told: list[str]) -> None:
    """However it became due: an older journal, a restored one."""
    row = completed()
    Execution.objects.filter(pk=row.pk).update(hook_due_at=timezone.now(), hook_failures=7, hook_error=WORDS)
    assert run_due()["run_hooks.done"] == 1
    row.refresh_from_db()
    assert (row.hook_due_at, row.hook_failures, row.hook_error, events(row)[-1]) == (None, 0, "", "end_hook")
    assert len(told) == 1


def test_a_request_that_waits_for_it_is_answered(answers: Any) -> None:
    """A hook that ended holds no answer back."""
    row = contradicted(completed())
    request = opened()
    handled(request, lambda: effects.perform(Noted, payload=PAYLOAD, key="k1", tenant=""))
    conclude(request)
    request.refresh_from_db()
    assert request.state == "waiting"
    row.refresh_from_db()
    resolved(row, "applied")
    time_passes(timedelta(hours=1))
    run_due()
    request.refresh_from_db()
    assert request.state == "answered"
    assert WORDS not in everything_of(pruned(row))


def test_it_is_not_reopened() -> None:
    """A look-up needs the payload; whoever asks for one is told that it can only be resolved."""
    row = contradicted(completed())
    with pytest.raises(exceptions.WrongStateError, match=r"Retention dropped its payload.*resolved"):
        effects.reopen(row.pk, revision=row.revision, by="ann", reason=WORDS)


# -- words that settle nothing -------------------------------------------------------------------------------------


def observed(row: Execution) -> None:
    effects.observe(row.pk, reference="ch_1", evidence={"from": WORDS})


def told_where_things_stand(row: Execution) -> None:
    operators.hear(row.pk, News("evt_1", Says.HAPPENED, "ch_1", {"said": WORDS}))


def superseded(row: Execution) -> None:
    with provider_says(Noted, effects.Applied()):
        effects.supersede(row.pk, requested_by="ann", reason=WORDS, payload=PAYLOAD)


@pytest.mark.parametrize(
    ("make", "write"),
    [
        (completed, observed), (without_a_reference, told_where_things_stand),
        (failed, superseded), (rejected, superseded),
    ],
)  # fmt: skip
def test_words_on_a_tombstone_age_although_they_settle_nothing(
    make: Callable[[], Execution], write: Callable[[Execution], None]
) -> None:
    """Evidence that confirms it, a webhook, the reason of a successor: dropped a year after the first of them."""
    row = make()
    write(row)
    row.refresh_from_db()
    assert row.state in EXECUTION_SETTLED
    first = row.ages_from
    assert WORDS in everything_of(row)
    assert first is not None
    time_passes(timedelta(days=200))
    SWEEPS["prune"].run_once()
    assert WORDS in everything_of(row)
    row = pruned(row)
    assert WORDS not in everything_of(row)
    assert (events(row).count("prune"), row.ages_from, findings()) == (2, None, [])


def test_the_first_words_say_when_all_of_them_are_dropped() -> None:
    """So that no stream of news keeps what somebody wrote for longer than the retention."""
    row = completed()
    observed(row)
    time_passes(YEAR - DAY)
    observed(row)
    time_passes(2 * DAY)
    SWEEPS["prune"].run_once()
    assert WORDS not in everything_of(row)


@pytest.mark.parametrize("meet", ["join", "late"])
def test_what_is_kept_for_ever_starts_no_time(meet: str) -> None:
    """A late duplicate with a name, a late reply: nothing of them is dropped, so nothing is pruned again."""
    row = completed()
    if meet == "join":
        effects.perform(Noted, payload=PAYLOAD, key="k1", requested_by="bob")
    else:
        transitions.late_outcome(row.pk, attempt=row.attempt_rows.get().pk, report=effects.Applied(None, "ch_1"))
    count = Receipt.objects.count()
    row = pruned(row)
    assert (row.ages_from, Receipt.objects.count(), events(row).count("prune")) == (None, count, 1)


@pytest.mark.parametrize("receipt", [{}, {"code": "x", "undone": True}, {"approval": {"quorum": 2}}, {"attempt": 1}])
def test_receipts_that_prove_hold_no_words(receipt: dict[str, Any]) -> None:
    """What stays after pruning is nothing to prune."""
    assert not holds_words(receipt)


@pytest.mark.parametrize("receipt", [{"why": ""}, {"reason": WORDS}, {"code": {"x": 1}}, {"event": "evt_1"}])
def test_receipts_with_anything_else_hold_words(receipt: dict[str, Any]) -> None:
    """Whatever its name or type."""
    assert holds_words(receipt)
