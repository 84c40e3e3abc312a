"""Names of tenants, people, objects and decisions: whole in the journal, or refused before anything is recorded."""

from __future__ import annotations

from typing import Any

import pytest

import effects
from effects.models import Execution, Receipt, Resolution
from effects.testing import provider_says
from effects.vocabulary.exceptions import NameUnusableError
from effects.vocabulary.names import is_storable
from tests.core.declared import Charge, Plain
from tests.core.people import PAYLOAD, person

pytestmark = pytest.mark.django_db
TOO_LONG = "x" * 256


@pytest.mark.parametrize("name", [TOO_LONG, "a\x00b", "\ud800", 17])
@pytest.mark.parametrize("argument", ["tenant", "about"])
def test_a_name_that_fits_no_column_is_refused_before_anything_is_recorded(argument: str, name: Any) -> None:
    """A clear error with the argument's name; no row, no call."""
    given = ("shop.Order", name) if argument == "about" else name
    with provider_says(Plain) as said, pytest.raises(NameUnusableError, match=f"{argument}=") as refusal:
        effects.perform(Plain, payload=PAYLOAD, key="k", **{argument: given})
    assert not refusal.value.effect_may_have_happened
    assert said.sends == []
    assert not Execution.objects.exists()


@pytest.mark.parametrize("argument", ["requested_by", "on_behalf_of"])
def test_so_is_the_name_of_whoever_asks(argument: str) -> None:
    """A name given as text stands for the person; half of it would be somebody else."""
    with provider_says(Plain), pytest.raises(NameUnusableError, match="id of an Actor"):
        effects.perform(Plain, payload=PAYLOAD, key="k", **{argument: TOO_LONG})
    assert not Execution.objects.exists()


def test_an_empty_tenant_is_one_and_an_empty_id_is_nobody() -> None:
    """A project without tenants has the empty one; no person has an empty id."""
    with provider_says(Plain, effects.Applied()):
        assert effects.perform(Plain, payload=PAYLOAD, key="k", tenant="").state == "completed"
    with pytest.raises(NameUnusableError):
        effects.Actor("")


def test_a_long_label_is_cut_and_refuses_nobody() -> None:
    """People read it; who it was is told by the id."""
    ann = effects.Actor("user:1", "Ann\x00" + TOO_LONG)
    with provider_says(Plain, effects.Applied()):
        effects.perform(Plain, payload=PAYLOAD, key="k", requested_by=ann)
    receipt = Receipt.objects.get(event="record")
    assert (receipt.actor_id, len(receipt.actor_label)) == ("user:1", 255)
    assert receipt.actor_label.startswith("Annxxx")


@pytest.mark.parametrize("decision_id", ["x" * 101, "a\x00b"])
def test_a_decision_needs_an_id_that_can_be_found_again(decision_id: str) -> None:
    """Cut, it would pass for another decision; nothing is decided."""
    with provider_says(Charge, TimeoutError("no answer")):
        effects.perform(Charge, payload=PAYLOAD, key="k")
    row = Execution.objects.get()
    for decide in (effects.reopen, effects.order_resend):
        with pytest.raises(NameUnusableError, match="decision_id="):
            decide(row.pk, revision=row.revision, by=person(decide.__name__), reason="r", decision_id=decision_id)
    with pytest.raises(NameUnusableError, match="decision_id="):
        effects.resolve(
            row.pk, decision="unknown", revision=row.revision, by="olga", reason="r", decision_id=decision_id
        )
    assert not Resolution.objects.exists()
    row.refresh_from_db()
    assert row.state == "uncertain"


@pytest.mark.parametrize(
    ("name", "fits"), [("", True), ("x" * 255, True), (TOO_LONG, False), ("\udfff", False), (None, False)]
)
def test_what_fits_a_column(name: Any, fits: bool) -> None:
    """As many characters as it is wide, and none that PostgreSQL keeps in no text."""
    assert is_storable(name) is fits
