"""Who may decide an approval. Reads the project's users; decides nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Any, TypeVar

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import Error, InterfaceError, OperationalError, connections, transaction
from django.db.models import Model, QuerySet
from django.db.models.query import ModelIterable
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from effects.conf import settings
from effects.people import backends
from effects.people.actors import NO_KEY, USER, are_named, find_user, is_user, names_of
from effects.people.backends import asks_otherwise, has_permission
from effects.vocabulary.cleaning import clean_error
from effects.vocabulary.exceptions import EffectDefinitionError
from effects.vocabulary.types import CALL, GROUP, ApprovalRule, Context

__all__ = [
    "could_decide",
    "in_words",
    "is_entitled",
    "list_people",
    "lists_everybody",
    "only_login_entitles",
    "somebody_can_decide",
    "still_entitled",
]

#: How many people a function may name one by one; a queryset is asked, not read, where one person votes.
MOST_NAMED = 10_000
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

    False is certain. True is not where a function or a permission for one object decides, or where it cannot be told
    now: ask `is_entitled` of the row.
    """
    if not approvers or not getattr(user, "is_active", False):
        return False
    try:
        return all(
            term.startswith(CALL) or _meets(user, term, None) or (asks_otherwise() and not term.startswith(GROUP))
            for term in ApprovalRule(approvers).terms
        )
    except EffectDefinitionError:
        return True


def still_entitled(
    actor_ids: Iterable[str],
    rule: ApprovalRule,
    context: Context[Any] | None = None,
    *,
    by_login: frozenset[str] = frozenset(),
) -> set[str]:
    """Return which of those who voted are still active and entitled: asked again at the last vote and at the send.

    Args:
        actor_ids: the voters.
        rule: the frozen rule.
        context: what the decision is about.
        by_login: those of them for whose permissions only their login spoke, which is not there now.
    """
    return {one for one in actor_ids if _is_entitled_still(one, rule, context, without_login=one in by_login)}


def only_login_entitles(user: Any, rule: ApprovalRule, context: Context[Any] | None = None) -> bool:
    """Return whether a permission of an entitled user comes with their login, as from its claims, and with it alone.

    Never where Django's own tables say who has a permission.
    """
    actor_id = f"{USER}{user.pk}"
    return bool(_permissions(rule)) and asks_otherwise() and not still_entitled([actor_id], rule, context)


def somebody_can_decide(rule: ApprovalRule, requesters: Iterable[str], context: Context[Any] | None = None) -> bool:
    """Return whether enough active people are entitled, under four eyes without the requesters.

    Where nobody can list who holds a permission it is true, and asked of each person when they vote.

    Raises:
        EffectDefinitionError: a function of the rule cannot be asked, or users have no permissions at all.
    """
    for term in _permissions(rule):
        backends.refuse_unaskable(term)
    if not lists_everybody(rule, context):
        return True
    found = list_people(rule, requesters if rule.four_eyes else (), context)
    return any(number >= rule.quorum for number, _user in enumerate(found, start=1))


def list_people(rule: ApprovalRule, but: Iterable[str], context: Context[Any] | None = None) -> Iterator[Any]:
    """Iterate over the active users who are entitled, each once, except the actors of the ids `but`.

    Where `lists_everybody` says no, some are missing; nobody is listed who is not entitled.
    """
    excepted, seen = list(but), set()
    source = _source(rule)
    # Django's own tables list whom its own backends grant; what another backend lists is asked of each
    others = [term for term in rule.terms if term != source or (term in _permissions(rule) and asks_otherwise())]
    for user in _candidates(source, context):
        if user.pk in seen or not user.is_active or are_named(names_of(user), excepted):
            continue
        seen.add(user.pk)
        if all(_meets(user, term, context) for term in others):
            yield user


def lists_everybody(rule: ApprovalRule, context: Context[Any] | None = None) -> bool:
    """Return whether `list_people` finds all who are entitled, so that nobody found is nobody there."""
    source = _source(rule)
    if source.startswith(CALL):
        return True
    if source.startswith(GROUP):
        return backends.has_field("groups") or not hasattr(get_user_model(), "groups")
    about_one = context is not None and context.about is not None
    return backends.are_all_listed() and not (about_one and asks_otherwise())


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


def _is_entitled_still(actor_id: str, rule: ApprovalRule, context: Context[Any] | None, *, without_login: bool) -> bool:
    user = find_user(actor_id)
    if user is None or not getattr(user, "is_active", False):
        return False
    asked = [term for term in rule.terms if not (without_login and term in _permissions(rule))]
    return all(_meets(user, term, context) for term in asked)


def _meets(user: Any, term: str, context: Context[Any] | None) -> bool:
    if term.startswith(GROUP):
        return term.removeprefix(GROUP).strip() in _group_names(user)
    if term.startswith(CALL):
        return context is not None and _named_by(term, context, lambda named: _is_among(user, named))
    if _ask(term, "the permission", lambda: has_permission(user, term)):
        return True
    if context is None or context.about is None or not asks_otherwise():
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

    def ask_there() -> None:
        nonlocal said
        with settings.TENANT_CONTEXT(context.tenant):
            said = ask()

    _ask(term, what, ask_there)
    return said


def _ask(term: str, what: str, ask: Callable[[], T]) -> T:
    """Ask the project's code, so that an error of it is said in words, and takes no transaction of ours with it.

    Raises:
        EffectDefinitionError: it raised, and who may decide cannot be told.
    """
    inside = connections[settings.DATABASE].in_atomic_block and term.startswith(CALL)
    try:
        with transaction.atomic(using=settings.DATABASE) if inside else nullcontext():
            return ask()
    except (EffectDefinitionError, OperationalError, InterfaceError):
        raise  # it is said already; or the database is out of reach, or the transaction over
    except Error as error:
        if connections[settings.DATABASE].in_atomic_block and not inside:
            raise
        raise EffectDefinitionError(f"approvers={term!r}: {what} raised {clean_error(error)}") from error
    except Exception as error:
        raise EffectDefinitionError(f"approvers={term!r}: {what} raised {clean_error(error)}") from error


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
    return target is not None and has_permission(user, term, target)


def _named_by(term: str, context: Context[Any], read: Callable[[Iterable[Any]], T]) -> T:
    """Call a function of the project, which may read, never write; return what `read` finds in what it named.

    Raises:
        EffectDefinitionError: it cannot be imported, raised, or returned no users.
    """
    path = term.removeprefix(CALL)

    def ask() -> tuple[Any, T]:
        named = import_string(path)(context)
        # a queryset is read here, where its tables are
        return named, read(_users(named, term, path))

    found = _in_tenant(context, term, path, ask)
    if found is None:  # TENANT_CONTEXT swallowed an error
        raise _not_users(term, path, "NoneType")
    return found[1]


def _users(named: Any, term: str, path: str) -> Iterable[Any]:
    """Return what a function named if it is nothing but users: rows of another model may have the same primary keys.

    Raises:
        EffectDefinitionError: with the function, and the type of what it returned.
    """
    if isinstance(named, QuerySet):
        if not issubclass(named.model, get_user_model()):
            raise _not_users(term, path, f"a queryset of {named.model._meta.label}")
        if named._iterable_class is not ModelIterable:
            raise _not_users(term, path, "a queryset of values")
        return named
    if isinstance(named, (str, bytes, Mapping, Model)) or not isinstance(named, Iterable):
        raise _not_users(term, path, type(named).__name__)
    users = list(islice(named, MOST_NAMED + 1))
    if len(users) > MOST_NAMED:
        raise _not_users(term, path, f"more than {MOST_NAMED} of them one by one")
    for one in users:
        if not is_user(one) or one.pk is None:
            what = "an unsaved user" if is_user(one) else type(one).__name__
            raise _not_users(term, path, f"{type(named).__name__} with {what} in it")
    return users


def _not_users(term: str, path: str, what: str) -> EffectDefinitionError:
    user = get_user_model()._meta.label
    return EffectDefinitionError(
        f"approvers={term!r}: {path} returned {what}, not a queryset or list of users ({user}). Return for example "
        "get_user_model().objects.filter(…), or [] for nobody."
    )


def _is_among(user: Any, named: Iterable[Any]) -> bool:
    if isinstance(named, QuerySet) and not named.query.is_sliced and not named.query.combinator:
        return named.filter(pk=user.pk).exists()
    return any(one.pk == user.pk for one in named)


def _source(rule: ApprovalRule) -> str:
    """Return the term to list people by: a function or a group names them, of a permission the backends are asked."""
    return min(rule.terms, key=lambda term: (not term.startswith(CALL), not term.startswith(GROUP)))


def _permissions(rule: ApprovalRule) -> list[str]:
    return [term for term in rule.terms if not term.startswith((CALL, GROUP))]


def _candidates(source: str, context: Context[Any] | None) -> Iterator[Any]:
    if source.startswith(CALL):
        yield from _named_by(source, context, list) if context is not None else ()
    elif not source.startswith(GROUP):
        yield from backends.list_holders(source)
    elif backends.has_field("groups"):
        users = get_user_model()._default_manager.filter(groups__name=source.removeprefix(GROUP).strip())
        yield from users.distinct().iterator(chunk_size=100)
