"""Rules of sending: recorded first, one permit, one send, one key, and what a failure proves."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_T = "effects/transitions"
_BUSY = "tests/core/test_provider_limits.py"

MUTATIONS = (
    Mutation(
        "a provider may be called inside a transaction",
        "promise 1",
        "tests/core/test_transactions.py::TestTransactions::test_perform_in_atomic_is_refused_before_anything_is_written",
        (
            Edit("effects/journal/commits.py", "        if inside_transaction(connection):", "        if False:"),
            Edit(
                "effects/journal/commits.py",
                "transaction.atomic(using=connection.alias, durable=True)",
                "transaction.atomic(using=connection.alias)",
            ),
        ),
    ),
    Mutation(
        "autocommit off is good enough",
        "promise 1, §3 commits()",
        "tests/core/test_commits.py::TestRefusals::test_autocommit_switched_off",
        (
            Edit(
                "effects/journal/commits.py",
                "        if not connection.in_atomic_block and not _autocommits(connection):",
                "        if False:",
            ),
        ),
    ),
    Mutation(
        "a COMMIT of unknown fate counts as committed",
        "promise 1, §3 commits()",
        "tests/core/test_commits.py::TestLostCommit::test_unknown",
        (
            Edit(
                "effects/journal/commits.py",
                '    raise CommitUnknownError(\n        f"COMMIT got no answer and',
                '    return\n    raise CommitUnknownError(\n        f"COMMIT got no answer and',
            ),
        ),
    ),
    Mutation(
        "a block marked for rollback counts as committed",
        "promise 1, §3 commits()",
        "tests/core/test_commits.py::TestRefusals::test_a_block_marked_for_rollback",
        (Edit("effects/journal/commits.py", "depth) or connection.needs_rollback or _is", "depth) or _is"),),
    ),
    Mutation(
        "a second attempt opens beside the first",
        "promise 2",
        "tests/core/test_permits.py::TestPermit::test_a_second_one_is_refused_while_the_first_is_open",
        (
            Edit(
                f"{_T}/permits.py",
                "_SENDABLE = frozenset({_S.PENDING, ",
                "_SENDABLE = frozenset({_S.EXECUTING, _S.PENDING, ",
            ),
            Edit(
                f"{_T}/permits.py",
                "    if not is_due(row):\n        return False\n    if is_leased(row):\n        return False\n",
                "",
            ),
        ),
    ),
    Mutation(
        "what is not due is sent",
        "§4 permit",
        "tests/core/test_permits.py::TestPermit::test_not_before_it_is_due",
        (
            Edit(
                f"{_T}/permits.py",
                "    if not is_due(row):",
                "    if row.due_at is None:",
            ),
        ),
    ),
    Mutation(
        "the deadline runs from after the permit",
        "promise 12",
        "tests/core/test_permits.py::TestPermit::test_carries_what_the_sender_needs",
        (
            Edit(f"{_T}/permits.py", "deadline=started + timeout", "deadline=monotonic() + timeout"),
            Edit(
                f"{_T}/permits.py",
                "from effects.vocabulary.types import Permit\n",
                "from effects.vocabulary.types import Permit, monotonic\n",
            ),
        ),
    ),
    Mutation(
        "a deadline that passed is sent all the same",
        "§2 permit",
        "tests/scenarios/test_runtime.py::test_a_slow_journal_eats_into_the_permit",
        (Edit("effects/runtime/sending.py", "    if permit.remaining() <= timedelta(0):", "    if False:"),),
    ),
    Mutation(
        "the epoch is not compared",
        "promise 8",
        "tests/core/test_permits.py::TestOutcome::test_an_older_epoch_is_refused",
        (
            Edit(
                f"{_T}/attempts.py",
                "        if row.state != _S.EXECUTING or row.epoch != epoch:",
                "        if row.state != _S.EXECUTING:",
            ),
        ),
    ),
    Mutation(
        "the clock is looked at before the lock",
        "§4, promise 12",
        "tests/core/test_approvals_races.py::test_expired_while_waiting_for_the_lock_is_refused",
        (
            Edit(
                "effects/journal/locks.py",
                '"SELECT locked.*, clock_timestamp() AS locked_at,',
                '"SELECT locked.*, statement_timestamp() AS locked_at,',
            ),
        ),
    ),
    Mutation(
        "a timeout is a failure",
        "promise 3",
        "tests/core/test_perform.py::TestFailures::test_state_and_reason",
        (
            Edit(
                "effects/vocabulary/failures.py",
                "    proven = isinstance(error, ProvenNotApplied)\n",
                "    proven = isinstance(error, (ProvenNotApplied, TimeoutError))\n",
            ),
        ),
    ),
    Mutation(
        "an expired lease means that nothing was sent",
        "promise 3",
        "tests/core/test_permits.py::TestLease::test_past_it_the_sweep_puts_the_send_in_doubt",
        (
            Edit(
                f"{_T}/attempts.py",
                '            _into_doubt(row, "expire_lease", _R.LEASE_EXPIRED, {"attempt": open_attempt.number})',
                '            _reschedule(row, "reschedule", _R.LEASE_EXPIRED, None, {"attempt": open_attempt.number})',
            ),
        ),
    ),
    Mutation(
        "a refusal clears an older doubt",
        "promise 4",
        "tests/core/test_perform.py::TestFailures::test_after_older_doubt_every_failure_is_doubt",
        (
            Edit(
                f"{_T}/attempts.py",
                "    elif row.may_have_applied or row.applied_evidence is not None:",
                "    elif row.applied_evidence is not None:",
            ),
            Edit(
                f"{_T}/attempts.py",
                "        open_attempts=0, lease_expires_at=None, failure_code=code, failure_message=message,\n",
                "        open_attempts=0, lease_expires_at=None, failure_code=code, failure_message=message,\n"
                "        may_have_applied=False,\n",
            ),
        ),
    ),
    Mutation(
        "it is sent again past the key's lifetime",
        "§4 resend, automatic",
        "tests/core/test_permits.py::TestResend::test_not_when_the_keys_lifetime_could_end_before_it_lands",
        (
            Edit(
                f"{_T}/permits.py",
                '    return key_ends > row.locked_at + timedelta(seconds=contract["request_timeout"])',
                "    return bool(key_ends)",
            ),
        ),
    ),
    Mutation(
        "repeating is always safe",
        "§1, §4 resend, automatic",
        "tests/core/test_permits.py::TestResend::test_never_where_repeating_is_not_safe",
        (Edit(f"{_T}/permits.py", '    if contract["repeatable"]:', "    if True:"),),
    ),
    Mutation(
        "whoever asks is a part of an execution's key",
        "§2 execution",
        "tests/scenarios/test_requests.py::test_a_redirect_a_webhook_and_a_task_pay_one_order",
        (
            Edit(
                "effects/transitions/intents.py",
                "binding = binding_of(tenant, effect.keyed_as, key)",
                'binding = binding_of(tenant, effect.keyed_as, f"{requested_by}/{key}")',
            ),
            Edit(
                f"{_T}/executions.py",
                "occurrence = occurrence_of(effect, intent.tenant, intent.key, intent.generation)",
                'who = f"{intent.requested_by}/{intent.key}"\n'
                "    occurrence = occurrence_of(effect, intent.tenant, who, intent.generation)",
            ),
        ),
    ),
    Mutation(
        "a key that stands for another payload is met",
        "promise 6",
        "tests/core/test_keys.py::TestKeys::test_same_key_other_payload_is_refused",
        (Edit(f"{_T}/executions.py", "    if not same:\n", "    if False:\n"),),
    ),
    Mutation(
        "another safety version touches what is unsettled",
        "§5 safety_version",
        "tests/scenarios/test_runtime.py::test_resumed_after_a_deploy_with_another_safety_version",
        (
            Edit(
                f"{_T}/_rows.py",
                "    if effect.safety_version != row.safety_version:",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "something in doubt is superseded",
        "§4 supersede",
        "tests/core/test_successions.py::test_only_what_did_not_happen_is_superseded",
        (
            Edit(
                f"{_T}/successions.py",
                "    if old.state not in (ExecutionState.FAILED, ExecutionState.REJECTED):",
                "    if False:",
            ),
            Edit(
                f"{_T}/successions.py",
                '    advance(old, "supersede", actor=intent.requested_by, evidence=evidence, holds_key=False)',
                "    Execution.objects.filter(pk=old.pk).update(holds_key=False)",
            ),
        ),
    ),
    Mutation(
        "a successor is sent although the old one happened after all",
        "§4 permit",
        "tests/core/test_successions.py::test_proof_that_the_old_one_happened_stops_its_successor",
        (
            Edit(
                f"{_T}/permits.py",
                "    if superseded is not None and lock_execution(superseded).state not in",
                "    if superseded is None and lock_execution(superseded).state not in",
            ),
        ),
    ),
    Mutation(
        "a successor keeps the provider key",
        "§2 provider key",
        "tests/core/test_successions.py::test_it_is_sent_anew_under_another_provider_key",
        (Edit(f"{_T}/executions.py", "intent.key, intent.generation)", "intent.key)"),),
    ),
    Mutation(
        "whoever undoes is a part of the undoing's key",
        "§4 rules",
        "tests/core/test_compensations.py::test_asked_twice_it_is_one",
        (
            Edit(
                "effects/runtime/perform.py",
                "            **_said(lineage.undoing_of(original), on_behalf_of=on_behalf_of),\n",
                '            **{**lineage.undoing_of(original), "key": f"compensate:{original.pk}:{requested_by}"},\n',
            ),
        ),
    ),
    Mutation(
        "what was contradicted meanwhile is undone",
        "§4 rules",
        "tests/core/test_compensations.py::test_contradicted_between_the_approval_and_the_send_it_is_refused",
        (
            Edit(
                f"{_T}/permits.py",
                "    return undone is None or can_be_undone(lock_execution(undone))",
                "    return True",
            ),
        ),
    ),
    Mutation(
        "the settled hook runs after the commit",
        "§5 settled",
        "tests/core/test_hooks.py::test_the_hooks_rows_commit_with_the_state",
        (
            Edit(
                f"{_T}/_rows.py",
                "    if settles and not waits:\n        _run_hook(row, previous)",
                "    if settles and not waits:\n        transaction.on_commit(lambda: _run_hook(row, previous))",
            ),
            Edit(
                f"{_T}/_rows.py",
                "from effects.vocabulary import canonical\n",
                "from django.db import transaction\n\nfrom effects.vocabulary import canonical\n",
            ),
        ),
    ),
    Mutation(
        "a state changes without a receipt",
        "promise 10",
        "tests/core/test_commits.py::TestOutcome::test_commit_lost",
        (
            Edit(
                f"{_T}/_rows.py",
                "    receipt_of(row, verb, source, actor, evidence).save(force_insert=True)\n    if target is",
                "    if target is",
            ),
        ),
    ),
    Mutation(
        "the SDK repeats on its own",
        "cases: sending",
        "tests/stripe/test_wire.py::test_what_the_sdk_would_repeat_is_sent_once",
        (
            Edit("effects/contrib/stripe/client.py", "max_network_retries=0", "max_network_retries=2"),
            Edit("effects/contrib/stripe/transport.py", "    def request_with_retries(", "    def _unused("),
        ),
    ),
    Mutation(
        "an automatic resend waits for nothing",
        "§4 resend, automatic",
        "tests/core/test_permits.py::TestResend::test_not_beyond_the_budget",
        (
            Edit(
                f"{_T}/attempts.py",
                "    wait = retry_delay(row, not_before) if may_resend(row) else not_before or timedelta(0)",
                "    wait = not_before or timedelta(0)",
            ),
        ),
    ),
    Mutation(
        "a refused order of a resend stays due for ever",
        "§4 refuse",
        "tests/core/test_resends.py::test_a_precondition_that_refuses_ends_the_order_and_asks_the_person_again",
        (Edit(f"{_T}/deferrals.py", "            if order is not None:", "            if False:"),),
    ),
    Mutation(
        "a handler's undoing is not the request's",
        "§2 execution: a link holds the answer",
        "tests/core/test_compensations.py::test_a_handlers_undoing_holds_its_answer_and_has_its_person",
        (
            Edit(
                "effects/runtime/perform.py",
                "    return _perform(intent, handle)\n\n\ndef supersede(",
                "    return _perform(intent, None)\n\n\ndef supersede(",
            ),
        ),
    ),
    Mutation(
        "a handler's asking again is not the request's",
        "§2 execution: a link holds the answer",
        "tests/core/test_successions.py::test_a_handler_supersedes_what_an_earlier_request_left",
        (
            Edit(
                "effects/runtime/perform.py",
                "    return _perform(intent, handle)\n\n\n#: `perform`",
                "    return _perform(intent, None)\n\n\n#: `perform`",
            ),
        ),
    ),
    Mutation(
        "a block that says nothing was not sent",
        "promise 3",
        "tests/core/test_sending.py::test_a_silent_block_is_in_doubt",
        (
            Edit(
                "effects/runtime/perform.py",
                "        report = read_answer(block.answer)\n",
                "        report = transitions.NotSentInTime()\n",
            ),
        ),
    ),
    Mutation(
        "a busy provider is looked at all the same",
        "cases: no stampede",
        f"{_BUSY}::test_a_look_up_waits_while_its_provider_is_busy_and_comes_again",
        (Edit(f"{_T}/lookups.py", "        if not now and is_provider_busy(row):", "        if False:"),),
    ),
    Mutation(
        "an approval is spent while its provider is busy",
        "cases: no stampede",
        f"{_BUSY}::test_a_worker_sends_later_and_spends_no_approval_meanwhile",
        (Edit(f"{_T}/permits.py", "        if background and is_provider_busy(row):", "        if False:"),),
    ),
)
