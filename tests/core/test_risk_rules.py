"""The project's own approval rules, by risk and by operation: they only tighten."""

from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

import effects
from effects.inspection.checks.rules import check_risk_rules
from effects.models import Approval, Execution
from effects.testing import provider_says, run_due
from effects.vocabulary.exceptions import NotEntitledError
from effects.vocabulary.types import ApprovalRule
from tests.core.declared import Approved, ChargePayload, LowRisk, Plain, Renamed

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


class Colour(Enum):
    """An enum of the project's own, with a value that is a risk of ours."""

    RED = "high"


RULE = ApprovalRule("effects.resolve_execution")


@pytest.mark.parametrize(
    ("effect", "key"),
    [
        (Plain, "high"), (Plain, effects.Risk.HIGH), (Plain, Colour.RED), (Plain, "bank.plain"),
        (LowRisk, effects.Risk.LOW), (Renamed, "bank.old_name"), (Renamed, Renamed.operation),
    ],
)  # fmt: skip
def test_every_name_of_an_effect_counts(settings: Any, django_user_model: Any, effect: Any, key: Any) -> None:
    """Its risk as text and as a member, its operation, and the names that it had before."""
    holder(django_user_model, "boss", "resolve_execution")
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {key: RULE}}
    with provider_says(effect) as said:
        outcome = effects.perform(effect, payload=PAYLOAD, key="k", requested_by="me")
    assert isinstance(outcome, effects.AwaitingApproval)
    assert said.sends == []
    assert Approval.objects.get().approvers == "effects.resolve_execution"


def test_of_two_names_the_stricter_rule_holds(settings: Any, django_user_model: Any) -> None:
    """For the old name and the new one, and for two keys that are one: each only tightens."""
    loose, strict = ApprovalRule("effects.resolve_execution"), ApprovalRule("effects.approve_execution", quorum=2)
    for name in ("ann", "bob"):
        holder(django_user_model, name, "approve_execution", "resolve_execution")
    for number, rules in enumerate(
        (
            {Renamed.operation: loose, "bank.old_name": strict},
            {Renamed.operation: strict, "bank.old_name": loose},
            {"high": loose, Colour.RED: strict},
            {Colour.RED: strict, "high": loose},
        )
    ):
        settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": rules}
        outcome = effects.perform(Renamed, payload=PAYLOAD, key=f"k{number}", requested_by="me")
        assert isinstance(outcome, effects.AwaitingApproval)
        held = Approval.objects.get(execution=outcome.ref)
        assert (held.quorum, set(held.approvers.split(" & "))) == (
            2, {"effects.approve_execution", "effects.resolve_execution"},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("HIGH", "Did you mean 'high'?"), ("High", "Did you mean 'high'?"), (" high", "Did you mean 'high'?"),
        ("hihg", "Did you mean 'high'?"), ("bank.plian", "Did you mean 'bank.plain'?"), ("risk:high", "high"),
        ("Bank.Plain", "Did you mean 'bank.plain'?"), ("", "The keys are"), (None, "The keys are"),
        (5, "The keys are"), (Plain, "The keys are"), ("quite.another_app", "The keys are"), ("*", "The keys are"),
    ],
)  # fmt: skip
def test_a_key_that_names_nothing_refuses_everything(settings: Any, key: Any, fix: str) -> None:
    """It may have been meant for what is to be sent; nothing is recorded, and the check says the same words."""
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {"low": RULE, key: RULE}}
    with provider_says(Plain) as said, pytest.raises(ImproperlyConfigured, match="tightens nothing") as refused:
        effects.perform(Plain, payload=PAYLOAD, key="k", requested_by="me")
    with pytest.raises(ImproperlyConfigured), transaction.atomic():
        effects.perform_later(Plain, payload=PAYLOAD, key="k", requested_by="me")
    assert (said.sends, Execution.objects.count()) == ([], 0)
    (found,) = check_risk_rules()
    assert found.id == "effects.E015"
    assert str(refused.value).startswith(found.msg)
    assert fix in str(refused.value)
    assert fix in str(found.hint)


@pytest.mark.parametrize("rules", [{"high": "boss"}, {"high": {"approvers": "a.b"}}, {"high": None}, [], None, "high"])
def test_a_rule_that_is_none_refuses_everything(settings: Any, rules: Any) -> None:
    """A value of another type says nothing about who must agree."""
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": rules}
    with pytest.raises(ImproperlyConfigured, match="RISK_RULES"):
        effects.perform(LowRisk, payload=PAYLOAD, key="k", requested_by="me")
    assert Execution.objects.count() == 0


def test_without_rules_nothing_is_tightened(settings: Any) -> None:
    """An empty mapping is no mistake."""
    settings.EFFECTS = {**settings.EFFECTS, "RISK_RULES": {}}
    with provider_says(Plain, effects.Applied(1)):
        assert isinstance(effects.perform(Plain, payload=PAYLOAD, key="k", requested_by="me"), effects.Completed)
