"""What a request may ask of the server that the rows' tests start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connections

from effects.journal import faults

__all__ = ["ATOMIC", "KILL", "asked"]

#: The point at which the process that serves the request is killed.
KILL = "X-Kill-At"
#: The value of ATOMIC_REQUESTS; Django reads it with each request, and requests of one test agree on it.
ATOMIC = "X-Atomic-Requests"


def asked(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a middleware that does what the headers ask."""

    def middleware(request: Any) -> Any:
        connections.settings["default"]["ATOMIC_REQUESTS"] = request.headers.get(ATOMIC) == "1"
        point = request.headers.get(KILL)
        if point:
            # SIGKILL, as a power cut would
            faults.arm(faults._kill_at(point))
        return get_response(request)

    return middleware
