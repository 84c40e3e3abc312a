"""`effects.find`: the executions about an object of the project's, or under a key."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import effects
from effects.models import Execution
from effects.testing import provider_says
from effects.vocabulary.exceptions import EffectDefinitionError, NameUnusableError
from tests.core.declared import Charge, Plain, Renamed
from tests.core.people import PAYLOAD

pytestmark = pytest.mark.django_db


class Clerk(User):
    """The same rows under another name."""

    class Meta:
        app_label = "auth"
        proxy = True


def done(effect: Any, key: str, **options: Any) -> str:
    """Perform an effect; return its ref."""
    with provider_says(effect, effects.Applied()):
        return effects.perform(effect, payload=PAYLOAD, key=key, **options).ref


def test_executions_about_an_object_are_found_the_newest_first() -> None:
    """Of that object alone: not of another one, nor of another model's with the same primary key."""
    user = User.objects.create(username="u", pk=7)
    group = Group.objects.create(name="g", pk=7)
    other = User.objects.create(username="v", pk=70)
    refs = [done(effect, f"k{n}", about=user) for n, effect in enumerate((Charge, Plain, Charge))]
    done(Charge, "group", about=group)
    done(Charge, "other", about=other)
    found = effects.find(about=user)
    assert [each.ref for each in found] == refs[::-1]
    assert effects.find(about=user)[0] == effects.get(refs[2])
    assert [each.ref for each in effects.find(about=user, operation=Plain)] == [refs[1]]
    assert [each.ref for each in effects.find(about=user, limit=2)] == refs[:0:-1]
    assert effects.find(about=found[0].about) == found


def test_a_proxy_model_names_the_rows_of_its_model() -> None:
    """Recorded about either, it is found about both."""
    user = User.objects.create(username="u")
    proxy = Clerk.objects.get(pk=user.pk)
    refs = {done(Charge, "by-model", about=user), done(Charge, "by-proxy", about=proxy)}
    assert {each.ref for each in effects.find(about=user)} == refs == {each.ref for each in effects.find(about=proxy)}


def test_a_key_finds_predecessors_and_earlier_names_too() -> None:
    """Whatever was done under the key, the newest first; of a renamed effect by either name."""
    with provider_says(Charge, effects.Declined("no")):
        first = effects.perform(Charge, payload=PAYLOAD, key="order-1").ref
    second = done(Charge, "order-1", supersede=first)
    done(Plain, "order-1")
    assert [each.ref for each in effects.find(operation=Charge, key="order-1")] == [second, first]
    assert len(effects.find(key="order-1")) == 3
    old = done(Renamed, "r")
    Execution.objects.filter(pk=old).update(operation="bank.old_name")
    for name in (Renamed, "bank.new_name", "bank.old_name"):
        assert [each.ref for each in effects.find(operation=name, key="r")] == [old]


def test_rows_of_code_that_is_gone_are_found_by_their_name() -> None:
    """A text that no effect claims is taken as it is."""
    ref = done(Plain, "k")
    Execution.objects.filter(pk=ref).update(operation="bank.deleted")
    assert [each.ref for each in effects.find(operation="bank.deleted", key="k")] == [ref]
    assert effects.find(operation="bank.never", key="k") == []


def test_another_tenants_executions_are_not_found() -> None:
    """Outside of a request it is the tenant "", as for `perform`, unless said; never all of them."""
    user = User.objects.create(username="u")
    refs = {tenant: done(Charge, "k", about=user, tenant=tenant) for tenant in ("", "a", "b")}
    for said in ({"about": user}, {"key": "k"}, {"key": "k", "operation": Charge}):
        assert [each.ref for each in effects.find(**said)] == [refs[""]]  # type: ignore[arg-type]
        assert [each.ref for each in effects.find(**said, tenant="a")] == [refs["a"]]  # type: ignore[arg-type]
        assert effects.find(**said, tenant="c") == []  # type: ignore[arg-type]


@pytest.mark.parametrize("pk", [7, "x/y", uuid4()])
def test_an_object_is_named_by_its_primary_key_as_text(pk: Any) -> None:
    """Also one of another type, and one that is given as both its texts."""
    ref = done(Charge, "k", about=("shop.Thing", str(pk)))
    assert [each.ref for each in effects.find(about=("shop.Thing", str(pk)))] == [ref]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({}, TypeError),
        ({"operation": Charge}, TypeError),
        ({"about": User(username="unsaved")}, NameUnusableError),
        ({"about": User}, NameUnusableError),
        ({"about": "auth.User"}, NameUnusableError),
        ({"about": 17}, NameUnusableError),
        ({"about": ("auth.User", 17)}, NameUnusableError),
        ({"about": ("auth.User", "\0")}, NameUnusableError),
        ({"key": 17}, NameUnusableError),
        ({"key": ""}, NameUnusableError),
        ({"key": "k\0"}, NameUnusableError),
        ({"key": "k", "tenant": 5}, NameUnusableError),
        ({"key": "k", "limit": 0}, ValueError),
        ({"key": "k", "limit": 1001}, ValueError),
        ({"key": "k", "limit": True}, ValueError),
        ({"key": "k", "operation": User}, EffectDefinitionError),
    ],
)
def test_what_can_find_nothing_is_refused_in_words(said: dict[str, Any], error: type[Exception]) -> None:
    """Before the database is asked, and never as an empty list."""
    with CaptureQueriesContext(connection) as asked, pytest.raises(error):
        effects.find(**said)
    assert len(asked) == 0


@pytest.mark.parametrize("about", [User(username="unsaved"), User, "auth.User", 17])
def test_what_could_not_be_found_again_is_not_recorded(about: Any) -> None:
    """An object without a primary key would be recorded as one whose key is None."""
    with pytest.raises(NameUnusableError, match="about="):
        effects.perform(Charge, payload=PAYLOAD, key="k", about=about)
    assert not Execution.objects.exists()


@pytest.mark.parametrize("count", [1, 5])
def test_the_number_of_queries_does_not_grow_with_what_waits(count: int) -> None:
    """All rows are one query, and the times until which people may decide are a second one."""
    User.objects.create_superuser("chief")
    user = User.objects.create(username="u")
    for number in range(count):
        effects.perform(Charge, payload=PAYLOAD, key=f"k{number}", about=user, requested_by=user, require_approval=True)
    with CaptureQueriesContext(connection) as asked:
        found = effects.find(about=user)
    assert len(asked) == 2
    assert [each.outcome for each in found] == [effects.get(each.ref).outcome for each in found]
    assert all(each.outcome.decide_by for each in found)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("said", "index"),
    [
        ({"about": ("auth.User", "1")}, "effects_execution_about"),
        ({"key": "k", "operation": Charge}, "effects_execution_key"),
    ],
)
def test_an_index_answers_and_gives_the_order(said: dict[str, Any], index: str) -> None:
    """One statement and no sort, however many executions there are about the object or under the key."""
    with CaptureQueriesContext(connection) as asked:
        effects.find(**said)
    (statement,) = asked.captured_queries
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {statement['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert index in plan, plan
    assert "Sort" not in plan, plan
