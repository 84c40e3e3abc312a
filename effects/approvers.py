"""Who may decide an approval. Reads the project's users; decides nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

from django.apps import apps
from django.contrib.auth import get_backends, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db import Error
from django.db.models import QuerySet
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from effects.actors import NO_KEY, are_named, find_user, names_of
from effects.cleaning import clean_error
from effects.conf import settings
from effects.exceptions import EffectDefinitionError
from effects.types import CALL, GROUP, Actor, ApprovalRule, Context

__all__ = ["could_decide", "in_words", "is_entitled", "list_people", "somebody_can_decide", "still_entitled"]

#: What a function that names people returns.
_MANY = (QuerySet, list, tuple, set, frozenset)
T = TypeVar("T")


def is_entitled(user: Any, rule: ApprovalRule, context: Context[Any] | None = None) -> bool:
    """Return whether `user` meets what the rule asks of an approver; who asked for the effect is not looked at.

    Args:
        user: a user object.
        rule: the frozen rule.
        context: what the decision is about. Without it nobody is entitled by a function, or for one object alone.

    Raises:
        EffectDefinitionError: a function of the rule cannot be imported, raised, or returned no users.
    """
    return bool(getattr(user, "is_active", False)) and all(_meets(user, term, context) for term in rule.terms)


def could_decide(user: Any, approvers: str) -> bool:
    """Return whether `user` could meet a rule's `approvers`, for whatever it is asked: to narrow a list of many rows.

    False is certain. True is not where a function or a permission for one object decides: ask `is_entitled` of the row.
    """
    if not approvers or not getattr(user, "is_active", False):
        return False
    return all(
        term.startswith(CALL) or _meets(user, term, None) or (_asks_by_object() and not term.startswith(GROUP))
        for term in ApprovalRule(approvers).terms
    )


def still_entitled(actor_ids: Iterable[str], rule: ApprovalRule, context: Context[Any] | None = None) -> set[str]:
    """Return which of those who voted are still active and entitled: asked again at the last vote and at the send."""
    return {actor_id for actor_id in actor_ids if _is_entitled_still(actor_id, rule, context)}


def somebody_can_decide(rule: ApprovalRule, requesters: Iterable[str], context: Context[Any] | None = None) -> bool:
    """Return whether enough active people are entitled, under four eyes without the requesters.

    A backend that cannot list who holds a permission (no `with_perm`) is given the benefit of the doubt.
    """
    if not _can_be_listed(rule):
        return True
    found = list_people(rule, requesters if rule.four_eyes else (), context)
    return any(number >= rule.quorum for number, _user in enumerate(found, start=1))


def list_people(rule: ApprovalRule, but: Iterable[str], context: Context[Any] | None = None) -> Iterator[Any]:
    """Iterate over the active users who are entitled, each once, except the actors of the ids `but`.

    Whom a backend cannot list is missing.
    """
    excepted, seen = list(but), set()
    source = _source(rule)
    others = [term for term in rule.terms if term != source]
    for user in _candidates(source, context):
        if user.pk in seen or not user.is_active or are_named(names_of(user), excepted):
            continue
        seen.add(user.pk)
        if all(_meets(user, term, context) for term in others):
            yield user


def in_words(rule: ApprovalRule) -> str:
    """Return whom the rule asks, as a person reads it after "from"."""
    words = []
    for term in rule.terms:
        if term.startswith(GROUP):
            words.append(term.removeprefix(GROUP).strip())
        elif term.startswith(CALL):
            words.append(_("those whom “%(function)s” names") % {"function": term.removeprefix(CALL)})
        else:
            words.append(_("those with the permission “%(permission)s”") % {"permission": term})
    return _(" and ").join(words)


def _is_entitled_still(actor_id: str, rule: ApprovalRule, context: Context[Any] | None) -> bool:
    user = find_user(actor_id)
    return user is not None and is_entitled(user, rule, context)


def _meets(user: Any, term: str, context: Context[Any] | None) -> bool:
    if term.startswith(GROUP):
        return term.removeprefix(GROUP).strip() in _group_names(user)
    if term.startswith(CALL):
        return context is not None and _named_by(term, context, lambda named: _is_among(user, named))
    if user.has_perm(term):
        return True
    if context is None or context.about is None or not _asks_by_object():
        return False
    return bool(
        _in_tenant(context, term, "the permission for one object", lambda: _may_for_target(user, term, context))
    )


def _in_tenant(context: Context[Any], term: str, what: str, ask: Callable[[], T]) -> T | None:
    """Ask the project's code or tables where the tenant's are at hand: a person's page may be of another tenant.

    Raises:
        EffectDefinitionError: it raised, and who may decide cannot be told.
    """
    said = None
    try:
        with settings.TENANT_CONTEXT(context.tenant):
            said = ask()
    except Error:
        raise  # the database's: the transaction is over, and its caller says so
    except Exception as error:
        raise EffectDefinitionError(f"approvers={term!r}: {what} raised {clean_error(error)}") from error
    return said


def _asks_by_object() -> bool:
    """Return whether some backend could know permissions for one object; Django's own knows none."""
    return any(not isinstance(backend, ModelBackend) for backend in get_backends())


def _group_names(user: Any) -> frozenset[str]:
    """Return the names of a user's groups, kept on the user object as Django keeps permissions: pages ask for each row.

    Votes are counted again, at the last one and at the send, for users that are read anew.
    """
    names: frozenset[str] | None = user.__dict__.get("_effects_group_names")
    if names is None:
        names = frozenset(user.groups.values_list("name", flat=True)) if hasattr(user, "groups") else frozenset()
        user.__dict__["_effects_group_names"] = names
    return names


def _may_for_target(user: Any, term: str, context: Context[Any]) -> bool:
    """Return whether `user` has a permission for the project's own object; nobody has where there is none any more."""
    label, pk = context.about or ("", "")
    try:
        target = apps.get_model(label)._default_manager.filter(pk=pk).first()
    except (LookupError, *NO_KEY):
        return False
    return target is not None and bool(user.has_perm(term, target))


def _named_by(term: str, context: Context[Any], read: Callable[[Iterable[Any]], T]) -> T:
    """Call a function of the project, which may read, never write; return what `read` finds in what it named.

    Raises:
        EffectDefinitionError: it cannot be imported, raised, or returned no users.
    """
    path = term.removeprefix(CALL)

    def ask() -> tuple[Any, T | None]:
        named = import_string(path)(context)
        # a queryset is read here, where its tables are
        return named, read(named) if isinstance(named, _MANY) else None

    named, found = _in_tenant(context, term, path, ask) or (None, None)
    if not isinstance(named, _MANY):
        raise EffectDefinitionError(
            f"approvers={term!r}: {path} returned {type(named).__name__}, not a queryset or list of users"
        )
    return cast("T", found)


def _is_among(user: Any, named: Iterable[Any]) -> bool:
    if isinstance(named, QuerySet) and not named.query.is_sliced:
        return named.filter(pk=user.pk).exists()
    return any(Actor.of(one) == Actor.of(user) for one in named)


def _source(rule: ApprovalRule) -> str:
    """Return the term to list people by: a function or a group names them, of a permission the backends are asked."""
    return min(rule.terms, key=lambda term: (not term.startswith(CALL), not term.startswith(GROUP)))


def _can_be_listed(rule: ApprovalRule) -> bool:
    source = _source(rule)
    return source.startswith((CALL, GROUP)) or all(hasattr(backend, "with_perm") for backend in get_backends())


def _candidates(source: str, context: Context[Any] | None) -> Iterator[Any]:
    if source.startswith(CALL):
        yield from _named_by(source, context, list) if context is not None else ()
    elif source.startswith(GROUP):
        users = get_user_model()._default_manager.filter(groups__name=source.removeprefix(GROUP).strip())
        yield from users.distinct().iterator(chunk_size=100)
    else:
        for backend in get_backends():
            if hasattr(backend, "with_perm"):
                yield from backend.with_perm(source).iterator(chunk_size=100)
