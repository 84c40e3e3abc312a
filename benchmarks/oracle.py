"""What must hold at the end of a soak: of the provider's ledger, the journal, the project's rows, the clients."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.effects import PayOut
from benchmarks.models import Order, Payment
from effects.inspection import audit
from effects.journal.locks import now
from effects.models import Attempt, Execution, Receipt
from effects.vocabulary import canonical
from effects.vocabulary.states import EXECUTION_SETTLED, ApprovalState, ExecutionState, values

__all__ = ["judge"]

#: What is counted against us → why, by example.
Wrong = dict[str, list[str]]
_COMPLETED = str(ExecutionState.COMPLETED)


def judge(books: dict[str, Any], diaries: Path) -> tuple[Wrong, dict[str, Any]]:
    """Compare everything with everything.

    Args:
        books: the provider's.
        diaries: the directory of what the processes were told.

    Returns:
        What is wrong, by kind; and what was counted.
    """
    wrong: Wrong = {
        kind: []
        for kind in (
            "duplicates", "lost", "unsettled", "rows_missing", "rows_doubled", "wire", "audit_findings", "surprises",
        )
    }  # fmt: skip
    rows = {row.provider_key: row for row in Execution.objects.all()}
    told = list(_lines(diaries))
    _ledger(wrong, rows, books["applied"])
    _wire(wrong, books["arrived"])
    _project(wrong, rows)
    _clients(wrong, rows, told)
    wrong["audit_findings"] = [
        f"{one.code}: {one.wrong} ({one.ref})" for one in audit.audit(audit.Scope(now()), Counter())
    ]
    return wrong, _counted(rows, books, told)


def _ledger(wrong: Wrong, rows: dict[str, Execution], applied: list[dict[str, Any]]) -> None:
    """Applied at most once; applied and completed are the same, under the same reference; all is settled."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for entry in applied:
        by_key[entry["key"]].append(entry["reference"])
    for key, references in by_key.items():
        if len(references) > 1:
            wrong["duplicates"].append(f"{_name(rows.get(key))} applied as {references}")
        row = rows.get(key)
        if row is None:
            wrong["lost"].append(f"{references} belong to nothing in the journal")
        elif row.state in values(EXECUTION_SETTLED) and (row.state != _COMPLETED or row.reference not in references):
            wrong["lost"].append(f"{_name(row)} is {row.state} as {row.reference!r}, and was applied as {references}")
    for key, row in rows.items():
        if row.state not in values(EXECUTION_SETTLED):
            wrong["unsettled"].append(f"{_name(row)} is left {row.state} ({row.reason})")
        elif row.state == _COMPLETED and key not in by_key:
            wrong["lost"].append(f"{_name(row)} is completed, and was never applied")


def _wire(wrong: Wrong, arrived: list[dict[str, Any]]) -> None:
    """What arrived was permitted, once each, with these contents, and licensed where people decide."""
    attempts = {
        (attempt.execution.provider_key, attempt.number): attempt
        for attempt in Attempt.objects.select_related("execution", "approval")
    }
    for (key, number), times in Counter((order["key"], order["number"]) for order in arrived).items():
        attempt = attempts.get((key, number))
        name = f"{_name(attempt.execution) if attempt else key} attempt {number}"
        if times > 1 or attempt is None:
            wrong["wire"].append(f"{name} arrived {times} times, permitted: {attempt is not None}")
    for order in arrived:
        attempt = attempts.get((order["key"], order["number"]))
        if attempt is None:
            continue
        if attempt.payload_digest != canonical.digest("effects.payload", order["payload"]):
            wrong["wire"].append(f"{_name(attempt.execution)} arrived with other contents than permitted")
        asks, licence = attempt.execution.operation == PayOut.operation, attempt.approval
        if asks and (licence is None or licence.state != ApprovalState.SPENT):
            wrong["wire"].append(f"{_name(attempt.execution)} was sent without an approval of its own")
    for approval, times in Counter(one.approval_id for one in attempts.values() if one.approval_id).items():
        if times > 1:
            wrong["wire"].append(f"approval {approval} was worth {times} sends")


def _project(wrong: Wrong, rows: dict[str, Execution]) -> None:
    """The project's row is there once for each completed execution; an order has its execution."""
    written: Counter[str] = Counter(Payment.objects.values_list("ref", flat=True))
    for row in rows.values():
        times, wanted = written.pop(str(row.pk), 0), int(row.state == _COMPLETED)
        if times < wanted:
            wrong["rows_missing"].append(f"{_name(row)} is completed, and the project has no row of it")
        elif times > wanted:
            wrong["rows_doubled"].append(f"{_name(row)} is {row.state}, and the project has {times} rows of it")
    wrong["rows_doubled"] += [f"the project's row of {ref} belongs to nothing" for ref in written]
    known = {row.key for row in rows.values()}
    orders = (f"order-{number}" for number in Order.objects.values_list("number", flat=True))
    wrong["lost"] += [f"{key} was committed without its execution" for key in orders if key not in known]


def _clients(wrong: Wrong, rows: dict[str, Execution], told: list[dict[str, Any]]) -> None:
    """What a client was told stays true; no process met an error that nobody foresaw."""
    by_ref = {str(row.pk): row for row in rows.values()}
    for line in told:
        if "surprise" in line:
            wrong["surprises"].append(line["surprise"])
        if "ref" not in line:
            continue
        row = by_ref.get(line["ref"])
        if row is None:
            wrong["lost"].append(f"{line['ref']}: a client was told {line['state']}, and the journal has no such row")
        elif line["state"] in values(EXECUTION_SETTLED) and line["state"] != row.state:
            wrong["lost"].append(f"{_name(row)}: a client was told {line['state']}, and it is {row.state}")
        elif line.get("reference", row.reference) != row.reference:
            wrong["lost"].append(f"{_name(row)}: a client was told {line['reference']}, and it is {row.reference}")


def _counted(rows: dict[str, Execution], books: dict[str, Any], told: list[dict[str, Any]]) -> dict[str, Any]:
    late = Receipt.objects.filter(evidence__has_key="late")
    return {
        "operations": len(rows),
        "states": dict(Counter(row.state for row in rows.values())),
        "client_answers": sum("ref" in line for line in told),
        "client_errors": dict(Counter(line["error"] for line in told if "error" in line)),
        "provider_sends": len(books["arrived"]),
        "provider_applied": len(books["applied"]),
        "provider_faults": dict(Counter(order["fault"] for order in books["arrived"] if order["fault"] != "none")),
        "takeovers": Receipt.objects.filter(event="expire_lease").count(),
        "late_replies": late.count(),
        "late_replies_that_settled": late.filter(event="confirm").count(),
        "look_ups": Receipt.objects.filter(event="claim").count(),
        "resolved_by_look_up": Receipt.objects.filter(event="confirm").exclude(evidence__has_key="late").count(),
        "absent_then_sent_again": Receipt.objects.filter(event="confirm_absence", to_state="pending").count(),
        "approvals_spent": Attempt.objects.exclude(approval=None).values("approval").distinct().count(),
    }


def _lines(diaries: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(diaries.glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):  # the last one of a process that was killed may be cut
                yield json.loads(line)


def _name(row: Execution | None) -> str:
    return f"{row.operation} {row.key} ({row.pk})" if row else "an unknown execution"
