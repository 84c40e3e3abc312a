"""Errors of ours that no handler turned into an answer: a client of an API gets a problem, never a page."""

from __future__ import annotations

from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response
from django.utils.translation import gettext_lazy as _

from effects.http.problems import CODES, Code, problem
from effects.journal.logs import get_logger
from effects.vocabulary.exceptions import EffectsError

__all__ = ["failure"]

log = get_logger("effects.http")


def failure(request: HttpRequest, error: EffectsError) -> HttpResponse:
    """Return the problem that says an error's code; called while the error is being handled.

    A code of the table keeps its status. Any other is a fault of the service: 500, told to whoever watches for
    unhandled errors as Django would tell them. The error's own words are for the log: they may name what the client
    must not know.
    """
    if error.code in CODES:
        log.error("%s was answered with %s.", request.path, error.code, exc_info=error)
        return problem(error.code)
    got_request_exception.send(sender=None, request=request)
    response = problem(_fault(error.code))
    log_response("%s: %s", "Internal Server Error", request.path, response=response, request=request, exception=error)
    return response


def _fault(code: str) -> Code:
    return Code(
        code,
        500,
        str(_("The service could not do the operation")),
        str(_("Send the same request under the same key to learn what became of it; do not use a new key before.")),
        retryable=False,
        anchor="faults-of-the-service",
        page="http",
    )
