"""The audit: whether the journal says what its own rules allow. Reads only, and holds back nobody.

One noun a module: `replay` (receipts replay to the row), `told` (rows are as receipts left them), `contents` (digests),
`attempts`, `licences` (approvals), `promptness` (leases, due times, hooks, sweeps), `links` (successors, requests),
`notices`. `findings.CODES` lists all that can be found. Whoever writes a row by the verbs alone gets no finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from effects.inspection.audit import attempts, cases, contents, licences, links, notices, promptness, replay, told
from effects.inspection.audit.findings import CODES, Code, Finding
from effects.inspection.audit.walk import Check, Scope, walk
from effects.models import Execution, Request

__all__ = ["CODES", "Code", "Finding", "Scope", "audit"]


def audit(scope: Scope, checked: Counter[str]) -> Iterator[Finding]:
    """Yield what is wrong with the journal, as it is found.

    Args:
        scope: what to look at.
        checked: what was looked at is added here, by kind.

    Raises:
        django.db.Error: the journal cannot be read.
    """
    for check in (_EXECUTIONS, _REQUESTS, *promptness.CHECKS, *links.CHECKS, *notices.CHECKS):
        yield from walk(check, scope, checked)
    yield from promptness.stopped_sweeps(scope)


def _examine_executions(batch: Sequence[Execution], checked: Counter[str]) -> Iterator[Finding]:
    known = contents.journal_ids()
    for case in cases.load(batch, checked):
        yield from replay.differences(case.row, case.replay)
        altered = False
        for finding in told.of_execution(case):
            altered = True
            yield finding
        try:
            yield from contents.of_execution(case.row, known)
            yield from attempts.of_case(case)
            yield from licences.of_case(case)
        except (AttributeError, KeyError, TypeError, ValueError):
            # a column that cannot be read is found as altered already
            if not altered:
                raise


def _examine_requests(batch: Sequence[Request], checked: Counter[str]) -> Iterator[Finding]:
    replays, resolutions = cases.replays(batch, checked), cases.resolutions(batch)
    checked["requests"] += len(batch)
    for row in batch:
        yield from replay.differences(row, replays[row.pk])
        yield from told.of_request(row, replays[row.pk], resolutions[row.pk])
        yield from contents.of_request(row)


_EXECUTIONS = Check(cases.executions, _examine_executions)
_REQUESTS = Check(cases.requests, _examine_requests)
