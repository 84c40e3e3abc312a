"""Rules of names: whose a provider key is, and what an operation was called."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_IDS = "tests/core/test_journal_id.py"

MUTATIONS = (
    Mutation(
        "a provider key forgets whose journal it is",
        "§2 provider key",
        f"{_IDS}::TestNamespace::test_two_schemas_of_one_database_share_no_key",
        (Edit("effects/provider_keys.py", "(SELECT id::text FROM effects_journal)", "'journal'"),),
    ),
    Mutation(
        "a flush gives the journal another id",
        "§2 provider key",
        f"{_IDS}::TestKept::test_a_flush_keeps_it",
        (
            Edit(
                "effects/migrations/_operations.py",
                "CREATE TRIGGER effects_journal_before_truncate BEFORE TRUNCATE",
                "CREATE TRIGGER effects_journal_before_truncate BEFORE INSERT",
            ),
        ),
    ),
    Mutation(
        "an id that was lost is made up while executions are there",
        "§2 provider key",
        f"{_IDS}::TestLost::test_migrate_makes_none_up",
        (
            Edit(
                "effects/transitions/journals.py",
                " AND NOT EXISTS (SELECT FROM effects_execution)",
                "",
            ),
        ),
    ),
    Mutation(
        "a key that came with other contents is looked up",
        "§4 what a failure proves",
        "tests/core/test_key_reused.py::test_a_person_gets_it_at_once_with_the_provider_s_words",
        (Edit("effects/transitions/attempts.py", "    if failure.is_key_reused:", "    if False:"),),
    ),
)
