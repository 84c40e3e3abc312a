"""The machine can fail: each of these broken rules is found by it, with one of a few fixed seeds.

`pytest -m planted tests/machine` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import hypothesis.errors
import pytest
from hypothesis.stateful import run_state_machine_as_test

from effects import transitions
from effects.models import Attempt, Execution
from effects.runtime import sending
from effects.transitions import _licences, attempts, lookups
from effects.vocabulary import failures
from effects.vocabulary.failures import FailureClass
from effects.vocabulary.states import AttemptOutcome, ExecutionReason
from tests.machine import declared
from tests.machine.machine import EffectsMachine
from tests.machine.oracle import Violation

pytestmark = [pytest.mark.planted, pytest.mark.usefixtures("journal")]

#: Enough for each with one of its seeds. What a seed gives changes with the code, whose constants Hypothesis reads.
EXAMPLES, SEEDS = 150, 12
#: Long before any barrier.
LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.utc)


def skip_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """A late reply is written as the outcome of whatever attempt is open now."""
    record = transitions.record_outcome

    def unfenced(execution_id: Any, *, attempt: Any, epoch: int, report: Any) -> Any:
        now_open = Attempt.objects.filter(execution_id=execution_id, outcome=str(AttemptOutcome.OPEN)).first()
        if now_open is not None:
            attempt, epoch = now_open.pk, now_open.epoch
        return record(execution_id, attempt=attempt, epoch=epoch, report=report)

    patch.setattr(transitions, "record_outcome", unfenced)


def believe_an_absence_from_before_the_barrier(patch: pytest.MonkeyPatch) -> None:
    """A look-up is believed whenever it was claimed."""
    patch.setattr(lookups, "barrier", lambda row: LONG_AGO)


def take_a_timeout_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    """Nobody answered, so nothing happened."""
    classify = failures.classify

    def hopeful(error: BaseException) -> FailureClass:
        if isinstance(error, TimeoutError):
            return FailureClass(ExecutionReason.DECLINED, "timeout", "", not_applied=True)
        return classify(error)

    patch.setattr(failures, "classify", hopeful)
    patch.setattr(sending, "classify", hopeful)


def clear_the_doubt_on_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """A refusal of the second send proves that the first one did not happen."""
    record = attempts._record_failure

    def forgetful(row: Execution, attempt: Any, failure: FailureClass) -> None:
        if failure.not_applied:
            row.may_have_applied, row.applied_evidence = False, None
            Execution.objects.filter(pk=row.pk).update(may_have_applied=False, applied_evidence=None)
        record(row, attempt, failure)

    patch.setattr(attempts, "_record_failure", forgetful)


def ignore_what_changed_after_the_approval(patch: pytest.MonkeyPatch) -> None:
    """What was approved once may be sent, whatever it has become."""
    patch.setattr(_licences, "is_void", lambda row, approval, summary: False)


def approve_for_good(patch: pytest.MonkeyPatch) -> None:
    """One approval is worth any number of sends."""
    patch.setattr(_licences, "covers_another_send", lambda approval: True)


#: What is broken, and in whose world.
PLANTS = [
    (skip_the_epoch_check, (declared.Repeatable, declared.Repeatable)),
    (believe_an_absence_from_before_the_barrier, (declared.Authoritative, declared.Lagging)),
    (take_a_timeout_for_a_failure, (declared.Blind, declared.Lagging)),
    (clear_the_doubt_on_a_refusal, (declared.Repeatable, declared.Repeatable)),
    (ignore_what_changed_after_the_approval, (declared.Approved, declared.Covered)),
    (approve_for_good, (declared.Approved, declared.BlindApproved)),
]


@pytest.mark.parametrize(("plant", "pair"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_the_machine_finds(
    plant: Callable[[pytest.MonkeyPatch], None],
    pair: tuple[type[declared.Machine], type[declared.Machine]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken rule leads to a broken promise."""
    plant(monkeypatch)
    for seed in range(1, SEEDS + 1):
        if found := _search(pair, seed):
            # Hypothesis looks again, and a delay with jitter may then end on the other side of a step
            assert all(isinstance(each, Violation) for each in getattr(found, "exceptions", [found]))
            return
    pytest.fail(f"none of {SEEDS} seeds leads to a broken promise")


def _search(pair: tuple[type[declared.Machine], type[declared.Machine]], seed: int) -> BaseException | None:
    """Run the machine with a seed; return what it found."""
    machine: type[EffectsMachine] = type("PlantedMachine", (EffectsMachine,), {"effects": pair})
    hypothesis.seed(seed)(machine)
    settings = hypothesis.settings(
        hypothesis.settings.get_profile("normal"),
        max_examples=EXAMPLES,
        phases=[hypothesis.Phase.generate],
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(machine, settings=settings)
    except (Violation, hypothesis.errors.FlakyFailure) as found:
        return found
    return None
