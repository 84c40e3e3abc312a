"""The provider of a soak: a ledger of its own, no deduplication, and many ways to leave its client in doubt.

`python -m benchmarks.provider PORT SEED` serves until it is ended. No kill of the soak touches it.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

from benchmarks.wire import serve

__all__ = ["LAG", "LATEST"]

#: Seconds: how late a request lands at most, and how long a look-up misses what has landed.
LATEST, LAG = 1.2, 0.4
#: Seconds from an order that was only taken to its being carried out.
CARRIED_OUT_AFTER = 0.8
FAULTS = {
    "none": 60,
    "request_lost": 6,
    "reply_lost": 8,
    "late": 7,
    "slow_reply": 7,
    "error_before": 3,
    "error_after": 5,
    "busy": 3,
    "declined": 1,
}
LOOK_UP_FAULTS = {"none": 85, "lost": 6, "error": 5, "slow": 4}


class Ledger:
    """What arrived and what was applied; both grow only."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lock = threading.Lock()
        self.calm = False
        self.busy = 0
        self.arrived: list[dict[str, Any]] = []
        self.applied: list[dict[str, Any]] = []

    def do_send(self, key: str, number: int, payload: str, order: bool) -> Any:
        """Take a payment, or an order for one that is carried out later. It does not look whether it knows the key."""
        with self.lock:
            fault, delay = self._roll(FAULTS), self.dice.uniform(0.2, LATEST)
            self.busy += 1
            self.arrived.append({"key": key, "number": number, "payload": payload, "fault": fault})
        try:
            return self._take(fault, delay, key, order)
        finally:
            with self.lock:
                self.busy -= 1

    def _take(self, fault: str, delay: float, key: str, order: bool) -> Any:
        match fault:
            case "request_lost":
                return None
            case "error_before":
                return {"status": 500}
            case "busy":
                return {"status": 429}
            case "declined":
                return {"status": 402}
            case "late":
                time.sleep(delay)
            case _:
                time.sleep(delay / 6)
        reference = self._apply(key, order)
        if fault == "slow_reply":
            time.sleep(2 * delay)
        if fault == "reply_lost":
            return None
        return {"status": 500 if fault == "error_after" else 200, "reference": reference}

    def _apply(self, key: str, order: bool) -> str:
        with self.lock:
            reference, now = f"pay_{len(self.applied) + 1}", time.monotonic()
            entry = {"key": key, "reference": reference, "at": now, "carried_out": now}
            self.applied.append({**entry, "carried_out": now + CARRIED_OUT_AFTER * order})
        return reference

    def do_find(self, key: str, lags: bool) -> Any:
        """Look a key up: everything applied under it, as far as this look-up sees."""
        with self.lock:
            fault = self._roll(LOOK_UP_FAULTS)
            seen = time.monotonic() - LAG * lags
            found = [entry for entry in self.applied if entry["key"] == key and entry["at"] <= seen]
        if fault == "slow":
            time.sleep(0.5)
        if fault == "lost":
            return None
        now = time.monotonic()
        entries = [{"reference": one["reference"], "carried_out": one["carried_out"] <= now} for one in found]
        return {"status": 500} if fault == "error" else {"status": 200, "entries": entries}

    def do_calm(self) -> Any:
        """Make no faults any more; tell how many requests are still on their way."""
        self.calm = True
        return {"busy": self.busy}

    def do_books(self) -> Any:
        """Show the truth."""
        with self.lock:
            return {"arrived": self.arrived, "applied": self.applied}

    def _roll(self, faults: dict[str, int]) -> str:
        return "none" if self.calm else self.dice.choices(list(faults), list(faults.values()))[0]


if __name__ == "__main__":
    serve(int(sys.argv[1]), Ledger(int(sys.argv[2])))
