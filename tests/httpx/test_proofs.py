"""What each answer to a send proves."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest

import effects
from effects.contrib.statuses import PROOF
from effects.vocabulary import failures
from effects.vocabulary.failures import Declined, Doubt, Forbidden, InvalidRequest, NotNow, Stale, Unauthenticated
from effects.vocabulary.states import ExecutionReason
from effects.vocabulary.types import Applied, Submitted
from tests.httpx.conftest import Transfer, context_for, declared
from tests.stripe.scripted import Scripted


def refused(transfer: Transfer, permit: Callable[..., Any]) -> failures.FailureClass:
    """Send, and return what the failure proves."""
    allowed = permit()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it is taken for is the point
        transfer.send(context_for(allowed), allowed)
    return failures.classify(caught.value)


@pytest.mark.parametrize(
    ("status", "proof"),
    [
        (400, InvalidRequest), (401, Unauthenticated), (402, Declined), (403, Forbidden), (404, InvalidRequest),
        (405, InvalidRequest), (410, InvalidRequest), (411, InvalidRequest), (412, Stale), (413, InvalidRequest),
        (414, InvalidRequest), (415, InvalidRequest), (421, InvalidRequest), (422, InvalidRequest),
        (426, InvalidRequest), (428, InvalidRequest), (431, InvalidRequest), (451, Forbidden),
        (425, NotNow), (429, NotNow),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "body", [{"code": "limit", "message": "no"}, b"<html>no</html>", b""], ids=["json", "html", ""]
)
def test_a_refusal_proves_that_nothing_was_applied(
    api: Scripted, transfer: Transfer, permit: Callable, status: int, proof: type[failures.SendError], body: Any
) -> None:
    """These statuses are refusals, whatever the body says, and each was one request."""
    api.says(status, body)
    found = refused(transfer, permit)
    assert found.not_applied
    assert found.reason is proof.reason
    assert found.repeat == (proof is NotNow)
    assert len(api.seen) == 1


def test_each_row_of_the_table_is_tested() -> None:
    """The list above is the table."""
    (rows,) = [
        mark.args[1]
        for mark in test_a_refusal_proves_that_nothing_was_applied.pytestmark  # type: ignore[attr-defined]
        if mark.args[0] == ("status", "proof")
    ]
    assert dict(rows) == dict(PROOF)


@pytest.mark.parametrize(
    "status",
    [300, 301, 302, 303, 304, 307, 308, 406, 407, 409, 417, 423, 424, 499, 500, 501, 502, 503, 504, 505, 507, 520, 599],
)
def test_what_proves_nothing_is_doubt(api: Scripted, transfer: Transfer, permit: Callable, status: int) -> None:
    """A redirect, a conflict, a key in use, and whatever a server or who stands before it says from 500 on."""
    api.says(status, b"" if status == 304 else {"message": "who knows"})
    found = refused(transfer, permit)
    assert not found.not_applied
    assert found.reason is ExecutionReason.PROVIDER_ERROR
    assert len(api.seen) == 1


def test_a_408_is_a_timeout(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """A time-out that the provider's side reports is doubt by time-out."""
    api.says(408, b"")
    found = refused(transfer, permit)
    assert (found.not_applied, found.reason) == (False, ExecutionReason.TIMEOUT)


@pytest.mark.parametrize("status", [425, 429, 503])
def test_the_provider_s_wish_is_kept(api: Scripted, transfer: Transfer, permit: Callable, status: int) -> None:
    """Retry-After in seconds reaches the runtime, of a refusal and of a doubt."""
    api.says(status, {}, Retry_After="7")
    assert refused(transfer, permit).retry_after == timedelta(seconds=7)


def test_the_provider_s_wish_may_be_a_date(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """Retry-After as a date is the time until then."""
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    api.says(429, {}, Retry_After=format_datetime(later, usegmt=True))
    found = refused(transfer, permit).retry_after
    assert found is not None
    assert timedelta(minutes=59) < found <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("status", "meaning"),
    [(503, NotNow), (409, Declined), (422, Doubt), (302, InvalidRequest), (404, Stale), (429, Doubt)],
)
def test_a_project_says_otherwise(
    api: Scripted, permit: Callable, status: int, meaning: type[failures.SendError]
) -> None:
    """`proves` goes over the table, for this status and no other."""
    effect = declared(url=api.url, proves={status: meaning})
    api.says(status, {"message": "said so"}, Retry_After="7")
    api.says(500, {})
    allowed = permit()
    with pytest.raises(meaning, match="said so") as caught:
        effect.send(context_for(allowed), allowed)
    assert failures.classify(caught.value).retry_after == (timedelta(seconds=7) if meaning in (NotNow, Doubt) else None)
    assert not refused(effect, permit).not_applied


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"code": "limit", "message": "too much"}, "limit", "too much"),
        ({"error": {"code": "limit", "message": "too much"}}, "limit", "too much"),
        ({"type": "about:blank", "title": "Nope", "detail": "too much", "status": 422}, "http_422", "too much"),
        ({"error": "invalid_grant", "error_description": "too much"}, "http_422", "too much"),
        ({"code": 17, "errors": ["too much"]}, "http_422", '{"code": 17, "errors": ["too much"]}'),
        (["too much"], "http_422", '["too much"]'),
        (b"too much", "http_422", "too much"),
        (b"[" * 100_000, "http_422", "["),
    ],
    ids=range(8),
)
def test_the_provider_s_words_are_kept(
    api: Scripted, transfer: Transfer, permit: Callable, body: Any, code: str, message: str
) -> None:
    """Code and message come from the usual places, and else the text is the message."""
    api.says(422, body)
    found = refused(transfer, permit)
    assert found.code == code
    assert found.message.startswith(message)


def test_created(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """A success with a JSON body is applied, with the body as output and the provider's id as reference."""
    api.says(201, {"id": "t-1", "amount": 400})
    allowed = permit()
    found = transfer.send(context_for(allowed), allowed)
    assert isinstance(found, Applied)
    assert (found.output, found.reference) == ({"id": "t-1", "amount": 400}, "t-1")


@pytest.mark.parametrize(
    ("body", "reference"), [({"id": 17}, "17"), ({"id": None}, ""), ({"id": ["x"]}, ""), ({}, ""), ([1], ""), ("x", "")]
)
def test_a_reference_is_a_text_or_a_number(
    api: Scripted, transfer: Transfer, permit: Callable, body: Any, reference: str
) -> None:
    """What else stands there, or nothing, is no reference, and it was applied all the same."""
    api.says(200, body)
    allowed = permit()
    found = transfer.send(context_for(allowed), allowed)
    assert isinstance(found, Applied)
    assert (found.output, found.reference) == (body, reference)


def test_no_content(api: Scripted, transfer: Transfer, permit: Callable) -> None:
    """204 says that it was done and that there is nothing to add."""
    api.says(204, b"")
    allowed = permit()
    assert transfer.send(context_for(allowed), allowed) == Applied()


@pytest.mark.parametrize(("body", "reference"), [({"id": "t-1"}, "t-1"), (b"", "")])
def test_accepted(api: Scripted, transfer: Transfer, permit: Callable, body: Any, reference: str) -> None:
    """202 says that it was taken, and not yet done."""
    api.says(202, body)
    allowed = permit()
    assert transfer.send(context_for(allowed), allowed) == Submitted(reference)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""), (200, b"<html>welcome</html>"), (201, b"{"), (200, b"\xff\xfe"), (202, b"<html>"),
        (203, {"id": "t-1"}), (206, {"id": "t-1"}), (207, {"id": "t-1"}), (299, {"id": "t-1"}),
    ],
)  # fmt: skip
def test_a_success_that_cannot_be_read_is_doubt(
    api: Scripted, transfer: Transfer, permit: Callable, status: int, body: Any
) -> None:
    """Somebody else's page, half a document, and statuses that say neither done nor taken."""
    api.says(status, body)
    found = refused(transfer, permit)
    assert not found.not_applied
    assert found.reason is ExecutionReason.PROVIDER_ERROR


def test_a_project_reads_the_answer(api: Scripted, permit: Callable) -> None:
    """`result` may find a refusal in a 2xx, and what it raises by mistake is doubt."""

    def result(self: Any, context: Any, answer: Any) -> Any:
        said = answer.json()
        if said["status"] == "declined":
            raise effects.Declined("no", code=said["why"])
        return effects.Partial([effects.Item("a", applied=True), effects.Item("b", applied=False)])

    effect = declared(url=api.url, result=result)
    api.says(200, {"status": "declined", "why": "limit"})
    assert refused(effect, permit).code == "limit"
    api.says(207, {"status": "booked"})
    allowed = permit()
    assert len(effect.send(context_for(allowed), allowed).items) == 2
    api.says(200, {})
    found = refused(effect, permit)
    assert (found.not_applied, found.reason) == (False, ExecutionReason.UNCLASSIFIED)


def test_a_project_reads_the_refusal(api: Scripted, permit: Callable) -> None:
    """`refusal` sees every answer that is no 2xx; one that returns no failure leaves doubt."""

    def refusal(self: Any, context: Any, answer: Any) -> Any:
        return effects.Declined("broke", code=answer.json()["error_code"]) if answer.status_code == 409 else None

    effect = declared(url=api.url, refusal=refusal)
    api.says(409, {"error_code": "funds"})
    assert (refused(effect, permit).code, len(api.seen)) == ("funds", 1)
    api.says(400, {})
    assert not refused(effect, permit).not_applied
