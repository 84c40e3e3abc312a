"""Find rules about approvals that would ask nobody, or tighten nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from effects.checks.messages import make_error, make_warning
from effects.conf import settings
from effects.effect import Effect, registered
from effects.risk_rules import explain_unknown_keys
from effects.types import CALL, GROUP, ApprovalRule

__all__ = ["check_descriptions", "check_risk_rules"]


def check_risk_rules(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E015: a key of `RISK_RULES` that names nothing. E016: no such function. W006: no such permission."""
    try:
        rules = settings.RISK_RULES
    except ImproperlyConfigured:
        return []  # E002
    found: list[checks.CheckMessage] = [make_error(15, *words) for words in explain_unknown_keys(rules)]
    for key, rule in rules.items():
        found += _check_approvers(f"EFFECTS['RISK_RULES'][{key!r}]", rule)
    return found


def check_descriptions(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W009: people are to approve an effect that describes nothing to them."""
    return [
        make_warning(
            9,
            f"{type(effect).__module__}.{type(effect).__qualname__} {why} and has no describe(), so that people would "
            "decide by its raw payload.",
            "Define describe(): return effects.Summary with a title, and the amount or facts that they decide by.",
        )
        for effect in registered()
        if type(effect).describe is Effect.describe and (why := _why_approved(effect))
    ]


def _why_approved(effect: Effect[Any]) -> str:
    """Return why people may be asked to approve an effect; empty where nothing declares it."""
    if type(effect).approval is not Effect.approval:
        return "has approval()"
    if effect.proposable_by:
        return "may be proposed (proposable_by)"
    try:
        rules = settings.RISK_RULES
    except ImproperlyConfigured:
        return ""  # E002
    names = {str(effect.risk), effect.operation, *effect.aliases} & rules.keys()
    return f"is under EFFECTS['RISK_RULES'][{min(names)!r}]" if names else ""


def _check_approvers(where: str, rule: ApprovalRule) -> Iterator[checks.CheckMessage]:
    declared = {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(get_permission_codename(action, model._meta) for action in model._meta.default_permissions),
            *(codename for codename, _name in model._meta.permissions),
        )
    }
    for path in rule.functions:
        try:
            wrong = "" if callable(import_string(path)) else "is no function"
        except ImportError as error:
            wrong = f"cannot be imported ({error})"
        if wrong:
            yield make_error(
                16, f"{where} asks {path!r}, which {wrong}.", "Name a function that takes a Context and returns users."
            )
    for term in rule.terms:
        if not term.startswith((GROUP, CALL)) and term not in declared:
            yield make_warning(
                6,
                f"{where} asks for the permission {term!r}, which no installed model declares.",
                "Correct it, unless you create this permission yourself.",
            )
