"""Row 16 of the HTTP contract: bugs, answers of 500, database errors that a handler swallows."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

from effects.models import Request
from effects.vocabulary.exceptions import MarkedForRollbackError
from tests.http import does, views
from tests.http.conftest import Sender
from tests.http.reading import body, code, state

both_settings = pytest.mark.parametrize("atomic_requests", [False, True], indirect=True, ids=["", "atomic"])
pytestmark = pytest.mark.django_db(transaction=True)


@both_settings
@pytest.mark.parametrize("do", ["boom", "teapot"])
def test_row_16_transactional_leaves_nothing(send: Sender, atomic_requests: bool, do: str) -> None:
    """A bug or a 5xx undoes rows and key; the same key may be used again."""
    for _ in range(2):
        assert send("/transactional/api/", do=do, name="a").status_code == 500
    assert not Request.objects.exists()
    assert not Group.objects.exists()
    assert len(does.calls) == 2


@both_settings
def test_row_16_success_on_lost_rows_is_an_error(send: Sender, atomic_requests: bool) -> None:
    """A database error that the handler swallowed has undone its rows; 200 would be a lie."""
    with pytest.raises(MarkedForRollbackError, match="block of their own"):
        send("/transactional/api/", do="clash", name="a", raises=True)
    assert not Request.objects.exists()
    assert not Group.objects.exists()


def test_row_16_success_on_lost_rows_of_finishing(send: Sender) -> None:
    """The same for the rows of `finishing()`; nothing was sent, so the key is free."""
    with pytest.raises(MarkedForRollbackError):
        send("/declared/api/", do="finish_clash", name="a", raises=True)
    assert state() == "released"
    assert not Group.objects.exists()


@both_settings
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_row_16_the_exception_handler_runs_once(send: Sender, atomic_requests: bool, method: str) -> None:
    """Whether it answers or not; and the answer is finished once."""
    for do, status in (("boom", 500), ("arithmetic", 500), ("invalid", 400)):
        views.handled.clear()
        response = send("/watched/", do, method=method, do=do)
        assert response.status_code == status
        assert len(views.handled) == 1
        if do != "boom":
            assert set(body(response)) == {"result"}
            assert set(response.data) == {"result"}
            assert set(response.data["result"] or {}) != {"result"}


def test_row_16_journaled(send: Sender) -> None:
    """A declared view that sent nothing is released; an opaque one is in doubt."""
    assert send("/declared/api/", "d", do="boom").status_code == 500
    assert send("/opaque/api/", "o", do="boom").status_code == 500
    assert (state("d"), state("o")) == ("released", "in_doubt")
    assert code(send("/opaque/api/", "o", do="boom")) == "operation_uncertain"
