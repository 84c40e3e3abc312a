"""Find rules about approvals that would ask nobody, or tighten nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Permission
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.utils.module_loading import import_string

from effects.conf import settings
from effects.declarations.effect import Effect, registered
from effects.inspection.checks.messages import make_error, make_warning
from effects.models import Approval
from effects.people.risk_rules import explain_unknown_keys
from effects.vocabulary.types import CALL, GROUP, ApprovalRule

__all__ = ["check_descriptions", "check_permissions_asked", "check_proposable_by", "check_risk_rules"]

#: So many of the newest approvals are looked at.
NEWEST = 1000


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


def check_proposable_by(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W010: no such permission, of an effect's `proposable_by`."""
    declared = _declared()
    return [
        _unknown_permission(f"proposable_by of {effect.operation}", term)
        for effect in registered()
        for term in _terms(effect.proposable_by)
        if term not in declared
    ]


def check_permissions_asked(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """W010: no such permission, of what `approval()` returned lately. A superuser has each, also one with a typo."""
    try:
        alias = settings.DATABASE
    except ImproperlyConfigured:
        return []  # E002
    if alias not in (databases or ()):
        return []
    try:
        newest = Approval.objects.order_by("-pk").values_list("execution__operation", "approvers")[:NEWEST]
        asked = {(operation, term) for operation, approvers in set(newest) for term in _terms(approvers)}
        unknown = {term for _operation, term in asked} - _declared()
        named = Permission.objects.filter(codename__in=[term.partition(".")[2] for term in unknown])
        made = {".".join(name) for name in named.values_list("content_type__app_label", "codename")}
    except DatabaseError:
        return []  # E010 and E011; or the users are out of reach
    return [
        _unknown_permission(f"approval() of {operation}", term)
        for operation, term in sorted(asked)
        if term in unknown - made
    ]


def _unknown_permission(where: str, term: str) -> checks.CheckMessage:
    return make_warning(
        10,
        f"{where} asks for the permission {term!r}, which does not exist.",
        "Correct it: nobody can be given it; only superusers have it. If a backend of yours knows it, silence this.",
    )


def _terms(approvers: str) -> Iterator[str]:
    """Iterate over the permissions among the terms of a rule, or of `proposable_by`."""
    for term in (part.strip() for part in approvers.split("&")):
        if term and not term.startswith((GROUP, CALL)):
            yield term


def _declared() -> set[str]:
    """Return the permissions that installed models declare."""
    return {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(get_permission_codename(action, model._meta) for action in model._meta.default_permissions),
            *(codename for codename, _name in model._meta.permissions),
        )
    }


def _check_approvers(where: str, rule: ApprovalRule) -> Iterator[checks.CheckMessage]:
    declared = _declared()
    for path in rule.functions:
        try:
            wrong = "" if callable(import_string(path)) else "is no function"
        except ImportError as error:
            wrong = f"cannot be imported ({error})"
        if wrong:
            yield make_error(
                16, f"{where} asks {path!r}, which {wrong}.", "Name a function that takes a Context and returns users."
            )
    for term in _terms(rule.approvers):
        if term not in declared:
            yield make_warning(
                6,
                f"{where} asks for the permission {term!r}, which no installed model declares.",
                "Correct it, unless you create this permission yourself.",
            )
