"""Attempts: numbered, counted, ended, all of the same contents; and what was completed is proven."""

from __future__ import annotations

from collections.abc import Iterator

from effects.inspection.audit.cases import Case
from effects.inspection.audit.findings import Finding
from effects.vocabulary.states import NOTHING_HAPPENED, AttemptOutcome, ExecutionState

__all__ = ["of_case"]

_S = ExecutionState


def of_case(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with an execution's attempts, or with what it claims to be proven."""
    for rule in (_numbers, _counts, _open, _contents, _proof):
        for code, wrong in rule(case):
            yield Finding(code, "execution", str(case.row.pk), wrong)


def _numbers(case: Case) -> Iterator[tuple[str, str]]:
    numbers = [attempt.number for attempt in case.attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "attempts_numbers", f"the attempts are numbered {', '.join(map(str, numbers))}"


def _counts(case: Case) -> Iterator[tuple[str, str]]:
    if case.row.attempts != len(case.attempts):
        yield "attempts_count", f"the row counts {case.row.attempts} attempts, there are {len(case.attempts)}"


def _open(case: Case) -> Iterator[tuple[str, str]]:
    opened = [attempt.number for attempt in case.attempts if attempt.outcome == AttemptOutcome.OPEN]
    expected = 1 if case.row.state == _S.EXECUTING else 0
    if len(opened) != expected or case.row.open_attempts != expected:
        numbers = ", ".join(map(str, opened)) or "none"
        counted = case.row.open_attempts
        yield "attempts_open", f"it is {case.row.state}, counts {counted} open attempts, and open are: {numbers}"


def _contents(case: Case) -> Iterator[tuple[str, str]]:
    for attempt in case.attempts:
        if attempt.provider_key != case.row.provider_key:
            yield "attempts_contents", f"attempt {attempt.number} was permitted under another provider key"
            return
        if attempt.payload_digest != case.row.payload_digest:
            yield "attempts_contents", f"attempt {attempt.number} was permitted for another payload"
            return


def _proof(case: Case) -> Iterator[tuple[str, str]]:
    row = case.row
    applied = [attempt.number for attempt in case.attempts if attempt.outcome == AttemptOutcome.APPLIED]
    if row.state in (_S.COMPLETED, _S.PARTIALLY_COMPLETED) and not applied and not case.replay.is_proven:
        yield "completed_without_proof", f"it is {row.state}; no attempt, no look-up and no person says so"
    if row.state in NOTHING_HAPPENED and (applied or row.applied_evidence is not None):
        proof = f"attempt {applied[0]} applied" if applied else "proof that it applied is on file"
        yield "nothing_despite_proof", f"it is {row.state}, and {proof}"
