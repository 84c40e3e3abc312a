"""Row 20 of the HTTP contract: the journal is out of reach."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import Client

import effects
from effects.models import Request
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge
from tests.http import does
from tests.http.conftest import Sender
from tests.http.reading import code

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_row_20_a_lock_wait_that_is_over(send: Sender, in_thread: Any, kind: str) -> None:
    """503 with Retry-After; nothing ran."""
    locked, done = threading.Event(), threading.Event()

    def lock() -> None:
        from django.db import transaction

        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE effects_request IN ACCESS EXCLUSIVE MODE")
            locked.set()
            done.wait(20)

    holder = in_thread(lock)
    assert locked.wait(10)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '100ms'")
    try:
        response = send(f"/{kind}/api/", do="nothing")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
        done.set()
    holder()
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    assert int(response["Retry-After"]) > 0
    assert not does.calls


def test_row_20_no_database(protected_views: None, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that needs no database to know its caller fails closed."""
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    connection.close()
    try:
        response = Sender(None)("/machine/", do="nothing")
    finally:
        monkeypatch.undo()
        connection.close()
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    assert not does.calls


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_row_20_the_caller_cannot_be_known(send: Sender, in_thread: Any, kind: str) -> None:
    """A plain view asks for its user within the decorator: a lock on the users' table is 503 there too."""
    locked, done = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE auth_user IN ACCESS EXCLUSIVE MODE")
            locked.set()
            done.wait(20)

    client = Client(raise_request_exception=False)
    assert send.user is not None
    client.force_login(send.user)
    holder = in_thread(lock)
    assert locked.wait(10)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '100ms'")
    try:
        response = client.post(f"/{kind}/plain/", b"{}", "application/json", headers={"Idempotency-Key": "k"})
    finally:
        done.set()
        connection.close()
    holder()
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    assert not does.calls


@pytest.mark.parametrize(
    ("kind", "state_of_death"), [("transactional", "answered"), ("opaque", "running"), ("declared", "running")]
)
def test_row_20_a_lost_commit(send: Sender, commit_dies: Any, kind: str, state_of_death: str) -> None:
    """It is settled first: nothing was committed, so 503, and the same request may be sent again."""
    commit_dies(state_of_death)
    do = "create" if kind == "transactional" else "nothing"
    response = send(f"/{kind}/api/", do=do, name="a")
    assert (response.status_code, code(response)) == (503, "execution_unavailable")
    commit_dies.heal()
    assert not Request.objects.exists()
    assert not Group.objects.exists()
    assert send(f"/{kind}/api/", do=do, name="a").status_code in (200, 201)


def test_a_lost_commit_of_finishing(send: Sender, commit_dies: Any) -> None:
    """The rows are gone with it, and the effect is not: `answer=` answers, and nothing is sent again."""
    commit_dies("answered")
    with provider_says(Charge, DONE) as provider:
        response = send("/declared/api/", do="finish", name="a")
        assert response.status_code in (409, 503)
        commit_dies.heal()
        assert not Group.objects.exists()
        time_passes(timedelta(minutes=1))  # what broke with `answer=` in it is tried again a little later
        run_due()
        assert send("/declared/api/", do="finish", name="a").status_code == 201
    assert len(provider.sends) == 1
