"""What is kept and what must not be: secrets, outputs, retention."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_T = "effects/transitions"
_SECRETS = "tests/redaction/test_secrets.py"

MUTATIONS = (
    Mutation(
        "what held a secret is sent again by order",
        "§5 Secret",
        f"{_SECRETS}::test_what_is_in_doubt_is_never_sent_again_without_it",
        (Edit(f"{_T}/permits.py", '    if row.contract.get("secrets"):', "    if False:"),),
    ),
    Mutation(
        "what holds a secret is sent later",
        "§5 Secret",
        f"{_SECRETS}::test_what_is_sent_later_or_approved_first_is_refused_before_anything_is_written",
        (
            Edit(
                "effects/transitions/intents.py",
                "    if intent.holds_secrets:\n        raise",
                "    if False:\n        raise",
            ),
        ),
    ),
    Mutation(
        "another secret is the same payload",
        "promise 6",
        f"{_SECRETS}::test_another_secret_under_the_same_key_is_another_payload",
        (
            Edit(
                "effects/journal/redaction.py",
                "        text = secret.reveal()",
                '        text = (secret.reveal() and "x")',
            ),
        ),
    ),
    Mutation(
        "a text is cut before it is redacted",
        "§6 REDACTOR",
        "tests/redaction/test_redactor.py::test_a_secret_across_the_cut_leaves_no_half",
        (Edit("effects/vocabulary/cleaning.py", "max(limit, _REDACTED_WHOLE) if _redactors else limit", "limit"),),
    ),
    Mutation(
        "an output that cannot be read counts as none",
        "promise 7",
        "tests/core/test_versions.py::test_an_output_that_cannot_be_read_permits_no_other_send",
        (
            Edit(
                "effects/journal/snapshots.py",
                '        return MissingOutput("unreadable", _UNREADABLE',
                '        return None and MissingOutput("unreadable", _UNREADABLE',
            ),
        ),
    ),
    Mutation(
        "what an unanswered request needs is pruned",
        "§4 tombstones",
        "tests/core/test_tombstones.py::test_what_somebody_may_still_need_is_never_pruned",
        (Edit(f"{_T}/tombstones.py", "~Exists(open_requests), ~Exists(relatives),", "~Exists(relatives),"),),
    ),
    Mutation(
        "receipts stay open after retention",
        "promise 10",
        "tests/core/test_tombstones.py::test_the_door_is_shut_again_behind_it",
        (Edit(f"{_T}/tombstones.py", "SET LOCAL effects.retention = 'off'", "SET LOCAL effects.retention = 'on' "),),
    ),
    Mutation(
        "words that settle nothing stay on a tombstone",
        "§4 tombstones",
        "tests/core/test_tombstones_rest.py::test_words_on_a_tombstone_age_although_they_settle_nothing",
        (Edit(f"{_T}/_rows.py", "row.ages_from is None and holds_words(evidence)", "False"),),
    ),
    Mutation(
        "the hook of a tombstone is tried for ever",
        "§4 tombstones",
        "tests/core/test_tombstones_rest.py::test_it_rests_again_as_often_as_it_is_contradicted",
        (
            Edit(
                f"{_T}/_rows.py",
                "    if row.pruned_at is not None:\n        end_hook(row)",
                "    if False:\n        end_hook(row)",
            ),
        ),
    ),
    Mutation(
        "what is needed since it was listed is pruned",
        "§4 tombstones",
        "tests/core/test_pruning.py::test_what_is_needed_since_it_was_listed_stays_whole",
        (Edit(f"{_T}/tombstones.py", "_prunable(age).filter(pk__in=free)", "Execution.objects.filter(pk__in=free)"),),
    ),
    Mutation(
        "one row that raises holds up its whole batch",
        "§7",
        "tests/core/test_pruning.py::test_rows_that_raise_stop_no_other_and_come_again",
        (Edit("effects/sweeps/prune.py", "            if middle:\n", "            if False:\n"),),
    ),
    Mutation(
        "a run that prunes never ends",
        "§7",
        "tests/core/test_pruning.py::test_no_batch_begins_after_the_time_is_spent",
        (Edit("effects/sweeps/prune.py", "        if clock() >= until:\n", "        if False:\n"),),
    ),
)
