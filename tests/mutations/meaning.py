"""Rules of who is meant: askers of what an execution follows, people under two names, lists that may be believed."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_ACTORS = "tests/core/test_actors.py"
_BACKENDS = "tests/core/test_backends.py"
_LINEAGE = "tests/core/test_lineage.py"

MUTATIONS = (
    Mutation(
        "who asked for a predecessor may approve",
        "section 4, supersede",
        f"{_LINEAGE}::test_nobody_who_asked_for_a_predecessor_approves",
        (
            Edit(
                "effects/people/eligibility.py",
                "    return _own_requester_ids(row) | earlier_requester_ids(row.supersedes_id, row.compensates_id)",
                "    return _own_requester_ids(row)",
            ),
        ),
    ),
    Mutation(
        "the line of predecessors ends after one",
        "section 4, supersede",
        f"{_LINEAGE}::test_nobody_who_asked_for_a_predecessor_approves",
        (Edit("effects/journal/lineage.py", "    WHERE before.id IS NOT NULL\n", "    WHERE false\n"),),
    ),
    Mutation(
        "an undoing forgets what the original was about",
        "section 4, supersede",
        f"{_LINEAGE}::test_what_is_said_to_be_inherited_is",
        (
            Edit(
                "effects/journal/lineage.py",
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
                "effects/journal/lineage.py",
                '    required = bool(predecessor.contract.get("require_approval"))\n',
                "    required = False\n",
            ),
        ),
    ),
    Mutation(
        "a user's name is a program",
        "section 4, vote",
        f"{_ACTORS}::test_by_whatever_name_a_person_does_not_approve_what_they_asked_for",
        (
            Edit(
                "effects/people/actors.py",
                "        return _meant(Actor(who, who), what) if who.strip() else None",
                "        return Actor(who, who) if who.strip() else None",
            ),
        ),
    ),
    Mutation(
        "a number is nobody",
        "section 5",
        f"{_ACTORS}::test_what_is_nobody_is_an_error_that_says_what_to_pass",
        (
            Edit(
                "effects/people/actors.py",
                "    if not is_user(who):\n        raise",
                "    if not is_user(who):\n        return None\n        raise",
            ),
        ),
    ),
    Mutation(
        "a name that became a user's is still a program's at the vote",
        "section 4, vote",
        f"{_ACTORS}::test_a_name_that_becomes_a_users_later_is_theirs",
        (
            Edit(
                "effects/people/eligibility.py",
                "    if rule.four_eyes and are_named(names_of(user), requester_ids(row)):",
                "    if rule.four_eyes and actor.id in requester_ids(row):",
            ),
        ),
    ),
    Mutation(
        "a list is believed that a backend's own permissions are not in",
        "section 4, request_approval",
        f"{_BACKENDS}::test_who_holds_it_by_no_table_is_asked_when_they_vote",
        (
            Edit(
                "effects/people/backends.py",
                "    return lists is not None and lists <= decides",
                "    return lists is not None",
            ),
        ),
    ),
    Mutation(
        "a vote by the claims of a login does not count",
        "section 4, vote",
        f"{_BACKENDS}::test_claims_of_a_login_are_worth_a_vote",
        (
            Edit(
                "effects/transitions/approvals.py",
                ", by_login=is_by_login(row, approval, user))",
                ")",
            ),
        ),
    ),
    Mutation(
        "an account that was closed still counts by its login",
        "section 4, lapse",
        f"{_BACKENDS}::test_claims_are_worth_nothing_when_the_account_is_closed_before_the_send",
        (
            Edit(
                "effects/people/approvers.py",
                '    if user is None or not getattr(user, "is_active", False):\n        return False\n    asked',
                "    if user is None:\n        return False\n    asked",
            ),
        ),
    ),
    Mutation(
        "rows of another model are people",
        "section 4, vote",
        f"{_BACKENDS}::test_what_is_not_users_entitles_nobody_and_is_said",
        (
            Edit(
                "effects/people/approvers.py",
                "        if not issubclass(named.model, get_user_model()):",
                "        if False:",
            ),
        ),
    ),
)
