"""Rules of the API: what is proposed, who sees it, who decides it."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_API = "effects/http/api"
_PROPOSALS = "tests/api/test_proposals.py"
_APPROVALS = "tests/api/test_approvals.py"
_ROLES = "tests/api/test_roles.py"

MUTATIONS = (
    Mutation(
        "a proposal asks nobody where the effect asks nobody",
        "6, the API",
        f"{_PROPOSALS}::test_a_proposal_is_recorded_and_not_sent",
        (Edit(f"{_API}/proposals.py", "require_approval=True", "require_approval=False"),),
    ),
    Mutation(
        "who proposes may approve where the effect's rule allows it",
        "6, the API",
        f"{_PROPOSALS}::test_the_effects_own_rule_is_only_tightened",
        (Edit("effects/transitions/intents.py", "replace(rule, four_eyes=True) if rule", "rule if rule"),),
    ),
    Mutation(
        "an effect that declares nothing may be proposed",
        "6, the API",
        f"{_PROPOSALS}::test_not_even_a_superuser_proposes_what_declares_nothing",
        (Edit(f"{_API}/proposals.py", "if not effect.proposable_by or not caller.user", "if not caller.user"),),
    ),
    Mutation(
        "the person behind an assistant is not known",
        "6, the API",
        f"{_APPROVALS}::test_an_assistant_and_the_person_behind_it",
        (Edit(f"{_API}/proposals.py", "on_behalf_of=caller.principal", "on_behalf_of=None"),),
    ),
    Mutation(
        "an assistant votes for its person",
        "6, the API",
        f"{_APPROVALS}::test_an_assistant_does_not_vote_for_its_person",
        (
            Edit(
                f"{_API}/views.py",
                "        if caller.principal is not None:\n            raise",
                "        if False:\n            raise",
            ),
        ),
    ),
    Mutation(
        "two people behind one account share their keys",
        "6, the API",
        f"{_APPROVALS}::test_an_assistant_sees_what_it_asked_for_the_present_person_alone",
        (Edit(f"{_API}/views.py", ', mode="transactional", scope=_acted_for)', ', mode="transactional")'),),
    ),
    Mutation(
        "the API shows another tenant's executions",
        "6, the API",
        f"{_ROLES}::test_two_tenants_do_not_meet_in_one_proposal",
        (Edit(f"{_API}/callers.py", "filter(pk=ref, tenant=caller.tenant)", "filter(pk=ref)"),),
    ),
    Mutation(
        "the API shows another tenant's approvals",
        "6, the API",
        f"{_ROLES}::test_a_role_gets_exactly_this",
        (Edit(f"{_API}/callers.py", "pk=approval_id, execution__tenant=caller.tenant", "pk=approval_id"),),
    ),
    Mutation(
        "the API lists another tenant's approvals",
        "6, the API",
        f"{_ROLES}::test_a_role_gets_exactly_this",
        (
            Edit(
                f"{_API}/views.py",
                "state=ApprovalState.REQUESTED.value, execution__tenant=caller.tenant",
                "state=ApprovalState.REQUESTED.value",
            ),
        ),
    ),
    Mutation(
        "payloads are shown to all who see the proposal",
        "6, the API",
        f"{_PROPOSALS}::test_who_may_not_see_payloads_does_not",
        (Edit(f"{_API}/serializers.py", "    shows = seen.caller.may(VIEW_PAYLOAD, row)", "    shows = True"),),
    ),
    Mutation(
        "anybody who sees a proposal withdraws it",
        "6, the API",
        f"{_ROLES}::test_a_role_gets_exactly_this",
        (
            Edit(
                f"{_API}/views.py",
                "if not caller.may_take_back(seen.row) and not caller.may(CANCEL, seen.row):",
                "if False:",
            ),
        ),
    ),
)
