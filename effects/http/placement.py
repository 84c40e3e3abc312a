"""Where `@idempotent` may stand, and how it gets the view out of ATOMIC_REQUESTS.

Django exempts URL callbacks from ATOMIC_REQUESTS, not methods. A method reaches its class by `__set_name__` and the
callback by `as_view`; the class's undecorated methods get their transaction back there. A function is the callback
itself, or lies below one that only `@transaction.non_atomic_requests` can reach.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.http.response import HttpResponseBase
from django.utils.decorators import classonlymethod

from effects._commits import refuse_open_transactions
from effects.exceptions import OpenTransactionError
from effects.http.case_blocks import unmarked_test_blocks

__all__ = [
    "MARK",
    "exempt",
    "is_async",
    "is_protected",
    "protection_of",
    "refuse_outer_transaction",
    "refuse_placement",
    "refuse_safe_method",
]

#: The attribute by which a protected view is known through decorators that copy attributes.
MARK = "effects_protection"
_SAFE_METHODS = frozenset({"get", "head", "options", "trace"})
_SAFE_ACTIONS = frozenset({"list", "retrieve"})
_EXEMPT = "_effects_exempt"


def refuse_placement(view: Any, operation: str, mode: str) -> None:
    """Refuse what cannot work there, when the module is imported.

    Raises:
        ImproperlyConfigured: with the corrected lines.
    """
    name = getattr(view, "__name__", "view")
    line = f"@idempotent({operation!r}, mode={mode!r}, …)"
    if inspect.isclass(view):
        raise ImproperlyConfigured(
            f"{line} goes on a method, not on the class {name}:\n\n    class {name}(APIView):\n        {line}\n"
            "        def post(self, request): …"
        )
    if hasattr(view, "cls"):
        raise ImproperlyConfigured(
            f"{line} goes below @api_view:\n\n    @api_view(['POST'])\n    {line}\n    def {name}(request): …"
        )
    if hasattr(view, "view_class"):
        raise ImproperlyConfigured(
            f"{line} goes on the method of the class-based view, not around as_view():\n\n    class …(View):\n"
            f"        {line}\n        def post(self, request): …"
        )
    if not callable(view):
        raise ImproperlyConfigured(f"{line} goes on a view, not on {view!r}")
    if is_protected(view):
        raise ImproperlyConfigured(f"{name} has @idempotent twice; leave one:\n\n    {line}\n    def {name}(…): …")
    if "_update_method_wrapper.<locals>" in getattr(view, "__qualname__", ""):
        raise ImproperlyConfigured(
            f"{line} does not go through method_decorator; put it on the method itself:\n\n    {line}\n"
            "    def post(self, request): …"
        )
    if mode == "transactional" and is_async(view):
        raise ImproperlyConfigured(
            f"{line} on the async view {name}: Django's transactions do not span awaits, so rows and answer cannot "
            f"commit together. Make it a plain `def {name}`."
        )
    refuse_safe_method(name, operation)


def refuse_safe_method(name: str, operation: str, *, is_viewset: bool = False) -> None:
    """Refuse methods that change nothing, and so have nothing to protect.

    Raises:
        ImproperlyConfigured: with the fix.
    """
    if name.lower() in _SAFE_METHODS or (is_viewset and name in _SAFE_ACTIONS):
        raise ImproperlyConfigured(
            f"@idempotent({operation!r}) on {name}(): a safe method (RFC 9110 §9.2.1) changes nothing, "
            "needs no key. Take it off, or put it on post(), put(), patch(), delete() or an action of those."
        )


def is_async(view: Any) -> bool:
    """Return whether calling a view gives a coroutine, whatever decorators are around it."""
    return iscoroutinefunction(view) or iscoroutinefunction(inspect.unwrap(view))


def is_protected(view: Any) -> bool:
    """Return whether a view, or what its decorators wrap, is protected."""
    return protection_of(view) is not None


def protection_of(view: Any) -> Any:
    """Return what `@idempotent` was told of a view, through its decorators and `@api_view`; None for any other."""
    while view is not None:
        view = getattr(view, "__func__", view)
        told = getattr(view, "__dict__", {}).get(MARK)
        if told is not None:
            return told
        view = getattr(view, "__wrapped__", None) or _below_api_view(view)
    return None


def _below_api_view(view: Any) -> Any:
    """Return the function that `@api_view` calls: its handler keeps it in a closure and nowhere else."""
    if not getattr(view, "__qualname__", "").startswith("api_view.<locals>."):
        return None
    return inspect.getclosurevars(view).nonlocals.get("func")


def refuse_outer_transaction(operation: str) -> None:
    """Refuse to run inside a transaction that somebody has opened around the view.

    Raises:
        ImproperlyConfigured: with the fix.
    """
    try:
        refuse_open_transactions(f"@idempotent({operation!r})")
    except OpenTransactionError as error:
        raise ImproperlyConfigured(
            f"The view of {operation!r} runs inside a transaction that was opened around it, so nothing could be "
            "recorded for certain. Under ATOMIC_REQUESTS, where @idempotent cannot reach the URL's callback, write\n\n"
            "    @transaction.non_atomic_requests\n    @api_view(['POST'])\n"
            f"    @idempotent({operation!r}, …)\n    def view(request): …\n\n"
            "and for a class that overrides as_view(), @method_decorator(transaction.non_atomic_requests, "
            f"name='dispatch') on the class. Otherwise remove the outer atomic(). ({error})"
        ) from error


def exempt(owner: type[Any]) -> None:
    """Take the views of a class out of ATOMIC_REQUESTS, and give its undecorated methods their transaction back."""
    if _EXEMPT in owner.__dict__:
        return
    own = owner.__dict__.get("as_view")

    def as_view(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        inherited = own.__get__(None, cls) if own is not None else super(owner, cls).as_view
        return _exempted(inherited(*args, **kwargs), cls)

    setattr(owner, _EXEMPT, True)
    owner.as_view = classonlymethod(as_view)


def _exempted(callback: Any, cls: type[Any]) -> Any:
    """Return the URL callback, out of ATOMIC_REQUESTS for protected methods alone."""
    everything = set(connections)
    exempted_before = set(getattr(callback, "_non_atomic_requests", ()))
    if iscoroutinefunction(callback):
        # no method of an async class has a transaction: Django refuses ATOMIC_REQUESTS for all of it
        callback._non_atomic_requests = everything
        return callback
    if exempted_before >= everything:
        return callback

    @functools.wraps(callback)
    def view(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with ExitStack() as stack:
            if _leads_to_protected(callback, cls, request.method or ""):
                stack.enter_context(unmarked_test_blocks())
            else:
                for alias in _atomic_aliases(exempted_before):
                    stack.enter_context(transaction.atomic(using=alias))
            response: HttpResponseBase = callback(request, *args, **kwargs)
            return response

    view._non_atomic_requests = everything  # type: ignore[attr-defined]
    return view


def _leads_to_protected(callback: Any, cls: type[Any], method: str) -> bool:
    name = method.lower()
    actions = getattr(callback, "actions", None)
    attribute = inspect.getattr_static(cls, actions.get(name, name) if actions else name, None)
    return is_protected(attribute)


def _atomic_aliases(exempted: set[str]) -> Iterator[str]:
    for alias, options in connections.settings.items():
        if options["ATOMIC_REQUESTS"] and alias not in exempted:
            yield alias
