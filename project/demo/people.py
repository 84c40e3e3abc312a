"""The people of the demo: who calls the API, and who decides in the admin."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import Permission
from django.db.models import Q

__all__ = ["HASHER", "People", "Person", "make"]

#: Passwords are random and live for minutes: a slow hash would only slow down each request of the API.
HASHER = MD5PasswordHasher
#: What those who decide may do: see the journal and the shop, approve refunds, and every verb of the console.
_DECIDES = (
    Q(content_type__app_label="payments", codename="approve_refund")
    | Q(content_type__app_label__in=["effects", "payments"], codename__startswith="view_")
    | Q(content_type__app_label="effects", codename__endswith="_execution")
)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who can log in."""

    name: str
    password: str


@dataclass(frozen=True, slots=True)
class People:
    """All of them.

    Attributes:
        client: A customer's program; it has no place in the admin.
        approver: Decides in the admin.
        colleague: Decides in the admin too, later.
    """

    client: Person
    approver: Person
    colleague: Person


def make() -> People:
    """Create the people, with random passwords."""
    return People(_make("webshop"), _make("maria", decides=True), _make("omar", decides=True))


def _make(name: str, *, decides: bool = False) -> Person:
    password, hasher = secrets.token_urlsafe(9), HASHER()
    user = get_user_model()(username=name, is_staff=decides, password=hasher.encode(password, hasher.salt()))
    user.save()
    if decides:
        user.user_permissions.set(Permission.objects.filter(_DECIDES))
    return Person(name, password)
