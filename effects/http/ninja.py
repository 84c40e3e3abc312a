"""All that knows django-ninja: how its operations answer, and how their addresses leave ATOMIC_REQUESTS.

Ninja authenticates, throttles and validates, calls the function, and makes a response of what it returned. The function
is protected; so its result and its errors are made a response here, by ninja's own rules, before the answer is stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.http.response import HttpResponseBase
from ninja.decorators import _apply_decorators
from ninja.errors import HttpError
from ninja.operation import Operation, PathView

from effects.conf import settings
from effects.declarations.operations import says_not_finished
from effects.http.answers import rendered
from effects.http.call_paths import BEHIND, protection_of
from effects.http.calls import BOUND, Call
from effects.http.placement import exempted, is_async, refuse_safe_method
from effects.http.protection import Protection

__all__ = ["OperationCall", "adopt"]


class OperationCall(Call):
    """A call of the function of one of ninja's operations, which is remembered on the request."""

    def __init__(self, request: Any, run: functools.partial[Any]) -> None:
        self.operation: Operation = getattr(request, BOUND)
        super().__init__(request, functools.partial(self._respond, run))

    def refuse_anonymous(self) -> NoReturn:
        """Refuse a caller who is nobody.

        Raises:
            HttpError: 403.
        """
        raise HttpError(
            403, "A protected operation needs to know who calls: a user who is logged in, or what identity= returns."
        )

    def handle(self, error: Exception) -> HttpResponseBase:
        """Return the answer of the API's exception handlers, or Django's.

        Raises:
            Exception: the same, where neither has one.
        """
        try:
            return rendered(self.operation.api.on_exception(self.request, error))
        except Exception as raised:
            if raised is not error:
                raise
        return super().handle(error)

    def _respond(self, run: functools.partial[Any]) -> HttpResponseBase:
        result = run()
        if says_not_finished(result):
            return result  # type: ignore[no-any-return]
        # headers and status that the function set on the response that it was given
        given = run.keywords.get(self.operation.signature.response_arg or "")
        response = given if given is not None else self.operation.api.create_temporal_response(self.request)
        return self.operation._result_to_response(self.request, result, response)


def adopt(operation: Operation, protection: Protection) -> None:
    """Take over an operation that ninja makes of a protected function.

    Raises:
        ImproperlyConfigured: it cannot be protected; the message says what to write.
    """
    name = protection.operation.name
    if is_async(operation.view_func):
        raise ImproperlyConfigured(
            f"@idempotent({name!r}) on an async operation of django-ninja is not supported. Make it a plain "
            f"`def {operation.view_func.__name__}`."
        )
    if operation.stream_format is not None:
        raise ImproperlyConfigured(f"@idempotent({name!r}) on an operation that streams: its answer cannot be stored.")
    for method in operation.methods:
        refuse_safe_method(method, name)
    _apply_decorators((_remembered,), operation)
    parameter = {
        "in": "header",
        "name": settings.KEY_HEADER,
        "required": protection.required,
        "schema": {"type": "string"},
    }
    extra = operation.openapi_extra or {}
    operation.openapi_extra = {**extra, "parameters": [*extra.get("parameters", ()), parameter]}
    _exempt_addresses()


def _remembered(run: Callable[..., Any]) -> Callable[..., Any]:
    """Remember on the request which operation runs: a router that is mounted twice has each of its operations twice."""
    operation = run.__self__  # type: ignore[attr-defined]

    @functools.wraps(run)
    def run_remembered(request: Any, **values: Any) -> Any:
        setattr(request, BOUND, operation)
        return run(request, **values)

    return run_remembered


@functools.cache
def _exempt_addresses() -> None:
    """Let ninja make its URL callbacks out of ATOMIC_REQUESTS, where one of an address's operations is protected."""
    made: Any = PathView.get_view

    @functools.wraps(made)
    def get_view(self: PathView) -> Any:
        callback = made(self)
        protected = {operation: told for operation in self.operations if (told := protection_of(operation.view_func))}
        if not protected:
            return callback
        methods = {method for operation in protected for method in operation.methods}
        outer = exempted(callback, lambda method: method.upper() in methods)
        setattr(outer, BEHIND, tuple(protected.values()))
        return outer

    PathView.get_view = get_view  # type: ignore[method-assign]
