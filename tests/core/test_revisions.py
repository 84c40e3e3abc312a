"""Decisions on a page: what changed since it was made is told under the row's lock."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

import effects
from effects.models import Execution
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Plain
from tests.core.people import PAYLOAD, asked, live, person
from tests.core.racing import together

pytestmark = pytest.mark.django_db


def revision_of(ref: Any) -> int:
    return Execution.objects.get(pk=ref).revision


def test_cancelling_takes_the_revision() -> None:
    """An earlier revision cancels nothing; the present one does, and so does a caller who saw no page."""
    refs = []
    for key in ("k1", "k2"):
        with transaction.atomic():
            refs.append(effects.perform_later(Plain, payload=PAYLOAD, key=key, requested_by="ann").ref)
    with pytest.raises(exceptions.StaleRevisionError):
        effects.cancel(refs[0], by="olga", reason="wrong", revision=revision_of(refs[0]) - 1)
    assert effects.get(refs[0]).state == "pending"
    assert effects.cancel(refs[0], by="olga", reason="wrong", revision=revision_of(refs[0])).state == "rejected"
    assert effects.cancel(refs[1], by="olga", reason="wrong").state == "rejected"


@pytest.mark.django_db(transaction=True)
def test_withdrawing_races_with_a_vote() -> None:
    """A vote and a withdrawal on the same page at one instant: whichever is second is refused, in its own words."""
    ben = person("ben")
    row = asked(Approved, by="ann")
    digest = live(row).digest
    vote, withdrawal = together(
        lambda: effects.grant(row.pk, by=ben, digest=digest),
        lambda: effects.withdraw(row.pk, by="ann", reason="typo", revision=row.revision),
    )
    refused = [each for each in (vote, withdrawal) if isinstance(each, Exception)]
    assert len(refused) == 1
    expected = exceptions.StaleRevisionError if refused[0] is withdrawal else exceptions.ApprovalError
    assert isinstance(refused[0], expected)
