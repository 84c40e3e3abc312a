"""Rules of people and of evidence: approvals, look-ups, late news, resolutions, ordered resends."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_T = "effects/transitions"
_APPROVALS = "tests/core/test_approvals.py"
_LOOKUPS = "tests/core/test_lookups.py"
_TESTIMONY = "tests/core/test_testimony.py"

MUTATIONS = (
    Mutation(
        "the approval is spent after the send",
        "promise 5",
        "tests/scenarios/test_approvals.py::test_spent_and_recorded_before_the_provider_is_called",
        (
            Edit(
                f"{_T}/permits.py",
                "        _licences.spend(row, licence)\n",
                "        pass\n",
            ),
            Edit(
                f"{_T}/attempts.py",
                "    match report:\n        case Applied() | Partial():\n            _complete(",
                "    approval = _licences.newest_for_send(row)\n"
                "    if approval is not None and approval.state == _licences.GRANTED:\n"
                "        _licences.spend(row, approval)\n"
                "    match report:\n        case Applied() | Partial():\n            _complete(",
            ),
        ),
    ),
    Mutation(
        "the permit ignores the digest",
        "promise 5",
        f"{_APPROVALS}::test_what_people_see_changed_after_the_approval",
        (
            Edit(
                f"{_T}/_licences.py",
                "    return digest_of_summary(summary) != row.summary_digest or approval.digest != digest",
                "    return False and bool(digest)",
            ),
        ),
    ),
    Mutation(
        "a vote ignores the digest of the page",
        "promise 5",
        f"{_APPROVALS}::test_a_page_made_before_the_contents_changed_decides_nothing",
        (
            Edit(
                f"{_T}/approvals.py",
                "    if digest != approval.digest or approval.digest != _licences.digest_of("
                "row, ApprovalPurpose(approval.purpose)):",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "the requester may approve",
        "§4 vote",
        f"{_APPROVALS}::test_the_requester_decides_nothing",
        (
            Edit(
                "effects/people/eligibility.py",
                "    if rule.four_eyes and are_named(names_of(user), requester_ids(row)):",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "an unused licence never lapses at the send",
        "promise 5, §4 lapse",
        f"{_APPROVALS}::test_granted_and_not_used_in_time_lapses",
        (
            Edit(
                f"{_T}/_licences.py",
                "    if approval.use_by is not None and approval.use_by <= approval.locked_at:",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "an expired request for approval can be granted",
        "§4 vote",
        "tests/core/test_approvals_races.py::test_expired_while_waiting_for_the_lock_is_refused",
        (Edit("effects/people/eligibility.py", "    if approval.decide_by <= at:", "    if False:"),),
    ),
    Mutation(
        "an approver who left still licenses",
        "§4 lapse",
        f"{_APPROVALS}::test_an_approver_who_left_before_the_send_spoils_the_licence",
        (
            Edit(
                f"{_T}/_licences.py",
                "    if rule is not None and len(valid_voters(row, approval, rule)) < approval.quorum:",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "a spent approval licenses a retry",
        "promise 5",
        f"{_APPROVALS}::test_not_now_needs_a_new_approval",
        (
            Edit(
                f"{_T}/_licences.py",
                "    if approval.state != ApprovalState.SPENT or not approval.covers_retries:",
                "    if approval.state != ApprovalState.SPENT:",
            ),
        ),
    ),
    Mutation(
        "something in doubt is sent again on an approval that covers retries",
        "promise 5",
        f"{_APPROVALS}::test_a_licence_is_no_reason_to_send_again_what_is_in_doubt",
        (Edit(f"{_T}/permits.py", "    if _licences.rule_of(row) is not None:\n        return False\n", ""),),
    ),
    Mutation(
        "approved again, it gets a new provider key",
        "§2 provider key",
        f"{_APPROVALS}::test_in_doubt_then_absent_is_approved_again_under_the_same_provider_key",
        (
            Edit(
                f"{_T}/_licences.py",
                "due_at=None,\n        **changes,\n",
                'due_at=None,\n        provider_key=row.provider_key[:40] + "_2", **changes,\n',
            ),
        ),
    ),
    Mutation(
        "an absence claimed before the barrier is believed",
        "promise 9",
        f"{_LOOKUPS}::test_an_absence_claimed_before_the_barrier_and_answered_after_it_is_not_believed",
        (
            Edit(
                f"{_T}/lookups.py",
                "row.claimed_at is None or row.claimed_at <= believed_from:",
                "row.claimed_at is None or row.locked_at <= believed_from:",
            ),
        ),
    ),
    Mutation(
        "there is no quiet time",
        "promise 9, §2 barrier",
        f"{_LOOKUPS}::test_an_absence_before_the_barrier_is_not_believed",
        (
            Edit(
                "effects/journal/snapshots.py",
                '    return row.exposed_until + timedelta(seconds=row.contract["quiet"])',
                "    return row.exposed_until - timedelta(days=1)",
            ),
        ),
    ),
    Mutation(
        "an absence beats proof of success",
        "promise 9",
        f"{_LOOKUPS}::test_proof_of_success_beats_any_absence",
        (
            Edit(
                f"{_T}/lookups.py",
                "    elif row.applied_evidence is not None:\n        _escalate(",
                "    elif False:\n        _escalate(",
            ),
        ),
    ),
    Mutation(
        "a lagging look-up may deny what was accepted",
        "§4 confirm_absence",
        f"{_LOOKUPS}::test_absent_after_acceptance_is_a_conflict_of_a_lagging_look_up",
        (
            Edit(
                f"{_T}/lookups.py",
                '    elif _was_accepted(row) and not row.contract["authoritative"]:',
                "    elif False:",
            ),
        ),
    ),
    Mutation(
        "an unreachable provider spends the budget",
        "§4 postpone",
        f"{_LOOKUPS}::test_an_unreachable_provider_never_escalates",
        (Edit(f"{_T}/lookups.py", "    if isinstance(verdict, Unreachable):", "    if False:"),),
    ),
    Mutation(
        "a look-up before the barrier spends the budget",
        "§4 postpone",
        f"{_LOOKUPS}::test_before_the_barrier_nothing_spends_the_budget",
        (
            Edit(
                f"{_T}/lookups.py",
                "(1 if row.claimed_at and row.claimed_at > believed_from else 0)",
                "1",
            ),
        ),
    ),
    Mutation(
        "a late Found of an older look-up confirms",
        "promise 8",
        f"{_LOOKUPS}::test_an_older_found_is_kept_as_proof",
        (
            Edit(
                f"{_T}/lookups.py",
                "        if row.epoch != epoch or answered or row.state not in (_S.UNCERTAIN, _S.ACCEPTED):",
                "        if row.state not in (_S.UNCERTAIN, _S.ACCEPTED):",
            ),
        ),
    ),
    Mutation(
        "two references are one",
        "§4 escalate, cases: sending",
        f"{_LOOKUPS}::test_another_reference_than_the_accepted_one_is_a_conflict",
        (Edit(f"{_T}/lookups.py", "    if not reference or known <= {reference}:", "    if True:"),),
    ),
    Mutation(
        "an older attempt's late success settles after a later permit",
        "promise 8",
        f"{_LOOKUPS}::test_a_late_success_of_an_older_attempt_is_looked_into",
        (
            Edit(
                f"{_T}/evidence.py",
                "    settles = known.number == row.attempts and row.state",
                "    settles = row.state",
            ),
        ),
    ),
    Mutation(
        "proof about what failed is only noted",
        "§4 contradict",
        f"{_LOOKUPS}::test_a_webhook_about_what_did_not_happen_reaches_a_person",
        (
            Edit(
                f"{_T}/evidence.py",
                '        contradict_row(row, {**on_file, "why": f"{row.state}, but it happened"}, kept, by=by)',
                '        advance(row, "observe", evidence=on_file, revises=False)',
            ),
        ),
    ),
    Mutation(
        "what is proven is permitted",
        "§4 permit",
        "tests/core/test_permits.py::TestPermit::test_not_with_proof_of_success_on_file",
        (
            Edit(
                f"{_T}/permits.py",
                " or not row.holds_key or row.applied_evidence is not None:",
                " or not row.holds_key:",
            ),
        ),
    ),
    Mutation(
        "a person may say 'not applied' before the barrier",
        "§4 resolve",
        f"{_LOOKUPS}::test_a_person_says_that_it_did_not_happen_after_the_barrier",
        (
            Edit(
                f"{_T}/resolutions.py",
                "    if believed_from is not None and believed_from >= row.locked_at:",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "a person may say 'not applied' against proof",
        "§4 resolve",
        f"{_LOOKUPS}::test_a_person_cannot_say_that_it_did_not_happen_against_proof",
        (Edit(f"{_T}/resolutions.py", "    if row.applied_evidence is not None:", "    if False:"),),
    ),
    Mutation(
        "a stale page decides",
        "§4 resolve",
        f"{_LOOKUPS}::test_a_decision_about_what_changed_meanwhile_is_refused",
        (Edit(f"{_T}/_decisions.py", "    if revision is not None and row.revision != revision:", "    if False:"),),
    ),
    Mutation(
        "a decision repeated is another decision",
        "§3 commits()",
        f"{_LOOKUPS}::test_a_decision_repeated_is_one_decision",
        (
            Edit(
                f"{_T}/_decisions.py",
                "    return row.resolutions.filter(decision_id=decision_id).exists()",
                "    return False",
            ),
        ),
    ),
    Mutation(
        "a person denies a provider's own proof",
        "promise 9, §4 contradict",
        f"{_TESTIMONY}::test_a_provider_s_own_proof_is_not_denied_by_a_person",
        (Edit(f"{_T}/testimony.py", "    if not is_only_word(row):", "    if False:"),),
    ),
    Mutation(
        "outside evidence passes for a person's word",
        "promise 9, §4 observe",
        f"{_TESTIMONY}::test_outside_evidence_cannot_pass_for_a_person_s_word",
        (Edit(f"{_T}/evidence.py", "canonical.clean_json(without_word(evidence))", "canonical.clean_json(evidence)"),),
    ),
    Mutation(
        "what a look-up found stays a person's word",
        "promise 9, §4 confirm",
        f"{_TESTIMONY}::test_a_look_up_that_finds_it_makes_proof_of_a_word",
        (
            Edit(
                f"{_T}/attempts.py",
                "    proof = on_file or (row.applied_evidence and without_word(row.applied_evidence))",
                "    proof = on_file or row.applied_evidence",
            ),
        ),
    ),
    Mutation(
        "a person's evidence leaves a settled row as it is",
        "§4 contradict",
        f"{_TESTIMONY}::test_what_a_provider_said_is_contradicted_too",
        (
            Edit(
                f"{_T}/testimony.py",
                "    contradict_row(row, {**on_file",
                "    advance(row, 'observe', evidence=on_file)\n    0 and contradict_row(row, {**on_file",
            ),
        ),
    ),
    Mutation(
        "a wrong reference outlives the word that brought it",
        "§4 contradict",
        f"{_TESTIMONY}::test_a_wrong_word_of_applied_ends_as_failed_and_the_project_s_row_follows",
        (Edit(f"{_T}/testimony.py", '        changes["reference"] = ""', "        pass"),),
    ),
    Mutation(
        "after a conflict a resend is ordered in passing",
        "§4 order_resend",
        "tests/core/test_resends.py::test_after_a_conflict_the_amount_is_repeated",
        (Edit(f"{_T}/resends.py", "if needs_confirming(row) and str(confirm)", "if False and str(confirm)"),),
    ),
    Mutation(
        "a conflict is forgotten with its reason",
        "§4 order_resend",
        "tests/core/test_resends.py::test_a_conflict_is_not_forgotten_with_its_reason",
        (
            Edit(
                f"{_T}/resends.py",
                "row.reason in DISPUTED or row.receipts.filter(reason__in=values(DISPUTED)).exists()",
                "row.reason in DISPUTED",
            ),
        ),
    ),
    Mutation(
        "a resend is ordered beside proof of success",
        "§4 order_resend",
        "tests/core/test_resends.py::test_proof_that_it_happened_refuses_the_order",
        (Edit(f"{_T}/resends.py", "    if row.applied_evidence is not None:", "    if False:"),),
    ),
    Mutation(
        "whoever orders a resend may approve it",
        "§4 order_resend",
        "tests/core/test_resends.py::test_under_an_approval_rule_others_must_agree",
        (Edit(f"{_T}/resends.py", "            requesters=_with(row, actor),\n", ""),),
    ),
    Mutation(
        "an ordered resend needs no order",
        "§4 resend, ordered",
        "tests/core/test_resends.py::test_a_permit_without_an_order_is_none",
        (
            Edit(
                f"{_T}/permits.py",
                "    if approval is None or approval.state != _licences.GRANTED:\n",
                "    if approval is None:\n        return True, None\n    if approval.state != _licences.GRANTED:\n",
            ),
        ),
    ),
    Mutation(
        "other contents than the ordered ones are sent",
        "§4 resend, ordered",
        "tests/core/test_resends.py::test_other_contents_than_those_that_were_ordered_are_not_sent",
        (Edit(f"{_T}/permits.py", "    if not why and _licences.is_void(row, approval, summary):", "    if False:"),),
    ),
)
