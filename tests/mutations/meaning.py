"""Rules of who is meant: askers of what an execution follows, people under two names, lists that may be believed."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_LINEAGE = "tests/core/test_lineage.py"

MUTATIONS = (
    Mutation(
        "who asked for a predecessor may approve",
        "section 4, supersede",
        f"{_LINEAGE}::test_nobody_who_asked_for_a_predecessor_approves",
        (
            Edit(
                "effects/eligibility.py",
                "    return _own_requester_ids(row) | earlier_requester_ids(row.supersedes_id, row.compensates_id)",
                "    return _own_requester_ids(row)",
            ),
        ),
    ),
    Mutation(
        "the line of predecessors ends after one",
        "section 4, supersede",
        f"{_LINEAGE}::test_nobody_who_asked_for_a_predecessor_approves",
        (Edit("effects/lineage.py", "    WHERE before.id IS NOT NULL\n", "    WHERE false\n"),),
    ),
    Mutation(
        "an undoing forgets what the original was about",
        "section 4, supersede",
        f"{_LINEAGE}::test_what_is_said_to_be_inherited_is",
        (
            Edit(
                "effects/lineage.py",
                "lambda row: (row.about_type, row.about_id) if row.about_type else None",
                "lambda _row: None",
            ),
        ),
    ),
    Mutation(
        "a denied proposal is sent unapproved when it is asked for again",
        "section 8",
        f"{_LINEAGE}::test_what_people_had_to_approve_in_any_case_they_have_to_again",
        (
            Edit(
                "effects/lineage.py",
                '    required = bool(predecessor.contract.get("require_approval"))\n',
                "    required = False\n",
            ),
        ),
    ),
)
