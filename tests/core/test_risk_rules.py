"""The project's own approval rules, by risk and by operation: they only tighten."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import effects
from effects.exceptions import NotEntitledError
from effects.models import Approval
from effects.testing import provider_says, run_due
from effects.types import ApprovalRule
from tests.core.declared import Approved, ChargePayload, LowRisk, Plain

PAYLOAD = ChargePayload("c", 1)
pytestmark = pytest.mark.django_db(transaction=True)


def holder(django_user_model: Any, name: str, *codenames: str) -> Any:
    from django.contrib.auth.models import Permission

    user = django_user_model.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


def test_a_rule_for_a_risk_asks_people_where_the_effect_does_not(settings: Any, django_user_model: Any) -> None:
    """An effect without a rule of its own waits for the project's; another risk does not."""
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {"high": ApprovalRule("effects.resolve_execution")}}
    boss = holder(django_user_model, "boss", "resolve_execution")
    with provider_says(Plain, effects.Applied(1)), provider_says(LowRisk, effects.Applied(1)):
        assert isinstance(effects.perform(LowRisk, payload=PAYLOAD, key="k", requested_by="me"), effects.Completed)
        waiting = effects.perform(Plain, payload=PAYLOAD, key="k", requested_by="me")
        assert isinstance(waiting, effects.AwaitingApproval)
        effects.grant(waiting.ref, by=boss, digest=Approval.objects.get().digest)
        run_due()
    assert effects.get(waiting.ref).state == "completed"


def test_both_rules_hold(settings: Any, django_user_model: Any) -> None:
    """Where the effect and the project both have a rule, whoever decides needs both permissions."""
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {"bank.approved": ApprovalRule("effects.resolve_execution")}}
    half = holder(django_user_model, "half", "approve_execution")
    both = holder(django_user_model, "both", "approve_execution", "resolve_execution")
    waiting = effects.perform(Approved, payload=PAYLOAD, key="k", requested_by="me")
    digest = Approval.objects.get().digest
    with pytest.raises(NotEntitledError):
        effects.grant(waiting.ref, by=half, digest=digest)
    assert effects.grant(waiting.ref, by=both, digest=digest).state == "pending"


def test_tightening_takes_the_stricter_of_each() -> None:
    """The larger quorum, the shorter times, the later start; four eyes if either, covers_retries only if both."""
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    loose = ApprovalRule("a.x", quorum=1, four_eyes=False, covers_retries=True, use_within=timedelta(hours=1))
    strict = ApprovalRule("a.y", quorum=2, not_before=start, decide_within=timedelta(hours=2))
    expected = ApprovalRule(
        "a.x & a.y", quorum=2, not_before=start, decide_within=timedelta(hours=2), use_within=timedelta(hours=1)
    )
    assert loose.tightened(strict) == expected
    assert loose.tightened(None) is loose
