"""Two at one instant: each race, and its control without the lock.

A control proves that the test would see the race: it removes what prevents it, and the race is there.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, models

import effects
from effects import _locks, transitions
from effects.exceptions import FencedError, PayloadConflictError
from effects.models import Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.runner import look_up, run
from effects.testing import provider_says, time_passes
from effects.transitions import PermitDecision
from effects.types import monotonic
from tests.core.declared import Charge, ChargePayload, Plain, Ruled
from tests.core.racing import OnSend, held, in_thread, together, wait_until_blocked

PAYLOAD = ChargePayload("c1", 1000)
APPLIED = effects.Applied({"id": "ch_1"}, "ch_1")

pytestmark = pytest.mark.django_db(transaction=True)


def ask_permit(execution_id: UUID) -> PermitDecision:
    row = Execution.objects.get(pk=execution_id)
    return transitions.permit(execution_id, attempt=new_id(), started=monotonic(), summary=row.summary)


@pytest.fixture
def due() -> Execution:
    return Execution.objects.get(pk=effects.perform_later(Charge, payload=PAYLOAD, key="order-17").ref)


@pytest.fixture
def without_locks(monkeypatch):
    """Reads the row with its clock, and takes no lock."""

    def read(model: type[models.Model], column: str, value: object, also: str = "") -> models.Model:
        sql = (
            f"SELECT *, clock_timestamp() AS locked_at, pg_current_xact_id()::text AS xid "
            f"FROM {model._meta.db_table} WHERE {column} = %s {also}"
        )
        return next(iter(model._default_manager.raw(sql, [str(value)])))

    monkeypatch.setattr(_locks, "_lock", read)


@pytest.fixture
def clock_before_the_lock(monkeypatch):
    """Locks the row as ever, with a clock that was read before it waited."""
    lock = _locks._lock

    def early(model: type[models.Model], column: str, value: object, also: str = "") -> models.Model:
        now = _locks.now()
        row = lock(model, column, value, also)
        row.locked_at = now
        return row

    monkeypatch.setattr(_locks, "_lock", early)


class TestTwoPermits:
    """Two workers ask for the permit of one execution."""

    def race(self, due: Execution) -> list[PermitDecision | Exception]:
        """Both have asked before either may write: a third connection holds the row until both are there."""
        with held("effects_execution", due.pk) as second:
            running = [in_thread(partial(ask_permit, due.pk)) for _ in range(2)]
            wait_until_blocked(second, 1)
            second.rollback()
            for thread, _ in running:
                thread.join()
        return [result[0] for _, result in running]

    def test_one_gets_it(self, due):
        """The other one sees `executing`, and no permit."""
        decisions = together(partial(ask_permit, due.pk), partial(ask_permit, due.pk))
        assert sorted(decision.permit is None for decision in decisions) == [False, True]
        assert Attempt.objects.count() == 1

    def test_one_gets_it_after_waiting_for_the_row(self, due):
        """Both waited for the row: what they believed before counts for nothing."""
        decisions = self.race(due)
        assert sorted(decision.permit is None for decision in decisions) == [False, True]

    def test_control_without_the_lock_both_would_try(self, due, without_locks):
        """Without the lock both believe that the row is pending; only the database's own rule stops the second."""
        decisions = self.race(due)
        assert [type(each) for each in decisions if isinstance(each, Exception)] == [IntegrityError]
        assert Attempt.objects.count() == 1

    def test_control_without_lock_and_rule_both_get_it(self, due, without_locks):
        """Without either there are two permits for one execution."""
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX effects_attempt_one_open")
            cursor.execute("ALTER TABLE effects_attempt DROP CONSTRAINT effects_attempt_number")
            cursor.execute("ALTER TABLE effects_receipt DROP CONSTRAINT effects_receipt_execution_sequence")
        try:
            decisions = self.race(due)
            assert all(decision.permit is not None for decision in decisions)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("TRUNCATE effects_attempt, effects_receipt")
                for model, name in ((Attempt, "effects_attempt_one_open"), (Attempt, "effects_attempt_number"),
                                    (Receipt, "effects_receipt_execution_sequence")):  # fmt: skip
                    constraint = next(each for each in model._meta.constraints if each.name == name)
                    with connection.schema_editor() as editor:
                        editor.add_constraint(model, constraint)

    def test_two_workers_send_once(self, due):
        """A hint that was delivered twice makes one request to the provider."""
        with provider_says(Charge, APPLIED) as said:
            together(partial(run, due.pk), partial(run, due.pk))
        assert len(said.sends) == 1
        due.refresh_from_db()
        assert due.state == "completed"


class TestOneKey:
    """A redirect, a webhook and a task perform `order-17` at one instant."""

    def test_three_users_meet_in_one_execution(self):
        """One execution, one send, all three requesters."""
        with provider_says(Charge, APPLIED) as said:
            outcomes = together(*[
                partial(effects.perform, Charge, payload=PAYLOAD, key="order-17", requested_by=user)
                for user in ("redirect", "webhook", "task")
            ])  # fmt: skip
        assert len(said.sends) == 1
        assert {outcome.ref for outcome in outcomes} == {str(Execution.objects.get().pk)}
        assert {actor["id"] for actor in Execution.objects.get().requesters} == {"redirect", "webhook", "task"}
        assert Execution.objects.get().state == "completed"

    def test_all_three_wait_for_approval_and_none_may_give_it(self, django_user_model):
        """Four eyes counts all three as requesters."""
        people = [django_user_model.objects.create_superuser(name, password="x") for name in "abcd"]
        together(*[
            partial(effects.perform, Ruled, payload=PAYLOAD, key="order-17", requested_by=person) for person in people[:3]
        ])  # fmt: skip
        row = Execution.objects.get()
        assert row.state == "awaiting_approval"
        assert {actor["id"] for actor in row.requesters} == {f"user:{person.pk}" for person in people[:3]}

    def test_two_payloads_at_one_instant(self):
        """One is recorded and sent, the other refused."""
        with provider_says(Charge, APPLIED) as said:
            results = together(
                partial(effects.perform, Charge, payload=PAYLOAD, key="order-17"),
                partial(effects.perform, Charge, payload=ChargePayload("c1", 2000), key="order-17"),
            )
        assert sorted(type(result).__name__ for result in results) == ["Completed", "PayloadConflictError"]
        assert [type(each) for each in results if isinstance(each, Exception)] == [PayloadConflictError]
        assert len(said.sends) == 1

    def test_control_without_the_unique_binding_there_are_two(self):
        """Without the constraint two recorders would each have an execution of their own."""
        constraint = next(
            each for each in Execution._meta.constraints if each.name == "effects_execution_one_per_key"
        )
        other = next(each for each in Execution._meta.constraints if each.name == "effects_execution_provider_key")
        with connection.schema_editor() as editor:
            editor.remove_constraint(Execution, constraint)
            editor.remove_constraint(Execution, other)
        try:
            with provider_says(Plain, effects.Applied()) as said:

                def record_again() -> None:
                    if len(said.sends) == 1:
                        Execution.objects.update(holds_key=False)
                        effects.perform(Plain, payload=PAYLOAD, key="order-17")
                        Execution.objects.update(holds_key=True)

                said.sends = OnSend(record_again)
                effects.perform(Plain, payload=PAYLOAD, key="order-17")
            assert len(said.sends) == 2
        finally:
            with connection.cursor() as cursor:
                cursor.execute("TRUNCATE effects_execution CASCADE")
            with connection.schema_editor() as editor:
                editor.add_constraint(Execution, constraint)
                editor.add_constraint(Execution, other)

    def test_whoever_asks_while_it_is_sent_hears_so(self):
        """The provider is being called: the second caller joins, and gets `Executing`."""
        met = []
        with provider_says(Charge, APPLIED) as said:

            def ask() -> None:
                thread, result = in_thread(
                    partial(effects.perform, Charge, payload=PAYLOAD, key="order-17", requested_by="another")
                )
                thread.join()
                met.extend(result)

            said.sends = OnSend(ask)
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="first")
        assert [type(each) for each in met] == [effects.Executing]
        assert met[0].ref == outcome.ref
        assert len(said.sends) == 1
        assert [receipt.event for receipt in Receipt.objects.order_by("sequence")] == [
            "record", "permit", "join", "complete",
        ]  # fmt: skip

    def test_a_recorder_that_rolls_back_leaves_the_key_free(self):
        """The second recorder waited for the first one's insert, and makes its own when that is undone."""
        with held("effects_execution", new_id()) as second:
            row = effects.perform_later(Plain, payload=PAYLOAD, key="other")
            second.execute(
                "CREATE TEMPORARY TABLE copy ON COMMIT DROP AS SELECT * FROM effects_execution WHERE id = %s", [row.ref]
            )
            Execution.objects.update(key="order-17", binding=row_binding())
            second.execute("UPDATE copy SET id = %s, provider_key = 'fx_x', binding = %s", [new_id(), row_binding("x")])
            Execution.objects.update(key="other", binding=row_binding("y"))
            second.execute("UPDATE copy SET binding = %s, key = 'order-17'", [row_binding()])
            second.execute("INSERT INTO effects_execution SELECT * FROM copy")
            with provider_says(Plain, effects.Applied(1)):
                thread, result = in_thread(partial(effects.perform, Plain, payload=PAYLOAD, key="order-17"))
                wait_until_blocked(second)
                second.rollback()
                thread.join()
        assert isinstance(result[0], effects.Completed)


def row_binding(key: str = "order-17") -> str:
    from effects.intents import binding_of

    return binding_of("", "bank.plain", key)


class TestExpiry:
    """A lease is compared with the clock as it stands once the row is ours."""

    def wait_past_the_end(self, due: Execution) -> effects.Outcome:
        """Ask while the lease lives, and get the row after its end."""
        ask_permit(due.pk)
        lease = timedelta(milliseconds=300)
        with held("effects_execution", due.pk) as second:
            second.execute(
                "UPDATE effects_execution SET lease_expires_at = clock_timestamp() + %s WHERE id = %s", [lease, due.pk]
            )
            second.commit()
            second.execute("SELECT 1 FROM effects_execution WHERE id = %s FOR UPDATE", [due.pk])
            thread, result = in_thread(partial(transitions.expire_lease, due.pk))
            wait_until_blocked(second)
            second.execute("SELECT pg_sleep_until(lease_expires_at) FROM effects_execution WHERE id = %s", [due.pk])
            second.rollback()
            thread.join()
        return result[0]

    def test_the_clock_is_read_after_the_lock(self, due):
        """The lease lived when the sweep asked for the row, and was past when it got it: past."""
        assert self.wait_past_the_end(due).state == "uncertain"

    def test_control_with_a_clock_from_before_the_lock_it_lives(self, due, clock_before_the_lock):
        """A clock that was read first would leave a dead sender's row alone."""
        assert self.wait_past_the_end(due).state == "executing"

    def test_an_outcome_written_meanwhile_wins(self, due):
        """The sender's own outcome got the row first: the sweep finds nothing to expire."""
        permit = ask_permit(due.pk).permit
        time_passes(timedelta(minutes=1))
        results = together(
            partial(transitions.expire_lease, due.pk),
            partial(transitions.record_outcome, due.pk, attempt=permit.attempt, epoch=1, report=APPLIED),
        )
        due.refresh_from_db()
        if isinstance(results[1], FencedError):
            assert (due.state, due.reason) == ("uncertain", "lease_expired")
        else:
            assert (due.state, due.reason) == ("completed", "sent")
            assert results[0].state == "completed"
        assert Attempt.objects.get().outcome != "open"

    def test_a_sender_whose_lease_was_taken_over_just_now(self, due):
        """The outcome waited for the sweep: it is refused, and its success settles the execution all the same."""
        with provider_says(Charge, APPLIED) as said:

            def lose_the_lease() -> None:
                time_passes(timedelta(minutes=1))
                thread, _ = in_thread(partial(transitions.expire_lease, due.pk))
                thread.join()

            said.sends = OnSend(lose_the_lease)
            run(due.pk)
        due.refresh_from_db()
        assert (due.state, due.reason) == ("completed", "late_reply")


class TestTwoResends:
    def test_two_sweeps_resend_once(self, due):
        """Something in doubt that may be repeated is sent again by one of two workers."""
        from tests.core.declared import Deduplicated

        with provider_says(Deduplicated, TimeoutError(), APPLIED) as said:
            ref = UUID(effects.perform(Deduplicated, payload=PAYLOAD, key="order-17").ref)
            together(partial(look_up, ref), partial(look_up, ref))
        assert len(said.sends) == 2
        assert Execution.objects.get(pk=ref).state == "completed"
