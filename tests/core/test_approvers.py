"""Who decides: permissions, permissions for one object, groups, functions; and why somebody cannot, in words."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models import F
from django.utils import translation

import effects
from effects.inspection import audit
from effects.journal.locks import now
from effects.models import Approval, Execution
from effects.people.approvers import could_decide, in_words, is_entitled, list_people
from effects.people.eligibility import eligibility, entitled_people, is_approver, outlook
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from effects.vocabulary.frozen_rules import rule_as_json, rule_from_json
from tests.core.declared import Ruled
from tests.core.people import PAYLOAD, approve, asked, live, person

pytestmark = pytest.mark.django_db
RULE = "effects.approve_execution"
DAY = timedelta(days=1)


class ForOneObject:
    """A backend that gives a permission for single objects: `granted` holds (user's name, object)."""

    granted: set[tuple[str, Any]] = set()

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None

    def has_perm(self, user: Any, permission: str, target: Any = None) -> bool:
        return target is not None and (user.get_username(), target) in self.granted


def managers(context: Any) -> Any:
    """The users whose name the payload's customer is; what a project's function looks like."""
    return get_user_model().objects.filter(username__startswith=f"manager-of-{context.payload.customer}")


def broken(context: Any) -> Any:
    raise KeyError("no such customer")


def nonsense(context: Any) -> Any:
    return "bob"


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a test say the rule of `Ruled`."""
    return lambda approvers=RULE, **words: monkeypatch.setattr(Ruled, "rule", effects.ApprovalRule(approvers, **words))


@pytest.fixture
def ann() -> Any:
    """The person who asks, and has the permission as well."""
    return person("ann")


@pytest.fixture
def bob() -> Any:
    """Another person who has the permission."""
    return person("bob")


def members(group: str, *names: str) -> list[Any]:
    """Return new users without any permission, in a group."""
    users = [person(name, approver=False) for name in names]
    Group.objects.get_or_create(name=group)[0].user_set.add(*users)
    return users


def why(row: Execution, user: Any, **options: Any) -> tuple[str, str]:
    """Return code and text of what keeps `user` from deciding."""
    found = eligibility(row, Approval.objects.filter(execution=row).latest("created_at"), user, **options)
    return found.code, found.text


# -- the rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "approvers", ["boss", "", "group:", "group: ", "call:managers", "a.b & ", "a.b & boss", "shop.approve refund", 7]
)
def test_a_rule_that_names_nobody_is_refused_where_it_is_made(approvers: Any) -> None:
    """A typing error is a ValueError that shows the three forms."""
    with pytest.raises(ValueError, match=r"group:Finance.*call:shop"):
        effects.ApprovalRule(approvers)


def test_a_rule_is_kept_as_text_and_read_back(ann: Any) -> None:
    """What the row froze is the rule, whatever the code says later."""
    rule = effects.ApprovalRule(f"{RULE} & group:R and D & call:shop.approvers.managers", recheck_approvers=False)
    assert rule_from_json(rule_as_json(rule)) == rule
    assert rule.functions == ("shop.approvers.managers",)
    assert "R and D" in in_words(rule)


def test_a_text_that_no_column_holds_is_refused() -> None:
    """Also where a project's rule makes it that long."""
    with pytest.raises(ValueError, match="255"):
        effects.ApprovalRule("group:" + "x" * 250)


def test_both_rules_hold_where_one_tightens_the_other() -> None:
    """Of several terms everybody who decides meets all."""
    both = effects.ApprovalRule("group:Finance", recheck_approvers=False).tightened(effects.ApprovalRule(RULE))
    assert both.terms == ("group:Finance", RULE)
    assert both.recheck_approvers


# -- groups --------------------------------------------------------------------------------------------------------


def test_a_group_decides(ann: Any, bob: Any, rule: Any) -> None:
    """Its members do, and a permission or being a superuser is no membership."""
    rule("group:Finance")
    (carl,) = members("Finance", "carl")
    chief = get_user_model().objects.create_superuser("chief")
    row = asked(Ruled, by=ann)
    for stranger in (bob, chief):
        with pytest.raises(exceptions.NotEntitledError, match="group:Finance"):
            approve(row, stranger)
    assert approve(row, carl).state == "pending"


@pytest.mark.parametrize("names", [(), ("ann",), ("off",)])
def test_a_group_in_which_nobody_else_is_cannot_be_asked(rule: Any, names: Any) -> None:
    """Empty, not there, or only the requester and people who left: said when asked."""
    rule("group:Finance")
    users = members("Finance", *names)
    get_user_model().objects.filter(username="off").update(is_active=False)
    by = users[0] if names == ("ann",) else person("zoe")
    with pytest.raises(exceptions.NobodyEntitledError, match="fill the group"):
        effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by=by)
    assert not Execution.objects.exists()


def test_who_left_the_group_before_the_send_spoils_the_licence(ann: Any, rule: Any) -> None:
    """Membership is asked again at the send."""
    rule("group:Finance")
    (carl,) = members("Finance", "carl")
    row = asked(Ruled, by=ann)
    approve(row, carl)
    carl.groups.clear()
    with provider_says(Ruled) as said:
        run_due()
    row.refresh_from_db()
    assert (row.state, row.reason, said.sends) == ("rejected", "lapsed", [])


def test_a_rule_may_not_ask_again_at_the_send(ann: Any, rule: Any) -> None:
    """`recheck_approvers=False`: who has agreed has agreed, whoever left since."""
    rule(recheck_approvers=False)
    bob = person("bob")
    row = asked(Ruled, by=ann)
    approve(row, bob)
    bob.delete()
    with provider_says(Ruled, effects.Applied()) as said:
        run_due()
    assert len(said.sends) == 1


def test_everybody_meets_every_term(ann: Any, bob: Any, rule: Any) -> None:
    """Of the permission and the group both are needed, also to be counted when asked."""
    rule(f"{RULE} & group:Finance")
    members("Finance", "carl")
    with pytest.raises(exceptions.NobodyEntitledError):
        effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by=ann)
    Group.objects.get(name="Finance").user_set.add(bob)
    row = asked(Ruled, by=ann)
    assert [user.get_username() for user in list_people(Ruled.rule, ["user:0"])] == ["bob"]
    assert approve(row, bob).state == "pending"


# -- functions -----------------------------------------------------------------------------------------------------


def test_a_function_of_the_project_names_who_decides(ann: Any, bob: Any, rule: Any) -> None:
    """It is given the context, so that it can look at the payload."""
    rule(f"call:{__name__}.managers")
    manager = person("manager-of-c1", approver=False)
    row = asked(Ruled, by=ann)
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, bob)
    assert approve(row, manager).state == "pending"


def test_a_function_that_names_nobody_is_said_when_asked(ann: Any, rule: Any) -> None:
    """The customer has no manager."""
    rule(f"call:{__name__}.managers")
    with pytest.raises(exceptions.NobodyEntitledError, match="managers"):
        effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by=ann)


@pytest.mark.parametrize(
    ("name", "says"), [("broken", "KeyError"), ("nonsense", "not a queryset"), ("missing", "ImportError")]
)
def test_a_function_that_cannot_be_asked_entitles_nobody(ann: Any, bob: Any, rule: Any, name: str, says: str) -> None:
    """When asked it is an error that names it; later it is said to whoever wants to decide, and nothing is granted."""
    rule(f"call:{__name__}.{name}")
    with pytest.raises(exceptions.EffectDefinitionError, match=says):
        effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by=ann)
    rule(f"call:{__name__}.managers")
    manager = person("manager-of-c1", approver=False)
    row = asked(Ruled, by=ann)
    Approval.objects.update(rule={**live(row).rule, "approvers": f"call:{__name__}.{name}"})
    with pytest.raises(exceptions.NotEntitledError, match=says):
        approve(row, manager)
    assert why(row, manager)[0] == "undecidable"
    assert not is_approver(row, live(row), manager)
    assert says in outlook(row, live(row))


@contextlib.contextmanager
def within(tenant: str) -> Iterator[None]:
    """What a project does to get at a tenant's tables."""
    entered.append(tenant)
    yield
    entered.pop()


@contextlib.contextmanager
def closed(tenant: str) -> Iterator[None]:
    raise PermissionError("the tenant is closed")
    yield


@contextlib.contextmanager
def swallowing(tenant: str) -> Iterator[None]:
    with contextlib.suppress(KeyError):
        yield


entered: list[str] = []


def managers_of_the_tenant(context: Any) -> Any:
    """A queryset that is read where it is asked for, and an error where the tenant is not there."""
    assert entered == ["shop-17"], entered
    return managers(context)


def test_the_tenants_tables_are_at_hand_where_a_function_names_who_decides(ann: Any, rule: Any, settings: Any) -> None:
    """The person's page may be anybody's: what is asked about says whose tables are read."""
    settings.EFFECTS = {"TENANT_CONTEXT": within}
    rule(f"call:{__name__}.managers_of_the_tenant")
    manager = person("manager-of-c1", approver=False)
    row = asked(Ruled, by=ann, tenant="shop-17")
    assert is_approver(row, live(row), manager)
    assert [user.pk for user in entitled_people(row, live(row), limit=5)] == [manager.pk]
    assert approve(row, manager).state == "pending"
    assert entered == []


def test_and_where_the_object_is_looked_up_that_it_is_about(
    ann: Any, rule: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object and the backend that is asked about it."""
    rule()
    settings.EFFECTS = {"TENANT_CONTEXT": within}
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, f"{__name__}.ForOneObject"]
    asked_in: list[list[str]] = []
    monkeypatch.setattr(
        ForOneObject,
        "has_perm",
        lambda self, user, permission, target=None: target is not None and bool(asked_in.append([*entered]) or True),
    )
    row = asked(Ruled, by=ann, about=Group.objects.create(name="order 17"), tenant="shop-17")
    assert is_approver(row, live(row), person("carl", approver=False))
    assert asked_in[-1] == ["shop-17"]


@pytest.mark.parametrize(
    ("context", "function", "says"),
    [(closed, "managers", "the tenant is closed"), (swallowing, "broken", "NoneType, not a queryset")],
)
def test_a_tenant_that_cannot_be_entered_entitles_nobody(
    ann: Any, rule: Any, settings: Any, context: Any, function: str, says: str
) -> None:
    """It cannot be told who may decide; nothing is granted, and the page says why."""
    rule(f"call:{__name__}.managers")
    manager = person("manager-of-c1", approver=False)
    row = asked(Ruled, by=ann)
    Approval.objects.update(rule={**live(row).rule, "approvers": f"call:{__name__}.{function}"})
    settings.EFFECTS = {"TENANT_CONTEXT": context}
    with pytest.raises(exceptions.NotEntitledError, match=says):
        approve(row, manager)
    assert why(row, manager)[0] == "undecidable"


# -- one object ----------------------------------------------------------------------------------------------------


def test_a_permission_for_the_object_that_it_is_about_is_enough(
    ann: Any, rule: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`about=` is asked with the permission; for another object it is worth nothing."""
    rule()
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, f"{__name__}.ForOneObject"]
    order, other = Group.objects.create(name="order 17"), Group.objects.create(name="order 18")
    carl, dora = person("carl", approver=False), person("dora", approver=False)
    monkeypatch.setattr(ForOneObject, "granted", {("carl", order), ("dora", other)})
    row = asked(Ruled, by=ann, about=order)
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, dora)
    assert is_approver(row, live(row), carl)
    assert approve(row, carl).state == "pending"


def test_the_object_had_another_kind_of_key(ann: Any, bob: Any, rule: Any, settings: Any, monkeypatch: Any) -> None:
    """What it is about cannot be found under a key from before its model had UUIDs; nobody's page breaks on it."""
    rule()
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, f"{__name__}.ForOneObject"]
    monkeypatch.setattr(ForOneObject, "granted", set())
    row = asked(Ruled, by=ann, about=Group.objects.create(name="order 17"))
    Execution.objects.filter(pk=row.pk).update(about_type="effects.execution", about_id="17")
    row.refresh_from_db()
    assert not is_approver(row, live(row), person("carl", approver=False))
    assert is_approver(row, live(row), bob)


def test_the_object_is_gone(ann: Any, bob: Any, rule: Any) -> None:
    """Then only who holds the permission for everything decides."""
    rule()
    order = Group.objects.create(name="order 17")
    row = asked(Ruled, by=ann, about=order)
    order.delete()
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, person("carl", approver=False))
    assert approve(row, bob).state == "pending"


def test_lists_are_narrowed_by_what_is_certain(bob: Any, settings: Any) -> None:
    """No row has to be read for people who cannot decide any of a rule's."""
    carl = person("carl", approver=False)
    for approvers, bobs, carls in (
        (RULE, True, False), ("group:Finance", False, False), ("call:shop.approvers.managers", True, True), ("", 0, 0),
    ):  # fmt: skip
        assert (could_decide(bob, approvers), could_decide(carl, approvers)) == (bool(bobs), bool(carls)), approvers
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, f"{__name__}.ForOneObject"]
    assert could_decide(carl, RULE)
    assert not could_decide(carl, "group:Finance")


def test_without_what_it_is_about_nobody_is_entitled_by_a_function(bob: Any) -> None:
    """To be entitled to anything is not to be entitled to this."""
    assert not is_entitled(bob, effects.ApprovalRule(f"call:{__name__}.managers"))


# -- why not -------------------------------------------------------------------------------------------------------


def test_everybody_is_told_why_they_cannot(ann: Any, bob: Any, rule: Any) -> None:
    """Each obstacle has a code and a sentence."""
    rule(quorum=2)
    carl, dora, erik = person("carl"), person("dora"), person("erik", approver=False)
    row = asked(Ruled, by=ann, on_behalf_of=carl)
    asked(Ruled, by=dora)
    row.refresh_from_db()
    assert why(row, ann) == ("asked", "You asked for this one; somebody else has to decide.")
    assert why(row, carl) == ("asked_for_you", "It was asked for on your behalf; somebody else has to decide.")
    assert why(row, dora) == ("joined", "You joined it from another request; somebody else has to decide.")
    assert why(row, None)[0] == why(row, "bob")[0] == "anonymous"
    assert why(row, bob, acting_for=effects.Actor("user:99", "Zoe")) == (
        "acts_for_another",
        "You act for Zoe; people decide for themselves.",
    )
    assert why(row, erik)[0] == "not_an_approver"
    assert why(row, bob) == ("", "")


def test_a_voter_is_told_what_it_waits_for(ann: Any, rule: Any) -> None:
    """It needs one more from Finance."""
    rule("group:Finance", quorum=2)
    bob, _carl, _dora = members("Finance", "bob", "carl", "dora")
    row = asked(Ruled, by=ann)
    approve(row, bob)
    code, text = why(row, bob)
    assert code == "voted"
    assert text.startswith("You approved it. It needs one more from Finance, within 6")


def test_that_nobody_is_left_is_said_to_those_who_wait(ann: Any, rule: Any) -> None:
    """The second of two approvers left: waiting on is no use, and the page says so."""
    rule("group:Finance", quorum=2)
    bob, carl = members("Finance", "bob", "carl")
    row = asked(Ruled, by=ann)
    approve(row, bob)
    carl.groups.clear()
    assert "Nobody can approve this" in outlook(row, live(row))


def test_an_approval_that_is_over_says_since_when(ann: Any, bob: Any, rule: Any) -> None:
    """Expired a while ago, whether a sweep came by yet or not."""
    rule()
    row = asked(Ruled, by=ann)
    Approval.objects.update(decide_by=F("created_at"))
    time_passes(timedelta(minutes=4))
    assert why(row, bob) == ("expired", "It expired 4\xa0minutes ago; nothing was sent.")
    run_due()
    assert why(row, bob) == ("decided", "It expired 4\xa0minutes ago; nothing was sent.")
    assert why(row, ann)[0] == "asked"


@pytest.mark.parametrize(
    ("verb", "says"), [("grant", "granted already"), ("deny", "denied already"), ("withdraw", "was withdrawn")]
)
def test_a_decided_approval_says_what_became_of_it(ann: Any, bob: Any, rule: Any, verb: str, says: str) -> None:
    """To whoever comes second."""
    rule()
    row = asked(Ruled, by=ann)
    if verb == "withdraw":
        effects.withdraw(row.pk, by=ann)
    else:
        getattr(effects, verb)(row.pk, by=bob, digest=live(row).digest)
    code, text = why(row, person("carl"))
    assert code == "decided"
    assert says in text


def test_the_words_can_be_translated(ann: Any, bob: Any, rule: Any) -> None:
    """They go through gettext when they are asked for, in the language of who asks."""
    rule()
    row = asked(Ruled, by=ann)
    Approval.objects.update(decide_by=F("created_at"))
    time_passes(timedelta(minutes=4))
    with translation.override("de"):
        assert "4\xa0Minuten" in why(row, bob)[1]


def test_without_four_eyes_who_asked_is_no_obstacle(ann: Any, rule: Any) -> None:
    """The rule says so."""
    rule(four_eyes=False)
    assert why(asked(Ruled, by=ann), ann) == ("", "")


# -- counting votes ------------------------------------------------------------------------------------------------


def test_a_vote_of_somebody_who_left_does_not_make_the_quorum(ann: Any, bob: Any, rule: Any) -> None:
    """At the last vote the earlier ones are looked at again: a third person is needed, and no licence lapses later."""
    rule(quorum=2)
    carl, dora = person("carl"), person("dora")
    row = asked(Ruled, by=ann)
    approve(row, bob)
    bob.user_permissions.clear()
    assert approve(row, carl).state == "awaiting_approval"
    assert approve(row, dora).state == "pending"


def test_a_vote_that_does_not_count_any_more_spoils_nothing(ann: Any, bob: Any, rule: Any) -> None:
    """Of three votes one became a requester's; the two others are the quorum, and it is sent."""
    rule(quorum=2)
    carl, dora = person("carl"), person("dora")
    row = asked(Ruled, by=ann)
    approve(row, bob)
    asked(Ruled, by=bob)
    approve(row, carl)
    approve(row, dora)
    with provider_says(Ruled, effects.Applied()) as said:
        run_due()
    assert len(said.sends) == 1


# -- nobody is left ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["retry", "changed", "retry, changed"])
def test_what_nobody_can_approve_anew_ends_and_says_so(
    ann: Any, bob: Any, rule: Any, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """A send that needs a new approval does not wait for people who are not there."""
    rule(recheck_approvers=False)
    row = asked(Ruled, by=ann)
    with provider_says(Ruled, effects.NotNow("busy")) as said:
        approve(row, bob)
        if "retry" in before:
            run_due()
        if "changed" in before:
            monkeypatch.setattr(Ruled, "price", "12.00")
        bob.user_permissions.clear()
        time_passes(timedelta(minutes=1))
        run_due()
    outcome = effects.get(row.pk)
    assert (outcome.state, len(said.sends)) == (("failed", 1) if "retry" in before else ("rejected", 0))
    row.refresh_from_db()
    assert (row.reason, row.failure_code) == ("lapsed", "nobody_entitled")
    assert "nobody can give it" in outcome.outcome.message
    assert not Approval.objects.filter(state__in=["requested", "granted"]).exists()
    # nobody was shown other contents than those of the newest approval
    assert not list(audit.audit(audit.Scope(now()), Counter()))


def test_what_ended_for_lack_of_people_is_asked_for_again(ann: Any, bob: Any, rule: Any) -> None:
    """Once somebody is entitled, `supersede` takes its key over, under a new provider key."""
    rule()
    row = asked(Ruled, by=ann)
    with provider_says(Ruled, effects.NotNow("busy"), effects.Applied()) as said:
        approve(row, bob)
        run_due()
        bob.user_permissions.clear()
        time_passes(timedelta(minutes=1))
        run_due()
        carl = person("carl")
        effects.perform(Ruled, payload=PAYLOAD, supersede=row.pk, requested_by=ann)
        successor = Execution.objects.get(supersedes=row)
        approve(successor, carl)
        run_due()
    assert effects.get(successor.pk).state == "completed"
    assert len({permit.provider_key for _, permit in said.sends}) == 2


def test_permission_of_everybody_counts_once() -> None:
    """A user whom two backends list is one person."""
    bob = person("bob")
    Group.objects.create(name="both").permissions.add(Permission.objects.get(codename="approve_execution"))
    bob.groups.add(Group.objects.get(name="both"))
    assert [user.pk for user in list_people(effects.ApprovalRule(RULE), [])] == [bob.pk]
