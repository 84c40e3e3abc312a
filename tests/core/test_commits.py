"""`commits()`: what it refuses, and what it says when COMMIT gets no answer."""
# ruff: noqa: PT012 - an error that comes with the end of a block needs the block

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, nullcontext
from functools import partial

import pytest
from django.db import IntegrityError, OperationalError, connection, connections, transaction

import effects
from effects import transitions
from effects.journal import commits as _commits
from effects.journal.commits import after_commit, commits
from effects.journal.locks import lock_execution
from effects.models import Attempt, Execution, Heartbeat, Receipt
from effects.testing import provider_says
from effects.vocabulary.exceptions import (
    CommitLostError,
    CommitUnknownError,
    JournalUnavailableError,
    MarkedForRollbackError,
    OpenTransactionError,
)
from effects.vocabulary.failures import classify
from tests.core.declared import Charge, ChargePayload, Plain
from tests.core.pg_proxy import Fault, PgProxy
from tests.core.racing import OnSend, held, in_thread

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db(transaction=True)


def write() -> None:
    """Write something with a known transaction id."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text")
        _commits.note_xid(cursor.fetchone()[0])
    Heartbeat.objects.create(sweep="s", at="2026-01-01T00:00:00Z")


class TestRefusals:
    """`atomic(durable=True)` alone proves nothing."""

    @pytest.fixture
    def other(self, monkeypatch):
        """A second alias to the same database."""
        monkeypatch.setitem(connections.settings, "other", {**connections.settings["default"]})
        connections["other"].connect()
        yield
        connections["other"].close()
        del connections["other"]

    def test_an_open_transaction(self):
        """Inside atomic() nothing could be proven committed."""
        with transaction.atomic(), pytest.raises(OpenTransactionError, match="perform_later"), commits():
            pytest.fail("the block must not run")

    def test_an_open_transaction_on_another_alias(self, other):
        """The provider would be called inside of it."""
        with transaction.atomic(using="other"), pytest.raises(OpenTransactionError, match="'other'"), commits():
            pytest.fail("the block must not run")

    def test_autocommit_switched_off(self):
        """With autocommit off `durable=True` neither commits nor refuses."""
        transaction.set_autocommit(False)
        try:
            with pytest.raises(OpenTransactionError, match="autocommit"), commits():
                pytest.fail("the block must not run")
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    def test_autocommit_off_in_the_settings_before_the_first_query(self):
        """A connection that is not open yet is asked for its settings."""
        connection.close()
        connection.settings_dict["AUTOCOMMIT"] = False
        try:
            with pytest.raises(OpenTransactionError, match="autocommit"), commits():
                pytest.fail("the block must not run")
        finally:
            connection.settings_dict["AUTOCOMMIT"] = True
            connection.close()

    def test_a_block_marked_for_rollback(self):
        """Django would leave it without an error and without a commit."""
        with pytest.raises(MarkedForRollbackError), commits():
            write()
            transaction.set_rollback(True)
        assert not Heartbeat.objects.exists()

    def test_a_connection_closed_inside_the_block(self):
        """Django would leave this one in silence too."""
        with pytest.raises(MarkedForRollbackError), commits():
            write()
            connection.close()
        assert not Heartbeat.objects.exists()

    def test_an_error_of_the_block_is_its_own(self):
        """A violated constraint stays one."""
        with pytest.raises(IntegrityError), commits():
            write()
            write()

    def test_a_lock_timeout_is_no_lost_database(self):
        """A statement that failed says so itself: the connection is there."""
        with provider_says(Plain, effects.Applied()):
            ref = effects.perform(Plain, payload=PAYLOAD, key="k").ref
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")

        with held("effects_execution", ref), pytest.raises(JournalUnavailableError, match="lock timeout"), commits():
            lock_execution(ref)
        connection.close()


class TestHooks:
    """What waits for the commit runs once it is proven, and cannot undo it."""

    def test_run_after_the_commit(self):
        """A hook sees no transaction."""
        seen = []
        with commits():
            write()
            transaction.on_commit(lambda: seen.append(connection.in_atomic_block))
            assert seen == []
        assert seen == [False]

    def test_do_not_run_after_a_rollback(self):
        """A block that fails hints at nothing."""
        seen = []
        with pytest.raises(ZeroDivisionError), commits():
            after_commit(lambda: seen.append(1))
            raise ZeroDivisionError
        with commits():
            write()
        assert seen == []

    def test_errors_are_logged(self, caplog):
        """A broken hook, a functools.partial too, stops neither the caller nor the next hook."""
        seen = []
        with commits():
            write()
            transaction.on_commit(partial(int, "no number"))
            after_commit(partial(int, "no number either"))
            after_commit(partial(seen.append, 1))
        assert seen == [1]
        assert Heartbeat.objects.exists()
        assert len([record for record in caplog.records if "after the commit" in record.message]) == 2

    def test_errors_of_the_database_are_not_taken_for_a_lost_commit(self, caplog):
        """A hook that fails with an OperationalError runs once."""
        seen = []

        def fail() -> None:
            seen.append(1)
            raise OperationalError("the hook's own")

        with commits():
            write()
            transaction.on_commit(fail)
        assert seen == [1]

    def test_after_commit_outside_of_commits(self, caplog):
        """In the caller's own transaction a hint that fails is logged as well."""
        with transaction.atomic():
            after_commit(partial(int, "no number"))
        assert "after the commit" in caplog.text


class TestLostCommit:
    """A COMMIT without an answer is settled by the transaction's own status."""

    def test_committed(self, pg_proxy: PgProxy):
        """The reply is lost: the block was committed, and what waited for it runs."""
        seen = []
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY)
        with commits():
            write()
            transaction.on_commit(partial(seen.append, "hook"))
            after_commit(partial(seen.append, "hint"))
        assert Heartbeat.objects.exists()
        assert seen == ["hook", "hint"]

    def test_rolled_back(self, pg_proxy: PgProxy):
        """COMMIT never arrived: CommitLostError, nothing written, no hook."""
        seen = []
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_COMMIT)
        with pytest.raises(CommitLostError), commits():
            write()
            after_commit(partial(seen.append, 1))
        assert not Heartbeat.objects.exists()
        assert seen == []

    @pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_AND_LOSE])
    def test_still_under_way(self, pg_proxy: PgProxy, fault):
        """While the old backend has not decided, nobody acts: what a SELECT sees now may be wrong either way."""
        with connection.cursor():
            pg_proxy.on_commit(fault)
        asked = threading.Event()

        def watch(execute, sql, params, many, context):
            result = execute(sql, params, many, context)
            if "pg_xact_status" in sql:
                asked.set()
            return result

        def release() -> None:
            assert asked.wait(10)
            pg_proxy.release()

        releasing, _ = in_thread(release)
        lost = pytest.raises(CommitLostError) if fault is Fault.HOLD_AND_LOSE else nullcontext()
        with connection.execute_wrapper(watch), lost, commits():
            write()
        releasing.join()
        assert asked.is_set()
        assert Heartbeat.objects.exists() is (fault is Fault.HOLD)

    def test_unknown(self, pg_proxy: PgProxy, monkeypatch):
        """The database stays away: nobody can say, and CommitUnknownError says that."""
        monkeypatch.setattr(_commits, "SETTLE_SECONDS", 0.2)
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY, then_away=True)
        with pytest.raises(CommitUnknownError), commits():
            write()
        pg_proxy.come_back()
        assert Heartbeat.objects.exists()

    def test_unknown_without_an_id(self, pg_proxy: PgProxy):
        """A transaction whose id was never noted cannot be asked for."""
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY)
        with pytest.raises(CommitUnknownError, match="no known id"), commits():
            Heartbeat.objects.create(sweep="s", at="2026-01-01T00:00:00Z")

    def test_an_id_of_the_future_is_unknown(self, pg_proxy: PgProxy):
        """After a failover to a server that never heard of the transaction, nobody can say."""
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY)
        with pytest.raises(CommitUnknownError), commits():
            write()
            _commits.note_xid(str(2**50))

    def test_the_database_is_away_from_the_start(self, pg_proxy: PgProxy):
        """Nothing was written, and the error is ours."""
        pg_proxy.go_away()
        with pytest.raises(JournalUnavailableError) as caught, commits():
            pytest.fail("the block must not run")
        assert not caught.value.effect_may_have_happened

    def test_the_connection_is_terminated_in_the_block(self):
        """An administrator's kill before COMMIT is unavailability, and nothing was written."""
        with pytest.raises(JournalUnavailableError), commits():
            write()
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        assert not Heartbeat.objects.exists()

    def test_idle_too_long_in_the_block(self):
        """A connection that the server closed for idling is unavailability, though psycopg calls it internal."""
        with connection.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = '1ms'")
        with pytest.raises(JournalUnavailableError), commits():
            write()
            while True:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")

    def test_a_violated_deferred_constraint_says_what_it_is(self, pg_proxy: PgProxy):
        """An error that the server answers to COMMIT is no lost COMMIT."""
        with pytest.raises(IntegrityError), commits():
            write()
            Attempt.objects.create(
                id="0190d2c4-0000-7000-8000-000000000000", execution_id="0190d2c4-0000-7000-8000-000000000001",
                number=1, epoch=1, permitted_at="2026-01-01T00:00:00Z", deadline="2026-01-01T00:00:00Z",
                outcome="unknown",
            )  # fmt: skip
        assert not Heartbeat.objects.exists()


class TestPermit:
    """No send on a permit that is not proven."""

    def test_reply_lost(self, pg_proxy: PgProxy):
        """The permit's COMMIT lost its reply: it is there, so the provider is called, once."""
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY)
        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Completed)
        assert len(said.sends) == 1
        assert [receipt.event for receipt in Receipt.objects.order_by("sequence")] == ["record", "permit", "complete"]

    def test_commit_lost_once(self, pg_proxy: PgProxy):
        """The permit was rolled back: it is asked for again, and the provider is called once."""
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_COMMIT)
        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert isinstance(outcome, effects.Completed)
        assert len(said.sends) == 1
        assert Attempt.objects.count() == 1

    def test_commit_lost_twice(self, pg_proxy: PgProxy):
        """Two losses in a row: the caller hears that nothing was sent, and nothing was."""
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_COMMIT, Fault.LOSE_COMMIT)
        with provider_says(Charge, effects.Applied()) as said, pytest.raises(CommitLostError):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert said.sends == []
        assert not Execution.objects.exists()

    def test_commit_unknown(self, pg_proxy: PgProxy, monkeypatch):
        """Nobody can say: nothing is sent, though the permit may stand; its lease runs out into doubt."""
        monkeypatch.setattr(_commits, "SETTLE_SECONDS", 0.2)
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY, then_away=True)
        with provider_says(Charge, effects.Applied()) as said, pytest.raises(CommitUnknownError):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert said.sends == []
        pg_proxy.come_back()
        assert Execution.objects.get().state == "executing"

    def test_a_retry_of_an_unknown_permit_sends_nothing(self, pg_proxy: PgProxy, monkeypatch):
        """Whoever asks again meets the open attempt, whose permit nobody else may use."""
        monkeypatch.setattr(_commits, "SETTLE_SECONDS", 0.2)
        with connection.cursor():
            pg_proxy.on_commit(Fault.LOSE_REPLY, then_away=True)
        with provider_says(Charge, effects.Applied()) as said:
            with pytest.raises(CommitUnknownError):
                effects.perform(Charge, payload=PAYLOAD, key="order-17")
            pg_proxy.come_back()
            assert isinstance(effects.perform(Charge, payload=PAYLOAD, key="order-17"), effects.Executing)
        assert said.sends == []


class TestOutcome:
    """What is known after the call is written for as long as the process lives; the call is never repeated."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        monkeypatch.setattr(_commits, "SETTLE_SECONDS", 0.2)

    @pytest.mark.parametrize("fault", [Fault.LOSE_COMMIT, Fault.LOSE_REPLY])
    def test_commit_lost(self, pg_proxy: PgProxy, fault, no_hook_calls):
        """Whatever happened to the outcome's COMMIT, it is there in the end, with one settled hook that counted."""

        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
            said.sends = OnSend(lambda: pg_proxy.on_commit(fault))
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.require() == {"id": "ch_1"}
        assert len(said.sends) == 1
        assert [receipt.event for receipt in Receipt.objects.order_by("sequence")] == ["record", "permit", "complete"]
        assert Attempt.objects.get().outcome == "applied"

    def test_the_database_is_away(self, pg_proxy: PgProxy, caplog):
        """The database goes away during the call and comes back: the outcome is written, the provider called once."""

        def come_back() -> None:
            for _ in range(2):
                assert pg_proxy.refused.acquire(timeout=20)
            pg_proxy.come_back()

        returning, _ = in_thread(come_back)
        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said:
            said.sends = OnSend(pg_proxy.go_away)
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        returning.join()
        assert outcome.require() == {"id": "ch_1"}
        assert len(said.sends) == 1
        assert effects.get(outcome.ref).state == "completed"
        assert "cannot be recorded yet" in caplog.text

    def test_the_row_is_locked_for_too_long(self, caplog):
        """A lock timeout is no reason to forget what the provider said: it is written when the row is free."""
        with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")) as said, ExitStack() as stack:

            def lock() -> None:
                context, _ = said.sends[0]
                stack.enter_context(held("effects_execution", context.ref))
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '1ms'")

            def unlock(record: logging.LogRecord) -> bool:
                stack.close()
                return True

            said.sends = OnSend(lock)
            caplog.handler.addFilter(unlock)
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            caplog.handler.removeFilter(unlock)
        assert "cannot be recorded yet" in caplog.text
        assert outcome.require() == {"id": "ch_1"}
        assert len(said.sends) == 1

    def test_a_lost_commit_of_an_outcome_is_not_taken_for_a_takeover(self, pg_proxy: PgProxy):
        """The outcome repeated with the same attempt returns what is there."""
        with provider_says(Charge, TimeoutError("t")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        attempt, failure = Attempt.objects.get(), classify(TimeoutError("t"))
        again = transitions.record_outcome(attempt.execution_id, attempt=attempt.pk, epoch=1, report=failure)
        assert again.outcome == effects.get(outcome.ref).outcome
        assert Receipt.objects.count() == 3
