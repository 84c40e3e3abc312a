"""Rules of what people are shown before they decide, and of who is shown it."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_DERIVED = "tests/core/test_derived_summaries.py"
_BLIND = "tests/console/test_blind_votes.py"
_BALLOTS = "tests/console/test_ballots.py"

MUTATIONS = (
    Mutation(
        "an undoing is shown as the deed",
        "promise 5",
        f"{_DERIVED}::test_what_is_derived_says_so_before_people_decide",
        (Edit("effects/journal/summaries.py", "    if not derived_from:\n", "    if True:\n"),),
    ),
    Mutation(
        "a successor has the digest of what it follows",
        "promise 5",
        f"{_DERIVED}::test_an_approval_of_a_deed_is_none_of_what_is_derived_from_it",
        (
            Edit(
                "effects/journal/summaries.py",
                '    return {**data, **_headed(data, heading, named), "derived_from": told}\n',
                "    return data if told else {**data, **_headed(data, heading, named)}\n",
            ),
        ),
    ),
    Mutation(
        "a second send is shown as the first",
        "promise 5",
        f"{_DERIVED}::test_a_second_send_is_called_one",
        (Edit("effects/journal/summaries.py", "    if purpose is not ApprovalPurpose.RESEND:\n", "    if True:\n"),),
    ),
    Mutation(
        "a title alone tells what is decided about",
        "promise 5",
        f"{_BLIND}::test_an_approver_is_shown_the_payload_where_nothing_else_tells",
        (Edit("effects/journal/summaries.py", "    if is_blank:\n", "    if False:\n"),),
    ),
    Mutation(
        "a payload that cannot be shown is voted on",
        "promise 5",
        f"{_BLIND}::test_what_cannot_be_shown_cannot_be_voted_on",
        (
            Edit(
                "effects/people/eligibility.py",
                "    if is_bare(approval.summary) and _contents(row) is None:\n",
                "    if False:\n",
            ),
        ),
    ),
    Mutation(
        "several are approved by their titles",
        "promise 5",
        f"{_BLIND}::test_several_are_not_approved_by_their_titles",
        (
            Edit(
                "effects_admin/bulk.py",
                "    forbidden = verb.not_permitted(case) or verb.not_together(case)\n",
                "    forbidden = verb.not_permitted(case)\n",
            ),
        ),
    ),
    Mutation(
        "an approver without view permissions is kept out",
        "section 8",
        f"{_BALLOTS}::test_who_is_entitled_finds_it_and_decides_it",
        (
            Edit(
                "effects_admin/readonly.py",
                "        return is_asked(request) if named is None else is_named(request.user, named)\n",
                "        return False and is_asked(request) and is_named(request.user, named)\n",
            ),
        ),
    ),
    Mutation(
        "an approver is shown every list whole",
        "section 8",
        f"{_BALLOTS}::test_rows_that_nobody_asked_them_about_are_closed",
        (Edit("effects_admin/filters.py", "        rows = console.listed(request, rows)\n", ""),),
    ),
    Mutation(
        "an approver is shown the row's history",
        "section 8",
        f"{_BALLOTS}::test_who_is_entitled_finds_it_and_decides_it",
        (
            Edit(
                "effects_admin/admin.py",
                '            "is_ballot": not self.may_view(request, case.row),\n',
                '            "is_ballot": False,\n',
            ),
        ),
    ),
    Mutation(
        "a vote ignores the revision of the page",
        "section 8",
        "tests/console/test_small_leaks.py::test_a_vote_on_an_older_page_is_refused",
        (
            Edit(
                "effects/transitions/approvals.py",
                "    _decisions.check_revision(row, revision)\n    if digest",
                "    if digest",
            ),
        ),
    ),
)
