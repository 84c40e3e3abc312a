"""Stories: each behaviour that the product grew from, told by a test.

Where a story is told better beside the mechanism, its test stands there; `test_map.py` holds that every name exists.

Retried requests
    the same bytes again
        test_requests.py::test_a_client_that_never_heard_asks_again
    an answer without any outward call
        test_requests.py::test_an_answer_that_needed_no_call_is_replayed_too
    killed after success, resolved, replayed
        test_requests.py::test_killed_after_the_providers_success_then_resolved_by_a_person_then_replayed
    a decision repeated, or on a stale page
        test_requests.py::test_a_persons_decision_whose_answer_got_lost_is_sent_again
    an opaque view did more than the journal saw
        test_requests.py::test_what_the_journal_saw_is_not_all_that_an_opaque_view_did
    killed before our record, healed by a look-up
        test_requests.py::test_killed_between_the_providers_answer_and_our_record
    the request was lost on its way
        test_requests.py::test_the_request_was_lost_on_its_way
    another request under the key
        test_requests.py::test_one_key_stands_for_one_request
    a malformed key costs nothing
        test_requests.py::test_a_malformed_key_costs_nothing
    a business refusal is frozen
        test_requests.py::test_a_business_refusal_is_an_answer
    frozen in the language of the first asker
        test_requests.py::test_frozen_in_the_language_of_the_first_asker
    access revoked since
        http/test_requests.py::test_row_17_a_replay_asks_the_project
    the deadline runs from before the permit
        test_runtime.py::test_a_slow_journal_eats_into_the_permit
    the send is recorded and committed first
        core/test_transactions.py::test_the_record_is_committed_when_the_provider_is_called
    rows, binding and answer in one commit
        test_requests.py::test_rows_binding_and_answer_are_one_commit
    a transactional bug leaves nothing
        test_requests.py::test_a_bug_in_a_transactional_view_leaves_nothing
    no provider inside a transaction
        test_requests.py::test_a_transactional_view_calls_nobody
    a lost COMMIT
        test_requests.py::test_a_lost_commit_is_never_a_second_order
    when a new key is safe
        test_requests.py::test_told_that_a_new_key_is_safe_it_is
    a key is taken while people decide
        test_requests.py::test_while_people_decide_the_key_is_taken
    one fact, many callers
        test_requests.py::test_a_redirect_a_webhook_and_a_task_pay_one_order
    never sent on a guess
        test_requests.py::test_nobody_can_ask_and_nobody_repeats

Approvals
    refused before the spend, at no cost
        test_approvals.py::test_before_the_spend_a_refusal_costs_nothing
    spent and recorded before the call
        test_approvals.py::test_spent_and_recorded_before_the_provider_is_called
    two executes of one approval
        test_approvals.py::test_two_executes_of_one_approval
    an error after the spend is a record
        test_approvals.py::test_after_the_spend_an_error_is_a_record_and_no_invitation
    a crash after the spend
        test_approvals.py::test_a_crash_after_the_spend_stays_what_it_is
    a crash before it
        test_approvals.py::test_a_crash_before_the_permit_is_committed_spends_nothing
    a new yes, the same provider key
        test_approvals.py::test_proven_absent_it_takes_a_new_yes_under_the_same_provider_key
    deduplication is no licence
        test_approvals.py::test_deduplication_is_no_licence
    bound to what was seen
        test_approvals.py::test_what_was_approved_is_what_is_sent
    one clock for expiry and window
        test_approvals.py::test_expiry_and_window_are_one_reading_of_one_clock
    four eyes
        test_approvals.py::test_nobody_grants_their_own_wish

Verification
    accepted, then proven
        test_verification.py::test_pending_then_verified
    provisional until the budget ends
        test_verification.py::test_provisional_until_the_budget_ends
    not visible yet
        test_verification.py::test_not_visible_yet_is_no_absence
    final absence, and a send
        test_verification.py::test_a_final_absence_makes_another_send_possible
    eligible is not licensed
        test_verification.py::test_possible_is_not_permitted
    the target is away
        test_verification.py::test_a_target_that_is_away_proves_nothing
    stale: the target's own precondition
        test_verification.py::test_the_targets_own_precondition_refused
    what each answer means
        test_verification.py::test_four_answers_are_four_states
    partial results
        test_verification.py::test_partial_results_say_which
    an early look-up changes nothing
        test_verification.py::test_nobody_looks_while_it_is_sent
    one look-up at a time
        test_verification.py::test_one_look_up_at_a_time
    slow rails
        test_verification.py::test_slow_rails_are_waited_for

Runtime
    a crash at every point
        test_runtime.py::test_wherever_the_process_ends_it_is_done_once
    attaching to what is under way, and `wait`
        test_runtime.py::test_who_comes_while_it_is_sent_hears_that_it_is
    a late reply after a takeover
        test_runtime.py::test_a_late_reply_after_a_takeover
    a late reply after another send
        test_runtime.py::test_a_late_reply_after_somebody_sent_again_is_evidence
    a refusal after doubt
        test_runtime.py::test_a_refusal_after_doubt_proves_nothing
    bounded retries, the provider's own wait
        test_runtime.py::test_try_later_is_tried_later_and_not_for_ever
    verify, repeat or ask a person
        test_runtime.py::test_doubt_has_a_plan_for_each_capability
    preconditions that refuse or break
        test_runtime.py::test_a_precondition_lets_nothing_through_that_it_did_not_allow
    preconditions that never end
        core/test_preconditions.py::test_later_for_ever_is_refused
    an output that cannot be stored
        test_runtime.py::test_an_output_that_cannot_be_stored_happened_all_the_same
    one key, one payload
        test_runtime.py::test_one_key_is_one_payload
    undoing
        test_runtime.py::test_undone_once_whoever_asks
    risk policy
        test_runtime.py::test_the_projects_risk_policy_only_tightens
    payload versions
        test_runtime.py::test_a_deploy_that_changed_the_payload_reads_the_older_one
    an unreadable payload
        test_runtime.py::test_a_payload_that_nobody_can_read_any_more_is_shown_and_not_sent
    another safety version
        test_runtime.py::test_resumed_after_a_deploy_with_another_safety_version
    the frozen contract
        test_runtime.py::test_a_deploy_loosens_nothing_of_what_is_under_way
    an observer that raises
        core/test_signals.py::test_an_observer_hears_of_its_own_effect_and_stops_nothing
    interrupts are recorded, then go on
        core/test_perform.py::test_interrupts_are_recorded_and_go_on

Not told yet: refunds of quota for what was not executed, redaction.
"""
