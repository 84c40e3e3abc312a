"""Rules of what must not pass in silence: a rule that names nothing, a process that dies, nobody who works."""

from __future__ import annotations

from tests.mutations.rule import Edit, Mutation

__all__ = ["MUTATIONS"]

_RISKS = "tests/core/test_risk_rules.py"

MUTATIONS = (
    Mutation(
        "a rule that names nothing lets everything pass",
        "§6 RISK_RULES",
        f"{_RISKS}::test_a_key_that_names_nothing_refuses_everything",
        (Edit("effects/risk_rules.py", "        if key not in known:", "        if False:"),),
    ),
    Mutation(
        "a rule for an operation's old name tightens nothing",
        "§6 RISK_RULES",
        f"{_RISKS}::test_every_name_of_an_effect_counts",
        (Edit("effects/risk_rules.py", "effect.operation, *effect.aliases) if", "effect.operation) if"),),
    ),
    Mutation(
        "of two rules for one name the last one holds",
        "§6 RISK_RULES",
        f"{_RISKS}::test_of_two_names_the_stricter_rule_holds",
        (Edit("effects/setting_values.py", "rule.tightened(rules.get(name))", "rule"),),
    ),
)
