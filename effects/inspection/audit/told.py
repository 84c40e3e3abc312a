"""What receipts tell: the row and all that was written beside it are as the newest receipt left them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model

from effects.inspection.audit.cases import Case
from effects.inspection.audit.findings import Finding
from effects.inspection.audit.replay import Replay, Told
from effects.journal import locks
from effects.models import Attempt, Execution, Request
from effects.transitions import digests
from effects.transitions._licences import shown
from effects.vocabulary.states import EXECUTION_SETTLED, AttemptOutcome, ExecutionState, RequestState

__all__ = ["of_execution", "of_request"]

Wrong = Iterator[tuple[str, str]]
#: What is told by name, and under which code its change is found.
_CODES = {
    "attempt": "attempt_altered", "approval": "approval_altered", "vote": "vote_altered",
    "resolution": "resolution_altered", "link": "link_altered",
}  # fmt: skip
#: How far ahead a due time can be moved without a receipt: by a busy provider two seconds, by an answer that is not
#: there yet five minutes; the rest is for a clock that was set back.
_STEP_BACK, _LOOK_AGAIN = timedelta(minutes=10), timedelta(minutes=15)
#: How far ahead a hook that fails is postponed; the rest is for a clock that was set back.
_HOOK_AHEAD = timedelta(minutes=15)


def of_execution(case: Case) -> Iterator[Finding]:
    """Yield what is not as an execution's receipts tell."""
    row, replay = case.row, case.replay
    seen = set()
    beside = (_beside(case), _ends(case), _links(case))
    for rule in (_row(row, replay), _tomb(case), _asked(case), _hook(row, replay), *beside):
        for code, wrong in rule:
            if code not in seen:
                seen.add(code)
                yield Finding(code, "execution", str(row.pk), wrong)


def of_request(row: Request, replay: Replay, resolutions: Sequence[Model]) -> Iterator[Finding]:
    """Yield what is not as a request's receipts tell; `body_digest` is annotated on the row."""
    for rule in (_row(row, replay), _body(row, replay), _each(replay, resolutions, ("resolution",))):
        for code, wrong in rule:
            yield Finding(code, "request", str(row.pk), wrong)


def _row(row: Execution | Request, replay: Replay) -> Wrong:
    told = replay.told.get("row")
    if told is None:
        yield "row_altered", "no receipt tells of its columns"
        return
    if not replay.is_as_told(told, digests.digest_of(row, told.at)):
        yield "row_altered", f"a column is not as receipt {told.sequence} left it"
    if isinstance(row, Execution):
        yield from _contents(row)
    yield from _due(row, told, replay.told.get("due"))
    yield from _lease(row, told, replay.told.get("lease"))


def _contents(row: Execution) -> Wrong:
    """Lists filter by amount and target: they are those of the summary."""
    if not isinstance(row.summary, dict):
        yield "row_altered", "its summary is no object"
        return
    differing = [name for name, value in shown(row.summary).items() if getattr(row, name) != value]
    if differing and row.pruned_at is None:
        yield "row_altered", f"{', '.join(differing)} are not those of its summary"


def _tomb(case: Case) -> Wrong:
    """What retention emptied is empty, until something is recorded anew."""
    row, newest = case.row, case.replay.newest
    if newest is None or newest.event != "prune":
        return
    if row.pruned_at != newest.at:
        yield "tombstone", "it was pruned at another time than its receipt says"
    items = row.items if isinstance(row.items, list) else []
    left = [row.output, row.summary, row.target, row.failure_message, row.ages_from, row.hook_error]
    left += [item.get("message") for item in items if isinstance(item, dict)]
    left += [attempt.message for attempt in case.attempts]
    left += [
        getattr(other, name)
        for other in (*case.approvals, *case.votes, *case.resolutions)
        for name in digests.WORDS[type(other)]
    ]
    if any(left):
        yield "tombstone", "it was pruned, and words are there"


def _due(row: Execution | Request, told: Told, due: Told | None) -> Wrong:
    expected = _instant(told.at, due)
    if row.due_at == expected or (row.due_at is None and row.state == RequestState.IN_DOUBT):
        return
    ahead = _STEP_BACK if isinstance(row, Execution) else _LOOK_AGAIN
    moved = expected is not None and row.due_at is not None and expected < row.due_at <= locks.now() + ahead
    if not moved:
        yield "due_altered", f"it is due at {_said(row.due_at)}, and its receipts say {_said(expected)}"


def _lease(row: Execution | Request, told: Told, lease: Told | None) -> Wrong:
    expected, actual = _instant(told.at, lease), row.lease_expires_at
    if isinstance(row, Request):  # renewed without a receipt, up to its handler's end
        latest = max((one for one in (expected, row.handler_until) if one is not None), default=None)
        wrong = actual is not None and (latest is None or actual > latest)
    else:  # ended without a receipt where a look-up raised
        wrong = actual != expected and not (actual is None and row.state != ExecutionState.EXECUTING)
    if wrong:
        yield "lease_altered", f"its lease lasts until {_said(actual)}, and its receipts say {_said(expected)}"


def _asked(case: Case) -> Wrong:
    row, asked = case.row, case.row.requested_by
    first = case.replay.first
    by = asked.get("id") if isinstance(asked, dict) else None
    if first is not None and first.event == "record" and (by or "") != first.actor_id:
        yield "row_altered", f"it was requested by {by or 'nobody'}, and its first receipt names {first.actor_id!r}"
    rule = row.contract.get("approval") if isinstance(row.contract, dict) else None
    if rule and rule.get("four_eyes") and case.replay.voters:
        yield "vote_by_requester", f"receipt {case.replay.voters[0]} is a vote of somebody who asked for it"


def _hook(row: Execution, replay: Replay) -> Wrong:
    if row.hook_due_at is None:
        if replay.hook == "due" or (row.hook_failures and replay.hook != "over"):
            yield "hook_altered", "its hook has not run, and is not due any more"
        return
    if row.state not in EXECUTION_SETTLED:
        yield "hook_altered", f"it is {row.state}, and a settled hook is due"
    elif not row.hook_failures and replay.hook != "due":
        yield "hook_altered", "a hook is due that did not fail and that no receipt tells of"
    elif row.hook_due_at > locks.now() + _HOOK_AHEAD:
        yield "hook_altered", f"its hook is due at {_said(row.hook_due_at)}: no failure postpones one for that long"


def _beside(case: Case) -> Wrong:
    rows: list[Model] = [*case.attempts, *case.approvals, *case.votes, *case.resolutions]
    yield from _each(case.replay, rows, ("attempt", "approval", "vote", "resolution"))


def _each(replay: Replay, rows: Sequence[Model], kinds: tuple[str, ...]) -> Wrong:
    """Compare the rows of some kinds with what was told of them: none is missing, none made up, none changed."""
    present = {digests.name_of(row): row for row in rows}
    for name, told in replay.told.items():
        kind = name.partition(" ")[0]
        if kind in kinds and name not in present:
            yield _CODES[kind], f"{name} is gone, of which receipt {told.sequence} tells"
    for name, row in present.items():
        written = replay.told.get(name)
        if written is None:
            yield _CODES[name.partition(" ")[0]], f"no receipt tells of {name}"
        elif not replay.is_as_told(written, digests.digest_of(row, written.at)):
            yield _CODES[name.partition(" ")[0]], f"{name} is not as receipt {written.sequence} left it"


def _ends(case: Case) -> Wrong:
    for attempt in case.attempts:
        outcome = case.replay.outcomes.get(str(attempt.number), [str(AttemptOutcome.OPEN), ""])
        if [attempt.outcome, attempt.reference] != outcome:
            yield "attempt_altered", f"attempt {attempt.number} is {attempt.outcome}, and its receipts say {outcome[0]}"
        end = case.replay.told.get(f"end {attempt.number}")
        if not _is_end(case.replay, attempt, end):
            yield "attempt_altered", f"attempt {attempt.number} did not end as its receipts say"


def _is_end(replay: Replay, attempt: Attempt, end: Told | None) -> bool:
    if end is not None:
        return replay.is_as_told(end, digests.digest_of_end(attempt, end.at))
    return attempt.ended_at is None and not (attempt.failure_reason or attempt.failure_code or attempt.message)


def _links(case: Case) -> Wrong:
    told, links = case.replay.links, {str(link.request_id): link for link in case.links}
    for request in told.keys() - links.keys():
        yield "link_altered", f"the link with request {request} is gone"
    for request, link in links.items():
        known = told.get(request)
        if known is None:
            yield "link_altered", f"no receipt tells of the link with request {request}"
        elif link.position not in known["positions"]:
            yield "link_altered", f"the link with request {request} has another position"
        # a successor takes over the places that its elder held
        elif link.holds != known["holds"] and (link.holds or case.row.holds_key):
            yield "link_altered", f"the link with request {request} holds its answer: {link.holds}"


def _body(row: Request, replay: Replay) -> Wrong:
    told = replay.told.get("body")
    expected = told.value if told is not None and not replay.is_dropped else None
    digest: Any = getattr(row, "body_digest", None)
    if digest != expected:
        what = "gone" if digest is None else "not those that were stored"
        yield "answer_altered", f"the bytes of its answer are {what}"


def _instant(at: datetime, told: Told | None) -> datetime | None:
    return None if told is None else at + timedelta(microseconds=told.value)


def _said(instant: datetime | None) -> str:
    return "no time" if instant is None else f"{instant:%F %T.%f %Z}"
