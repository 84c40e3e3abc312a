"""Who may decide an approval. Reads the project's users; decides nothing by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_backends, get_user_model
from django.core.exceptions import ObjectDoesNotExist

from effects.types import ApprovalRule

__all__ = ["is_entitled", "somebody_can_decide", "still_entitled"]

_USER = "user:"


def is_entitled(user: Any, rule: ApprovalRule) -> bool:
    """Return whether `user` holds what the rule asks of an approver; who asked for the effect is not looked at."""
    return bool(getattr(user, "is_active", False) and user.has_perms(rule.permissions))


def still_entitled(actor_ids: Iterable[str], rule: ApprovalRule) -> bool:
    """Return whether all who voted are still active and entitled: asked again at the send."""
    users = get_user_model()._default_manager
    for actor_id in actor_ids:
        if not actor_id.startswith(_USER):
            return False
        try:
            user = users.get(pk=actor_id.removeprefix(_USER))
        except (ObjectDoesNotExist, ValueError):
            return False
        if not is_entitled(user, rule):
            return False
    return True


def somebody_can_decide(rule: ApprovalRule, requesters: Iterable[str]) -> bool:
    """Return whether enough active people other than the requesters are entitled.

    A backend that cannot list who holds a permission (no `with_perm`) is given the benefit of the doubt.
    """
    excluded = {actor.removeprefix(_USER) for actor in requesters if actor.startswith(_USER)}
    if not rule.four_eyes:
        excluded = set()
    found: set[str] = set()
    first, *others = rule.permissions
    for backend in get_backends():
        if not hasattr(backend, "with_perm"):
            return True
        for user in backend.with_perm(first).iterator(chunk_size=100):
            if str(user.pk) not in excluded and (not others or is_entitled(user, rule)):
                found.add(str(user.pk))
            if len(found) >= rule.quorum:
                return True
    return False
