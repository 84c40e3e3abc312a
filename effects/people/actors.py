"""Who is meant: the one actor that stands for a person, however the project names them. Reads the project's users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import CharField, Field, IntegerField, Model, Q, TextField

from effects.vocabulary.exceptions import ActorError
from effects.vocabulary.types import Actor

__all__ = ["NO_KEY", "USER", "actor_of", "actor_of_login", "are_named", "find_user", "is_user", "names_of"]

#: What the ids of actors begin with that are users of the project.
USER = "user:"
#: What a text that is no key or name of a model raises, such as one from before its keys became UUIDs.
NO_KEY = (ValueError, TypeError, ValidationError)
_FIX = "Pass the user (request.user, not its pk or name), the text 'user:<pk>', or for a program a text that names it."


def is_user(who: object) -> bool:
    """Return whether this is an object of the project's user model; a lazy one, such as `request.user`, counts."""
    return isinstance(who, get_user_model())


def actor_of(who: Any, what: str) -> Actor | None:
    """Return the one actor that somebody is known as; None for nobody: None, an empty text, an anonymous user.

    A text, or an `Actor` made by hand, means a program, unless it is a user's id (`user:5`), number or name: then it is
    that user, so that nobody is two people to four eyes. Reads the users once, by their indexes, for texts alone.

    Args:
        who: a user, a text, an `Actor` or None.
        what: the argument or setting that names them, for the error.

    Raises:
        ActorError: of another type, not saved, or the name of one user and the number of another.
        NameUnusableError: the text fits no column.
    """
    if who is None or getattr(who, "is_anonymous", False) is True:
        return None
    if isinstance(who, str):
        return _meant(Actor(who, who), what) if who.strip() else None
    if isinstance(who, Actor):
        return _meant(who, what)
    if not is_user(who):
        raise ActorError(f"{what} is {who!r:.80}, a {type(who).__name__}, which is nobody. {_FIX}")
    if who.pk is None:
        raise ActorError(f"{what} is a user that was not saved, whom nobody could tell apart later. Save it first.")
    return Actor.of(who)


def actor_of_login(who: Any) -> Actor | None:
    """Return who a request's own authentication says is there. Asks no database.

    An account that is no user, as of a program with a table of its own, is not the user with the same key.
    """
    if isinstance(who, Model) and not is_user(who) and who.pk is not None:
        return Actor(f"{who._meta.label_lower}:{who.pk}", str(who))
    return Actor.of(who) if isinstance(who, str) or getattr(who, "pk", None) is not None else None


def find_user(actor_id: str) -> Any:
    """Return the user whom an actor's id names, active or not; None for a program, or a user who is gone."""
    if not actor_id.startswith(USER):
        return None
    key = _key(actor_id.removeprefix(USER))
    return None if key is None else get_user_model()._default_manager.filter(pk=key).first()


def names_of(user: Any) -> frozenset[str]:
    """Return all that a user may be called in a row: their id, number and name."""
    return frozenset((f"{USER}{user.pk}", str(user.pk), str(user.get_username())))


def are_named(names: Iterable[str], ids: Iterable[str]) -> bool:
    """Return whether one of a person's names is among the ids of actors, in whatever case.

    The last line of defence: a text that named nobody when it was recorded may be a user's name since.
    """
    return not {_folded(name) for name in names}.isdisjoint(map(_folded, ids))


def _folded(name: str) -> str:
    return name.strip().casefold()


def _meant(actor: Actor, what: str) -> Actor:
    """Return the user whom a text names, else the program."""
    name = actor.id.strip()
    prefix, colon, number = name.partition(":")
    users = get_user_model()._default_manager
    if colon and f"{_folded(prefix)}:" == USER:
        key = _key(number)
        if key is None:
            raise ActorError(f"{what} is {actor.id!r:.80}, and no user has such a primary key. {_FIX}")
        user = users.filter(pk=key).first()
        # of a user who is gone the id stays: what they asked for goes on, and nobody else gets it
        return Actor(f"{USER}{key}", actor.label) if user is None else _actor_of_user(user)
    # the spellings that an index finds; `are_named` takes any
    spellings = {name, name.lower(), name.upper(), name.capitalize(), name.title()}
    username = get_user_model()._meta.get_field(get_user_model().USERNAME_FIELD)
    condition = (
        Q(**{f"{username.name}__in": spellings}) if isinstance(username, CharField | TextField) else Q(pk__in=[])
    )
    if (key := _key(name)) is not None:
        condition |= Q(pk=key)
    found = list(users.filter(condition)[:2])
    if len(found) > 1:
        raise ActorError(f"{what} is {actor.id!r:.80}, which names {found[0]} as well as {found[1]}. {_FIX}")
    return _actor_of_user(found[0]) if found else actor


def _actor_of_user(user: Any) -> Actor:
    return Actor(f"{USER}{user.pk}", str(user.get_username()))


def _key(text: str) -> Any:
    """Return a text as a primary key of the users; None where it cannot be one."""
    field: Field[Any, Any] = get_user_model()._meta.pk
    while field.is_relation:  # a user model that extends another one's table
        field = field.target_field  # type: ignore[attr-defined]
    text = text.strip()
    if isinstance(field, IntegerField) and not text.isdecimal():
        return None
    try:
        return field.to_python(text) if text else None
    except NO_KEY:
        return None
