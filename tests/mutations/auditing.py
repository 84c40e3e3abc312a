"""Rules of the audit: what receipts tell of a row is compared with it."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_COLUMNS = "tests/audit/test_columns.py"
_EACH = f"{_COLUMNS}::test_a_change_of_any_column_is_found_in_each_row"
_TOLD = "effects/inspection/audit/told.py"

MUTATIONS = (
    Mutation(
        "the audit compares no row with its receipts",
        "promise 10",
        _EACH,
        (Edit(_TOLD, "    if not replay.is_as_told(told, digests.digest_of(row, told.at)):", "    if False:"),),
    ),
    Mutation(
        "the audit compares no receipt with its own digest",
        "promise 10",
        _EACH,
        (Edit("effects/inspection/audit/replay.py", "        return lasting == now_lasting", "        return True"),),
    ),
    Mutation(
        "the audit misses a hook that was erased",
        "§5 settled",
        _EACH,
        (
            Edit(
                _TOLD,
                '        if replay.hook == "due" or (row.hook_failures and replay.hook != "over"):',
                "        if False:",
            ),
        ),
    ),
    Mutation(
        "retention drops bytes and tells nobody",
        "promise 10",
        f"{_COLUMNS}::test_what_retention_did_to_requests_is_told",
        (
            Edit(
                "effects/transitions/retention.py",
                "        Receipt.objects.bulk_create(receipts)",
                "        Receipt.objects.bulk_create([])",
            ),
        ),
    ),
)
