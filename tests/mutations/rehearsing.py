"""Rules of what a test run may call, and of what comes back from the journal as it went in."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_CALLS = "tests/core/test_real_calls.py"

MUTATIONS = (
    Mutation(
        "a test that says nothing sends money",
        "nothing unsaid is called in a test",
        f"{_CALLS}::test_an_effect_that_a_test_says_nothing_about_is_not_sent",
        (
            Edit(
                "effects/runtime/sending.py",
                """        refuse_real_call(effect, "compensate" if context.compensates else "send")\n""",
                "        pass\n",
            ),
        ),
    ),
    Mutation(
        "a test that says nothing asks a real provider",
        "nothing unsaid is called in a test",
        f"{_CALLS}::test_no_provider_is_asked_what_happened",
        (Edit("effects/runtime/background.py", """    refuse_real_call(effect, "verify")\n""", ""),),
    ),
    Mutation(
        "a refused call of a test leaves doubt",
        "nothing unsaid is called in a test",
        f"{_CALLS}::test_an_effect_that_a_test_says_nothing_about_is_not_sent",
        (
            Edit(
                "effects/runtime/sending.py",
                """    return classify(NotSent(str(error), code="unscripted_call"))""",
                "    return classify(error)",
            ),
        ),
    ),
)
