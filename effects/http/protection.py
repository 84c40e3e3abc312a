"""What one `@idempotent` was told, checked when it is said, so that a mistake stops the start and not a payment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http.response import HttpResponseBase

from effects.declarations.operations import (
    NotFinished,
    ProtectedOperation,
    StoredAnswer,
    add_operation,
    operations,
    says_not_finished,
)
from effects.http.answers import rendered, store
from effects.http.fingerprints import FingerprintFields
from effects.http.identity import checked_name
from effects.journal.current import RequestHandle
from effects.vocabulary.outcomes import Outcome

__all__ = ["MODES", "Protection", "make_protection"]

MODES = ("transactional", "journaled")
#: The longest operation; the column's width.
MAX_OPERATION = 200

Freeze = Callable[[HttpResponseBase], bool] | Collection[int] | None


@dataclass(frozen=True)
class Protection:
    """One protected view, on the side of HTTP. Attributes are the arguments of `idempotent`."""

    operation: ProtectedOperation
    required: bool
    identity: Callable[[Any], str | None] | str | None
    scope: Callable[[Any], str] | str | None
    fingerprint: FingerprintFields | Callable[[Any], object] | None
    wait: timedelta
    freeze: Freeze

    def scope_of(self, request: Any) -> str:
        """Return the scope that separates this request's key from equal ones of the same caller.

        Raises:
            ImproperlyConfigured: the project's callable returned something that is not a name.
        """
        return checked_name(self.scope(request), "scope=") if callable(self.scope) else self.scope or ""

    def wish(self, response: HttpResponseBase, handle: RequestHandle) -> bool | None:
        """Return whether the project wants an answer of 400 or more stored; None: it did not say."""
        if handle.wants_freeze and handle.frozen_status in (None, response.status_code):
            return True
        if handle.wants_release:
            return False
        if callable(self.freeze):
            return bool(self.freeze(response))
        return True if self.freeze and response.status_code in self.freeze else None


def make_protection(
    operation: str,
    *,
    mode: str,
    performs: Iterable[Any],
    answer: Callable[..., Any] | None,
    required: bool,
    identity: Callable[[Any], str | None] | str | None,
    scope: Callable[[Any], str] | str | None,
    fingerprint: FingerprintFields | Callable[[Any], object] | None,
    wait: timedelta,
    freeze: Freeze,
    local_writes: bool,
) -> Protection:
    """Check the arguments of `idempotent` and register the operation.

    Raises:
        ImproperlyConfigured: they cannot work together; the message says what to write.
    """
    declared = tuple(_operation_of(effect, operation) for effect in _listed(performs, operation))
    _check(operation, mode, declared, answer, wait, local_writes)
    protected = ProtectedOperation(
        name=operation,
        mode=mode,
        performs=declared or None,
        answer=_stored(operation, answer) if answer is not None else None,
        local_writes=local_writes,
        options={"answer": answer, "identity": identity},
    )
    _refuse_disagreement(protected)
    add_operation(protected)
    return Protection(protected, required, identity, scope, fingerprint, wait, freeze)


def _listed(performs: Iterable[Any], operation: str) -> Iterable[Any]:
    if isinstance(performs, (str, type)):
        raise ImproperlyConfigured(
            f"@idempotent({operation!r}): performs= takes a list, as in performs=[{_name(performs)}]"
        )
    return performs


def _operation_of(effect: Any, operation: str) -> str:
    name = effect if isinstance(effect, str) else getattr(effect, "operation", None)
    if not isinstance(name, str) or not name:
        raise ImproperlyConfigured(
            f"@idempotent({operation!r}): performs= lists effect classes or their operations, not {effect!r}"
        )
    return name


def _name(effect: Any) -> str:
    return effect.__name__ if isinstance(effect, type) else repr(effect)


def _check(
    operation: object, mode: str, declared: tuple[str, ...], answer: object, wait: object, local_writes: bool
) -> None:
    def need(condition: bool, what: str) -> None:
        if not condition:
            raise ImproperlyConfigured(f"@idempotent({operation!r}): {what}")

    need(
        isinstance(operation, str) and 0 < len(operation) <= MAX_OPERATION,
        f"the operation is a text of 1 to {MAX_OPERATION} characters, as in 'orders.refund'",
    )
    need(
        mode in MODES,
        f"mode={mode!r}; say mode='journaled' where the view calls a provider, mode='transactional' where it only "
        "writes rows",
    )
    need(isinstance(wait, timedelta) and wait >= timedelta(0), "wait= is a timedelta of zero or more")
    need(answer is None or callable(answer), "answer= is a function of outcomes that returns a response")
    journaled = mode == "journaled"
    need(
        not (journaled and declared) or answer is not None,
        "a journaled view with performs= also says answer=, a function of the outcomes that returns the response: it "
        "answers when the handler is lost, or long after it has returned",
    )
    need(
        not answer or (journaled and bool(declared)),
        "answer= builds the answer of a journaled view from the outcomes of what performs= lists; add performs=[…]"
        if journaled
        else "answer= is for mode='journaled'; a transactional view's answer commits with its rows",
    )
    need(journaled or not local_writes, "local_writes= is for mode='journaled'; a transactional view may write freely")


def _refuse_disagreement(protected: ProtectedOperation) -> None:
    known = operations().get(protected.name)
    if known is not None and _terms(known) != _terms(protected):
        raise ImproperlyConfigured(
            f"@idempotent({protected.name!r}) stands on several views that differ in mode, performs, answer, identity "
            "or local_writes; give each an operation of its own, or both the same function, written once"
        )


def _terms(protected: ProtectedOperation) -> tuple[Any, ...]:
    """Return what is asked by the operation's name alone, later, when nobody knows which view it was."""
    options = protected.options
    said = tuple(_named(options.get(option)) for option in ("answer", "identity"))
    return protected.mode, protected.performs, protected.local_writes, said


def _named(value: object) -> object:
    """Return what a function is known by: its name, since a module that is imported again has other functions.

    A name says nothing where many functions have it: a lambda, or one that another function made.
    """
    if inspect.ismethod(value) and not inspect.isclass(value.__self__):
        return value.__self__, value.__func__
    name = getattr(value, "__qualname__", "")
    if name and "<lambda>" not in name and "<locals>" not in name:
        return value.__module__, name
    if not inspect.isfunction(value):
        return value
    return value.__module__, value.__code__, value.__defaults__, inspect.getclosurevars(value).nonlocals


def _stored(operation: str, answer: Callable[..., Any]) -> Callable[[Sequence[Outcome]], StoredAnswer | NotFinished]:
    """Wrap the view's `answer=`: outcomes in, the frozen answer out."""
    if inspect.iscoroutinefunction(answer):
        raise ImproperlyConfigured(f"@idempotent({operation!r}): answer= runs in a transaction and cannot be async")

    def build(outcomes: Sequence[Outcome]) -> StoredAnswer | NotFinished:
        built = answer(*outcomes)
        if says_not_finished(built):
            return built if isinstance(built, NotFinished) else NotFinished()
        if not isinstance(built, HttpResponseBase):
            raise TypeError(f"answer= of {operation} returned {type(built).__name__}, not a response or NotFinished")
        return store(rendered(built))

    return build
