"""Actors: a person is one to four eyes, by whatever name they are passed; what is nobody is refused in words."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.functional import SimpleLazyObject

import effects
from effects.models import Execution, Receipt, Resolution
from effects.people import actors, eligibility
from effects.people.actors import actor_of, actor_of_login
from effects.testing import provider_says
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Charge, Plain, Ruled
from tests.core.people import PAYLOAD, approve, asked, live, person

pytestmark = pytest.mark.django_db

#: What ann may be called: each is her.
NAMES: dict[str, Callable[[Any], Any]] = {
    "user": lambda ann: ann,
    "lazy user": lambda ann: SimpleLazyObject(lambda: ann),
    "deferred user": lambda ann: get_user_model().objects.only("pk").get(pk=ann.pk),
    "id": lambda ann: f"user:{ann.pk}",
    "id in capitals": lambda ann: f"User:{ann.pk}",
    "id in white space": lambda ann: f" user: {ann.pk}\n",
    "id with a zero": lambda ann: f"user:0{ann.pk}",
    "number": lambda ann: str(ann.pk),
    "number with zeros": lambda ann: f"00{ann.pk}",
    "other digits": lambda ann: str(ann.pk).translate({48 + n: 0xFF10 + n for n in range(10)}),
    "name": lambda ann: "ann",
    "name in capitals": lambda ann: "ANN",
    "name with a capital": lambda ann: " Ann ",
    "actor by name": lambda ann: effects.Actor("ann", "the clerk"),
    "actor by number": lambda ann: effects.Actor(str(ann.pk)),
    "actor by id": lambda ann: effects.Actor(f"USER:{ann.pk}", "somebody"),
}
#: What stands for nobody, and would be recorded as nobody.
NOBODIES = [
    5, 0, True, False, 5.0, Decimal(5), b"ann", b"", uuid.uuid4(), ["ann"], ("user", 5), {"id": "user:5"}, object(),
    Exception, Group(pk=5, name="Finance"), {"ann"}, range(3),
]  # fmt: skip


def _kind(who: object) -> str:
    return type(who).__name__


@pytest.fixture
def ann() -> Any:
    """Who asks; she may approve."""
    return person("ann")


@pytest.fixture
def bob() -> Any:
    """Who else may approve."""
    return person("bob")


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two people have to agree."""
    monkeypatch.setattr(Ruled, "rule", effects.ApprovalRule("effects.approve_execution", quorum=2))


@pytest.mark.parametrize("argument", ["requested_by", "on_behalf_of"])
@pytest.mark.parametrize("name", NAMES)
def test_by_whatever_name_a_person_does_not_approve_what_they_asked_for(
    name: str, argument: str, ann: Any, bob: Any
) -> None:
    """The row keeps her id, and she is refused."""
    words = {"requested_by": "nightly payouts", argument: NAMES[name](ann)}
    outcome = effects.perform(Approved, payload=PAYLOAD, key="k1", **words)
    row = Execution.objects.get(pk=outcome.ref)
    assert getattr(row, argument) == {"id": f"user:{ann.pk}", "label": "ann"}
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, ann)
    assert eligibility.entitled_people(row, live(row), limit=9) == [bob]


@pytest.mark.parametrize("name", NAMES)
def test_who_joins_by_whatever_name_is_a_requester(name: str, ann: Any, bob: Any, of_two: Any) -> None:
    """And their vote from before does not count any more."""
    row = asked(Ruled, by="nightly payouts")
    approve(row, ann)
    effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by=NAMES[name](ann))
    row.refresh_from_db()
    assert [one["id"] for one in row.requesters] == ["nightly payouts", f"user:{ann.pk}"]
    assert eligibility.count_missing(row, live(row)) == 2


@pytest.mark.parametrize("argument", ["requested_by", "on_behalf_of"])
@pytest.mark.parametrize("nobody", NOBODIES, ids=_kind)
def test_what_is_nobody_is_an_error_that_says_what_to_pass(nobody: Any, argument: str, ann: Any, bob: Any) -> None:
    """Nothing is recorded, nothing sent, and a developer reads which argument it was."""
    with provider_says(Plain) as said, pytest.raises(exceptions.ActorError, match=f"{argument}=.*Pass the user"):
        effects.perform(Plain, payload=PAYLOAD, key="k1", **{"requested_by": "nightly", argument: nobody})
    with pytest.raises(TypeError):
        effects.perform_later(Plain, payload=PAYLOAD, key="k1", **{"requested_by": "nightly", argument: nobody})
    assert said.sends == []
    assert not Execution.objects.exists()


def test_a_user_who_is_not_saved_is_an_error() -> None:
    """Nobody could tell them apart later."""
    with pytest.raises(exceptions.ActorError, match="Save it first"):
        effects.perform(Plain, payload=PAYLOAD, key="k1", requested_by=get_user_model()(username="ann"))
    assert not Execution.objects.exists()


@pytest.mark.parametrize("text", ["user:nobody", "user:", "User:5.0", "user:-1", "user:5_0", "user:1e3"])
def test_an_id_that_no_user_can_have_is_an_error(text: str) -> None:
    """It is meant for a person, and is none."""
    with pytest.raises(exceptions.ActorError, match="no user has such a primary key"):
        actor_of(text, "requested_by=")


@pytest.mark.parametrize("nobody", [None, "", "  \n", AnonymousUser(), SimpleLazyObject(AnonymousUser)])
def test_nobody_is_nobody(nobody: Any) -> None:
    """An anonymous request, an empty header."""
    assert actor_of(nobody, "requested_by=") is None


@pytest.mark.parametrize("text", ["nightly payouts", "ann2", "an", "99999999", "9" * 40, "5.0", "shop:17", "é"])
def test_any_other_text_is_a_program(text: str, ann: Any) -> None:
    """Also a number that no user has."""
    assert actor_of(text, "requested_by=") == effects.Actor(text, text)


def test_the_id_of_a_user_who_is_gone_stays(ann: Any) -> None:
    """What they asked for goes on, and four eyes still know that it was they."""
    known = effects.Actor(f"user:{ann.pk}", "ann")
    ann.delete()
    assert actor_of(known, "requested_by=") == known


def test_users_who_are_not_active_are_people_too(ann: Any) -> None:
    """They may be active again when it is approved."""
    ann.is_active = False
    ann.save()
    assert actor_of("ann", "by=") == effects.Actor(f"user:{ann.pk}", "ann")


def test_a_text_that_names_two_is_refused(ann: Any) -> None:
    """One user's name is the other's number; which of them is meant nobody can tell."""
    get_user_model().objects.create_user(str(ann.pk))
    with pytest.raises(exceptions.ActorError, match="as well as"):
        effects.perform(Plain, payload=PAYLOAD, key="k1", requested_by=str(ann.pk))
    assert actor_of(f"user:{ann.pk}", "requested_by=") == effects.Actor(f"user:{ann.pk}", "ann")


@pytest.mark.parametrize("text", ["dOrA", "dora", " DORA"])
def test_a_name_that_becomes_a_users_later_is_theirs(text: str, bob: Any) -> None:
    """The last line of defence asks at the vote, whatever the case."""
    row = asked(Approved, by=text)
    dora = person("dora")
    assert eligibility.eligibility(row, live(row), dora).code == "asked"
    assert eligibility.entitled_people(row, live(row), limit=9) == [bob]
    with pytest.raises(exceptions.NotEntitledError):
        approve(row, dora)


def test_a_vote_does_not_count_of_whom_a_mixed_text_names(ann: Any, bob: Any, of_two: Any) -> None:
    """Who asked after they voted, under a spelling that no index finds."""
    eve = person("EveLee")
    row = asked(Ruled, by="nightly")
    approve(row, eve)
    effects.perform(Ruled, payload=PAYLOAD, key="k1", requested_by="eVElEE")
    row.refresh_from_db()
    assert eligibility.count_missing(row, live(row)) == 2


def test_a_text_costs_one_statement_and_a_user_none(ann: Any) -> None:
    """By the index of the name and that of the key."""
    lazy = SimpleLazyObject(lambda: ann)
    for who, most in ((ann, 0), (lazy, 0), (None, 0), ("", 0), ("nightly", 1), ("ann", 1), (f"user:{ann.pk}", 1)):
        with CaptureQueriesContext(connection) as statements:
            actor_of(who, "requested_by=")
        assert len(statements) <= most, who
    assert "UPPER" not in statements.captured_queries[0]["sql"] if statements.captured_queries else True


@pytest.mark.parametrize("name", NAMES)
def test_who_does_it_by_hand_is_one_person_too(name: str, ann: Any, bob: Any) -> None:
    """A decision, an ordered resend: the receipts name the user; what she may not as herself she may not by name."""
    with provider_says(Charge, TimeoutError("no answer"), look_up=effects.Conflict("two")):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="k1", requested_by="nightly")
        effects.testing.run_due()
    row = Execution.objects.get(pk=outcome.ref)
    effects.resolve(row.pk, decision="unknown", revision=row.revision, by=NAMES[name](ann), reason="gave up")
    assert Resolution.objects.get().actor_id == f"user:{ann.pk}"
    assert Receipt.objects.filter(event="resolve").get().actor_id == f"user:{ann.pk}"
    other = asked(Approved, by=bob, key="k2")
    with pytest.raises(exceptions.NotEntitledError):
        effects.withdraw(other.pk, by=NAMES[name](ann))
    assert effects.withdraw(other.pk, by="nightly clean-up").state == "rejected"


@pytest.mark.parametrize("nobody", NOBODIES, ids=_kind)
def test_who_does_it_by_hand_is_somebody(nobody: Any, ann: Any, bob: Any) -> None:
    """Another type is an error here as well."""
    row = asked(Approved, by=bob)
    with pytest.raises(exceptions.ActorError, match="by="):
        effects.cancel(row.pk, by=nobody, reason="x")


@pytest.mark.parametrize("voter", [*NOBODIES, "bob", effects.Actor("bob"), AnonymousUser(), None], ids=_kind)
def test_only_a_user_votes(voter: Any, ann: Any, bob: Any) -> None:
    """Not a name, a number, or a row of another table with the key of somebody who may."""
    row = asked(Approved, by=ann)
    with pytest.raises(exceptions.NotEntitledError, match="logged in"):
        approve(row, voter)
    assert eligibility.eligibility(row, live(row), voter).code == "anonymous"


def test_an_account_of_another_table_is_not_the_user_with_its_key(ann: Any) -> None:
    """As a program's that logs in with a key of its own."""
    account = Group(pk=ann.pk, name="importer")
    assert actor_of_login(account) == effects.Actor(f"auth.group:{ann.pk}", "importer")
    assert actor_of_login(ann) == effects.Actor(f"user:{ann.pk}", "ann")
    assert actor_of_login(AnonymousUser()) is actor_of_login(object()) is actor_of_login(None) is None


@pytest.mark.parametrize("what", [5, b"ann", object()])
def test_an_actor_is_made_of_nothing_else(what: Any) -> None:
    """`Actor.of` records nobody as nobody no more."""
    with pytest.raises(exceptions.ActorError):
        effects.Actor.of(what)


def test_find_user_finds_users_alone(ann: Any) -> None:
    """Programs and those who are gone are nobody."""
    assert actors.find_user(f"user:{ann.pk}") == ann
    assert [actors.find_user(text) for text in ("ann", "user:0", "user:x", "", "user:" + "9" * 40)] == [None] * 5
