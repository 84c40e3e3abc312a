"""Build the problem answers of RFC 9457.

`CODES` is the frozen table of all problems; clients depend on code, status and type URL. Titles and details
are translated into the language of the request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast

from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from effects.conf import DOCS, settings

__all__ = ["CODES", "CONTENT_TYPE", "KEY_GUIDE", "Code", "problem", "type_url", "unlisted"]

CONTENT_TYPE = "application/problem+json"
KEY_GUIDE = f"{DOCS}/guides/idempotency-keys/"
"""What an answer to a missing key links to (draft-ietf-httpapi-idempotency-key-header §2.7)."""


@dataclass(frozen=True)
class Code:
    """One kind of problem.

    Attributes:
        code: Its stable name.
        status: Its usual HTTP status.
        title: What kind of problem it is; the same for all occurrences (RFC 9457 §3.1.3).
        detail: What it means for the client here; `%(name)s` stands for a member of `extra`.
        retryable: Whether the same request under the same key may be sent again without a person deciding.
        anchor: The heading of the docs' page of problems.
        retry_after: What Retry-After says unless the caller knows better; None for no header.
        page: The docs' page that has the heading, below `reference/`.
    """

    code: str
    status: int
    title: str
    detail: str
    retryable: bool
    anchor: str
    retry_after: timedelta | None = None
    page: str = "problems"


def _code(
    code: str, status: int, title: object, detail: object, *, retry_after: timedelta | None = None
) -> tuple[str, Code]:
    # gettext_lazy is typed as what it turns into.
    texts = cast("str", title), cast("str", detail)
    return code, Code(code, status, *texts, retry_after is not None, code.replace("_", "-"), retry_after)


CODES: Mapping[str, Code] = MappingProxyType(
    dict(
        (
            _code(
                "idempotency_key_missing",
                400,
                _("The request needs an idempotency key"),
                _("Send the header %(header)s with a value of your own that is new for each operation."),
            ),
            _code(
                "idempotency_key_invalid",
                400,
                _("The idempotency key cannot be used"),
                _("The header %(header)s cannot be used. %(reason)s"),
            ),
            _code(
                "idempotency_request_invalid",
                400,
                _("The request's body cannot be used"),
                _("The body could not be compared, so nothing was done. %(reason)s"),
            ),
            _code(
                "idempotency_key_reused",
                422,
                _("The idempotency key was used for another request"),
                _("A request under this key differs in: %(differs)s. Use a new key for a new operation."),
            ),
            _code(
                "operation_in_progress",
                409,
                _("The operation is still running"),
                _("The first request under this key has not ended. Send the same request again later."),
                retry_after=timedelta(seconds=1),
            ),
            _code(
                "operation_uncertain",
                409,
                _("The operation's outcome is not known yet"),
                _("It may have happened. Do not repeat it under a new key; it is being looked into."),
            ),
            _code(
                "operation_policy_changed",
                409,
                _("The operation's rules have changed"),
                _("The service was changed since the first request under this key; a person must decide."),
            ),
            _code(
                "operation_result_unavailable",
                409,
                _("The operation ended without a stored answer"),
                _("It has ended, at least partly with success, and will not run again. No answer was kept."),
            ),
            _code(
                "operation_resolved",
                409,
                _("The operation was closed by a person"),
                _("A person decided about it after its outcome could not be learnt. It will not run again."),
            ),
            _code(
                "operation_not_applied",
                409,
                _("The operation did not happen"),
                _("It was tried and has failed; nothing was changed."),
            ),
            _code(
                "operation_rejected",
                409,
                _("The operation was refused"),
                _("It was refused before anything was sent; nothing was changed."),
            ),
            _code(
                "operation_result_expired",
                409,
                _("The stored answer is no longer kept"),
                _("It has ended and will not run again under this key. Its answer is past its retention."),
            ),
            _code(
                "execution_capacity",
                503,
                _("Too many operations are open"),
                _("Nothing was done. Send the same request again later."),
                retry_after=timedelta(seconds=30),
            ),
            _code(
                "execution_unavailable",
                503,
                _("The operation cannot be recorded now"),
                _("Without its record nothing is done. Send it again later with the same key."),
                retry_after=timedelta(seconds=5),
            ),
            _code(
                "operation_not_found",
                404,
                _("There is no such operation"),
                _("It is not there, or another caller's."),
            ),
        )
    )
)


def unlisted(code: str, status: int) -> Code:
    """Return a kind of problem that is none of ours: of a framework, which has its own code and no page here."""
    return Code(code, status, HTTPStatus(status).phrase, "", retryable=False, anchor="")


def type_url(code: str | Code) -> str:
    """Return the problem type (RFC 9457 §3.1.1): the address of its section in the docs; none: `about:blank`."""
    kind = CODES[code] if isinstance(code, str) else code
    return f"{DOCS}/reference/{kind.page}/#{kind.anchor}" if kind.anchor else "about:blank"


def problem(
    code: str | Code,
    *,
    status: int | None = None,
    operation_ref: object = None,
    operation_state: str | None = None,
    safe_new_key: bool = False,
    status_url: str | None = None,
    retry_after: timedelta | None = None,
    detail: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """Build the answer for one problem.

    Args:
        code: A key of `CODES`, or a kind that is not in there.
        status: Another HTTP status than the usual one, such as 413.
        operation_ref: The request's public id; left out for callers who must not learn it.
        operation_state: The state of the request or of its most doubtful execution.
        safe_new_key: Whether nothing was applied and nothing can be any more under this key.
        status_url: Where the operation can be asked for.
        retry_after: Time until asking again makes sense; rounded up to seconds.
        detail: Another detail than the usual one, translated.
        extra: Further members, JSON-ready; those that the usual detail names are put into it. They cannot
            replace the members above.

    Returns:
        `application/problem+json` that no cache may store.

    Raises:
        KeyError: If there is no such code.
    """
    kind = CODES[code] if isinstance(code, str) else code
    told = _Parameters({"header": settings.KEY_HEADER, **(extra or {})})
    members: dict[str, Any] = {
        **(extra or {}),
        "type": type_url(kind),
        "title": str(kind.title),
        "status": status or kind.status,
        "detail": detail if detail is not None else str(kind.detail) % told,
        "code": kind.code,
        "safe_new_key": safe_new_key,
    }
    optional = {"operation_ref": operation_ref, "operation_state": operation_state, "status_url": status_url}
    members.update({name: str(value) for name, value in optional.items() if value is not None})
    wait = retry_after if retry_after is not None else kind.retry_after
    return _response(kind.code, members, wait)


def _response(code: str, members: dict[str, Any], wait: timedelta | None) -> HttpResponse:
    # ASCII, so that a word of a client's that is half of a character cannot keep the answer from going out
    text = json.dumps(members, default=str)
    response = HttpResponse(text, status=members["status"], content_type=CONTENT_TYPE)
    response["Cache-Control"] = "no-store"
    if wait is not None:
        # RFC 9110 §10.2.3: whole seconds; zero would invite a busy loop.
        response["Retry-After"] = str(max(1, math.ceil(wait.total_seconds())))
    if code == "idempotency_key_missing":
        response["Link"] = f'<{KEY_GUIDE}>; rel="describedby"; type="text/html"'
    return response


class _Parameters(dict[str, Any]):
    """Values for a detail, lists joined; a missing one leaves a gap, since an answer must go out anyway."""

    def __getitem__(self, name: str) -> str:
        value = self.get(name, "")
        return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
