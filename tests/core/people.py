"""People who decide, and what they decide about."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

import effects
from effects.models import Approval, Execution
from tests.core.declared import ChargePayload

PAYLOAD = ChargePayload("c1", 1000)


def person(name: str, *, approver: bool = True) -> Any:
    """Return a new user, who may approve unless said otherwise."""
    user = get_user_model().objects.create_user(name)
    if approver:
        codename = "approve_execution"
        user.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label="effects"))
    return user


def asked(effect: Any, *, by: Any, key: str = "k1", **options: Any) -> Execution:
    """Perform an effect that waits for people; return its row."""
    outcome = effects.perform(effect, payload=PAYLOAD, key=key, requested_by=by, **options)
    assert isinstance(outcome, effects.AwaitingApproval), outcome
    return Execution.objects.get(pk=outcome.ref)


def live(row: Execution) -> Approval:
    """Return the live approval of an execution."""
    return Approval.objects.get(execution=row, state__in=["requested", "granted"])


def approve(row: Execution, by: Any) -> Any:
    """Approve what the live approval says."""
    return effects.grant(row.pk, by=by, digest=live(row).digest)
