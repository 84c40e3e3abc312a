"""What must hold of a life that has ended: the provider's books against the journal and the project's rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from django.db import connection

from effects.inspection import audit
from effects.journal.locks import now
from effects.models import Approval, Attempt, Execution, Request
from effects.transitions.intents import approval_digest
from effects.vocabulary import canonical
from effects.vocabulary.states import (
    EXECUTION_SETTLED,
    REQUEST_ENDED,
    ApprovalPurpose,
    ApprovalState,
    ExecutionState,
    RequestReason,
    RequestState,
    values,
)
from tests.crash import work
from tests.crash.provider import ask

if TYPE_CHECKING:
    from tests.crash.cells import Life

__all__ = ["Broken", "judge"]

_HAPPENED = values({ExecutionState.COMPLETED, ExecutionState.PARTIALLY_COMPLETED})


class Broken(AssertionError):  # noqa: N818 - what was found, not what went wrong with finding
    """A promise is broken."""


def judge(life: Life) -> None:
    """Look at what a life has left.

    Raises:
        Broken: with all that is wrong.
    """
    wrong = [*_books(), *_wire(), *_rows(), *_requests(life)]
    found = list(audit.audit(audit.Scope(now()), Counter()))
    wrong += [f"the audit finds {one.code}: {one.wrong}" for one in found]
    if wrong:
        raise Broken("; ".join(wrong))


def _books() -> list[str]:
    """Applied at most once and once more by a person's order; the states say what the books say."""
    applied, wrong = ask("books")["applied"], []
    for row in Execution.objects.all():
        times = sum(entry["key"] == row.provider_key for entry in applied)
        ordered = Approval.objects.filter(
            execution=row, purpose=str(ApprovalPurpose.RESEND), state=str(ApprovalState.SPENT)
        ).count()
        if times > 1 + ordered:
            wrong.append(f"applied {times} times, {ordered} ordered")
        if row.state not in values(EXECUTION_SETTLED):
            wrong.append(f"is left {row.state}")
        if (row.state in _HAPPENED) != bool(times):
            wrong.append(f"is {row.state} and was applied {times} times")
    known = set(Execution.objects.values_list("provider_key", flat=True))
    strangers = [entry for entry in applied if entry["key"] not in known]
    return wrong + [f"applied {entry} that nobody recorded" for entry in strangers]


def _wire() -> list[str]:
    """What arrived was permitted, once each, and approved as it arrived."""
    wrong, arrived = [], ask("books")["arrived"]
    sent = Counter((order["key"], order["number"]) for order in arrived)
    wrong += [f"attempt {number} arrived {times} times" for (_, number), times in sent.items() if times > 1]
    for order in arrived:
        attempt = Attempt.objects.filter(execution__provider_key=order["key"], number=order["number"]).first()
        if attempt is None:
            wrong.append(f"attempt {order['number']} arrived and nobody permitted it")
            continue
        payload = canonical.digest("effects.payload", order["payload"])
        if attempt.payload_digest != payload:
            wrong.append("arrived with other contents than permitted")
        wrong += _licence(attempt, order, payload)
    for approval in Approval.objects.filter(state=str(ApprovalState.SPENT)):
        licensed = Attempt.objects.filter(approval=approval).count()
        if licensed != 1:
            wrong.append(f"an approval was spent on {licensed} sends")
    return wrong


def _licence(attempt: Attempt, order: dict[str, Any], payload: str) -> list[str]:
    row, licence = attempt.execution, attempt.approval
    rule = row.contract["approval"]
    if licence is None:
        return ["was sent without an approval"] if rule else []
    digest = approval_digest(
        operation=row.operation, provider=row.provider, tenant=row.tenant, key=row.key, payload_digest=payload,
        summary_digest=order["shown"], rule=rule, purpose=licence.purpose,
    )  # fmt: skip
    wrong = [] if licence.digest == digest else ["was sent with other contents than approved"]
    return wrong + ([] if licence.state == ApprovalState.SPENT else ["was sent before its approval was spent"])


def _rows() -> list[str]:
    """The project's row is there once for each completed execution; the handler's with its own answer alone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT ref FROM crash_row")
        written = Counter(ref for (ref,) in cursor.fetchall())
        cursor.execute("SELECT request FROM crash_note")
        noted = Counter(ref for (ref,) in cursor.fetchall())
    wrong = []
    for row in Execution.objects.all():
        times, wanted = written.pop(str(row.pk), 0), int(row.state in _HAPPENED)
        if times != wanted:
            wrong.append(f"is {row.state}, and the project's row is there {times} times")
    wrong += [f"the project's row of {ref} belongs to nothing" for ref in written]
    for request in Request.objects.filter(operation="crash.opaque"):
        by_handler = request.state == RequestState.ANSWERED and request.reason == RequestReason.HANDLER
        wanted = int(by_handler and request.answer_status == 201)
        if noted.pop(str(request.pk), 0) != wanted:
            wrong.append(f"the handler's row of a request that is {request.state} ({request.reason}) is not as it is")
    return wrong + [f"the handler's row of {ref} belongs to nothing" for ref in noted]


def _requests(life: Life) -> list[str]:
    """Whoever asks again is told the same, twice, and nothing is sent for it."""
    if life.setting.way == "perform":
        return []
    unended = Request.objects.exclude(state__in=values(REQUEST_ENDED))
    wrong = [f"a request is left {state}" for state in unended.values_list("state", flat=True)]
    if Request.objects.filter(holds_key=True).count() != 1:
        return [*wrong, "no request holds the client's key"]
    before = len(ask("books")["arrived"])
    first, second = (_asked_again(life) for _ in range(2))
    if first != second:
        wrong.append(f"answered {first}, then {second}")
    if len(ask("books")["arrived"]) != before:
        wrong.append("a replay came to the provider")
    heard = [answer for answer in life.answers if answer is not None and answer["status"] in (200, 201)]
    wrong += [f"answered {answer}, and now {first}" for answer in heard if answer != first]
    return wrong + _told(life, first)


def _told(life: Life, answer: dict[str, Any]) -> list[str]:
    """A declared view's client always hears what became of it."""
    row = Execution.objects.first()
    if row is None:  # an opaque view that died before it performed anything: a person has said so
        return _told_resolved(life, answer)
    state = row.state
    if life.setting.way == "declared" and (answer["status"] == 201) != (state == ExecutionState.COMPLETED):
        return [f"is {state}, and the client is told {answer}"]
    if life.setting.way == "worker" and answer["status"] != 202:
        return [f"was recorded, and the client is told {answer}"]
    return []


def _told_resolved(life: Life, answer: dict[str, Any]) -> list[str]:
    told = json.loads(answer["body"])
    honest = answer["status"] == 409 and told["code"] == "operation_resolved" and told["safe_new_key"] is True
    if life.setting.way == "opaque" and honest:
        return []
    return [f"nothing was performed, and the client is told {answer}"]


def _asked_again(life: Life) -> Any:
    about = {"provider": life.setting.provider, "asks": life.setting.asks, "order": life.order}
    trouble = life.setting.trouble if life.setting.trouble in ("raises", "hook_raises") else ""
    return work.do("request", {"way": life.setting.way, **about, "trouble": trouble})
