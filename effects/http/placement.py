"""Where `@idempotent` may stand, and how it gets the view out of ATOMIC_REQUESTS.

Django exempts URL callbacks from ATOMIC_REQUESTS, not methods. A method reaches its class by `__set_name__` and the
callback by `as_view`; the class's undecorated methods get their transaction back there. A function is the callback
itself, or lies below one that only `@transaction.non_atomic_requests` can reach.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.http.response import HttpResponseBase
from django.utils.decorators import classonlymethod

from effects.http.call_paths import protection_behind, protection_of
from effects.http.case_blocks import unmarked_test_blocks
from effects.journal.commits import refuse_open_transactions
from effects.vocabulary.exceptions import OpenTransactionError

__all__ = [
    "exempt",
    "exempted",
    "is_async",
    "refuse_inner_method",
    "refuse_outer_transaction",
    "refuse_placement",
    "refuse_safe_method",
]

_SAFE_METHODS = frozenset({"get", "head", "options", "trace"})
_SAFE_ACTIONS = frozenset({"list", "retrieve"})
_EXEMPT = "_effects_exempt"
#: Methods of views that people may take for handlers, and the handler to use where it is known.
_INNER_METHODS = {
    "perform_create": "create", "perform_update": "update", "perform_destroy": "destroy",
    "dispatch": "", "setup": "", "initial": "", "initialize_request": "", "finalize_response": "",
    "handle_exception": "", "form_valid": "", "form_invalid": "", "http_method_not_allowed": "",
}  # fmt: skip

#: Modules whose decorators decide about each request.
_CHECKS = (
    "django.contrib.auth.decorators", "django.contrib.admin.views.decorators", "django.views.decorators.http",
    "django_ratelimit.", "ratelimit.", "guardian.decorators", "rules.contrib.views", "oauth2_provider.decorators",
    "allauth.account.decorators", "django_otp.decorators", "waffle.decorators", "rolepermissions.decorators",
)  # fmt: skip


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
    if hasattr(view, "_ninja_operation") or hasattr(getattr(inspect.unwrap(view), "__self__", None), "view_func"):
        raise ImproperlyConfigured(
            f"{line} goes below the decorator of django-ninja, which calls the function itself, and not through "
            f"decorate_view:\n\n    @api.post('/…')\n    {line}\n    def {name}(request, …): …"
        )
    if not callable(view):
        raise ImproperlyConfigured(f"{line} goes on a view, not on {view!r}")
    if protection_of(view) is not None:
        raise ImproperlyConfigured(f"{name} has @idempotent twice; leave one:\n\n    {line}\n    def {name}(…): …")
    if "_update_method_wrapper.<locals>" in getattr(view, "__qualname__", ""):
        raise ImproperlyConfigured(
            f"{line} does not go through method_decorator; put it on the method itself:\n\n    {line}\n"
            "    def post(self, request): …"
        )
    refuse_checks_below(view, name, line)
    if mode == "transactional" and is_async(view):
        raise ImproperlyConfigured(
            f"{line} on the async view {name}: Django's transactions do not span awaits, so rows and answer cannot "
            f"commit together. Make it a plain `def {name}`."
        )
    refuse_safe_method(name, operation)


def refuse_checks_below(view: Any, name: str, line: str) -> None:
    """Refuse known decorators that decide about each request, below: there they would see the first one alone.

    Raises:
        ImproperlyConfigured: with the corrected lines.
    """
    check = next((check for check in map(_check_of, _wrappers(view)) if check), "")
    if check:
        raise ImproperlyConfigured(
            f"{line} stands above {check}, which then decides about the first request of a key alone: a replay is "
            f"answered without it. On a function it goes above:\n\n    @…  # of {check}\n    {line}\n"
            f"    def {name}(request, …): …\n\non a class, around all of it (REST framework: permission_classes and "
            f"throttle_classes):\n\n    @method_decorator(…, name='dispatch')\n    class …:\n        {line}\n"
            f"        def {name}(self, request, …): …"
        )


def _wrappers(view: Any) -> Iterator[Any]:
    """Yield the functions around a view; for `method_decorator`, those that its decorators put around a function."""
    while (inner := getattr(view, "__wrapped__", None)) is not None:
        yield view
        if _defined_in(view) == "django.utils.decorators":
            names = inspect.getclosurevars(view).nonlocals
            for decorate in names.get("decorators") or ():
                yield from _wrappers(decorate(functools.wraps(inner)(lambda *_args, **_kwargs: None)))
        view = inner


def _check_of(wrapper: Any) -> str:
    """Return the module of a check that made a wrapper; "" for any other."""
    module = _defined_in(wrapper)
    if module == "django.utils.decorators":
        # of csrf_protect, cache_page, conditional_page and their like; method_decorator's own wrapper is none
        return module if "_process_exception" in wrapper.__code__.co_freevars else ""
    return module if module.startswith(_CHECKS) else ""


def _defined_in(function: Any) -> str:
    # functools.wraps copies __module__ of what is wrapped; the globals stay those of the decorator's module
    return str(getattr(function, "__globals__", {}).get("__name__", ""))


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


def refuse_inner_method(view: Any, name: str, owner: type[Any], operation: str, mode: str) -> None:
    """Refuse methods of a class that are no handler of a request, when the class is made.

    Raises:
        ImproperlyConfigured: with the corrected lines.
    """
    if name not in _INNER_METHODS and not name.startswith("perform_") and _takes_request(view):
        return
    better = _INNER_METHODS.get(name) or ("create" if hasattr(owner, "get_extra_actions") else "post")
    raise ImproperlyConfigured(
        f"@idempotent({operation!r}) on {owner.__name__}.{name}(): it is no method that answers one request, so "
        f"there is no key and no answer there. Put it on the one that does:\n\n    class {owner.__name__}(…):\n"
        f"        @idempotent({operation!r}, mode={mode!r}, …)\n        def {better}(self, request, *args, **kwargs): …"
    )


def _takes_request(view: Any) -> bool:
    """Return whether a method takes something after its own object, by position; a handler takes the request there."""
    try:
        parameters = list(inspect.signature(view).parameters.values())
    except (TypeError, ValueError):
        return True  # not to be known of a callable written in C
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 or any(one.kind == one.VAR_POSITIONAL for one in parameters)


def is_async(view: Any) -> bool:
    """Return whether calling a view gives a coroutine, whatever decorators are around it."""
    return iscoroutinefunction(view) or iscoroutinefunction(inspect.unwrap(view))


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
        callback = inherited(*args, **kwargs)
        return exempted(callback, functools.partial(_leads_to_protected, callback, cls))

    setattr(owner, _EXEMPT, True)
    owner.as_view = classonlymethod(as_view)


def exempted(callback: Any, leads_to_protected: Callable[[str], bool]) -> Any:
    """Return a URL's callback, out of ATOMIC_REQUESTS for protected methods alone.

    Args:
        callback: the URL's.
        leads_to_protected: whether a request of an HTTP method reaches something protected.
    """
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
            if leads_to_protected(request.method or ""):
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
    actions = getattr(callback, "actions", None) or {}
    # a safe request runs unprotected wherever it ends, and keeps its transaction
    return name not in _SAFE_METHODS and protection_behind(cls, actions.get(name, name)) is not None


def _atomic_aliases(exempted: set[str]) -> Iterator[str]:
    for alias, options in connections.settings.items():
        if options["ATOMIC_REQUESTS"] and alias not in exempted:
            yield alias
