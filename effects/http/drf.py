"""All that knows REST framework: its views' error handling and rendering, and its authenticators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException, NotAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle, ScopedRateThrottle, UserRateThrottle
from rest_framework.views import APIView

from effects.http.answers import rendered
from effects.http.call_paths import protection_behind
from effects.http.calls import Call
from effects.http.case_blocks import unmarked_test_blocks
from effects.http.drf_answers import as_rest_response
from effects.http.identity import identify
from effects.http.json_bodies import deep_error
from effects.http.keys import KeyInvalidError, parse_key, raw_key
from effects.http.problems import problem, unlisted
from effects.journal import queries
from effects.journal.logs import get_logger
from effects.transitions import request_binding
from effects.vocabulary.exceptions import JournalUnavailableError, NameUnusableError

__all__ = [
    "ReplaySparingScopedRateThrottle",
    "ReplaySparingUserRateThrottle",
    "SparesReplays",
    "ViewCall",
    "authenticated",
    "render_alone",
]

log = get_logger("effects.http")


class ViewCall(Call):
    """A call of a method of `APIView` or `ViewSet`, or of a function under `@api_view`.

    `dispatch` goes on after us: what we finished or handled must not be finished or handled again, so this view
    instance, which serves one request, remembers it.
    """

    def __init__(self, request: Any, run: Callable[[], HttpResponseBase]) -> None:
        super().__init__(request, run)
        self.view: Any = request.parser_context["view"]
        self._finished: HttpResponseBase | None = None

    @property
    def http(self) -> HttpRequest:
        """Django's request."""
        request: HttpRequest = self.request._request
        return request

    def parse(self) -> None:
        """Let the parsers refuse what they cannot read, as for any view, before anything is recorded.

        Raises:
            BodyUnreadableError: it is nested too deeply for a parser, which refuses no such thing by itself.
        """
        try:
            _ = self.request.data
        except RecursionError as error:
            raise deep_error() from error

    def refuse_anonymous(self) -> NoReturn:
        """Refuse a caller who is nobody.

        Raises:
            NotAuthenticated: 401 or 403, as the view's authenticators have it.
        """
        raise NotAuthenticated

    def send(self, response: HttpResponseBase) -> HttpResponseBase:
        """Return what goes out: the view's `finalize_response` may expect `data`, or change a stored answer."""
        if response is self._finished:
            return response
        finalize: Any = functools.partial(APIView.finalize_response, self.view)

        def ours(request: Any, answer: HttpResponseBase, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return as_rest_response(self.view, finalize(request, answer, *args, **kwargs))

        self.view.finalize_response = ours
        return response

    def stored(self, response: HttpResponseBase) -> HttpResponseBase:
        """Return the first answer as its replays will be, so that no code outside of the view tells them apart."""
        self._finished = as_rest_response(self.view, response)
        return self._finished

    def announce(self, header: str, value: str) -> None:
        """Put a header on whatever `dispatch` answers."""
        self.view.headers[header] = value

    def finish(self, response: HttpResponseBase) -> HttpResponseBase:
        """Finalize and render as `dispatch` does, and keep it from doing so again: the bytes are to be stored."""
        view, finalize = self.view, self.view.finalize_response
        context = self.request.parser_context
        finished = rendered(finalize(self.request, response, *context["args"], **context["kwargs"]))

        def once(request: Any, answer: HttpResponseBase, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return answer if answer is self._finished else finalize(request, answer, *args, **kwargs)

        view.finalize_response, self._finished = once, finished
        return finished

    def handle(self, error: Exception) -> HttpResponseBase:
        """Return the answer of the view's exception handler, asked once.

        Raises:
            Exception: the same, where it has none; `dispatch` lets it through without asking again.
        """
        view, handle = self.view, self.view.handle_exception
        try:
            with unmarked_test_blocks():
                response = handle(error)
        except Exception as raised_here:
            unhandled = raised_here

            def once(raised: Exception) -> HttpResponseBase:
                if raised is unhandled:
                    raise raised
                return cast("HttpResponseBase", handle(raised))

            view.handle_exception = once
            raise
        return self.finish(response)


class SparesReplays(BaseThrottle):
    """Put before a throttle class: charges what will be executed, and nothing else.

    A request under a key that is held already is a replay, a duplicate or a mistake, and the decorator answers it
    without the handler; so is one whose key is missing or malformed. Neither is charged, and neither is refused when
    the quota is spent: a client must always be able to learn what became of its request. One query for each request of
    a protected view. Views that are not protected, and requests that run unprotected, are charged as usual.

    Two requests that come with a new key in the same instant are both charged; give one back in `NOT_EXECUTED`.
    """

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return whether a request may go on, charging it only if it would be executed."""
        return _runs_nothing(request, view) or super().allow_request(request, view)


class ReplaySparingUserRateThrottle(SparesReplays, UserRateThrottle):
    """`UserRateThrottle` that does not charge replays."""


class ReplaySparingScopedRateThrottle(SparesReplays, ScopedRateThrottle):
    """`ScopedRateThrottle` that does not charge replays."""


def _runs_nothing(request: Request, view: APIView) -> bool:
    """Return whether the decorator answers a request without its handler, as far as can be known now."""
    method = (request.method or "").lower()
    # a view set's own name for what the method reaches; both names are bound to it by `as_view`
    protection = protection_behind(type(view), getattr(view, "action", None) or method)
    if protection is None:
        return False
    try:
        key = parse_key(raw_key(request.META))
    except KeyInvalidError:
        return True
    if key is None:
        return protection.required
    try:
        who = identify(request, protection.identity)
        if who is None:
            return False
        return queries.is_key_held(request_binding(who.tenant, who.subject, protection.scope_of(request), key))
    except NameUnusableError:
        return True
    except JournalUnavailableError:
        log.exception("Whether a request is a replay cannot be read now; it is charged.")
        return False


def render_alone(response: HttpResponseBase) -> HttpResponseBase:
    """Render a response that no view finished, as JSON: `answer=` builds it without a request."""
    answer = cast("Any", response)
    answer.accepted_renderer = JSONRenderer()
    answer.accepted_media_type = JSONRenderer.media_type
    answer.renderer_context = {"response": answer}
    return cast("HttpResponseBase", answer.render())


def authenticated(request: HttpRequest) -> Any:
    """Return the request with the user that REST framework's default authenticators find, or their refusal."""
    wrapped: Request = APIView().initialize_request(request)
    try:
        _ = wrapped.user
    except APIException as error:
        challenge = _challenge(wrapped)
        kind = unlisted(error.default_code, error.status_code if challenge else 403)
        response = problem(kind, detail=str(error.detail))
        if challenge:
            response["WWW-Authenticate"] = challenge
        return response
    return wrapped


def _challenge(request: Request) -> str | None:
    """Return what WWW-Authenticate says; as in REST framework, the first authenticator speaks."""
    first: Any = next(iter(request.authenticators or ()), None)
    return first.authenticate_header(request) if first is not None else None
