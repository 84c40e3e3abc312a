"""`idempotency_probe`: send a request again in the ways in which clients do, and count what happened."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import CodeType
from typing import Any
from uuid import uuid4

from django.db import connections
from django.test import Client

from effects.journal.commits import journal
from effects.models import Attempt
from effects.testing.faults import Interrupted, watch_points
from effects.testing.handlers import Meeting, crash_at, find_handler, on_entry
from effects.testing.time import run_due, time_passes

__all__ = ["PROBES", "ProbeError", "ProbeReport", "ProbeResult", "idempotency_probe"]

#: What is probed, in this order.
PROBES = ("twice", "concurrent", "changed", "other_user", "crash")
#: Longer than every lease and quiet time of the defaults, so that what a crash left behind is looked at; and as often
#: as it takes to expire a lease, believe an absence, send again and settle, or the next probe would count that.
LATER, ROUNDS = timedelta(minutes=15), 3


@dataclass(frozen=True)
class ProbeResult:
    """What one probe saw.

    Attributes:
        probe: one of `PROBES`; of crashes also where, as in `crash at handler.returned`.
        problems: what is wrong, in sentences; empty: nothing.
        seen: the answers' statuses and the number of effects, in one line.
        skipped: why it was not run.
    """

    probe: str
    seen: str = ""
    problems: tuple[str, ...] = ()
    skipped: str = ""

    def __str__(self) -> str:
        mark = "skip" if self.skipped else "FAIL" if self.problems else "ok  "
        return "\n       ".join((f"{mark}  {self.probe}: {self.skipped or self.seen}", *self.problems))


@dataclass(frozen=True)
class ProbeReport:
    """What all probes of a request saw; its text has one line for each."""

    request: str
    results: tuple[ProbeResult, ...]

    @property
    def failed(self) -> tuple[ProbeResult, ...]:
        """The probes that found something."""
        return tuple(result for result in self.results if result.problems)

    def __str__(self) -> str:
        ran = [result for result in self.results if not result.skipped]
        lines = (f"{self.request}: {len(self.failed)} of {len(ran)} probes failed", *map(str, self.results))
        return "\n  ".join(lines)


class ProbeError(AssertionError):
    """A probe found that a repeated request is not safe; `report` has all of them."""

    def __init__(self, report: ProbeReport) -> None:
        super().__init__(str(report))
        self.report = report


def attempts() -> int:
    """Return how many sends the journal has permitted."""
    return Attempt.objects.count()


def idempotency_probe(
    client: Client,
    method: str,
    url: str | Callable[[], str],
    *,
    other: Client | None,
    data: Any = None,
    changed: Any = None,
    content_type: str = "application/json",
    effects_done: Callable[[], int] = attempts,
    requests: int = 3,
    patience: timedelta = timedelta(seconds=2),
    skip: Collection[str] = (),
    header: str = "Idempotency-Key",
) -> ProbeReport:
    """Send a request twice, at once, changed, as somebody else and after crashes; assert that one effect happened.

    Needs a database that commits (`transactional_db`, `TransactionTestCase`): the concurrent requests run in threads
    with connections of their own. What the provider answers is said around it, by `provider_says`.

    Args:
        client: Django's test client or REST framework's, logged in.
        method: of the request.
        url: its path; or a callable that returns one for each probe, where one thing can be done only once.
        other: the client of another user; None skips that probe.
        data: the body: JSON-ready, or bytes with their `content_type`; or a callable that returns one for each probe.
        changed: another body that the view would take; made from `data` if it is a dict.
        content_type: of the body.
        effects_done: returns how many effects have happened until now: rows, or entries of the provider's ledger.
            The attempts in the journal unless said.
        requests: how many are sent at once.
        patience: how long a request is held in the handler for the others.
        skip: probes that are not run, of `PROBES`.
        header: where the key goes.

    Returns:
        What each probe saw; print it.

    Raises:
        ProbeError: an AssertionError that says which probes failed, and what they saw.
        RuntimeError: the test's database does not commit, or `skip` names no probe.
    """
    if journal().in_atomic_block:
        raise RuntimeError("idempotency_probe needs real commits: use transactional_db or TransactionTestCase")
    if unknown := set(skip) - set(PROBES):
        raise RuntimeError(f"skip= names {', '.join(sorted(unknown))}; the probes are {', '.join(PROBES)}")
    probe = _Probe(
        client, method.upper(), url, other, data, changed, content_type, effects_done, requests,
        patience.total_seconds(), header,
    )  # fmt: skip
    results = [result for name in PROBES for result in _run(probe, name, skip)]
    report = ProbeReport(f"idempotency_probe {probe.method} {probe.last_path}", tuple(results))
    if report.failed:
        raise ProbeError(report)
    return report


def _run(probe: _Probe, name: str, skip: Collection[str]) -> Iterator[ProbeResult]:
    if name in skip:
        yield ProbeResult(name, skipped="told so")
    else:
        yield from getattr(probe, name)()


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    replayed: bool

    @property
    def is_done(self) -> bool:
        """Whether it says that the thing was done; 202 says that it is under way."""
        return 200 <= self.status < 300 and self.status != 202

    @property
    def is_broken(self) -> bool:
        return self.status >= 500 and self.status != 503


@dataclass
class _Case:
    """One request with a key of its own, and what is counted from its start on."""

    path: str
    body: Any
    before: int
    key: str = field(default_factory=lambda: uuid4().hex)


@dataclass
class _Probe:
    client: Client
    method: str
    url: str | Callable[[], str]
    other: Client | None
    data: Any
    changed_data: Any
    content_type: str
    effects_done: Callable[[], int]
    requests: int
    patience: float
    header: str
    last_path: str = ""
    points: tuple[str, ...] = ()

    # -- probes -------------------------------------------------------------------------------------------------------

    def twice(self) -> Iterator[ProbeResult]:
        """Send it, and the same again."""
        case = self._case()
        with watch_points() as reached:
            first = self._send(self.client, case)
        self.points = tuple(reached)
        once, second = self._count(case), self._send(self.client, case)
        problems = []
        if not 200 <= first.status < 300:
            problems.append(f"The first request was answered with {first.status}: probe with one that works.")
        if once != 1:
            problems.append(f"After the first request {once} effects are counted, not 1: see effects_done=.")
        problems += self._at_most_one(case)
        if first.is_done and (second.status, second.body) != (first.status, first.body):
            problems.append(f"The second answer is another one: {_shown(first)}, then {_shown(second)}.")
        yield self._result("twice", case, problems, first, second)

    def concurrent(self) -> Iterator[ProbeResult]:
        """Send several at once; whichever get into the handler meet there."""
        case = self._case()
        answers = self._at_once(case, find_handler(self.method, case.path.partition("?")[0]))
        problems = self._at_most_one(case)
        done = {(answer.status, answer.body) for answer in answers if answer.is_done}
        if len(done) > 1:
            problems.append("They got different answers that say it was done.")
        problems += self._broken(answers)
        if done and self._count(case) == 0:
            problems.append("An answer says that it was done, and no effect is counted.")
        yield self._result("concurrent", case, problems, *answers)

    def changed(self) -> Iterator[ProbeResult]:
        """Send another body under the key of the first."""
        case = self._case()
        first = self._send(self.client, case)
        other_body = self.changed_data() if callable(self.changed_data) else self.changed_data
        second = self._send(self.client, case, body=other_body if other_body is not None else _change(case.body))
        problems = self._at_most_one(case)
        if second.status != 422:
            problems.append(
                f"Another body under the same key was answered with {second.status}, not 422"
                + (": with the answer to the first one." if second.body == first.body else ".")
            )
        yield self._result("changed", case, problems, first, second)

    def other_user(self) -> Iterator[ProbeResult]:
        """Send it as somebody else, under the same key."""
        if self.other is None:
            yield ProbeResult("other_user", skipped="other= is None")
            return
        case = self._case()
        first = self._send(self.client, case)
        between = self._count(case)
        second = self._send(self.other, case)
        problems = self._broken([second])
        if second.replayed or (second.is_done and self._count(case) == between):
            problems.append("Somebody else under the same key got the answer of the first, or had nothing done.")
        yield self._result("other_user", case, problems, first, second)

    def crash(self) -> Iterator[ProbeResult]:
        """Crash where the handler returns, and at each fault point that the request reaches; then send it again."""
        yield self._crash("the handler's return", None)
        for point in self.points:
            yield self._crash(point, point)

    def _crash(self, where: str, point: str | None) -> ProbeResult:
        case, name = self._case(), f"crash at {where}"
        with crash_at(point, find_handler(self.method, case.path.partition("?")[0])):
            try:
                self._send(self.client, case)
            except Interrupted:
                crashed = True
            else:
                crashed = False
        if not crashed:
            return ProbeResult(name, skipped="not reached")
        soon = self._send(self.client, case)
        for _ in range(ROUNDS):
            time_passes(LATER)
            run_due()
        late = self._send(self.client, case)
        problems = self._at_most_one(case) + self._broken([soon, late])
        if (soon.is_done or late.is_done) and self._count(case) == 0:
            problems.append("An answer says that it was done, and no effect is counted.")
        return self._result(name, case, problems, soon, late)

    # -- sending and counting -----------------------------------------------------------------------------------------

    def _case(self) -> _Case:
        self.last_path = self.url() if callable(self.url) else self.url
        return _Case(self.last_path, self.data() if callable(self.data) else self.data, self.effects_done())

    def _send(self, client: Client, case: _Case, body: Any = None) -> _Answer:
        content = case.body if body is None else body
        raw = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        sender = _copied(client)
        response: Any = sender.generic(
            self.method, case.path, raw, self.content_type, headers={self.header: f'"{case.key}"'}
        )
        text = b"".join(response) if response.streaming else response.content
        return _Answer(response.status_code, text, response.headers.get("Idempotent-Replayed") == "true")

    def _at_once(self, case: _Case, code: CodeType | None) -> list[_Answer]:
        start, meeting = threading.Barrier(self.requests), Meeting(self.requests, self.patience)
        answers: list[_Answer] = []
        errors: list[BaseException] = []

        def send() -> None:
            try:
                start.wait(30)
                with on_entry(code, meeting):
                    answers.append(self._send(self.client, case))
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                errors.append(error)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=send) for _ in range(self.requests)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return answers

    def _count(self, case: _Case) -> int:
        return self.effects_done() - case.before

    def _at_most_one(self, case: _Case) -> list[str]:
        count = self._count(case)
        return [f"It was done {count} times."] if count > 1 else []

    def _broken(self, answers: list[_Answer]) -> list[str]:
        return [f"It was answered with {answer.status}." for answer in answers if answer.is_broken]

    def _result(self, name: str, case: _Case, problems: list[str], *answers: _Answer) -> ProbeResult:
        statuses = ", ".join(f"{answer.status}{' replayed' if answer.replayed else ''}" for answer in answers)
        count = self._count(case)
        return ProbeResult(name, f"answers {statuses}; {count} effect{'' if count == 1 else 's'}", tuple(problems))


def _copied(client: Client) -> Client:
    """Return a client of the same login for one request in one thread, which answers 500 where a view raises."""
    copied: Any = copy.copy(client)
    copied.handler = copy.copy(client.handler)
    copied.cookies = copy.deepcopy(client.cookies)
    copied.raise_request_exception = False
    return copied  # type: ignore[no-any-return]


def _change(body: Any) -> Any:
    """Return a body that differs in one value.

    Raises:
        RuntimeError: that cannot be made from this one.
    """
    if isinstance(body, dict):
        for name, value in body.items():
            if isinstance(value, int) and not isinstance(value, bool):
                return {**body, name: value + 1}
        for name, value in body.items():
            if isinstance(value, str):
                return {**body, name: f"{value}x"}
    raise RuntimeError("idempotency_probe cannot change this body: say changed=, another one that the view would take")


def _shown(answer: _Answer) -> str:
    return f"{answer.status} {answer.body[:80].decode(errors='replace')!r}"
