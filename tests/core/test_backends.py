"""Backends: a list of who holds a permission is believed only where it is complete; else each person is asked."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection

import effects
from effects.inspection.checks.rules import check_permissions_asked, check_proposable_by
from effects.models import ApprovalVote, Execution
from effects.people import backends
from effects.people.actors import actor_of
from effects.people.approvers import could_decide, is_entitled, list_people, lists_everybody, somebody_can_decide
from effects.people.eligibility import eligibility, entitled_people, outlook
from effects.testing import provider_says, run_due
from effects.vocabulary import exceptions
from effects.vocabulary.frozen_rules import rule_as_json
from tests.core.declared import Approved, Ruled
from tests.core.people import PAYLOAD, approve, asked, live, person
from tests.core.user_models import Claimant, Member, Person

pytestmark = pytest.mark.django_db
RULE = effects.ApprovalRule("effects.approve_execution")
DJANGOS = "django.contrib.auth.backends.ModelBackend"
OK = effects.Applied({"id": "ch_1"}, "ch_1")


class FromClaims(ModelBackend):
    """Permissions that came with the login."""

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        return set() if obj is not None else {*getattr(user_obj, "claims", ()), *super().get_all_permissions(user_obj)}


class FromNames(ModelBackend):
    """Permissions that the name says, for whoever reads the user."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return user_obj.is_active and user_obj.get_username().startswith("claims-")


class FromPrivates(ModelBackend):
    """Permissions of the group, past its tables."""

    def _get_group_permissions(self, user_obj: Any) -> Any:
        named = user_obj.get_username().startswith("claims-")
        return Permission.objects.filter(codename="approve_execution") if named else Permission.objects.none()


class OfGroups(ModelBackend):
    """Permissions by `get_group_permissions`."""

    def get_group_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        return {RULE.approvers} if user_obj.get_username().startswith("claims-") else set()


class Mixin:
    """What a package brings, to be put before Django's."""

    def get_user_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        return {RULE.approvers} if user_obj.get_username().startswith("claims-") else set()


class Mixed(Mixin, ModelBackend):
    """Django's with a mixin before it."""


class Alone(BaseBackend):
    """Without a list."""

    def get_user_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        return {RULE.approvers} if user_obj.get_username().startswith("claims-") else set()


class Listing(FromNames):
    """The same with a list of its own: complete."""

    def with_perm(self, perm: Any, is_active: Any = True, include_superusers: bool = True, obj: Any = None) -> Any:
        return get_user_model().objects.filter(username__startswith="claims-")


class Relisted(Listing):
    """Decides otherwise than the list that it inherits."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return user_obj.get_username().startswith(("claims-", "late-"))


class LoginOnly(BaseBackend):
    """Logs people in, and grants nothing."""

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None


class Renamed(ModelBackend):
    """Django's, with another way to log in."""

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None


def use(settings: Any, *classes: type[Any] | str) -> None:
    """Let these be the authentication backends."""
    paths = [each if isinstance(each, str) else f"{each.__module__}.{each.__qualname__}" for each in classes]
    settings.AUTHENTICATION_BACKENDS = paths


@pytest.fixture
def ann() -> Any:
    """Who asks."""
    return person("ann", approver=False)


UNLISTED = [FromNames, FromPrivates, OfGroups, Mixed, Alone, Relisted]


@pytest.mark.parametrize("backend", UNLISTED)
@pytest.mark.parametrize("beside", [(), (DJANGOS,), ("django.contrib.auth.backends.RemoteUserBackend",)])
def test_who_holds_it_by_no_table_is_asked_when_they_vote(backend: Any, beside: Any, ann: Any, settings: Any) -> None:
    """It is recorded though no list names anybody, nobody is said to be missing, and the vote counts."""
    use(settings, backend, *beside)
    by_claims = person("claims-carl", approver=False)
    bob = person("bob", approver=False)
    row = asked(Approved, by=ann)
    assert "Nobody" not in outlook(row, live(row))
    assert eligibility(row, live(row), by_claims).can_decide
    with pytest.raises(exceptions.NotEntitledError, match="which you do not have"):
        approve(row, bob)
    assert approve(row, by_claims).state == "pending"
    with provider_says(Approved, OK) as said:
        run_due()
    assert len(said.sends) == 1


def test_claims_of_a_login_are_worth_a_vote(ann: Any, settings: Any) -> None:
    """They are on the user of the request alone; read anew, without them, the account still has to be active."""
    use(settings, FromClaims)
    row, other = asked(Approved, by=ann), asked(Approved, by=ann, key="k2")
    carl = person("carl", approver=False)
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, carl)
    carl = get_user_model().objects.get(pk=carl.pk)
    carl.claims = ["effects.approve_execution"]
    for each in (row, other):
        assert approve(each, carl).state == "pending"
    assert ApprovalVote.objects.filter(by_login=True).count() == 2
    with provider_says(Approved, OK) as said:
        run_due()
    assert len(said.sends) == 2


def test_claims_are_worth_nothing_when_the_account_is_closed_before_the_send(ann: Any, settings: Any) -> None:
    """What can be asked without the login is asked again."""
    use(settings, FromClaims)
    row = asked(Approved, by=ann)
    carl = person("carl", approver=False)
    carl.claims = ["effects.approve_execution"]
    approve(row, carl)
    get_user_model().objects.filter(pk=carl.pk).update(is_active=False)
    with provider_says(Approved) as said:
        run_due()
    assert (Execution.objects.get().reason, said.sends) == ("lapsed", [])


@pytest.mark.parametrize("backend", [FromNames, Listing, DJANGOS])
def test_a_permission_that_can_be_asked_again_is(backend: Any, ann: Any, settings: Any) -> None:
    """Lost before the send, it spoils the licence: with a backend of the project's as with Django's."""
    use(settings, backend)
    carl = person("claims-carl")
    row = asked(Approved, by=ann)
    approve(row, carl)
    assert not ApprovalVote.objects.get().by_login
    get_user_model().objects.filter(pk=carl.pk).update(username="carl")
    carl.user_permissions.clear()
    with provider_says(Approved) as said:
        run_due()
    assert (Execution.objects.get().reason, said.sends) == ("lapsed", [])


@pytest.mark.parametrize(
    "backends_in_use",
    [
        (DJANGOS,),
        ("django.contrib.auth.backends.RemoteUserBackend",),
        ("django.contrib.auth.backends.AllowAllUsersModelBackend",),
        (Renamed,),
        (DJANGOS, LoginOnly),
        (Listing,),
        (DJANGOS, Listing),
    ],
)
def test_a_complete_list_is_believed(backends_in_use: Any, ann: Any, settings: Any) -> None:
    """Nobody holds it, or only who asks and who left: said when asked, and nothing is recorded."""
    use(settings, *backends_in_use)
    person("left")
    get_user_model().objects.filter(username="left").update(is_active=False)
    assert lists_everybody(RULE)
    with pytest.raises(exceptions.NobodyEntitledError):
        effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    assert not Execution.objects.exists()
    bob = person("claims-bob")
    assert [user.pk for user in list_people(RULE, ())] == [bob.pk]
    assert approve(asked(Approved, by=ann), bob).state == "pending"


def test_where_nobody_lists_superusers_no_list_is_believed(ann: Any, settings: Any) -> None:
    """A superuser has each permission, also where no backend of Django's is in use."""
    use(settings, LoginOnly)
    chief = get_user_model().objects.create_superuser("chief")
    assert approve(asked(Approved, by=ann), chief).state == "pending"


def test_whom_an_incomplete_list_names_is_asked_all_the_same(ann: Any, settings: Any) -> None:
    """The tables say that bob has it, and his backend says that he has not: he is not told of it."""
    use(settings, FromNames)
    person("bob")
    carl = person("claims-carl")
    row = asked(Approved, by=ann)
    assert entitled_people(row, live(row), limit=9) == [carl]


def test_a_permission_for_one_object_is_in_no_list(ann: Any, settings: Any) -> None:
    """Where a backend may know it for the object, "nobody has it" is not said of the list for everything."""
    use(settings, Listing)
    context: Any = type("Context", (), {"about": ("auth.Group", "1")})
    assert lists_everybody(RULE, None)
    assert not lists_everybody(RULE, context)


def test_a_subclass_of_djangos_may_know_permissions_for_one_object(
    ann: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked about the object, as any other backend is."""
    use(settings, FromNames)
    order = Group.objects.create(name="order 17")
    monkeypatch.setattr(FromNames, "has_perm", lambda self, user, perm, obj=None: obj == order)
    row = asked(Approved, by=ann, about=order)
    assert approve(row, person("carl", approver=False)).state == "pending"


def test_a_backend_that_fails_is_said_in_words(ann: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is entitled by an error, and no page breaks on it."""
    use(settings, FromNames)
    row = asked(Approved, by=ann)

    def broken(self: Any, *arguments: Any, **words: Any) -> bool:
        raise KeyError("claims")

    monkeypatch.setattr(FromNames, "has_perm", broken)
    with pytest.raises(exceptions.NotEntitledError, match="KeyError"):
        approve(row, person("claims-carl"))


# -- user models ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=[Person, Member])
def model(request: Any, settings: Any) -> Iterator[Any]:
    """A user model of another project, with its table."""
    with connection.schema_editor() as editor:
        editor.create_model(request.param)
    settings.AUTH_USER_MODEL = f"auth.{request.param.__name__}"
    yield request.param
    settings.AUTH_USER_MODEL = "auth.User"


@pytest.mark.parametrize("model", [Person], indirect=True)
def test_a_user_model_without_permissions_is_refused_in_words(model: Any) -> None:
    """When it is asked for, and when somebody votes; a function names people all the same."""
    ann, bob = model.objects.create(email="ann@example.com"), model.objects.create(email="bob@example.com")
    with pytest.raises(exceptions.EffectDefinitionError, match=r"auth.Person has no has_perm.*call:"):
        effects.perform(Approved, payload=PAYLOAD, key="k1", requested_by=ann)
    assert not Execution.objects.exists()
    with pytest.raises(exceptions.EffectDefinitionError, match="has no has_perm"):
        is_entitled(bob, RULE)
    assert list(list_people(RULE, ())) == []
    # to narrow a list is no answer yet
    assert could_decide(bob, RULE.approvers)


@pytest.mark.parametrize("model", [Member], indirect=True)
def test_a_user_model_with_permissions_of_its_own_is_asked(model: Any) -> None:
    """Nobody can list who has one."""
    ann = model.objects.create(email="ann@example.com")
    bob = model.objects.create(email="bob@example.com", may="effects.approve_execution x.y")
    row = asked(Approved, by=ann)
    assert not lists_everybody(RULE)
    assert entitled_people(row, live(row), limit=9) == []
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, model.objects.create(email="carl@example.com"))
    assert approve(row, bob).state == "pending"
    with provider_says(Approved, OK):
        run_due()
    assert Execution.objects.get().state == "completed"


def test_groups_of_a_model_without_groups_are_empty(model: Any) -> None:
    """No raw error of the query."""
    ann = model.objects.create(email="ann@example.com")
    rule = effects.ApprovalRule("group:Finance")
    assert not somebody_can_decide(rule, ())
    assert not is_entitled(ann, rule)


def test_a_user_model_that_decides_past_the_backends_is_asked(settings: Any) -> None:
    """Django's own backend lists by tables that it does not look into."""
    settings.AUTH_USER_MODEL = "auth.Claimant"
    ann = Claimant.objects.create_user("ann")
    carl = Claimant.objects.create_user("claims-carl")
    assert approve(asked(Approved, by=ann), carl).state == "pending"


@pytest.mark.parametrize("model", [Person], indirect=True)
def test_a_person_with_another_kind_of_key_and_name_is_one(model: Any) -> None:
    """The name is an address, the key is no number."""
    ann = model.objects.create(email="ann@example.com")
    known = effects.Actor(f"user:{ann.pk}", "ann@example.com")
    for name in (ann, f"user:{ann.pk}", f"USER:{ann.pk.hex}", str(ann.pk), ann.pk.hex.upper(), "Ann@Example.com",
                 "ANN@EXAMPLE.COM", " ann@example.com"):  # fmt: skip
        assert actor_of(name, "requested_by=") == known, name
    for other in (ann.pk, uuid.uuid4()):
        with pytest.raises(exceptions.ActorError, match="UUID"):
            actor_of(other, "requested_by=")
    assert actor_of("5", "requested_by=") == effects.Actor("5", "5")
    with pytest.raises(exceptions.ActorError, match="no user has such a primary key"):
        actor_of("user:5", "requested_by=")
    with pytest.raises(exceptions.ActorError, match="a User"):
        actor_of(User(pk=5, username="ann"), "requested_by=")


# -- permissions that do not exist ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("approvers", "unknown"),
    [
        ("effects.approve_executions", ["effects.approve_executions"]),
        ("effects.approve_execution & shop.aprove_refund", ["shop.aprove_refund"]),
        ("Effects.approve_execution", ["Effects.approve_execution"]),
        ("auth.approve_execution", ["auth.approve_execution"]),
        ("group:Finance & effects.view_execution", []),
        ("auth.made_by_hand", []),
    ],
)
def test_a_permission_that_does_not_exist_is_warned_of(
    approvers: str, unknown: list[str], ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a superuser has it, and the approval waits as if all were well."""
    of_users = ContentType.objects.get_for_model(get_user_model())
    Permission.objects.create(codename="made_by_hand", content_type=of_users)
    get_user_model().objects.create_superuser("chief").groups.add(Group.objects.create(name="Finance"))
    monkeypatch.setattr(Ruled, "rule", effects.ApprovalRule(approvers))
    asked(Ruled, by=ann)
    found = check_permissions_asked(databases=["default"])
    assert [message.id for message in found] == ["effects.W010"] * len(unknown)
    assert all(f"approval() of bank.ruled asks for the permission {name!r}" in found[0].msg for name in unknown)
    assert check_permissions_asked() == check_permissions_asked(databases=["other"]) == []


@pytest.mark.parametrize("name", ["payments.propose_refunds", "effects.view_execution & shop.nothing"])
def test_so_is_one_that_nobody_proposes_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said without the database."""
    monkeypatch.setattr(Ruled, "proposable_by", name)
    found = [message for message in check_proposable_by() if "bank.ruled" in message.msg]
    assert [message.id for message in found] == ["effects.W010"]


# -- notices -------------------------------------------------------------------------------------------------------

told: list[Any] = []


@pytest.mark.parametrize(("backend", "is_everybody"), [(Listing, True), (FromNames, False), (Alone, False)])
def test_a_notice_says_whether_all_whom_it_concerns_are_told(
    backend: Any, is_everybody: bool, ann: Any, settings: Any
) -> None:
    """Those who are listed and entitled are told; where others may be, the project tells a place where they look."""
    use(settings, backend, DJANGOS)
    settings.EFFECTS = {**settings.EFFECTS, "NOTIFY": told.append}
    told.clear()
    carl = person("claims-carl")
    asked(Approved, by=ann)
    run_due()
    (notice,) = told
    assert (notice.event, notice.people, notice.is_everybody) == ("approval_requested", (carl,), is_everybody)


# -- functions that name people ------------------------------------------------------------------------------------

named: list[Any] = []


def whoever(context: Any) -> Any:
    """What a project's function is; it returns what the test says."""
    return named[-1]()


def failing() -> Iterator[Any]:
    """A generator that fails half way."""
    yield get_user_model().objects.get(username="bob")
    raise KeyError("half way")


def users() -> Any:
    return get_user_model().objects.filter(username="bob")


NOT_USERS = {
    "None": lambda: None,
    "a name": lambda: "bob",
    "a user": lambda: users().get(),
    "a manager": lambda: get_user_model().objects,
    "keys": lambda: list(users().values_list("pk", flat=True)),
    "values": lambda: users().values("pk"),
    "values_list": lambda: users().values_list("pk", flat=True),
    "names": lambda: ["bob"],
    "a dict": lambda: {users().get(): True},
    "rows of another model": lambda: Group.objects.filter(pk=users().get().pk),
    "instances of another model": lambda: [Group(pk=users().get().pk)],
    "one of another model among users": lambda: (users().get(), Group(pk=5)),
    "an actor": lambda: [effects.Actor.of(users().get())],
    "an unsaved user": lambda: [get_user_model()(username="bob")],
    "None in a list": lambda: [None],
    "True": lambda: True,
    "a number": lambda: 5,
    "the class": get_user_model,
    "a generator that fails": failing,
    "a generator of keys": lambda: (user.pk for user in users()),
    "a broken queryset": lambda: users().extra(where=["no such column"]),
    "an endless one": lambda: itertools.repeat(users().get()),
    "an exit": lambda: (_ for _ in ()).throw(ValueError("no")),
}
USERS = {
    "a queryset": users,
    "a queryset of a proxy": lambda: Claimant.objects.filter(username="bob"),
    "a deferred queryset": lambda: users().only("pk"),
    "a slice": lambda: users().order_by("pk")[:5],
    "a union": lambda: users().union(get_user_model().objects.filter(username="zed")),
    "a list": lambda: list(users()),
    "a set": lambda: set(users()),
    "a generator": lambda: (user for user in users()),
    "a dict's values": lambda: dict.fromkeys([1], users().get()).values(),
    "a raw queryset": lambda: get_user_model().objects.raw("SELECT * FROM auth_user WHERE username = 'bob'"),
    "an iterator": lambda: users().iterator(),
}


@pytest.fixture
def by_function(monkeypatch: pytest.MonkeyPatch, ann: Any) -> Any:
    """An execution that bob, whom a function names, may approve; then the function returns something else."""
    bob = person("bob", approver=False)
    monkeypatch.setattr(Ruled, "rule", effects.ApprovalRule(f"call:{__name__}.whoever"))
    named.append(users)
    return asked(Ruled, by=ann), bob


@pytest.mark.parametrize("kind", NOT_USERS)
def test_what_is_not_users_entitles_nobody_and_is_said(kind: str, by_function: Any, ann: Any) -> None:
    """When it is asked for, when somebody votes, and on pages: an error that names the function."""
    row, bob = by_function
    named.append(NOT_USERS[kind])
    where = f"call:{__name__}.whoever"
    found = eligibility(row, live(row), bob)
    assert found.code == "undecidable"
    assert where in found.text
    with pytest.raises(exceptions.NotEntitledError, match="whoever"):
        approve(row, bob)
    assert where in outlook(row, live(row))
    with pytest.raises(exceptions.EffectDefinitionError, match="whoever"):
        effects.perform(Ruled, payload=PAYLOAD, key="k2", requested_by=ann)
    assert Execution.objects.count() == 1


@pytest.mark.parametrize("kind", USERS)
def test_users_are_entitled_however_they_come(kind: str, by_function: Any, ann: Any) -> None:
    """A queryset, or anything that users can be taken from one by one."""
    row, bob = by_function
    named.append(USERS[kind])
    assert entitled_people(row, live(row), limit=9) == [bob]
    with pytest.raises(exceptions.NotEntitledError, match="which you do not have"):
        approve(row, person("zoe"))
    assert approve(row, bob).state == "pending"


@pytest.mark.parametrize(
    "nobody", [[], (), get_user_model().objects.none, iter(())], ids=["list", "tuple", "queryset", "iterator"]
)
def test_an_empty_answer_names_nobody(nobody: Any, by_function: Any, ann: Any) -> None:
    """It is an answer: said when it is asked for."""
    row, bob = by_function
    named.append(nobody if callable(nobody) else lambda: nobody)
    assert eligibility(row, live(row), bob).code == "not_an_approver"
    with pytest.raises(exceptions.NobodyEntitledError):
        effects.perform(Ruled, payload=PAYLOAD, key="k2", requested_by=ann)
    assert rule_as_json(Ruled.rule) == live(row).rule
    assert backends.asks_otherwise() is False
