"""Rows 22 to 29, 35 to 38 and 47 of the HTTP contract: answers, methods, placements, costs, and many at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.test import Client, TestCase, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.decorators import api_view
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

import effects
from effects.http.decorators import idempotent
from effects.models import Request
from effects.testing import provider_says
from effects.vocabulary.exceptions import EffectsError
from tests.core.declared import Charge
from tests.http import does
from tests.http.conftest import Sender

both_settings = pytest.mark.parametrize("atomic_requests", [False, True], indirect=True, ids=["", "atomic"])
database = pytest.mark.django_db(transaction=True)


def code(response: Any) -> str:
    return str(json.loads(response.content)["code"])


# -- what is stored ---------------------------------------------------------------------------------------------------


@database
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_row_22_streams_go_out_whole_and_are_not_stored(send: Sender, kind: str) -> None:
    """The retry learns that it ended; nothing runs again."""
    first = send(f"/{kind}/api/", do="streams")
    assert b"".join(first.streaming_content) == b"onetwo"
    second = send(f"/{kind}/api/", do="streams")
    assert (second.status_code, code(second)) == (409, "operation_result_unavailable")
    assert Request.objects.get().answer_missing == "streaming"
    assert len(does.calls) == 1


@database
def test_row_22_oversize(send: Sender, settings: Any) -> None:
    """The same for what is longer than the limit."""
    settings.EFFECTS = {"MAX_ANSWER_BYTES": 1000}
    assert len(send("/transactional/api/", do="large").content) > 4000
    assert code(send("/transactional/api/", do="large")) == "operation_result_unavailable"
    assert Request.objects.get().answer_missing == "oversize"


@database
def test_row_47_html_is_not_stored(send: Sender) -> None:
    """A page may hold a token of one session; the browsable API's are pages."""
    assert send("/opaque/plain/", do="page").status_code == 200
    assert code(send("/opaque/plain/", do="page")) == "operation_result_unavailable"
    page = send("/transactional/api/", "b", do="nothing", headers={"Accept": "text/html"})
    assert page["Content-Type"].startswith("text/html")
    assert code(send("/transactional/api/", "b", do="nothing")) == "operation_result_unavailable"


@database
def test_row_23_safe_methods_ignore_the_key(send: Sender) -> None:
    """GET through a protected function, OPTIONS of a class: as if there were no key."""
    for _ in range(2):
        assert send("/transactional/function/", method="GET", do="nothing").status_code == 200
        assert send("/transactional/api/", method="OPTIONS").status_code == 200
    assert not Request.objects.exists()
    assert len(does.calls) == 2


@database
def test_row_24_another_accept_gets_the_stored_representation(send: Sender) -> None:
    """Its own Content-Type and Vary, no second run."""
    first = send("/transactional/api/", do="nothing", headers={"Accept": "application/json"})
    second = send("/transactional/api/", do="nothing", headers={"Accept": "text/html"})
    assert (second.content, second["Content-Type"]) == (first.content, first["Content-Type"])
    assert "Accept" in second["Vary"]


@database
def test_row_25_only_allowed_headers_are_stored(send: Sender) -> None:
    """Location is replayed; cookies and traces are not."""
    first = send("/transactional/api/", name="a")
    second = send("/transactional/api/", name="a")
    assert first["X-Trace"] == "1"
    assert second["Location"] == "/things/1/"
    assert "X-Trace" not in second
    names = {name.lower() for name, _ in Request.objects.get().answer_headers}
    assert not names & {"set-cookie", "x-trace", "date", "content-length", "allow"}


@database
@pytest.mark.parametrize("kind", ["transactional", "opaque", "declared"])
def test_row_35_nothing_is_an_answer(send: Sender, kind: str) -> None:
    """204 is replayed as 204, and flagged."""
    assert send(f"/{kind}/api/", do="empty").status_code == 204
    second = send(f"/{kind}/api/", do="empty")
    assert (second.status_code, second.content, second["Idempotent-Replayed"]) == (204, b"", "true")


@database
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_row_36_the_handler_changes_its_data(send: Sender, kind: str) -> None:
    """The fingerprint was taken before."""
    first = send(f"/{kind}/api/", do="changes_data")
    assert send(f"/{kind}/api/", do="changes_data").content == first.content


# -- row 27: ATOMIC_REQUESTS ------------------------------------------------------------------------------------------


@database
@both_settings
def test_row_27_undecorated_methods_keep_their_transaction(send: Sender, atomic_requests: bool) -> None:
    """The class's other methods run as the project has configured them."""
    response = send("/transactional/api/", method="PUT", name="a")
    assert response.status_code == 400
    assert does.calls == [atomic_requests]
    assert Group.objects.count() == (0 if atomic_requests else 1)


@database
@both_settings
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_row_27_below_api_view_it_refuses(send: Sender, atomic_requests: bool, kind: str) -> None:
    """It cannot reach the callback there, and names what can."""
    if not atomic_requests:
        assert send(f"/{kind}/atomic/", do="nothing").status_code == 200
        return
    with pytest.raises(ImproperlyConfigured, match=r"@transaction\.non_atomic_requests\n    @api_view"):
        send(f"/{kind}/atomic/", do="nothing", raises=True)
    assert not Request.objects.exists()


# -- rows 28, 29: where it may stand ----------------------------------------------------------------------------------

PROTECT = idempotent("placed", mode="transactional")


def _view(request: Any) -> Any:
    return Response()


async def _async_view(request: Any) -> Any:
    return Response()


@pytest.mark.parametrize(
    ("misplaced", "fix"),
    [
        (lambda: PROTECT(api_view(["POST"])(_view)), "goes below @api_view"),
        (lambda: PROTECT(PROTECT(_view)), "twice"),
        (lambda: PROTECT(View.as_view()), "as_view"),
        (lambda: PROTECT(APIView), "on a method"),
        (lambda: method_decorator(PROTECT, "post")(type("V", (APIView,), {"post": _view})), "on the method itself"),
        (lambda: PROTECT(_async_view), "do not span awaits"),
        (lambda: idempotent("x", mode="both"), "mode='journaled'"),
        (lambda: idempotent("", mode="journaled"), "1 to 200"),
        (lambda: idempotent("x", mode="journaled", performs=[Charge]), "answer="),
        (lambda: idempotent("x", mode="journaled", performs=Charge, answer=_view), r"performs=\[Charge\]"),
        (lambda: idempotent("x", mode="journaled", answer=_view), "add performs="),
        (lambda: idempotent("x", mode="transactional", answer=_view), "commits with its rows"),
        (lambda: idempotent("x", mode="transactional", local_writes=True), "may write freely"),
        (lambda: idempotent("placed", mode="journaled"), "several views"),
    ],
)
def test_row_28_misplaced_fails_at_import(misplaced: Any, fix: str) -> None:
    """With the corrected lines in the message."""
    with pytest.raises(ImproperlyConfigured, match=fix):
        misplaced()


@pytest.mark.parametrize(("base", "name"), [(APIView, "get"), (ViewSet, "list")])
def test_row_28_safe_methods_have_nothing_to_protect(base: Any, name: str) -> None:
    """Said when the class is made."""
    with pytest.raises((ImproperlyConfigured, RuntimeError)) as raised:
        type("Safe", (base,), {name: PROTECT(_view)})
    error = raised.value.__cause__ or raised.value  # Python before 3.12 wraps what __set_name__ raises
    assert isinstance(error, ImproperlyConfigured)
    assert "safe method" in str(error)


def test_row_29_attributes_of_the_view_stay() -> None:
    """What other decorators and REST framework put on a function is still there."""
    from django.views.decorators.csrf import csrf_exempt

    protected = PROTECT(csrf_exempt(_view))
    assert protected.csrf_exempt is True  # type: ignore[attr-defined]
    assert (protected.__name__, protected.__module__) == ("_view", __name__)


# -- row 38 and the cost of it ----------------------------------------------------------------------------------------


@database
@pytest.mark.parametrize("kind", ["transactional", "opaque", "declared"])
def test_row_38_many_at_one_instant(send: Sender, in_thread: Any, kind: str) -> None:
    """One runs; the others get 409 or the replay."""
    many, barrier = 24, threading.Barrier(24)

    def one() -> Any:
        barrier.wait(20)
        return send(f"/{kind}/api/", do="charge" if kind == "declared" else "nothing")

    with provider_says(Charge, effects.Applied(1, "ch_1")) as provider:
        answers = [wait() for wait in [in_thread(one) for _ in range(many)]]
    good = 201 if kind == "declared" else 200
    assert {answer.status_code for answer in answers} <= {good, 409}
    assert len({answer.content for answer in answers if answer.status_code == good}) == 1
    assert len(does.calls) == 1
    assert Request.objects.count() == 1
    assert len(provider.sends) == (1 if kind == "declared" else 0)


class Work:
    """What a request cost on the journal's connection, beside sessions, users and the handler's own rows."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.commits: set[str] = set()


@contextmanager
def work_of() -> Iterator[Work]:
    found = Work()

    def note(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        with connection.connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id_if_assigned()::text")
            xid = cursor.fetchone()[0]
        if xid is not None:
            found.commits.add(xid)
        return result

    with connection.execute_wrapper(note), CaptureQueriesContext(connection) as queries:
        yield found
    foreign = ("django_session", "auth_", "BEGIN", "COMMIT", "django_content_type")
    found.statements = [query["sql"] for query in queries if not any(word in query["sql"] for word in foreign)]


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def post(client: Client, url: str, **data: Any) -> Any:
    return client.post(url, json.dumps(data), "application/json", headers={"Idempotency-Key": "k"})


@database
@both_settings
def test_cost_of_a_transactional_request(protected_views: None, user: User, atomic_requests: bool) -> None:
    """One commit and at most 7 queries beside the handler's; a replay is one query and no commit."""
    client = logged_in(user)
    with work_of() as first:
        assert post(client, "/transactional/api/", name="a").status_code == 201
    assert len(first.commits) == 1
    assert len(first.statements) <= 7, first.statements
    with work_of() as replay:
        assert post(client, "/transactional/api/", name="a")["Idempotent-Replayed"] == "true"
    assert (len(replay.statements), replay.commits) == (1, set()), replay.statements


@database
@both_settings
def test_cost_of_a_journaled_request(protected_views: None, user: User, atomic_requests: bool) -> None:
    """With one effect 4 commits and at most 18 queries; a replay is one query and no commit."""
    client = logged_in(user)
    with provider_says(Charge, effects.Applied(1, "ch_1")):
        with work_of() as first:
            assert post(client, "/declared/api/", do="charge").status_code == 201
        with work_of() as replay:
            assert post(client, "/declared/api/", do="charge")["Idempotent-Replayed"] == "true"
    assert len(first.commits) == 4
    assert len(first.statements) <= 18, first.statements
    assert (len(replay.statements), replay.commits) == (1, set()), replay.statements


# -- row 42: a test case's own transaction ----------------------------------------------------------------------------


@override_settings(ROOT_URLCONF="tests.http.views", EFFECTS={})
class InsideTestCase(TestCase):
    """Both modes work inside of Django's TestCase, with ATOMIC_REQUESTS too."""

    def test_row_42(self) -> None:
        """Answers, replays, errors and rows, all within the test's transaction."""
        does.reset()
        client = logged_in(User.objects.create_user("ada"))
        before = connection.settings_dict["ATOMIC_REQUESTS"]
        for atomic_requests in (False, True):
            connection.settings_dict["ATOMIC_REQUESTS"] = atomic_requests
            self.addCleanup(connection.settings_dict.__setitem__, "ATOMIC_REQUESTS", before)
            for kind in ("transactional", "opaque", "declared"):
                url, name = f"/{kind}/api/", f"{kind}{atomic_requests}"
                for do, status in (("invalid", 400), ("nothing", 200)):
                    data = json.dumps({"do": do})
                    sent = [
                        client.post(url, data, "application/json", headers={"Idempotency-Key": f"{name}{do}"})
                        for _ in range(2)
                    ]
                    assert [answer.status_code for answer in sent] == [status] * 2
            with transaction.atomic(), pytest.raises((EffectsError, ImproperlyConfigured)):
                client.post("/opaque/api/", "{}", "application/json", headers={"Idempotency-Key": "inside"})
