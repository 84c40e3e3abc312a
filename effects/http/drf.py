"""All that knows REST framework: its views' error handling and rendering, and its authenticators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException, NotAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from effects.http.answers import rendered
from effects.http.calls import Call
from effects.http.case_blocks import unmarked_test_blocks

__all__ = ["ViewCall", "authenticated", "render_alone"]


class ViewCall(Call):
    """A call of a method of `APIView` or `ViewSet`, or of a function under `@api_view`.

    `dispatch` goes on after us: what we finished or handled must not be finished or handled again, so this view
    instance, which serves one request, remembers it.
    """

    def __init__(self, request: Any, run: Callable[[], HttpResponseBase]) -> None:
        super().__init__(request, run)
        self.view: Any = request.parser_context["view"]

    @property
    def http(self) -> HttpRequest:
        """Django's request."""
        request: HttpRequest = self.request._request
        return request

    def parse(self) -> None:
        """Let the parsers refuse what they cannot read, as for any view, before anything is recorded."""
        _ = self.request.data

    def refuse_anonymous(self) -> NoReturn:
        """Refuse a caller who is nobody.

        Raises:
            NotAuthenticated: 401 or 403, as the view's authenticators have it.
        """
        raise NotAuthenticated

    def finish(self, response: HttpResponseBase) -> HttpResponseBase:
        """Finalize and render as `dispatch` does, and keep it from doing so again: the bytes are to be stored."""
        view, finalize = self.view, self.view.finalize_response
        context = self.request.parser_context
        finished = rendered(finalize(self.request, response, *context["args"], **context["kwargs"]))

        def once(request: Any, answer: HttpResponseBase, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return answer if answer is finished else finalize(request, answer, *args, **kwargs)

        view.finalize_response = once
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


def render_alone(response: HttpResponseBase) -> HttpResponseBase:
    """Render a response that no view finished, as JSON: `answer=` builds it without a request."""
    answer = cast("Any", response)
    answer.accepted_renderer = JSONRenderer()
    answer.accepted_media_type = JSONRenderer.media_type
    answer.renderer_context = {"response": answer}
    return cast("HttpResponseBase", answer.render())


def authenticated(request: HttpRequest) -> Any:
    """Return the request with the user that REST framework's default authenticators find; a 401 where they refuse."""
    wrapped: Request = APIView().initialize_request(request)
    try:
        _ = wrapped.user
    except APIException as error:
        challenge = _challenge(wrapped)
        response = HttpResponse(status=error.status_code if challenge else 403)
        if challenge:
            response["WWW-Authenticate"] = challenge
        return response
    return wrapped


def _challenge(request: Request) -> str | None:
    """Return what WWW-Authenticate says; as in REST framework, the first authenticator speaks."""
    first: Any = next(iter(request.authenticators or ()), None)
    return first.authenticate_header(request) if first is not None else None
