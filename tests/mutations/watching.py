"""Rules of what must not pass in silence: a rule that names nothing, a process that dies, nobody who works."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_LOOKUPS = "effects/transitions/lookups.py"
_TROUBLE = "tests/core/test_trouble.py"
_RISKS = "tests/core/test_risk_rules.py"

MUTATIONS = (
    Mutation(
        "a rule that names nothing lets everything pass",
        "§6 RISK_RULES",
        f"{_RISKS}::test_a_key_that_names_nothing_refuses_everything",
        (Edit("effects/people/risk_rules.py", "        if key not in known:", "        if False:"),),
    ),
    Mutation(
        "a rule for an operation's old name tightens nothing",
        "§6 RISK_RULES",
        f"{_RISKS}::test_every_name_of_an_effect_counts",
        (Edit("effects/people/risk_rules.py", "effect.operation, *effect.aliases) if", "effect.operation) if"),),
    ),
    Mutation(
        "of two rules for one name the last one holds",
        "§6 RISK_RULES",
        f"{_RISKS}::test_of_two_names_the_stricter_rule_holds",
        (Edit("effects/conf/values.py", "rule.tightened(rules.get(name))", "rule"),),
    ),
    Mutation(
        "a look-up that kills its process is repeated at once",
        "§4 claim",
        f"{_TROUBLE}::test_a_look_up_that_kills_its_process_backs_off_and_shows",
        (Edit(_LOOKUPS, "if row.lease_expires_at is not None:  # no verdict", "if False:  # no verdict"),),
    ),
    Mutation(
        "a person is called while an order is awaited",
        "§4 postpone",
        "tests/core/test_lookups.py::test_while_an_order_is_awaited_nobody_is_called",
        (Edit(_LOOKUPS, "    if _is_awaited(row):\n", "    if False:\n"),),
    ),
    Mutation(
        "an item's applied is whatever Python takes for true",
        "§5 Partial",
        "tests/core/test_perform.py::TestAnswers::test_items_that_do_not_say_what_was_applied_are_doubt",
        (
            Edit(
                "effects/vocabulary/items.py",
                "if plain.applied is not True and plain.applied is not False:",
                "if False:",
            ),
        ),
    ),
    Mutation(
        "a sweep that never ran raises no alarm",
        "§8 first page",
        "tests/core/test_standstill.py::test_what_nobody_does_is_said_everywhere",
        (
            Edit(
                "effects/inspection/standstill.py",
                "for sweep, due in found]",
                "for sweep, due in found if sweep in seen]",
            ),
        ),
    ),
    Mutation(
        "what nobody takes up passes for sent soon",
        "§8 a row's page",
        "tests/core/test_standstill.py::test_hints_that_nobody_takes_are_said",
        (Edit("effects/inspection/standstill.py", "        if self.at - self.seen > LATE:", "        if True:"),),
    ),
    Mutation(
        "what kills each process is handed out every 30 s",
        "§7 a sweep",
        f"{_TROUBLE}::test_what_kills_each_process_is_handed_out_ever_more_rarely",
        (Edit("effects/sweeps/_batches.py", "CASE WHEN swept_until IS NULL THEN", "CASE WHEN true THEN"),),
    ),
)
