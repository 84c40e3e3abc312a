"""Who calls: tenant and subject, from the server's own authentication, and the person behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from effects.conf import settings
from effects.people.actors import actor_of_login
from effects.vocabulary.exceptions import NameUnusableError
from effects.vocabulary.names import LONGEST_NAME, is_storable
from effects.vocabulary.types import Actor

__all__ = ["Identity", "checked_name", "identify"]


@dataclass(frozen=True)
class Identity:
    """Whose key it is (`tenant`, `subject`), and who acts, for receipts and four eyes."""

    tenant: str
    subject: str
    actor: Actor | None


def identify(request: Any, declared: Callable[[Any], str | None] | str | None = None) -> Identity | None:
    """Return who sends a request; None for an anonymous caller, who would share one bucket of keys with all others.

    Args:
        request: Django's, or REST framework's with its authenticated user.
        declared: the view's `identity=`: a name for whoever may call it, or a callable that returns one.

    Raises:
        ImproperlyConfigured: a callable of the project returned something that is not a name.
        NameUnusableError: what it returned fits no column; it may be what the client sent.
    """
    name = settings.SUBJECT if declared is None else declared
    subject = name(request) if callable(name) else name
    if subject is None or subject == "":
        return None
    tenant = settings.TENANT(request)
    return Identity(checked_name(tenant, "TENANT"), checked_name(subject, "SUBJECT or identity="), _actor(request))


def _actor(request: Any) -> Actor | None:
    return actor_of_login(getattr(request, "user", None))


def checked_name(value: object, of: str) -> str:
    """Return what a callable of the project gave as a name.

    Raises:
        ImproperlyConfigured: it is no text.
        NameUnusableError: it fits no column. It is not cut or cleaned, since two names could become one.
    """
    expected = f"it returns a text of at most {LONGEST_NAME} characters, as in 'shop-17'"
    if not isinstance(value, str):
        raise ImproperlyConfigured(f"{of} returned {value!r:.80}; {expected}")
    if not is_storable(value):
        raise NameUnusableError(f"{of} returned {value!a:.80}; {expected}")
    return value
