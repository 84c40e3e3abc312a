"""Rules of names: whose a provider key is, and what an operation was called."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_IDS, _ORPHANS = "tests/core/test_journal_id.py", "tests/core/test_orphans.py"

MUTATIONS = (
    Mutation(
        "a provider key forgets whose journal it is",
        "§2 provider key",
        f"{_IDS}::TestNamespace::test_two_schemas_of_one_database_share_no_key",
        (Edit("effects/journal/provider_keys.py", "(SELECT id::text FROM effects_journal)", "'journal'"),),
    ),
    Mutation(
        "a journal that gets another id forgets the one that its rows were keyed by",
        "§2 provider key",
        f"{_IDS}::TestNamespace::test_a_copy_gets_an_id_of_its_own_and_its_rows_keep_their_keys",
        (
            Edit(
                "effects/transitions/journals.py",
                "former_ids = it.former_ids || to_jsonb(it.id)",
                "former_ids = it.former_ids",
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
    Mutation(
        "rows of an operation that nobody has are no finding",
        "§4 rules: aliases",
        f"{_ORPHANS}::TestRenamed::test_a_renamed_operation_is_an_error_with_the_line_to_add",
        (
            Edit(
                "effects/runtime/orphans.py",
                "        if operation not in effects:\n            yield _unknown(operation, sum(",
                "        if False:\n            yield _unknown(operation, sum(",
            ),
        ),
    ),
    Mutation(
        "an alias that was taken away is no finding",
        "§4 rules: aliases",
        f"{_ORPHANS}::TestRenamed::test_an_alias_that_was_taken_away_is_named",
        (
            Edit(
                "effects/runtime/orphans.py",
                "        if foreign:\n            yield _foreign(effects[operation]",
                "        if False:\n            yield _foreign(effects[operation]",
            ),
        ),
    ),
    Mutation(
        "a payload that nothing upgrades is no finding",
        "§5 payload_version",
        f"{_ORPHANS}::TestUnreadable::test_a_payload_that_nothing_upgrades",
        (Edit("effects/runtime/orphans.py", "    elif version < present and getattr", "    elif False and getattr"),),
    ),
    Mutation(
        "the first sweep says nothing of rows that no code is for",
        "§4 rules: aliases",
        f"{_ORPHANS}::TestSweeps::test_the_first_sweep_says_it_once_and_goes_on",
        (Edit("effects/sweeps/_batches.py", "    tell_orphans()\n", ""),),
    ),
)
