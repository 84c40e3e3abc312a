"""Problem answers."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils.translation import override

from effects.conf import DOCS
from effects.http.problems import CODES, KEY_GUIDE, problem

STATUSES = {
    "idempotency_key_missing": 400,
    "idempotency_key_invalid": 400,
    "idempotency_request_invalid": 400,
    "idempotency_key_reused": 422,
    "operation_in_progress": 409,
    "operation_uncertain": 409,
    "operation_policy_changed": 409,
    "operation_result_unavailable": 409,
    "operation_resolved": 409,
    "operation_not_applied": 409,
    "operation_rejected": 409,
    "operation_result_expired": 409,
    "execution_capacity": 503,
    "execution_unavailable": 503,
    "operation_not_found": 404,
}
RETRYABLE = {"operation_in_progress", "execution_capacity", "execution_unavailable"}


def body(response: Any) -> dict[str, Any]:
    return json.loads(response.content)  # type: ignore[no-any-return]


def test_codes_are_frozen() -> None:
    """Names and statuses are what clients were promised, and the table cannot be changed."""
    assert {code: kind.status for code, kind in CODES.items()} == STATUSES
    with pytest.raises(TypeError):
        CODES["x"] = CODES["operation_resolved"]  # type: ignore[index]


@pytest.mark.parametrize("code", STATUSES)
def test_each_problem(code: str) -> None:
    """Every problem has the members of RFC 9457 and ours, and is never cached."""
    response = problem(code)
    assert response.status_code == STATUSES[code]
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    members = body(response)
    assert members["type"] == f"{DOCS}/reference/problems/#{code.replace('_', '-')}"
    assert members["title"] == str(CODES[code].title)
    assert members["detail"]
    assert "%" not in members["detail"]
    assert members["status"] == STATUSES[code]
    assert members["code"] == code
    assert members["safe_new_key"] is False
    assert set(members) == {"type", "title", "detail", "status", "code", "safe_new_key"}
    assert response.has_header("Retry-After") is (code in RETRYABLE) is CODES[code].retryable


def test_anchors_are_distinct() -> None:
    """Each problem has a section of its own in the docs."""
    assert len({kind.anchor for kind in CODES.values()}) == len(CODES)


def test_all_members() -> None:
    """What the caller knows is in the answer, as text."""
    ref = uuid4()
    response = problem(
        "operation_not_applied",
        operation_ref=ref,
        operation_state="answered",
        safe_new_key=True,
        status_url="https://shop.example/operations/1/",
        extra={"code": "forged", "more": [1]},
    )
    members = body(response)
    assert members["operation_ref"] == str(ref)
    assert members["operation_state"] == "answered"
    assert members["safe_new_key"] is True
    assert members["status_url"] == "https://shop.example/operations/1/"
    assert members["code"] == "operation_not_applied"
    assert members["more"] == [1]


@pytest.mark.parametrize(
    ("wait", "header"),
    [
        (timedelta(0), "1"),
        (timedelta(milliseconds=1500), "2"),
        (timedelta(seconds=7), "7"),
        (timedelta(-1), "1"),
    ],
)
def test_retry_after(wait: timedelta, header: str) -> None:
    """Retry-After is whole seconds, rounded up, at least one."""
    assert problem("operation_in_progress", retry_after=wait)["Retry-After"] == header


def test_difference_and_reason() -> None:
    """The usual details take their words from `extra`; a given detail replaces them."""
    reused = body(problem("idempotency_key_reused", extra={"differs": ["query", "body"]}))
    assert "query, body" in reused["detail"]
    assert reused["differs"] == ["query", "body"]
    assert "It is empty." in body(problem("idempotency_key_invalid", extra={"reason": "It is empty."}))["detail"]
    assert body(problem("operation_uncertain", detail="50% done"))["detail"] == "50% done"


def test_other_status() -> None:
    """A body that is too large is the same problem under 413."""
    response = problem("idempotency_request_invalid", status=413)
    assert response.status_code == body(response)["status"] == 413


def test_missing_key_links_to_the_docs() -> None:
    """A client that sent no key is told where keys are explained."""
    assert problem("idempotency_key_missing")["Link"] == f'<{KEY_GUIDE}>; rel="describedby"; type="text/html"'
    assert not problem("idempotency_key_invalid").has_header("Link")


def test_texts_are_lazy() -> None:
    """Titles are translated when the answer is built, not when the module is imported."""
    with override("en"):
        assert body(problem("operation_rejected"))["title"] == "The operation was refused"
    assert type(CODES["operation_rejected"].title) is not str


def test_unknown_code() -> None:
    """A code that is not in the table is a programming error."""
    with pytest.raises(KeyError):
        problem("no_such_code")
