"""Rules of requests: one key, one request, and an answer only when it is known."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_T = "effects/transitions"
_REQUESTS = "tests/core/test_requests.py"

MUTATIONS = (
    Mutation(
        "an opaque view is released",
        "§4 release, promise 11",
        f"{_REQUESTS}::test_a_key_is_freed_only_where_nothing_can_have_happened",
        (
            Edit(
                f"{_T}/requests.py",
                "    if not asked and (row.is_opaque or row.local_writes):",
                "    if not asked and row.local_writes:",
            ),
        ),
    ),
    Mutation(
        "a request is released while an approval waits",
        "§4 release",
        "tests/scenarios/test_requests.py::test_while_people_decide_the_key_is_taken",
        (
            Edit(
                f"{_T}/requests.py",
                "        ~Q(execution__state=str(ExecutionState.REJECTED)), request_id=row.pk\n",
                "        ~Q(execution__state__in=[ExecutionState.REJECTED, ExecutionState.AWAITING_APPROVAL]),\n"
                "        request_id=row.pk,\n",
            ),
        ),
    ),
    Mutation(
        "a request is released beside what may have been sent",
        "§4 release",
        f"{_REQUESTS}::test_no_key_is_freed_beside_what_was_or_can_be_sent",
        (
            Edit(
                f"{_T}/requests.py",
                "        ~Q(execution__state=str(ExecutionState.REJECTED)), request_id=row.pk\n    ).exists()",
                "        ~Q(execution__state=str(ExecutionState.REJECTED)), request_id=row.pk\n    ).exists() or asked",
            ),
        ),
    ),
    Mutation(
        "an answer is frozen while a child is unsettled",
        "§4 freeze",
        f"{_REQUESTS}::test_an_answer_waits_for_what_it_holds",
        (
            Edit(
                f"{_T}/requests.py",
                "        if _held(row).exclude(execution__state__in=_SETTLED).exists():\n            advance_request(",
                "        if False:\n            advance_request(",
            ),
        ),
    ),
    Mutation(
        "an answer is built before the hook has run",
        "§4 settle",
        f"{_REQUESTS}::test_a_hook_that_has_not_run_holds_the_answer_back",
        (
            Edit(
                f"{_T}/requests.py",
                "execution.state not in EXECUTION_SETTLED or execution.hook_due_at for execution",
                "execution.state not in EXECUTION_SETTLED for execution",
            ),
        ),
    ),
    Mutation(
        "an opaque view that was cut short settles by itself",
        "§4 settle",
        "tests/scenarios/test_requests.py::test_what_the_journal_saw_is_not_all_that_an_opaque_view_did",
        (
            Edit(
                f"{_T}/requests.py",
                "        elif not held or (row.is_opaque and not row.handler_returned):",
                "        elif not held:",
            ),
        ),
    ),
    Mutation(
        "a handler that was taken over still answers",
        "promise 8",
        f"{_REQUESTS}::test_a_handler_that_was_taken_over_answers_nothing",
        (
            Edit(
                "effects/journal/locks.py",
                "    if request.state != RequestState.RUNNING or request.epoch != epoch:",
                "    if False:",
            ),
        ),
    ),
    Mutation(
        "a live lease is taken over",
        "promise 8",
        f"{_REQUESTS}::test_a_live_lease_is_nobody_elses",
        (
            Edit(
                f"{_T}/requests.py",
                "        if row.state != _S.RUNNING or (epoch is None and not past):",
                "        if row.state != _S.RUNNING:",
            ),
        ),
    ),
    Mutation(
        "a lease is renewed for ever",
        "§4 renew",
        f"{_REQUESTS}::test_no_lease_is_renewed_beyond_the_handlers_limit",
        (
            Edit(
                f"{_T}/_opening.py",
                "SET lease_expires_at = LEAST(clock_timestamp() + %s, handler_until)",
                "SET lease_expires_at = clock_timestamp() + %s",
            ),
        ),
    ),
    Mutation(
        "keys of what is in doubt are pruned",
        "cases: http 12",
        f"{_REQUESTS}::test_what_is_in_doubt_is_never_pruned",
        (
            Edit(
                f"{_T}/retention.py",
                "Request.objects.filter(~Exists(unsettled), holds_key=True, ended_at__isnull=False)",
                "Request.objects.filter(holds_key=True, ended_at__isnull=False)",
            ),
        ),
    ),
    Mutation(
        "a replay ignores the fingerprint",
        "promise 6",
        "tests/scenarios/test_requests.py::test_one_key_stands_for_one_request",
        (
            Edit(
                "effects/http/replay.py",
                "    return Reused(tuple(parts)) if parts else None",
                "    return None",
            ),
        ),
    ),
    Mutation(
        "a new key is safe while it is in doubt",
        "promise 11",
        "tests/scenarios/test_requests.py::test_told_that_a_new_key_is_safe_it_is",
        (
            Edit(
                "effects/http/replay.py",
                "    if not request.ended or not request.holds_key:\n        return False\n",
                "    if not request.ended:\n        return True\n",
            ),
        ),
    ),
    Mutation(
        "a new key is safe although an opaque view may have called out",
        "promise 11",
        "tests/http/test_doubt.py::test_row_49_safe_new_key",
        (
            Edit(
                "effects/http/replay.py",
                '    if request.is_opaque or request.local_writes or request.mode != "journaled":',
                '    if request.local_writes or request.mode != "journaled":',
            ),
        ),
    ),
    Mutation(
        "a handler is run again after it was answered",
        "promise 7",
        "tests/scenarios/test_requests.py::test_a_client_that_never_heard_asks_again",
        (
            Edit(
                "effects/http/replay.py",
                "        if opened.made:\n            return Run(opened)",
                "        if opened.made or (opened.request is not None and opened.request.ended):\n"
                "            return Run(opened)",
            ),
        ),
    ),
)
