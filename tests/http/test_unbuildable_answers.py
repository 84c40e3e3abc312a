"""What is settled is told, whether or not an answer can be built of it; what is not, is told when to ask again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.http import JsonResponse
from django.urls import clear_url_caches
from django.utils import timezone

import effects
from effects.models import Execution, Request
from effects.runtime import operators
from effects.sweeps import SWEEPS
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import LocalWriteError
from tests.core.declared import Approved, Charge, Plain
from tests.core.people import PAYLOAD
from tests.http.conftest import Sender
from tests.http.demanding import demand, nothing_finished, runs, told
from tests.http.reading import body, code, state

pytestmark = pytest.mark.django_db(transaction=True)
DONE = effects.Applied({"id": "ch_1"}, "ch_1")
HALF = effects.Partial([effects.Item("a", True), effects.Item("b", False)])
YEAR = timedelta(days=365)
PLACES = ("/api/", "/plain/", "/async/")


@pytest.fixture(autouse=True)
def demanding(protected_views: None, settings: Any) -> Iterator[None]:
    """Views whose handler and `answer=` demand an output of everything."""
    settings.ROOT_URLCONF = "tests.http.demanding"
    settings.EFFECTS = {"DISPATCH": "none", "EXECUTION_RETENTION": YEAR}
    clear_url_caches()
    told.reset()
    yield
    told.reset()


def abandoned(by: User) -> None:
    """Let a person say that nobody will know."""
    row = Execution.objects.get()
    operators.resolve(row.pk, decision="unknown", revision=row.revision, by=by, reason="nobody knows")


def expired() -> None:
    """Complete the execution long ago, so that retention has dropped its output."""
    with provider_says(Charge, DONE):
        effects.perform(Charge, payload=PAYLOAD, key="c")
    time_passes(YEAR + timedelta(days=1))
    SWEEPS["prune"].run_once()


@pytest.mark.parametrize("place", PLACES)
class TestEachKindOfView:
    def test_partially_completed(self, send: Sender, place: str) -> None:
        """The client is told that it happened and has no result; no person is asked, a duplicate hears the same."""
        with provider_says(Charge, HALF) as provider:
            for _ in range(3):
                answer = send(place)
                assert (answer.status_code, code(answer)) == (409, "operation_result_unavailable")
                assert body(answer)["safe_new_key"] is False
        assert (state(), len(runs), len(provider.sends)) == ("answered", 1, 1)

    def test_an_output_that_retention_dropped(self, send: Sender, place: str) -> None:
        """A late duplicate under another key meets what was done, and asks nobody."""
        expired()
        for key in ("k", "k", "another"):
            assert code(send(place, key)) == "operation_result_unavailable"
        assert {row.state for row in Request.objects.all()} == {"answered"}

    def test_abandoned(self, send: Sender, place: str, approver: User) -> None:
        """Nobody will know: the client is told that it was closed."""
        with provider_says(Charge, TimeoutError("t")):
            assert code(send(place)) == "operation_uncertain"
        time_passes(timedelta(hours=1))
        abandoned(approver)
        run_due()
        for key in ("k", "another"):
            assert code(send(place, key)) == "operation_resolved"
        assert state() == "answered"

    def test_failed(self, send: Sender, place: str) -> None:
        """It did not happen, and a new key is safe."""
        with provider_says(Charge, effects.Declined("no")):
            answer = send(place)
        assert (code(answer), body(answer)["safe_new_key"]) == ("operation_not_applied", True)

    def test_a_handler_that_returns_not_finished(self, send: Sender, place: str) -> None:
        """It ends like one that was cut short: `answer=` answers, or says the same and a person decides."""
        told.handle = nothing_finished
        with provider_says(Charge, DONE):
            assert body(send(place)) == {"outputs": [{"id": "ch_1"}]}
        told.answer = lambda *outcomes: effects.NotFinished("the second one is missing")
        assert code(send(place, "another")) == "operation_uncertain"
        assert state("another") == "in_doubt"


class TestOneOfSeveral:
    def test_completed_beside_partially_completed(self, send: Sender) -> None:
        """Whichever of them has no output, what happened is told."""

        def both() -> Any:
            return demand(
                effects.perform(Charge, payload=PAYLOAD, key="c"), effects.perform(Plain, payload=PAYLOAD, key="p")
            )

        told.handle = both
        with provider_says(Charge, DONE), provider_says(Plain, HALF):
            assert code(send("/api/")) == "operation_result_unavailable"
        assert state() == "answered"

    def test_nothing_is_told_while_one_is_in_doubt(self, send: Sender) -> None:
        """A partial one beside one that may have happened is in doubt, not settled."""

        def both() -> Any:
            first = effects.perform(Charge, payload=PAYLOAD, key="c")
            return demand(effects.perform(Plain, payload=PAYLOAD, key="p"), first)

        told.handle = both
        with provider_says(Charge, TimeoutError("t")), provider_says(Plain, HALF):
            assert code(send("/api/")) == "operation_uncertain"
        assert state() == "waiting"


class TestAnswers:
    def test_no_output_is_one(self, send: Sender) -> None:
        """None is what some effects return: the answer is built."""
        with provider_says(Charge, effects.Applied(None, "ch_1")):
            assert body(send("/api/")) == {"outputs": [None]}

    @pytest.mark.parametrize(
        "use",
        [
            lambda outcome: JsonResponse({"id": outcome.output}),
            lambda outcome: JsonResponse({"id": outcome.output["id"]}),
            lambda outcome: JsonResponse({"id": f"{outcome.output}"}),
            lambda outcome: JsonResponse({"id": [outcome.require()]}),
        ],
    )
    def test_an_expired_output_however_it_is_used(self, send: Sender, use: Any) -> None:
        """Also where it is handed to `json`, which asks it for nothing."""
        expired()
        told.answer = use
        assert code(send("/api/")) == "operation_result_unavailable"
        assert state() == "answered"

    def test_a_bug_stays_due_and_is_shown(self, send: Sender) -> None:
        """An answer that raises anything else is a bug: nobody is told a wrong end, and the mended one answers."""

        def broken(*outcomes: Any) -> Any:
            raise KeyError("bug")

        told.handle, told.answer = nothing_finished, broken
        with provider_says(Charge, HALF):
            assert code(send("/api/")) == "operation_uncertain"
        row = Request.objects.get()
        assert "KeyError" in row.answer_error
        assert row.due_at is not None
        told.answer = lambda *outcomes: JsonResponse({"half": len(outcomes[0].items)})
        time_passes(timedelta(minutes=1))
        run_due()
        assert body(send("/api/")) == {"half": 2}

    def test_an_output_that_this_code_cannot_read_stays_due(self, send: Sender, monkeypatch: Any) -> None:
        """The deploy that can read it answers."""
        told.handle = nothing_finished
        with provider_says(Charge, DONE):
            effects.perform(Charge, payload=PAYLOAD, key="c")
        Execution.objects.update(output_version=99)
        assert code(send("/api/")) == "operation_uncertain"
        assert Request.objects.get().due_at is not None
        Execution.objects.update(output_version=1)
        time_passes(timedelta(minutes=1))
        run_due()
        assert body(send("/api/")) == {"outputs": [{"id": "ch_1"}]}

    def test_an_answer_that_performs_is_a_bug(self, send: Sender) -> None:
        """It runs in the transaction that settles: nothing is sent from there, and its error says so."""

        def performs(*outcomes: Any) -> Any:
            return demand(effects.perform(Plain, payload=PAYLOAD, key="p"))

        told.handle, told.answer = nothing_finished, performs
        with provider_says(Charge, DONE), provider_says(Plain, DONE) as provider:
            send("/api/")
        assert "OpenTransactionError" in Request.objects.get().answer_error
        assert not provider.sends

    @pytest.mark.parametrize("says", [effects.NotFinished, effects.NotFinished("half of it")])
    def test_not_finished_as_class_and_instance(self, send: Sender, says: Any) -> None:
        """Both say the same: a person decides."""
        told.handle, told.answer = nothing_finished, lambda *outcomes: says
        with provider_says(Charge, DONE):
            assert code(send("/api/")) == "operation_uncertain"
        row = Request.objects.get()
        assert (row.state, row.answer_error, row.due_at) == ("in_doubt", "", None)

    def test_the_status_resource_says_the_same(self, send: Sender) -> None:
        """A client that polls learns what the client that repeats is told."""
        with provider_says(Charge, HALF):
            send("/api/")
        told_there = body(send(f"/operations/{Request.objects.get().pk}/", None, method="GET"))
        assert (told_there["code"], told_there["operation_state"]) == ("operation_result_unavailable", "answered")
        assert told_there["safe_new_key"] is False


class TestNotFinishedElsewhere:
    @pytest.mark.parametrize("says", [effects.NotFinished, effects.NotFinished("x")])
    @pytest.mark.parametrize(
        ("url", "method", "key", "told_code"),
        [
            ("/api/", "POST", "k", "execution_unavailable"),
            ("/plain/", "POST", "k", "execution_unavailable"),
            ("/api/", "PUT", "k", "operation_uncertain"),
            ("/api/", "PATCH", "k", "execution_unavailable"),
            ("/optional/", "POST", None, "operation_uncertain"),
        ],
    )
    def test_is_no_500(self, send: Sender, says: Any, url: str, method: str, key: str | None, told_code: str) -> None:
        """Freed where nothing can have happened, in doubt where a view may have called out itself; rows are undone."""

        def handle() -> Any:
            if method == "PATCH":
                Group.objects.create(name="g")
            return says

        told.handle = handle
        answer = send(url, key, method=method)
        assert (answer.status_code < 500 or answer.status_code == 503, code(answer)) == (True, told_code)
        assert not Group.objects.exists()


class TestPerformLater:
    @pytest.mark.parametrize("how", ["alone", "with a key", "in a transaction"])
    def test_in_a_declared_view_says_how(self, send: Sender, how: str) -> None:
        """There is no transaction that the answer commits with: the error names the lines, and nothing is written."""

        def later() -> Any:
            if how == "in a transaction":
                with transaction.atomic():
                    effects.perform_later(Charge, payload=PAYLOAD)
            return effects.perform_later(Charge, payload=PAYLOAD, key="c" if how == "with a key" else None)

        told.handle = later
        with pytest.raises(LocalWriteError, match=r"finishing\(\)"):
            send("/api/", raises=True)
        assert not Execution.objects.exists()
        assert state() == "released"

    def test_in_finishing_it_commits_with_the_answer(self, send: Sender) -> None:
        """The way that the error names."""

        def later() -> Any:
            handle = effects.current()
            assert handle is not None
            with handle.finishing():
                effects.perform_later(Charge, payload=PAYLOAD)
                return JsonResponse({"later": True})

        told.handle = later
        assert body(send("/api/")) == {"later": True}
        assert (state(), Execution.objects.get().state) == ("answered", "pending")


class TestRetryAfter:
    def waits(self, send: Sender) -> list[int]:
        """Return what the answer and the status resource say; they say the same."""
        answer = send("/api/")
        status = send(f"/operations/{Request.objects.get().pk}/", None, method="GET")
        seconds = [int(status["Retry-After"]), body(status)["poll_after_seconds"]]
        return [int(answer["Retry-After"]), *seconds] if answer.status_code == 202 else seconds

    @pytest.mark.parametrize(
        ("due_in", "low", "high"),
        [
            (timedelta(seconds=-5), 1, 1),
            (timedelta(seconds=90), 80, 90),
            (timedelta(minutes=40), 2390, 2400),
            (timedelta(days=3), 3600, 3600),
        ],
    )
    def test_pending_is_asked_for_when_it_is_due(self, send: Sender, due_in: timedelta, low: int, high: int) -> None:
        """Not before, and at least once an hour."""
        with provider_says(Charge, effects.NotNow("busy")):
            send("/api/")
            Execution.objects.update(due_at=timezone.now() + due_in)
            assert all(low <= seconds <= high for seconds in self.waits(send))

    def test_in_doubt_is_asked_for_when_it_is_looked_up(self, send: Sender) -> None:
        """The status of what waits for its barrier says when."""
        with provider_says(Charge, TimeoutError("t")):
            send("/api/")
            Execution.objects.update(due_at=timezone.now() + timedelta(minutes=5))
            assert all(290 <= seconds <= 300 for seconds in self.waits(send))

    def test_people_may_decide_at_any_time(self, send: Sender, approver: User) -> None:
        """Until when they may is no reason to wait."""
        told.handle = lambda: demand(effects.perform(Approved, payload=PAYLOAD, key="a"))
        assert self.waits(send) == [30, 30, 30]

    def test_an_answer_that_is_tried_again_later(self, send: Sender) -> None:
        """Where all is settled and `answer=` fails, the request's own due time counts."""

        def broken(*outcomes: Any) -> Any:
            raise KeyError("bug")

        told.answer = broken
        with provider_says(Charge, TimeoutError("t"), look_up=effects.Found("ch_1")):
            send("/api/")
            time_passes(timedelta(minutes=6))
            run_due()
        Request.objects.update(due_at=timezone.now() + timedelta(minutes=4))
        assert all(230 <= seconds <= 240 for seconds in self.waits(send))


class TestWritesOutsideOfFinishing:
    @pytest.mark.parametrize(
        "sql",
        [
            "INSERT INTO effects_ledger VALUES (1)",
            'UPDATE "effects_of_the_day" SET a = 1',
            "INSERT INTO effects_execution_mine VALUES (1)",
            "INSERT INTO effects_execution (id) VALUES (gen_random_uuid())",
            "UPDATE effects_request SET state = 'answered'",
            "insert into\n  EFFECTS_ledger values (1)",
        ],
    )
    def test_no_table_passes_because_of_its_name(self, send: Sender, sql: str) -> None:
        """Neither a project's own table, nor ours: the library commits its rows by itself."""

        def writes() -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql)

        told.handle = writes
        with pytest.raises(LocalWriteError, match=r"writes \(\w+\) outside"):
            send("/api/", raises=True)
