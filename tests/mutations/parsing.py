"""Rules of what is read of a request and of a statement: a write is never taken for a read, nor a file for another."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_STATEMENTS = "tests/http/test_statements.py"

MUTATIONS = (
    Mutation(
        "a write in a common table expression is a read",
        "design 6: what is not plainly a SELECT is refused",
        f"{_STATEMENTS}::test_all_else_is_a_write",
        (
            Edit(
                "effects/journal/statements.py",
                'if (found := _WRITES.search(statement)) else ""',
                'if (found := _WRITES.match(statement)) else ""',
            ),
        ),
    ),
    Mutation(
        "a query in parentheses is a write",
        "design 6: what only reads needs no finishing()",
        f"{_STATEMENTS}::test_a_union_of_the_orm",
        (
            Edit(
                "effects/journal/statements.py",
                'if (why := _why_no_read(each.lstrip(" (")))',
                "if (why := _why_no_read(each))",
            ),
        ),
    ),
    Mutation(
        "an upload counts by its bytes alone",
        "cases: http 33",
        "tests/http/test_uploads.py::test_a_file_counts_with_its_name_and_contents",
        (Edit("effects/http/fingerprints.py", "        if upload.multipart.files:\n", "        if False:\n"),),
    ),
    Mutation(
        "a form's fresh token makes it another request",
        "cases: http 34",
        "tests/http/test_uploads.py::test_the_csrf_token_of_a_multipart_form_does_not_count",
        (
            Edit(
                "effects/http/fingerprints.py",
                "if name == CSRF_FIELD and (fields is None or fields.include is None):",
                "if False:",
            ),
        ),
    ),
    Mutation(
        "the status resource promises an answer that no retry gets",
        "cases: http 30",
        "tests/http/test_status.py::test_an_unknown_definition_is_told_as_a_retry_is",
        (Edit("effects/http/status.py", "not is_known(found.fingerprint_version)", "False"),),
    ),
    Mutation(
        "two header lines that join to a string are a key",
        "cases: http 4",
        "tests/http/test_keys.py::test_refused",
        (Edit("effects/http/keys.py", '    if "," in raw:\n', "    if False:\n"),),
    ),
)
