"""A big journal: one row of each kind made through the library, then multiplied in SQL."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

import effects
from effects.models import Approval, Attempt, Execution, Receipt, Request, RequestExecution
from effects.testing import provider_says

__all__ = ["seed"]

#: Of a thousand executions, how many are in a state; what is left is completed. And how many there are at most.
SHARES = {
    "failed": (25, None), "rejected": (5, None), "abandoned": (2, None), "uncertain": (3, 3000),
    "needs_intervention": (2, 2000), "awaiting_approval": (2, 1500), "pending": (1, 500),
}  # fmt: skip
#: An id of version 7 made of a time and a number, as the processes make them.
UUID7 = """(lpad(to_hex((extract(epoch FROM {at}) * 1000)::bigint), 12, '0') || '7' || substr(md5('{salt}' || n), 1, 3)
  || '8' || substr(md5('{salt}' || n), 4, 15))::uuid"""
#: Half a year, evenly.
AT = "now() - interval '180 days' * (1 - n::float8 / {rows})"


@effects.register
class Pay(effects.Effect[dict]):  # type: ignore[type-arg]
    operation, provider, lookup = "bench.pay", "bank/bench", effects.Eventual()

    def send(self, context: Any, permit: Any) -> Any: ...

    def verify(self, context: Any) -> Any: ...

    def approval(self, context: Any) -> Any:
        return effects.ApprovalRule("effects.approve_execution") if context.payload.get("ask") else None

    def describe(self, _context: Any) -> effects.Summary:
        facts = {"Account": "DE89 3704 0044 0532 0130 00", "Note": "Invoice 2026-118, delivery of 14 March"}
        return effects.Summary("Pay out to Lindqvist Interiors", facts, amount=100, currency="eur", target="DE89")


def seed(rows: int) -> None:
    """Fill an empty database with that many executions, and what hangs on them."""
    call_command("migrate", verbosity=0)
    templates, now = _templates(), timezone.now().isoformat()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no foreign keys while rows are poured in
        first = 1
        for state, template in templates.items():
            share, most = SHARES.get(state, (1000 - sum(each for each, _ in SHARES.values()), None))
            count = min(rows * share // 1000, most or rows)
            # what is not settled is of the last days, what is settled of half a year
            at = AT.format(rows=rows) if most is None else f"now() - interval '5 days' * (n % {count} + 1) / {count}"
            _fill(cursor, state, template, (first, first + count - 1), at.replace("now()", f"timestamptz '{now}'"))
            first += count
        _fill_requests(cursor, rows // 2, AT.format(rows=rows // 2).replace("now()", f"timestamptz '{now}'"))
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("VACUUM ANALYZE")


def _fill(cursor: Any, state: str, template: Execution, span: tuple[int, int], at: str) -> None:
    """Multiply an execution and its receipts, sends and approvals."""
    ident = UUID7.format(at=at, salt=state)
    mine = {"execution_id": ident}
    execution = {
        "id": ident,
        "key": f"'{state}-' || n",
        "binding": f"md5('{state}' || n) || md5(n::text)",
        "provider_key": f"'fx_' || md5('{state}' || n)",
        "created_at": at,
        "settled_at": "settled_at" if template.settled_at is None else f"({at})",
        "ages_from": "ages_from" if template.ages_from is None else f"({at})",
        "amount": "(n * 37) % 500000 + 100",
        "operation": "CASE WHEN n % 3 = 0 THEN 'bench.refund' ELSE operation END",
        "reference": "CASE WHEN reference = '' THEN '' ELSE 'po_' || n END",
    }
    _multiply(cursor, Execution, template.pk, span, execution)
    for receipt in Receipt.objects.filter(execution_id=template.pk):
        number = "nextval('effects_receipt_id_seq')"
        _multiply(cursor, Receipt, receipt.pk, span, {**mine, "id": number, "at": at})
    for attempt in Attempt.objects.filter(execution_id=template.pk):
        times = {"permitted_at": at, "ended_at": f"({at}) + interval '1 ms' * (n % 900 + 50)"}
        _multiply(cursor, Attempt, attempt.pk, span, {**mine, **times, "id": UUID7.format(at=at, salt=f"a{state}")})
    for approval in Approval.objects.filter(execution_id=template.pk):
        times = {"created_at": at, "decide_by": f"({at}) + interval '7 days'"}
        _multiply(cursor, Approval, approval.pk, span, {**mine, **times, "id": UUID7.format(at=at, salt="v")})


def _fill_requests(cursor: Any, count: int, at: str) -> None:
    """Multiply a request, and link each to an execution."""
    request = {
        "id": UUID7.format(at=at, salt="r"),
        "key": "'client-' || n",
        "binding": "md5('r' || n) || md5(n::text)",
        "subject": "'user:' || n % 5000",
        "created_at": at,
        "ended_at": at,
    }
    _multiply(cursor, Request, _request().pk, (1, count), request)
    numbered = "(SELECT id, row_number() OVER (ORDER BY id) AS n FROM {}) {}"
    cursor.execute(
        f"INSERT INTO {RequestExecution._meta.db_table} (request_id, execution_id, position, holds) "
        f"SELECT r.id, e.id, 0, true FROM {numbered.format(Request._meta.db_table, 'r')} "
        f"JOIN {numbered.format(Execution._meta.db_table, 'e')} ON e.n = r.n * 2"
    )


def _multiply(cursor: Any, model: Any, template: Any, span: tuple[int, int], changed: dict[str, str]) -> None:
    """Insert a copy of a row for each number of a span, with some columns of their own."""
    columns = [field.column for field in model._meta.concrete_fields]
    values = ", ".join(changed.get(column, f't."{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    cursor.execute(
        f"INSERT INTO {model._meta.db_table} ({names}) SELECT {values} FROM {model._meta.db_table} t, "
        f"generate_series({span[0]}, {span[1]}) n WHERE t.id = '{template}'"
    )


def _templates() -> dict[str, Any]:
    """Make an execution in each state, through the library."""

    for name in ("ann", "ben"):
        user = User.objects.create_user(name)
        user.user_permissions.add(Permission.objects.get(codename="approve_execution"))
    payload = {"account": "DE89 3704 0044 0532 0130 00", "amount": 100, "lines": [f"line {n}" for n in range(8)]}

    def perform(key: str, *says: Any, **more: Any) -> Any:
        with provider_says(Pay, *says):
            return effects.perform(Pay, payload={**payload, **more}, key=key, requested_by="clerk").ref

    refs = {
        "completed": perform("t1", effects.Applied({"id": "po_1", "status": "paid"}, "po_1")),
        "failed": perform("t2", effects.Declined("insufficient funds", code="declined")),
        "uncertain": perform("t3", TimeoutError("no answer")),
        "needs_intervention": perform("t4", TimeoutError("no answer")),
        "abandoned": perform("t5", TimeoutError("no answer")),
        "awaiting_approval": perform("t6", ask=True),
        "rejected": perform("t7", ask=True),
    }
    with provider_says(Pay, look_up=effects.Conflict("another amount")):
        effects.look_up_now(refs["needs_intervention"])
    seen = effects.get(refs["abandoned"])
    effects.resolve(
        refs["abandoned"], decision="unknown", revision=seen.revision, by="olga", reason="nobody knows"
    )  # fmt: skip
    asked = Approval.objects.get(execution=refs["rejected"])
    effects.deny(refs["rejected"], by=User.objects.get(username="ann"), digest=asked.digest, comment="No.")
    with transaction.atomic():
        refs["pending"] = effects.perform_later(Pay, payload=payload, key="t8", requested_by="clerk").ref
    return {state: Execution.objects.get(pk=ref) for state, ref in refs.items()}


def _request() -> Any:

    now = timezone.now()
    return Request.objects.create(
        operation="bench.pay", mode="journaled", subject="user:x", key="t", binding="t" * 64, state="answered",
        reason="handler", answer_status=201, answer_body=b'{"paid": 100}', answer_size=13, created_at=now, ended_at=now,
    )  # fmt: skip
