"""Declared views: rows go with the answer, and nowhere else; effects are those that were declared."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

import effects
from effects.models import Execution
from effects.testing import provider_says
from effects.vocabulary.exceptions import LocalWriteError, UndeclaredEffectError
from tests.core.declared import Charge
from tests.http.conftest import Sender
from tests.http.reading import state

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


def test_finishing_commits_rows_with_the_answer(send: Sender) -> None:
    """Once, whatever comes after."""
    with provider_says(Charge, DONE):
        first = send("/declared/api/", do="finish", name="a")
        assert (first.status_code, Group.objects.count()) == (201, 1)
        assert send("/declared/api/", do="finish", name="a").content == first.content


def test_finishing_is_undone_by_an_error(send: Sender) -> None:
    """A raised 400 takes the rows with it; nothing was sent, so the key is free."""
    assert send("/declared/api/", do="finish_then_invalid", name="a").status_code == 400
    assert not Group.objects.exists()
    assert state() == "released"


def test_rows_outside_of_finishing_are_refused(send: Sender) -> None:
    """A declared view writes in `settled` or in `finishing()`; the error says how."""
    with pytest.raises(LocalWriteError, match="finishing"):
        send("/declared/api/", do="create", name="a", raises=True)
    assert not Group.objects.exists()
    assert send("/writing/", do="create", name="a").status_code == 201


def test_an_undeclared_effect_is_refused(send: Sender) -> None:
    """`performs=` is what the journal believes after a crash."""
    with pytest.raises(UndeclaredEffectError, match="performs="):
        send("/declared/api/", do="undeclared", raises=True)
    assert not Execution.objects.exists()
