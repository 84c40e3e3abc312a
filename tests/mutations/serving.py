"""Rules of the HTTP side: what no client can cancel, what is refused before work is done, who may see an answer."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_SERVER = "tests/http/test_async_server.py"

MUTATIONS = (
    Mutation(
        "a client's disconnect ends the recording",
        "cases: http 26",
        "tests/http/test_async_views.py::test_row_26_a_cancellation_waits_for_the_record",
        (
            Edit(
                "effects/http/async_views.py",
                "            await asyncio.wait({done})",
                "            await done",
            ),
        ),
    ),
    Mutation(
        "a cancelled handler is begun all the same",
        "cases: http 26",
        f"{_SERVER}::test_row_26_before_the_handler_began",
        (
            Edit(
                "effects/http/async_views.py",
                "        if self._cancelled:\n",
                "        if False:\n",
            ),
        ),
    ),
    Mutation(
        "a limit refuses what is known",
        "issue 4: limits per tenant",
        "tests/http/test_limits.py::test_what_is_known_is_never_refused",
        (
            Edit(
                "effects/transitions/_opening.py",
                "(SELECT NOT {held} AND ({sql}) AS full_up)",
                "(SELECT ({held} OR true) AND ({sql}) AS full_up)",
            ),
            Edit(
                "effects/transitions/_opening.py",
                "        if found is not None:\n            return Opened(False",
                "        if found is not None and not full:\n            return Opened(False",
            ),
        ),
    ),
    Mutation(
        "a key is claimed over the limit",
        "issue 4: limits per tenant",
        "tests/http/test_limits.py::test_a_tenant_with_too_much_open",
        (
            Edit(
                "effects/transitions/_opening.py",
                '" AND NOT (SELECT full_up FROM room)"',
                '" AND (SELECT true FROM room)"',
            ),
        ),
    ),
    Mutation(
        "a replay is shown without asking",
        "cases: http 17",
        "tests/http/test_replay_checks.py::test_row_17_each_replay_is_asked_about",
        (
            Edit(
                "effects/http/answers.py",
                "    if replayed:\n        refusal =",
                "    if False:\n        refusal =",
            ),
        ),
    ),
    Mutation(
        "a failed outcome write says that nothing was sent",
        "§8: an error says what may have happened",
        "tests/http/test_refusals.py::test_perform_says_that_it_may_have_been_sent",
        (
            Edit(
                "effects/runtime/sending.py",
                "        raise OutcomeUnrecordedError(\n",
                "        raise JournalUnavailableError(\n",
            ),
        ),
    ),
    Mutation(
        "a lock timeout of the journal is an error of the view",
        "cases: http 20",
        "tests/http/test_refusals.py::test_row_20_a_statement_that_fails",
        (
            Edit(
                "effects/journal/commits.py",
                "            if foreign or not isinstance(error, OperationalError):\n                raise\n",
                "            raise\n",
            ),
        ),
    ),
    Mutation(
        "a replay of REST framework's view has no data",
        "issue 11: HTTP 4",
        "tests/http/test_wrapped_answers.py::test_a_first_answer_and_its_replay_leave_the_envelope_alike",
        (
            Edit(
                "effects/http/drf.py",
                "return as_rest_response(self.view, finalize(request, answer, *args, **kwargs))",
                "return finalize(request, answer, *args, **kwargs)",
            ),
        ),
    ),
    Mutation(
        "a first answer keeps data that its bytes do not say",
        "issue 11: HTTP 4",
        "tests/http/test_wrapped_answers.py::test_a_first_answer_and_its_replay_leave_the_envelope_alike",
        (
            Edit(
                "effects/http/drf.py",
                "self._finished = as_rest_response(self.view, response)",
                "self._finished = response",
            ),
        ),
    ),
    Mutation(
        "an error of ours leaves a view as a page",
        "issue 11: HTTP 9",
        "tests/http/test_own_errors.py::test_every_error_of_ours_is_a_problem_with_a_code",
        (
            Edit(
                "effects/http/decorators.py",
                "            return call.send(failure(call.http, error))",
                "            raise",
            ),
        ),
    ),
    Mutation(
        "a check may stand below the decorator",
        "issue 11: HTTP 3",
        "tests/http/test_checks_below.py::test_a_check_below_is_refused_with_the_corrected_lines",
        (
            Edit(
                "effects/http/placement.py",
                "    refuse_checks_below(view, name, line)\n",
                "",
            ),
        ),
    ),
)
