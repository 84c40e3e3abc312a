"""Problems of the API, as those of protected views; and how errors become them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast

from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.views import exception_handler, set_rollback

from effects.http.problems import CODES, Code, problem, unlisted
from effects.vocabulary.exceptions import (
    ApprovalError,
    CapacityError,
    EffectsError,
    ExecutionNotFoundError,
    JournalUnavailableError,
    NameUnusableError,
    NobodyEntitledError,
    NotEntitledError,
    PayloadError,
    StaleRevisionError,
)

__all__ = ["API_CODES", "ProposalError", "as_problem", "pointer_to"]


def _code(code: str, status: int, title: object, detail: object) -> tuple[str, Code]:
    # gettext_lazy is typed as what it turns into
    texts = cast("str", title), cast("str", detail)
    return code, Code(code, status, *texts, retryable=False, anchor=code.replace("_", "-"), page="api")


#: Frozen, as `CODES`.
API_CODES: Mapping[str, Code] = MappingProxyType(
    dict(
        (
            _code("request_invalid", 400, _("The body cannot be used"), _("See errors.")),
            _code("payload_invalid", 400, _("The payload cannot be used"), _("Nothing was recorded. See errors.")),
            _code(
                "not_proposable",
                403,
                _("You cannot propose this"),
                _("There is no effect of this name that you may propose."),
            ),
            _code("proposal_refused", 409, _("The proposal is refused"), _("Nothing was recorded. %(reason)s")),
            _code("nobody_entitled", 409, _("Nobody could approve this"), _("Nothing was recorded.")),
            _code("not_found", 404, _("There is no such thing"), _("It is not there, or not yours to see.")),
            _code("not_entitled", 403, _("You cannot decide this"), _("Somebody else has to.")),
            _code("stale_revision", 409, _("It changed meanwhile"), _("Look at it again, then decide.")),
            _code("already_decided", 409, _("It is decided already"), _("Nothing was changed.")),
        )
    )
)
#: The first that fits: subclasses before their parents.
_OF_ERRORS: Mapping[type[EffectsError], Code] = {
    PayloadError: API_CODES["payload_invalid"],
    NameUnusableError: API_CODES["request_invalid"],
    ExecutionNotFoundError: API_CODES["not_found"],
    NobodyEntitledError: API_CODES["nobody_entitled"],
    NotEntitledError: API_CODES["not_entitled"],
    StaleRevisionError: API_CODES["stale_revision"],
    ApprovalError: API_CODES["already_decided"],
    JournalUnavailableError: CODES["execution_unavailable"],
    CapacityError: CODES["execution_capacity"],
}


class ProposalError(Exception):
    """A proposal that is not recorded; `extra` are the problem's further members."""

    def __init__(self, code: str, **extra: Any) -> None:
        super().__init__(code)
        self.code, self.extra = code, extra


def as_problem(error: Exception, context: Any) -> HttpResponseBase | None:
    """Return the problem that an error is; None for what is nobody's mistake but ours. An exception handler."""
    if isinstance(error, ProposalError):
        set_rollback()
        return problem(API_CODES[error.code], extra=error.extra)
    kind = next((kind for of, kind in _OF_ERRORS.items() if isinstance(error, of)), None)
    if kind is not None:
        set_rollback()
        return problem(kind, detail=None if kind.code in CODES else str(error) or None)
    if isinstance(error, ValidationError):
        set_rollback()
        return problem(API_CODES["request_invalid"], extra={"errors": list(_errors(error.detail))})
    return _of_framework(error, exception_handler(error, context))


def _of_framework(error: Exception, response: Any) -> HttpResponseBase | None:
    """Return REST framework's own refusal as a problem, its headers kept."""
    if response is None:
        return None
    if response.status_code == HTTPStatus.NOT_FOUND:
        return problem(API_CODES["not_found"])
    code = error.default_code if isinstance(error, APIException) else "permission_denied"
    found = problem(unlisted(code, response.status_code), detail=str(response.data.get("detail", "")))
    for name in ("WWW-Authenticate", "Retry-After", "Allow"):
        if response.has_header(name):
            found[name] = response[name]
    return found


def _errors(detail: Any, path: str = "#") -> Iterator[dict[str, str]]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _errors(inner, path if name == "non_field_errors" else f"{path}/{name}")
    elif isinstance(detail, list):
        for inner in detail:
            yield from _errors(inner, path)
    else:
        yield {"pointer": path, "detail": str(detail)}


def pointer_to(path: str) -> str:
    """Return the JSON pointer into the body for a place in its payload: `$.items[2].price`."""
    steps = path.removeprefix("$").replace("[", ".").replace("]", "").split(".")
    return "#/payload" + "".join(f"/{step}" for step in steps if step)
