"""What the project's authentication backends and its user model can be asked about permissions, and can list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth import get_backends, get_user_model
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.models import PermissionsMixin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import QuerySet

from effects.vocabulary.exceptions import EffectDefinitionError

__all__ = ["are_all_listed", "asks_otherwise", "has_field", "has_permission", "list_holders", "refuse_unaskable"]

#: The methods of a backend that decide who has a permission. Django's `with_perm` looks into its tables past them.
_DECIDING = (
    "has_perm", "get_all_permissions", "get_user_permissions", "get_group_permissions", "_get_permissions",
    "_get_user_permissions", "_get_group_permissions",
)  # fmt: skip
#: Those of a user.
_ASKED = ("has_perm", "has_perms", "get_all_permissions", "get_user_permissions", "get_group_permissions")
#: They decide by Django's tables, or grant nothing.
_DJANGOS = (ModelBackend, BaseBackend, object)


def has_permission(user: Any, permission: str, target: Any = None) -> bool:
    """Return whether a user has a permission, for everything or for one object, as the user model asks it.

    Raises:
        EffectDefinitionError: the user model has no permissions at all.
    """
    refuse_unaskable(permission)
    return bool(user.has_perm(permission) if target is None else user.has_perm(permission, target))


def refuse_unaskable(permission: str) -> None:
    """Refuse to ask for a permission where users have none.

    Raises:
        EffectDefinitionError: with what to do.
    """
    model = get_user_model()
    if not callable(getattr(model, "has_perm", None)):
        raise EffectDefinitionError(
            f"approvers={permission!r}: the user model {model._meta.label} has no has_perm(), so nobody has a "
            "permission. Add PermissionsMixin to it, or name people by 'call:shop.approvers.managers'."
        )


def asks_otherwise() -> bool:
    """Return whether a backend, or the user model, decides by anything else than Django's tables of permissions.

    Then it may know permissions for one object, or take them from a login, and no table lists who has one.
    """
    return _is_user_special() or any(_first(type(each), _DECIDING, but=_DJANGOS) is not None for each in get_backends())


def are_all_listed() -> bool:
    """Return whether `list_holders` gives all who have a permission: only then "nobody has it" can be believed."""
    backends = [type(backend) for backend in get_backends()]
    return (
        not _is_user_special()
        and any(hasattr(backend, "with_perm") for backend in backends)
        and all(_lists_whom_it_grants(backend) for backend in backends)
    )


def list_holders(permission: str) -> Iterator[Any]:
    """Iterate over those whom the backends list for a permission, perhaps twice, perhaps too many, perhaps too few."""
    for backend in get_backends():
        if not hasattr(backend, "with_perm") or (_own_list(type(backend)) is ModelBackend and not _has_tables()):
            continue
        found = backend.with_perm(permission)
        yield from found.iterator(chunk_size=100) if isinstance(found, QuerySet) else found


def has_field(name: str) -> bool:
    """Return whether the user model has a field that queries can ask for."""
    try:
        get_user_model()._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


def _lists_whom_it_grants(backend: type[Any]) -> bool:
    """Return whether the class that says how to list is the one that says who has it, or knows better than that."""
    decides = _first(backend, _DECIDING, but=_DJANGOS)
    if decides is None:
        return True
    lists = _first(backend, ("with_perm",))
    return lists is not None and lists <= decides


def _first(cls: type[Any], names: tuple[str, ...], *, but: tuple[type[Any], ...] = ()) -> int | None:
    """Return how far up the first class stands that defines one of these; None if none does."""
    for distance, base in enumerate(cls.__mro__):
        if base not in but and not vars(base).keys().isdisjoint(names):
            return distance
    return None


def _own_list(backend: type[Any]) -> type[Any]:
    distance = _first(backend, ("with_perm",))
    return backend.__mro__[distance if distance is not None else -1]


def _has_tables() -> bool:
    """Return whether Django's tables say of this project's users who has a permission."""
    return issubclass(get_user_model(), PermissionsMixin) and has_field("is_active") and has_field("is_superuser")


def _is_user_special() -> bool:
    """Return whether the user model decides itself, past the backends."""
    model: type[Any] = get_user_model()
    return not _has_tables() or any(
        getattr(model, name, None) is not getattr(PermissionsMixin, name) for name in _ASKED
    )
