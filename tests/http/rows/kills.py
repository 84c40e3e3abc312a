"""Lets a request name the point at which its process is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from effects import _faults

__all__ = ["HEADER", "kills"]

HEADER = "X-Kill-At"


def kills(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a middleware that arms the fault point of the header: SIGKILL, as a power cut would."""

    def middleware(request: Any) -> Any:
        point = request.headers.get(HEADER)
        if point:
            _faults.arm(_faults._kill_at(point))
        return get_response(request)

    return middleware
