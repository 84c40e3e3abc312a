"""Programs that call the shop's API, as its customers' systems do: impatient, and on a bad network."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

__all__ = ["Answer", "Client", "Conversations"]

TIMEOUT = 30.0
#: Between two tries of an impatient client.
PAUSE = 0.2
SUCCESS = frozenset({200, 201})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the shop answered to one request.

    Attributes:
        status: The HTTP status.
        body: The bytes.
        media_type: The header Content-Type.
        replayed: Whether the shop says that it is the first answer once more.
    """

    status: int
    body: bytes
    media_type: str
    replayed: bool

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
        """Status and code, as people say them: 409 uncertain."""
        return f"{self.status} {self.code.removeprefix('operation_').replace('_', ' ')}".strip()

    @property
    def is_success(self) -> bool:
        """Whether it says that it was done."""
        return self.status in SUCCESS

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

    def under(self, key: str) -> list[Answer]:
        """Return the answers under a key, in the order of their arrival."""
        with self._lock:
            return list(self._answers[key])

    @property
    def replays(self) -> int:
        """How many answers the shop called replays."""
        return sum(answer.replayed for answers in self._answers.values() for answer in answers)

    @property
    def identical_replays(self) -> int:
        """How many of them are, byte for byte, the handler's own answer, or the first replay where it gave none."""
        return sum(
            answer.same_as(_original(answers))
            for answers in self._answers.values()
            for answer in answers
            if answer.replayed
        )


def _original(answers: list[Answer]) -> Answer:
    """Return the answer that replays under a key repeat; 20 at once may arrive in any order."""
    own = [answer for answer in answers if answer.is_success and not answer.replayed]
    return next(iter(own), next(answer for answer in answers if answer.replayed))


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
        response = requests.post(
            self._base + path,
            json=data,
            headers={"Idempotency-Key": f'"{key}"'},
            auth=self._auth,
            timeout=TIMEOUT,
        )
        answer = Answer(
            status=response.status_code,
            body=response.content,
            media_type=response.headers.get("Content-Type", ""),
            replayed=response.headers.get("Idempotent-Replayed") == "true",
        )
        self._conversations.add(key, answer)
        return answer

    def insist(
        self,
        path: str,
        data: Mapping[str, Any],
        key: str,
        *,
        until: Callable[[Answer], bool] = lambda answer: answer.is_success,
        within: float = 60.0,
    ) -> Answer:
        """Send the same request again and again until the answer is the one that is waited for.

        Returns:
            The last answer, whatever it was when the time was over.
        """
        deadline = time.monotonic() + within
        while True:
            answer = self.post(path, data, key)
            if until(answer) or time.monotonic() > deadline:
                return answer
            # a client can do nothing else than ask again
            time.sleep(PAUSE)
