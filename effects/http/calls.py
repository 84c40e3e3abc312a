"""One call of a protected view, whatever kind of view it is: run it, turn its errors into answers once, render."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.core.handlers.exception import response_for_exception
from django.http import Http404, HttpRequest
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase

from effects.conf import settings
from effects.declarations.operations import says_not_finished
from effects.http.answers import rendered
from effects.journal.current import without_request
from effects.journal.logs import get_logger
from effects.vocabulary.exceptions import (
    EffectsError,
    JournalUnavailableError,
    OutcomeError,
    OutcomeUnrecordedError,
    RequestEndedError,
)

__all__ = ["BOUND", "OURS", "Call", "HandlerNotFinishedError", "call_of"]

log = get_logger("effects.http")

#: The attribute of a request that django-ninja runs one of its operations for.
BOUND = "_effects_ninja_operation"


class HandlerNotFinishedError(EffectsError):
    """The view returned `NotFinished`: more work was to come, and there is no response to send."""

    code: ClassVar[str] = "operation_uncertain"


#: Errors of ours that say where the operation stands: the decorator answers them, no exception handler sees them.
OURS = (OutcomeError, RequestEndedError, JournalUnavailableError, OutcomeUnrecordedError, HandlerNotFinishedError)
#: What Django answers with a 4xx of its own, outside of the view.
_ANSWERED_BY_DJANGO = (Http404, PermissionDenied, BadRequest, MultiPartParserError, SuspiciousOperation)


class Call:
    """A call of a plain Django view, or of a method of Django's class-based views."""

    def __init__(self, request: Any, run: Callable[[], HttpResponseBase]) -> None:
        self.request = request
        self.run = run

    @property
    def http(self) -> HttpRequest:
        """Django's request."""
        request: HttpRequest = self.request
        return request

    def parse(self) -> None:
        """Let what the view's parsers refuse be refused before anything is recorded; Django has none."""

    def refuse_anonymous(self) -> NoReturn:
        """Refuse a caller who is nobody.

        Raises:
            PermissionDenied: 403, by the project's own page.
        """
        raise PermissionDenied("A protected operation needs to know who calls.")

    def not_executed(self, code: str) -> None:
        """Tell the project's `NOT_EXECUTED` that the handler does not run for this request, and why.

        What it raises is logged: the client's answer does not hang on it.
        """
        try:
            hook = settings.NOT_EXECUTED
            if hook is not None:
                hook(self.request, code)
        except Exception:  # the project's code; the request is answered whatever it does
            log.exception("NOT_EXECUTED failed for %s.", code)

    def respond(
        self, *, passes: tuple[type[Exception], ...] = (), undo: Callable[[Exception], None] | None = None
    ) -> tuple[HttpResponseBase, bool]:
        """Run the handler; return its finished answer, and whether it was raised.

        Args:
            passes: errors that the caller answers itself.
            undo: called with an error before it is turned into an answer.

        Raises:
            Exception: what nobody turns into an answer; the project's exception handler has seen it once.
        """
        try:
            response = self.run()
            if says_not_finished(response):
                raise HandlerNotFinishedError
            if not isinstance(response, HttpResponseBase):
                raise TypeError(
                    f"A protected view returned {type(response).__name__}, which is no response. Return what the "
                    "client is to get, on each way through it: Response(…), or JsonResponse(…) from a view of Django."
                )
            return self.finish(response), False
        except passes:
            raise
        except Exception as error:  # noqa: BLE001 - judged by the framework's own exception handling
            if undo is not None:
                undo(error)
            # an exception handler's own rows are not the handler's
            with without_request():
                return self.handle(error), True

    def send(self, response: HttpResponseBase) -> HttpResponseBase:
        """Return what goes out; an answer of ours is finished by no code of the view's."""
        return response

    def stored(self, response: HttpResponseBase) -> HttpResponseBase:
        """Return the handler's answer as it goes out once its bytes are stored: as a replay of it will."""
        return response

    def announce(self, header: str, value: str) -> None:
        """Put a header on the answer that the view's framework makes of an error; Django's has no place for one."""

    def finish(self, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response with its bytes made."""
        return rendered(response)

    def handle(self, error: Exception) -> HttpResponseBase:
        """Return the framework's answer to an error.

        Raises:
            Exception: the same, where it has none.
        """
        if isinstance(error, _ANSWERED_BY_DJANGO):
            return rendered(response_for_exception(self.http, error))
        raise error


def call_of(request: Any, run: functools.partial[Any]) -> Call:
    """Return the call of a view; REST framework's request is known by the one inside."""
    if hasattr(request, "_request"):
        from effects.http.drf import ViewCall  # noqa: PLC0415 - REST framework is optional

        return ViewCall(request, run)
    if hasattr(request, BOUND):
        from effects.http.ninja import OperationCall  # noqa: PLC0415 - django-ninja is optional

        return OperationCall(request, run)
    return Call(request, run)
