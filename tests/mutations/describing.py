"""Rules of the schema: what is answered is what it says."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_ANSWERS = "tests/schema/test_answers.py"

MUTATIONS = (
    Mutation(
        "the schema of a problem does not say which codes it can have",
        "§6 Problems",
        f"{_ANSWERS}::test_each_problem_fits_the_one_schema_of_its_status",
        (Edit("effects/http/schema_components.py", 'return {"allOf": [component, codes]}', "return component"),),
    ),
    Mutation(
        "an address that names no operation is answered by a page in HTML",
        "§6 Problems",
        f"{_ANSWERS}::test_a_refusal_is_in_the_schema",
        (Edit("effects/urls.py", '"<str:ref>/"', '"<uuid:ref>/"'),),
    ),
    Mutation(
        "what REST framework refuses in a protected view is not in the schema",
        "§6 Problems",
        f"{_ANSWERS}::test_a_refusal_is_in_the_schema",
        (Edit("effects/http/schema.py", "own |= _add_refusals(self, responses, registry, own)", "pass"),),
    ),
)
