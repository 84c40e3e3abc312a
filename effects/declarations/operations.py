"""Protected views, by operation: what settling a request needs to know of its view, without HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from effects.vocabulary.outcomes import Outcome

__all__ = [
    "NotFinished",
    "ProtectedOperation",
    "StoredAnswer",
    "add_operation",
    "find_operation",
    "operations",
    "says_not_finished",
]


@dataclass(frozen=True)
class StoredAnswer:
    """An HTTP answer as it is frozen: status, allow-listed headers in order, bytes.

    `body` is None where the answer went out but is not stored; `missing` says why.
    """

    status: int
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = b""
    size: int = 0
    missing: str = ""


@dataclass(frozen=True)
class NotFinished:
    """What `answer=` returns when the handler was cut short with more work to come: a person decides.

    A handler that returns it ends like one that was cut short.
    """

    reason: str = ""


def says_not_finished(returned: object) -> bool:
    """Return whether a view or its `answer=` returned `NotFinished`, or the class, which says the same."""
    return isinstance(returned, NotFinished) or returned is NotFinished


@dataclass(frozen=True)
class ProtectedOperation:
    """One `@idempotent` view.

    Args:
        name: its operation.
        mode: journaled or transactional.
        performs: the operations of the effects that it declares; None: opaque.
        answer: builds the answer from the outcomes of what it performed, in order, rendered; None: there is none.
        local_writes: the handler may write rows outside of `finishing()`.
    """

    name: str
    mode: str
    performs: tuple[str, ...] | None = None
    answer: Callable[[Sequence[Outcome]], StoredAnswer | NotFinished] | None = None
    local_writes: bool = False
    options: dict[str, Any] = field(default_factory=dict, compare=False)


_operations: dict[str, ProtectedOperation] = {}


def add_operation(operation: ProtectedOperation) -> None:
    """Remember a protected view; one operation may stand on several methods if they agree."""
    _operations[operation.name] = operation


def find_operation(name: str) -> ProtectedOperation | None:
    """Return the protected view of that name, importing the project's URLs if it was not seen yet."""
    if name not in _operations:
        from django.conf import settings  # noqa: PLC0415 - names are declared before settings may be read

        # a worker has not served a request: its views are imported with the URLs
        import_module(settings.ROOT_URLCONF)
    return _operations.get(name)


def operations() -> dict[str, ProtectedOperation]:
    """Return the protected views imported so far."""
    return dict(_operations)
