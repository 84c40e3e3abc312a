"""Find what a project declares and would not get: system checks of its effects and settings."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from django.conf import settings as project
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from effects.conf import SETTINGS, problems, settings
from effects.conf.values import EVERY_PROVIDER
from effects.declarations.effect import Effect, registered
from effects.inspection.checks.messages import DISTRIBUTION, make_error, make_warning

__all__ = [
    "check_dispatch",
    "check_limited_providers",
    "check_names_in_effects",
    "check_names_of_settings",
    "check_settings",
    "check_time_zones",
]

PREFIX = "EFFECTS_"
#: How alike a name must be to count as misspelt: `request_timout` and `approvals` do, a project's own names do not.
ALIKE = 0.85


def check_settings(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E001: a key of `EFFECTS` that is not one of ours. E002: a value that cannot be used."""
    return [
        make_error(1 if problem.unknown else 2, problem.message, problem.hint or "Change it in your settings.")
        for problem in problems()
    ]


def check_names_of_settings(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W014: a setting of the project's own that is named like a key of `EFFECTS`, where nothing reads it."""
    return [
        make_warning(
            14,
            f"The setting {PREFIX}{key} is read by nobody.",
            f"Write EFFECTS = {{{key!r}: …}}, or give a setting of your own another name.",
        )
        for key in SETTINGS
        if hasattr(project, PREFIX + key)
    ]


def check_time_zones(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E017: instants without a time zone, of which an hour comes twice when summer time ends."""
    if project.USE_TZ:
        return []
    return [
        make_error(
            17,
            "USE_TZ is False: barriers, leases and windows would be read as local times, which repeat an hour a year.",
            "Set USE_TZ = True. TIME_ZONE may be whatever you like.",
        )
    ]


def check_dispatch(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E018: `DISPATCH` names a queue that is not installed, so that no hint could ever be published."""
    try:
        name = settings.DISPATCH
    except ImproperlyConfigured:
        return []  # E002
    fixes = {
        "celery": ("celery", f'Install it: pip install "{DISTRIBUTION}[celery]".'),
        "django_tasks": ("django.tasks", "It is new in Django 6.0. With an older one use celery, or none."),
    }
    module, fix = fixes.get(name, ("", "")) if isinstance(name, str) else ("", "")
    if not module or find_spec(module) is not None:
        return []
    return [make_error(18, f"EFFECTS['DISPATCH'] is {name!r}, and there is no module {module}.", fix)]


def check_names_in_effects(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W007: an effect's attribute that is nearly one of ours; with a misspelt `approval` nobody would be asked."""
    return [
        make_warning(
            7,
            f"{cls.__module__}.{cls.__qualname__} has {name!r}, which nothing reads; {meant[0]!r} is what is read.",
            "Correct the name, or give your own another one.",
        )
        for cls, name, known in _own_names()
        if (meant := get_close_matches(name, known, 1, ALIKE))
    ]


def check_limited_providers(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W008: `MAX_CALLS_PER_PROVIDER` names a provider that no effect calls, so that it limits nothing."""
    try:
        limited = set(settings.MAX_CALLS_PER_PROVIDER) - {EVERY_PROVIDER}
    except ImproperlyConfigured:
        return []  # E002
    called = sorted({effect.provider for effect in registered()})
    return [
        make_warning(
            8,
            f"EFFECTS['MAX_CALLS_PER_PROVIDER'] limits {name!r}, and no effect has that provider.",
            f"Did you mean {meant[0]!r}?" if (meant := get_close_matches(name, called, 1)) else "Take it out.",
        )
        for name in sorted(limited.difference(called))
    ]


def _own_names() -> Iterator[tuple[type[Any], str, list[str]]]:
    """Iterate over the names that a project's classes define and ours do not know, with those that ours know."""
    seen = set()
    for effect in registered():
        classes = [cls for cls in type(effect).__mro__ if issubclass(cls, Effect)]
        ours = next(cls for cls in classes if cls.__module__.partition(".")[0] == Effect.__module__.partition(".")[0])
        known = [name for name in dir(ours) if not name.startswith("_")]
        for cls in classes[: classes.index(ours)]:
            new = () if cls in seen else (name for name in vars(cls) if not name.startswith("_") and name not in known)
            seen.add(cls)
            yield from ((cls, name, known) for name in new)
