"""The proxy's control API, from Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from .ledger import Send

TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Faults:
    """What the network does to requests, and what it saw of them.

    Attributes:
        url: The proxy's URL, which takes the place of the provider's.
    """

    url: str

    def add(
        self,
        fault: str,
        *,
        method: str | None = None,
        path: str | None = None,
        contains: str | None = None,
        times: int | None = 1,
        seconds: float = 60.0,
        status: int = 503,
        forward: bool = False,
    ) -> int:
        """Order a fault for the next requests that fit; return its number.

        Args:
            fault: One of `ledger.FAULTS`; the module `proxy` says what each does.
            method: The method of the requests meant.
            path: Their path, in which `*` stands for anything.
            contains: A text in their query or body.
            times: For how many of them; None: for all.
            seconds: How long `delay`, `delay_reply` and at most `hang` wait.
            status: What `status` answers.
            forward: Whether `hang` and `status` let the provider have the request first.
        """
        order = {
            "match": _match(method, path, contains),
            "fault": fault,
            "times": times,
            "seconds": seconds,
            "status": status,
            "forward": forward,
        }
        return int(self._call("POST", "faults", json=order)["id"])

    def clear(self) -> None:
        """Forget all orders and let go what hangs."""
        self._call("DELETE", "faults")

    def release(self) -> None:
        """Let go what hangs; its orders stay."""
        self._call("POST", "release")

    def sends(self, *, method: str | None = None, path: str | None = None, contains: str | None = None) -> list[Send]:
        """Return the requests that fit, in the order of their arrival."""
        return [Send(**each) for each in self._call("GET", "sends", params=_match(method, path, contains))]

    def wait_for(
        self,
        stage: str = "arrived",
        *,
        count: int = 1,
        method: str | None = None,
        path: str | None = None,
        contains: str | None = None,
        seconds: float = 10.0,
    ) -> list[Send]:
        """Wait until so many requests that fit have come to a stage, and return those.

        Args:
            stage: `arrived`, `forwarded` (the provider has answered) or `done` (the proxy is through).
            count: How many at least.
            method: Their method.
            path: Their path, in which `*` stands for anything.
            contains: A text in their query or body.
            seconds: The longest wait.

        Raises:
            TimeoutError: They have not.
        """
        order = {"match": _match(method, path, contains), "count": count, "stage": stage, "seconds": seconds}
        try:
            sends = self._call("POST", "wait", json=order, timeout=seconds + TIMEOUT)
        except requests.HTTPError as error:
            if error.response.status_code != requests.codes.request_timeout:
                raise
            raise TimeoutError(f"no {count} requests were {stage} within {seconds:g} s: {order['match']}") from error
        return [Send(**each) for each in sends]

    def reset(self) -> None:
        """Forget all orders and all requests."""
        self.clear()
        self._call("DELETE", "sends")

    def _call(self, method: str, name: str, **arguments: Any) -> Any:
        timeout = arguments.pop("timeout", TIMEOUT)
        answer = requests.request(method, f"{self.url}/__{name}__", timeout=timeout, **arguments)
        if answer.status_code == requests.codes.bad_request:
            raise ValueError(answer.json()["error"])
        answer.raise_for_status()
        return answer.json()


def _match(method: str | None, path: str | None, contains: str | None) -> Mapping[str, str]:
    members = {"method": method, "path": path, "contains": contains}
    return {name: value for name, value in members.items() if value is not None}
