"""Rules of values: what is sent is what was written down, and an answer is kept as what it was."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_BACK = "tests/core/test_what_comes_back.py"

MUTATIONS = (
    Mutation(
        "a datetime comes back as the same instant elsewhere",
        "§2 payload",
        f"{_BACK}::TestPayloads::test_what_send_gets_is_what_perform_was_given",
        (
            Edit(
                "effects/vocabulary/canonical.py",
                "            value.astimezone(timezone.utc)\n",
                "            value = value.astimezone(timezone.utc)\n",
            ),
        ),
    ),
    Mutation(
        "what comes back as something else is recorded all the same",
        "§2 payload",
        f"{_BACK}::TestPayloads::test_a_plain_dict_holds_what_json_holds",
        (Edit("effects/transitions/intents.py", "    refuse_changed(payload, loaded)\n", ""),),
    ),
    Mutation(
        "a field that is not compared may come back as something else",
        "§2 payload",
        f"{_BACK}::TestPayloads::test_a_field_that_is_not_compared_is_sent_too",
        (
            Edit(
                "effects/vocabulary/fidelity.py",
                "        if field.init or field.compare:\n",
                "        if field.compare:\n",
            ),
        ),
    ),
    Mutation(
        "a payload that cannot be made of its fields registers",
        "§5 Effect",
        "tests/core/test_declarations.py::test_a_class_that_cannot_be_made_of_its_fields_is_refused",
        (
            Edit(
                "effects/declarations/hints.py",
                "    if inspect.isabstract(cls):\n",
                "    return\n    if inspect.isabstract(cls):\n",
            ),
        ),
    ),
    Mutation(
        "an SDK's object is kept as one text",
        "§3 output",
        f"{_BACK}::TestOutputs::test_what_can_be_data_is_data",
        (Edit("effects/journal/outputs.py", 'METHODS = ("model_dump", "to_dict", "_asdict")', "METHODS = ()"),),
    ),
    Mutation(
        "names of an output that are redacted alike are one",
        "§6 REDACTOR",
        "tests/redaction/test_redactor.py::test_names_that_are_redacted_alike_stay_as_many",
        (
            Edit(
                "effects/journal/redaction.py",
                "result[cleaning.free_name(redact(name, place), result, alike)]",
                "result[redact(name, place)]",
            ),
        ),
    ),
)
