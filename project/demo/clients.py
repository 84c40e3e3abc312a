"""Programs that call the shop's API, as its customers' systems do: impatient, and on a bad network."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

__all__ = ["Answer", "Client", "Conversations"]

TIMEOUT = 20.0
#: Between two tries of an impatient client.
PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    """What the shop answered to one request.

    Attributes:
        status: The HTTP status.
        body: The bytes.
        media_type: The header Content-Type.
        replayed: Whether the shop says that it is the first answer once more.
        seconds: How long it took.
    """

    status: int
    body: bytes
    media_type: str
    replayed: bool
    seconds: float

    @property
    def data(self) -> Mapping[str, Any]:
        """The body as JSON; empty where it is none."""
        try:
            data = json.loads(self.body)
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def code(self) -> str:
        """The problem's code; empty where it is no problem."""
        return str(self.data.get("code", ""))

    @property
    def words(self) -> str:
        """Status and code, as people write them down."""
        return f"{self.status} {self.code}".strip()

    def same_as(self, other: Answer) -> bool:
        """Tell whether two answers are the same status, type and bytes."""
        return (self.status, self.media_type, self.body) == (other.status, other.media_type, other.body)


@dataclass(slots=True)
class Conversations:
    """All answers that the shop gave in the demo, by idempotency key."""

    _answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, key: str, answer: Answer) -> None:
        """Write down one answer."""
        with self._lock:
            self._answers[key].append(answer)

    def replays(self) -> int:
        """Count the replayed answers."""
        return sum(answer.replayed for answers in self._answers.values() for answer in answers)

    def identical_replays(self) -> int:
        """Count the replayed answers that are byte for byte the first final answer under their key."""
        return sum(
            answer.same_as(first) for first, rest in self._final() for answer in [first, *rest] if answer.replayed
        )

    def _final(self) -> Iterator[tuple[Answer, list[Answer]]]:
        """Iterate over the first success of each key and all that was replayed after it."""
        for answers in self._answers.values():
            successes = [answer for answer in answers if answer.status in (200, 201)]
            if successes:
                yield successes[0], [answer for answer in answers if answer.replayed and answer is not successes[0]]


class Client:
    """One user's program.

    Args:
        base: The shop's address.
        user: Whose.
        password: And their password.
        conversations: Where each answer is written down.
    """

    def __init__(self, base: str, user: str, password: str, conversations: Conversations) -> None:
        self._base, self._auth, self._conversations = base, (user, password), conversations

    def post(self, path: str, data: Mapping[str, Any], key: str) -> Answer:
        """Send one request under an idempotency key and return the answer.

        Raises:
            requests.ConnectionError: The shop went away before it answered.
        """
        started = time.monotonic()
        response = requests.post(
            self._base + path, json=data, headers={"Idempotency-Key": key}, auth=self._auth, timeout=TIMEOUT
        )
        answer = Answer(
            status=response.status_code,
            body=response.content,
            media_type=response.headers.get("Content-Type", ""),
            replayed=response.headers.get("Idempotent-Replayed") == "true",
            seconds=time.monotonic() - started,
        )
        self._conversations.add(key, answer)
        return answer

    def insist(
        self, path: str, data: Mapping[str, Any], key: str, *, until: Collection[int], within: float = 30.0
    ) -> Answer:
        """Send the same request again and again until it is answered with one of these statuses.

        Returns:
            The last answer, whatever it was when the time was over.
        """
        deadline = time.monotonic() + within
        while True:
            answer = self.post(path, data, key)
            if answer.status in until or time.monotonic() > deadline:
                return answer
            # a client knows nothing else than to ask again
            time.sleep(PAUSE)
