"""The project's own approval rules, `RISK_RULES`: which of them an effect is under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from effects.conf import settings
from effects.conf.values import closest
from effects.declarations.effect import Effect, registered
from effects.vocabulary.types import ApprovalRule, Risk

__all__ = ["explain_unknown_keys", "project_rules_of"]


def project_rules_of(effect: Effect[Any]) -> list[ApprovalRule]:
    """Return the project's rules for an effect's risk, its operation and its aliases; all of them hold.

    Raises:
        ImproperlyConfigured: a key of `RISK_RULES` names nothing. It may have been meant for this effect, which must
            not be sent unapproved because of a typo.
    """
    rules = settings.RISK_RULES
    for problem, fix in explain_unknown_keys(rules):
        raise ImproperlyConfigured(f"{problem} Nothing is recorded or sent until that is corrected. {fix}")
    return [rules[name] for name in (str(effect.risk), effect.operation, *effect.aliases) if name in rules]


def explain_unknown_keys(rules: Mapping[str, ApprovalRule]) -> Iterator[tuple[str, str]]:
    """Yield for each key that names neither a risk nor a registered effect what is wrong, and what to do."""
    operations = {name for effect in registered() for name in (effect.operation, *effect.aliases)}
    known = sorted({str(risk) for risk in Risk} | operations)
    for key in rules:
        if key not in known:
            meant = closest(key.strip().lower(), tuple(known))
            what = "neither a risk nor an operation or alias of a registered effect, so that it tightens nothing"
            fix = f"Did you mean {meant!r}?" if meant else f"The keys are {', '.join(known)}."
            yield f"EFFECTS['RISK_RULES'] has a rule for {key!r}, which is {what}.", fix
