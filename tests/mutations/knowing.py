"""Rules of what is known: the provider's answer is kept, what a row says is said, a known key is only met."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_ANSWERS = "tests/core/test_known_answers.py"
_KEYS = "tests/core/test_known_keys.py"
_SAID = "tests/core/test_may_have_happened.py"

MUTATIONS = (
    Mutation(
        "a hook that broke its transaction runs in the repetition too",
        "promise 3, §5 settled",
        f"{_ANSWERS}::test_an_interrupt_beside_a_broken_transaction_goes_on_too",
        (
            Edit(
                "effects/vocabulary/foreign.py",
                "        return self.over or (self.count > 0 and not self.finished) or self.count > 1",
                "        return self.over or self.count > 3",
            ),
        ),
    ),
    Mutation(
        "an interrupt of the hook takes the answer along",
        "§4 interrupts",
        f"{_ANSWERS}::test_an_interrupt_in_the_hook_goes_on_once_the_answer_is_committed",
        (
            Edit(
                "effects/transitions/settlement.py",
                "    except BaseException as error:  # any error of the project's code: recorded, shown, tried again\n"
                "        hold_interrupt(error)\n",
                "    except Exception as error:\n",
            ),
            Edit(
                "effects/journal/writes.py",
                "            if alone or not foreign or isinstance(error, OpenTransactionError):",
                "            if True:",
            ),
        ),
    ),
    Mutation(
        "an interrupt that waited for the answer is forgotten",
        "§4 interrupts",
        f"{_ANSWERS}::test_an_interrupt_in_the_hook_goes_on_once_the_answer_is_committed",
        (
            Edit(
                "effects/journal/writes.py",
                "    if tried.interrupt is not None:\n        raise tried.interrupt\n    return result",
                "    return result",
            ),
        ),
    ),
    Mutation(
        "a block that the hook left open counts as committed",
        "promise 1, §3 commits()",
        f"{_ANSWERS}::test_a_hook_that_breaks_its_transaction_costs_no_answer",
        (
            Edit(
                "effects/journal/commits.py",
                "    left_open = len(connection.atomic_blocks) > depth\n",
                "    depth = left_open = len(connection.atomic_blocks)\n    left_open = False\n",
            ),
        ),
    ),
    Mutation(
        "an event loop in the thread keeps the answer from the journal",
        "promise 3",
        f"{_ANSWERS}::test_an_event_loop_in_the_thread_costs_no_answer",
        (
            Edit(
                "effects/journal/writes.py",
                "    carried = contextvars.copy_context()\n",
                "    return work()\n    carried = contextvars.copy_context()\n",
            ),
        ),
    ),
    Mutation(
        "a known key that is not due goes on to its precondition",
        "§4 join",
        f"{_KEYS}::test_a_known_key_that_is_not_due_asks_nothing",
        (
            Edit(
                "effects/runtime/sending.py",
                "ExecutionState.PENDING or not recorded.due:",
                "ExecutionState.PENDING:",
            ),
        ),
    ),
    Mutation(
        "the precondition is asked before the key is looked for",
        "§4 join",
        f"{_KEYS}::test_no_other_caller_asks_while_it_is_sent",
        (Edit("effects/runtime/sending.py", "intent.rule is None and not _is_known(intent)", "intent.rule is None"),),
    ),
    Mutation(
        "it did not happen while it is sent",
        "promise 4",
        f"{_SAID}::test_who_meets_what_is_being_sent_hears_that_it_may_have_happened",
        (
            Edit(
                "effects/models/execution.py",
                "        return self.may_have_applied or open_or_proven or self.state not in NOTHING_HAPPENED",
                "        return self.may_have_applied and (open_or_proven or True)",
            ),
        ),
    ),
    Mutation(
        "an error says what its class says, whatever the row says",
        "promise 4",
        f"{_SAID}::test_an_error_about_a_row_says_what_the_row_says",
        (Edit("effects/journal/commits.py", "        told.may_have_happened = may_have_happened\n", "        pass\n"),),
    ),
)
