"""Read what clients get and what the journal keeps."""

from __future__ import annotations

import json
from typing import Any

from effects.models import Request

__all__ = ["body", "code", "state"]


def body(response: Any) -> dict[str, Any]:
    """Return the JSON of an answer."""
    return dict(json.loads(response.content))


def code(response: Any) -> str:
    """Return the code of a problem."""
    return str(body(response)["code"])


def state(key: str = "k") -> str:
    """Return the state of the request under a key."""
    return str(Request.objects.get(key=key).state)
