"""Find what would break protected views later: system checks that walk the project's URLs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from django.apps import apps
from django.conf import settings as project
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse

from effects.conf import settings
from effects.declarations.effect import get_effect
from effects.declarations.operations import operations
from effects.http.answers import REPLAYED, STATUS
from effects.http.call_paths import BEHIND, protection_behind, protection_of
from effects.http.protection import Protection
from effects.inspection.checks.messages import make_error, make_warning
from effects.journal.commits import is_beside
from effects.vocabulary.exceptions import EffectDefinitionError

__all__ = [
    "check_cors",
    "check_effects_of_views",
    "check_paths_to_protection",
    "check_signing_secrets",
    "check_status_url",
    "check_transactions_of_views",
    "check_views_beside",
    "protected_views",
]

T = TypeVar("T")

#: What a client on another site must be able to read to do as it is told.
EXPOSED = (REPLAYED, "Location", "Retry-After")


@dataclass(frozen=True)
class ProtectedView:
    """A protected view at an address."""

    route: str
    callback: Any
    protection: Protection

    @property
    def name(self) -> str:
        """Its operation."""
        return self.protection.operation.name


def check_transactions_of_views(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E013: ATOMIC_REQUESTS around a protected view."""
    found: list[checks.CheckMessage] = []
    atomic = {alias for alias, options in connections.settings.items() if options["ATOMIC_REQUESTS"]}
    for view in _each_once(protected_views()):
        caught = sorted(atomic - set(getattr(view.callback, "_non_atomic_requests", ())))
        if caught:
            found.append(
                make_error(
                    13,
                    f"The view of {view.name!r} at {view.route!r} runs inside the transaction of ATOMIC_REQUESTS "
                    f"({', '.join(caught)}), out of the decorator's reach: each of its requests fails.",
                    "Put @transaction.non_atomic_requests above @api_view, or above whatever wraps the view.",
                )
            )
    return found


def check_paths_to_protection(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W015: a protected method of a class that none of its handlers is seen to call."""
    classes: dict[type[Any], str] = {}
    reached = {id(view.protection) for view in protected_views()}

    def owners(route: str, callback: Any) -> Iterator[tuple[type[Any], str]]:
        owner = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
        if owner is not None:
            yield owner, route

    for owner, route in _found_at_urls(owners):
        classes.setdefault(owner, route)
    return [
        make_warning(
            15,
            f"{owner.__name__}.{name} at {route!r} is protected, and no method that answers a request is seen to call "
            "it: ATOMIC_REQUESTS, throttles and the schema do not know of it.",
            "Put @idempotent on the method that answers the request: post(), put(), patch(), delete(), or an action.",
        )
        for owner, route in classes.items()
        for name in dir(owner)
        if (told := protection_of(inspect.getattr_static(owner, name))) is not None and id(told) not in reached
    ]


def check_views_beside(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E012: a transactional view, whose rows cannot commit with a journal in another database."""
    try:
        if not is_beside():
            return []
    except ImproperlyConfigured:
        return []  # E002
    return [
        make_error(
            12,
            f"The view {view.name!r} is transactional, and the journal's database {settings.DATABASE!r} is not that of "
            "its rows.",
            'Make it mode="journaled", or keep the journal in the default database.',
        )
        for view in operations().values()
        if view.mode == "transactional"
    ]


def check_effects_of_views(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E014: a view performs an effect that nobody registered."""
    return [
        make_error(
            14,
            f"The view of {view.name!r} at {view.route!r} has performs=[{operation!r}], and no such effect is "
            "registered.",
            "Correct the name, or put the effect's class with @effects.register into the effects.py of an installed "
            "app.",
        )
        for view in _each_once(protected_views())
        for operation in view.protection.operation.performs or ()
        if not _is_registered(operation)
    ]


def check_status_url(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W003: journaled views, and no address where a client can ask what became of its request."""
    journaled = [view for view in protected_views() if view.protection.operation.mode == "journaled"]
    if not journaled or _is_included():
        return []
    return [
        make_warning(
            3,
            f"The view of {journaled[0].name!r} may answer 202, and effects.urls is not included: its answers have no "
            "Location and no status_url.",
            'Add path("operations/", include("effects.urls")) to your URLs.',
        )
    ]


def check_cors(**_kwargs: Any) -> list[checks.CheckMessage]:
    """W004: browsers on other sites may not send the key. W005: they may not read what the answer says."""
    if not apps.is_installed("corsheaders"):
        return []
    views = protected_views()
    if not views:
        return []
    try:
        header = settings.KEY_HEADER
    except ImproperlyConfigured:
        return []  # E002
    found: list[checks.CheckMessage] = []
    allowed = getattr(project, "CORS_ALLOW_HEADERS", None)
    if not _named((header,), allowed if allowed is not None else import_module("corsheaders.defaults").default_headers):
        found.append(
            make_warning(
                4,
                f"CORS_ALLOW_HEADERS lacks {header.lower()!r}: a browser on another site cannot send a key.",
                f'Write CORS_ALLOW_HEADERS = (*corsheaders.defaults.default_headers, "{header.lower()}").',
            )
        )
    needed = (*EXPOSED, *((STATUS,) if any(not view.protection.required for view in views) else ()))
    exposed = getattr(project, "CORS_EXPOSE_HEADERS", ())
    missing = [name for name in needed if not _named((name,), exposed)]
    if missing:
        found.append(
            make_warning(
                5,
                f"CORS_EXPOSE_HEADERS lacks {', '.join(missing)}: a script on another site cannot read them.",
                f"Add them: {', '.join(repr(name) for name in missing)}.",
            )
        )
    return found


def check_signing_secrets(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E019: a view that takes a provider's webhooks has no secret to tell them from forged ones."""

    def read_by(route: str, callback: Any) -> Iterator[tuple[str, Callable[[], object]]]:
        # by an attribute of the view: the provider's SDK need not be installed
        read = getattr(callback, "signing_secrets", None)
        if callable(read):
            yield route, read

    return [
        make_error(19, f"The view at {route!r} takes webhooks that it cannot verify, so that each of them fails.", why)
        for read, route in {read: route for route, read in _found_at_urls(read_by)}.items()
        if (why := _why_unset(read))
    ]


def protected_views() -> list[ProtectedView]:
    """Return the protected views that the project's URLs lead to; none where the URLs cannot be read."""

    def protected(route: str, callback: Any) -> Iterator[ProtectedView]:
        for protection in _protections(callback):
            yield ProtectedView(route, callback, protection)

    return _found_at_urls(protected)


def _found_at_urls(look: Callable[[str, Any], Iterable[T]]) -> list[T]:
    """Return what `look` finds at each route and callback of the project's URLs; nothing where they cannot be read."""
    if not getattr(project, "ROOT_URLCONF", None):
        return []
    try:
        views = _walk(get_resolver().url_patterns, "")
        return [found for route, callback in views for found in look(route, callback)]
    except Exception:  # noqa: BLE001 - whatever the project's modules raise, Django's own checks of URLs say it better
        return []


def _walk(patterns: Iterable[Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route, pattern.callback


def _protections(callback: Any) -> Iterator[Protection]:
    """Return what protects a URL's callback: the function itself, or methods of the class behind it."""
    owner = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
    if owner is None:
        yield from getattr(callback, BEHIND, ())
        told = protection_of(callback)
        if told is not None:
            yield told
        return
    actions = getattr(callback, "actions", None) or {}
    for method in owner.http_method_names:
        told = protection_behind(owner, actions.get(method, method))
        if told is not None:
            yield told


def _why_unset(read: Callable[[], object]) -> str:
    """Return why a setting cannot be read, and the fix; "" where it can."""
    try:
        read()
    except ImproperlyConfigured as error:
        return str(error)
    return ""


def _each_once(views: Iterable[ProtectedView]) -> list[ProtectedView]:
    """Return views without those that have the same callback's trouble at another address."""
    return list({(view.name, id(view.callback)): view for view in views}.values())


def _is_registered(operation: str) -> bool:
    try:
        get_effect(operation)
    except EffectDefinitionError:
        return False
    return True


def _is_included() -> bool:
    try:
        reverse("effects:operation-status", args=["00000000-0000-0000-0000-000000000000"])
    except NoReverseMatch:
        return False
    return True


def _named(names: Iterable[str], among: Collection[str]) -> bool:
    return {name.lower() for name in names} <= {name.lower() for name in among}
