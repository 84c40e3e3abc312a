"""Row 42: two databases, a router, and tests inside of TestCase."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import Client, TestCase, override_settings

import effects
from effects.inspection import audit
from effects.journal.locks import now
from effects.models import Execution, Request
from effects.testing import run_due, time_passes
from effects.vocabulary.exceptions import JournalBesideError
from project.services.postgres import scratch_database
from tests.crash import provider
from tests.http.conftest import Sender
from tests.http.rows import shop
from tests.http.rows.conftest import Ledger, trouble
from tests.http.rows.declared import Order, Pay
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


LATER = timedelta(minutes=10)


class Elsewhere:
    """Sends all that the journal reads and writes to the other database, where it has no business."""

    journal, other = "default", "second"

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.other if model._meta.app_label == "effects" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return None


class Primary(Elsewhere):
    """A project's router that knows of one database alone."""

    journal, other = "second", "default"

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "default"

    db_for_write = db_for_read


@pytest.fixture(scope="module")
def second_database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A second database, with the journal's tables in it too; its alias is there while this module runs."""
    with scratch_database(os.environ["DATABASE_URL"], "effects_rows") as url:
        connections.settings["second"] = {**connections.settings["default"], "NAME": urlsplit(url).path[1:]}
        with django_db_blocker.unblock():
            call_command("migrate", "effects", database="second", verbosity=0)
        yield
        connections["second"].close()
        del connections["second"]
        del connections.settings["second"]


@pytest.fixture
def second(second_database: None, protected_views: None, settings: Any) -> Iterator[None]:
    """The second database; it has no ATOMIC_REQUESTS, since the views were imported before it was there."""
    yield
    settings.DATABASE_ROUTERS = []
    settings.EFFECTS = {"DISPATCH": "none"}


@pytest.fixture
def beside(second: None, settings: Any) -> Iterator[None]:
    """The journal in the second database, and a router that knows nothing of it."""
    settings.EFFECTS = {"DATABASE": "second", "DISPATCH": "none"}
    settings.DATABASE_ROUTERS = [f"{__name__}.Primary"]
    yield
    assert not list(audit.audit(audit.Scope(now()), Counter()))
    assert _rows_of("default") == 0


def _rows_of(alias: str) -> int:
    """Count the journal's rows in a database, whatever managers and routers say."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT (SELECT count(*) FROM effects_request) + (SELECT count(*) FROM effects_execution)")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("kind", KINDS)
def test_row_42_the_journal_stays_on_its_alias(
    send: Sender, ledger: Ledger, second: None, settings: Any, kind: str
) -> None:
    """Whatever a router says of its models, all of the journal is where `DATABASE` says."""
    settings.DATABASE_ROUTERS = [f"{__name__}.Elsewhere"]
    trouble("reply_lost" if kind == "declared" else "")
    first = send(f"/{kind}/api/")
    assert first.status_code == (409 if kind == "declared" else 201)
    time_passes(LATER)
    run_due()
    again = send(f"/{kind}/api/")
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert send(f"/{kind}/api/", number="2").status_code == 422
    assert _rows_of("default") == (2 if kind == "declared" else 1)
    assert _rows_of("second") == 0
    assert ledger.of(kind) == 1


@pytest.mark.parametrize("kind", ["opaque", "declared"])
def test_row_42_the_journal_has_a_database_of_its_own(send: Sender, ledger: Ledger, beside: None, kind: str) -> None:
    """Journaled views work as ever: replays, refusals, doubt, look-ups; the project's rows stay in its own."""
    first, again = send(f"/{kind}/api/"), send(f"/{kind}/api/")
    assert (first.status_code, again.content, again["Idempotent-Replayed"]) == (201, first.content, "true")
    assert send(f"/{kind}/api/", number="2").status_code == 422
    trouble("reply_lost")
    sent = {"do": "perform", "number": "lost"}
    assert json.loads(send(f"/{kind}/api/", "lost", **sent).content)["code"] == "operation_uncertain"
    time_passes(LATER)
    run_due()
    later = send(f"/{kind}/api/", "lost", **sent)
    assert later.status_code == (201 if kind == "declared" else 409)
    assert set(Request.objects.values_list("state", flat=True)) == {"answered"}
    assert set(Execution.objects.values_list("state", flat=True)) == {"completed"}
    paid = 2 if kind == "declared" else 1
    assert Group.objects.using("default").filter(name__startswith="paid ").count() == paid
    # the ledger was emptied in between
    assert ledger.applied() == 1


def test_row_42_what_needs_one_commit_is_refused_there(send: Sender, ledger: Ledger, beside: None) -> None:
    """A transactional view, `finishing()` and `perform_later` cannot commit with rows of another database."""
    for key in ("k", None):
        url = "/transactional/api/" if key else "/optional/"
        with pytest.raises(JournalBesideError):
            send(url, key, raises=True)
    with pytest.raises(JournalBesideError):
        send("/opaque/api/", "f", do="finish", raises=True)
    with pytest.raises(JournalBesideError):
        effects.perform_later(Pay, payload=Order("1"), key="1")
    assert not Group.objects.exists()
    assert (ledger.applied(), Execution.objects.count()) == (0, 0)


def test_row_42_every_view_there_counts_as_writing(send: Sender, ledger: Ledger, beside: None) -> None:
    """Rows of the handler that nobody has seen may stand, so its key is not freed by itself."""
    assert send("/declared/api/", do="boom").status_code == 500
    assert Request.objects.get().local_writes
    answer = send("/declared/api/", do="boom")
    assert (answer.status_code, json.loads(answer.content)["code"]) == (409, "operation_uncertain")
    assert ledger.applied() == 0


@override_settings(ROOT_URLCONF="tests.http.rows.shop", EFFECTS={"DISPATCH": "none"})
class InsideTestCase(TestCase):
    """Django's TestCase: everything within the test's own transaction, which stays usable."""

    @pytest.fixture(autouse=True)
    def _provider(self, provider_process: str) -> None:
        provider.ask("reset", deduplicates=False, lag=0.0, trouble="")
        shop.seen.clear()

    def test_row_42_each_kind_works_inside_of_testcase(self) -> None:
        """First answers, replays, refusals, errors, hooks and sweeps, with ATOMIC_REQUESTS off and on."""
        client = Client(raise_request_exception=False)
        client.force_login(User.objects.create_user("ada"))
        options = connections.settings["default"]
        self.addCleanup(options.__setitem__, "ATOMIC_REQUESTS", options["ATOMIC_REQUESTS"])
        for options["ATOMIC_REQUESTS"] in (False, True):
            for kind in KINDS:
                self._each(client, kind, f"{kind}-{options['ATOMIC_REQUESTS']}")
        run_due()
        assert len(provider.ask("books")["applied"]) == 4
        assert Group.objects.filter(name__startswith="paid ").count() == 2
        found = audit.audit(audit.Scope(now()), Counter())
        assert [each for each in found if each.code != "sweep_stopped"] == []

    def _each(self, client: Client, kind: str, key: str) -> None:
        def send(suffix: str, **data: Any) -> Any:
            headers = {"Idempotency-Key": f"{key}-{suffix}"}
            return client.post(f"/{kind}/api/", json.dumps(data), "application/json", headers=headers)

        first, again = (send("a", number=key) for _ in range(2))
        assert (first.status_code, again.content) == (201, first.content)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert send("a", number="other").status_code == 422
        for do in ("raise_status", "return_status"):
            assert [send(do, do=do, status=400).status_code for _ in range(2)] == [400, 400]
        assert send("b", do="boom").status_code == 500
        assert not connection.needs_rollback
        with transaction.atomic():
            refused = send("inside", number="inside")
        assert refused.status_code == 500
