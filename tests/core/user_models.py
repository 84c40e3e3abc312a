"""User models of other projects: keys that are no numbers, names that are addresses, permissions of their own."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import User
from django.db import models

__all__ = ["Claimant", "Member", "Person"]


class Person(AbstractBaseUser):
    """Without permissions."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)

    USERNAME_FIELD = "email"
    objects = BaseUserManager["Person"]()

    class Meta:
        app_label = "auth"
        managed = False
        db_table = "test_person"


class Member(AbstractBaseUser):
    """With permissions of its own making."""

    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    may = models.TextField(default="")

    USERNAME_FIELD = "email"
    objects = BaseUserManager["Member"]()

    class Meta:
        app_label = "auth"
        managed = False
        db_table = "test_member"

    def has_perm(self, permission: str, target: Any = None) -> bool:
        """Return whether a column says so."""
        return target is None and permission in self.may.split()


class Claimant(User):
    """Django's user, with permissions that a text of the project's says."""

    class Meta:
        proxy = True
        app_label = "auth"

    def has_perm(self, perm: Any, obj: Any = None) -> bool:
        """Return whether the name begins so."""
        return obj is None and self.username.startswith("claims-")
