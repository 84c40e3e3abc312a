"""What the proxy was told to do to requests, and what it saw of them."""

import fnmatch
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

FAULTS = frozenset(
    {"lose_request", "lose_reply", "delay", "delay_reply", "hang", "duplicate", "cut", "status"},
)


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests are meant; what is not said is true of all.

    Attributes:
        method: The method, in capitals.
        path: The path without the query; `*` stands for anything.
        contains: A text in the query or the body, as sent or decoded.
    """

    method: str | None = None
    path: str | None = None
    contains: str | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Match":
        """Return the match that a piece of JSON describes; raises `TypeError` for unknown members."""
        return cls(**data)

    def fits(self, send: "Send") -> bool:
        """Tell whether a request is one of those."""
        return (
            (self.method is None or self.method == send.method)
            and (self.path is None or fnmatch.fnmatchcase(send.path, self.path))
            and (self.contains is None or any(self.contains in text for text in send.texts()))
        )


@dataclass(slots=True)
class Rule:
    """A fault for the next requests that fit.

    Attributes:
        id: Its number.
        match: Which requests.
        fault: What happens to them, one of `FAULTS`.
        times: To how many of them; none: to all.
        seconds: How long `delay`, `delay_reply` and at most `hang` wait.
        status: What `status` answers.
        forward: Whether `hang` and `status` let the provider have the request first.
    """

    id: int
    match: Match
    fault: str
    times: int | None = 1
    seconds: float = 60.0
    status: int = 503
    forward: bool = False


@dataclass(slots=True)
class Send:
    """One request that a client sent to the provider.

    Attributes:
        id: Its number, counted from one.
        method: Its method.
        path: Its path.
        query: Its query, as sent.
        body: Its body, as sent.
        form: The fields of its body.
        idempotency_key: The header of that name.
        fault: What was done to it, none for nothing.
        forwarded: How often the provider received and answered it.
        status: The status of the provider's first answer.
        object: The id in the provider's first answer.
        open: Whether the proxy still has it in hand.
        replied: Whether the client was given an answer, a whole one.
    """

    id: int
    method: str
    path: str
    query: str = ""
    body: str = ""
    form: dict[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    fault: str | None = None
    forwarded: int = 0
    status: int | None = None
    object: str | None = None
    open: bool = True
    replied: bool = False

    def texts(self) -> tuple[str, ...]:
        """Return the texts that a match looks in."""
        return self.query, unquote_plus(self.query), self.body, unquote_plus(self.body)


class Ledger:
    """All rules and requests of one proxy, for many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rules: list[Rule] = []
        self._sends: list[Send] = []
        self._counter = 0
        self._releases = 0

    def add_rule(self, data: Mapping[str, Any]) -> int:
        """Add a rule from JSON and return its number.

        Raises:
            TypeError: It has a member that no rule has, or lacks the fault.
            ValueError: There is no such fault.
        """
        members = dict(data)
        match = Match.of(members.pop("match", {}))
        with self._changed:
            self._counter += 1
            rule = Rule(id=self._counter, match=match, **members)
            if rule.fault not in FAULTS:
                raise ValueError(f"unknown fault {rule.fault!r}, one of {', '.join(sorted(FAULTS))} is meant")
            self._rules.append(rule)
            return rule.id

    def clear_rules(self) -> None:
        """Forget all rules and let go what hangs."""
        with self._changed:
            self._rules.clear()
        self.release()

    def record(
        self, method: str, path: str, query: str, body: bytes, idempotency_key: str | None
    ) -> tuple[Send, Rule | None]:
        """Write a request down, with the first rule that fits and is not used up."""
        text = body.decode(errors="replace")
        with self._changed:
            send = Send(
                id=len(self._sends) + 1,
                method=method,
                path=path,
                query=query,
                body=text,
                form=dict(parse_qsl(text, keep_blank_values=True)),
                idempotency_key=idempotency_key,
            )
            self._sends.append(send)
            rule = next((each for each in self._rules if each.times != 0 and each.match.fits(send)), None)
            if rule is not None:
                send.fault = rule.fault
                if rule.times is not None:
                    rule.times -= 1
            self._changed.notify_all()
            return send, rule

    def note(self, send: Send, change: Callable[[Send], None]) -> None:
        """Change what is written of a request, and wake up those who wait for it."""
        with self._changed:
            change(send)
            self._changed.notify_all()

    def sends(self, match: Match) -> list[Send]:
        """Return the requests that fit, in the order of their arrival."""
        with self._changed:
            return [each for each in self._sends if match.fits(each)]

    def wait(self, match: Match, *, count: int, stage: str, seconds: float) -> list[Send] | None:
        """Wait until so many requests that fit have come to a stage; none when they have not in time.

        Args:
            match: Which requests.
            count: How many at least.
            stage: `arrived`, `forwarded` or `done`.
            seconds: The longest wait.
        """

        def there() -> list[Send]:
            return [each for each in self._sends if match.fits(each) and _has_reached(each, stage)]

        with self._changed:
            if self._changed.wait_for(lambda: len(there()) >= count, timeout=seconds):
                return there()
            return None

    def clear_sends(self) -> None:
        """Forget all requests."""
        with self._changed:
            self._sends.clear()

    def release(self) -> None:
        """Let everything go that hangs."""
        with self._changed:
            self._releases += 1
            self._changed.notify_all()

    @property
    def releases(self) -> int:
        """How often everything was let go."""
        with self._changed:
            return self._releases

    def wait_release(self, since: int, seconds: float) -> bool:
        """Wait until everything is let go once more than `since`; tell whether it was."""
        with self._changed:
            return self._changed.wait_for(lambda: self._releases > since, timeout=seconds)


def _has_reached(send: Send, stage: str) -> bool:
    if stage == "forwarded":
        return send.forwarded > 0
    return stage == "arrived" or not send.open
