"""Two at one instant: each race, and its control without the lock.

A control proves that the test would see the race: it removes what prevents it, and the race is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, models, transaction

import effects
from effects import transitions
from effects.models import Approval, Attempt, Execution, Receipt
from effects.models.base import new_id
from effects.runtime.background import look_up, run
from effects.testing import provider_says, time_passes
from effects.transitions import PermitDecision
from effects.vocabulary.exceptions import FencedError, NotEntitledError, PayloadConflictError
from effects.vocabulary.types import monotonic
from tests.core.declared import Charge, ChargePayload, Deduplicated, Plain, Ruled
from tests.core.racing import PATIENCE, OnSend, held, in_thread, together, wait_until_blocked
from tests.core.unlocked import read_clock_before_locks, remove_locks

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
def without_constraints(transactional_db) -> Iterator[Callable[..., None]]:
    """Drops constraints by name; they are there again after the test."""
    dropped: list[tuple[type[models.Model], models.BaseConstraint]] = []

    def drop(model: type[models.Model], *names: str) -> None:
        for name in names:
            constraint = next(each for each in model._meta.constraints if each.name == name)
            with connection.schema_editor() as editor:
                editor.remove_constraint(model, constraint)
            dropped.append((model, constraint))

    yield drop
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE effects_execution CASCADE")
    for model, constraint in dropped:
        with connection.schema_editor() as editor:
            editor.add_constraint(model, constraint)


class TestTwoPermits:
    """Two workers ask for the permit of one execution."""

    def test_one_gets_it_after_waiting_for_the_row(self, due):
        """Both waited for the row, which a third connection held: what they believed before counts for nothing."""
        with held("effects_execution", due.pk) as second:
            running = [in_thread(partial(ask_permit, due.pk)) for _ in range(2)]
            wait_until_blocked(2)
            second.rollback()
            for thread, _ in running:
                thread.join()
        assert sorted(result[0].permit is None for _, result in running) == [False, True]

    def test_one_gets_it(self, due):
        """The other one sees `executing`, and no permit."""
        decisions = together(partial(ask_permit, due.pk), partial(ask_permit, due.pk))
        assert sorted(decision.permit is None for decision in decisions) == [False, True]
        assert Attempt.objects.count() == 1

    def test_control_without_the_lock_both_would_try(self, due, monkeypatch):
        """Without the lock both believe that the row is pending; only the database's own rule stops the second."""
        remove_locks(monkeypatch, racers=2, last="Execution")
        decisions = together(partial(ask_permit, due.pk), partial(ask_permit, due.pk))
        assert [type(each) for each in decisions if isinstance(each, Exception)] == [IntegrityError]
        assert Attempt.objects.count() == 1

    def test_control_without_lock_and_rule_both_get_it(self, due, monkeypatch, without_constraints):
        """Without either there are two permits for one execution."""
        without_constraints(Attempt, "effects_attempt_one_open", "effects_attempt_number")
        without_constraints(Receipt, "effects_receipt_execution_sequence")
        remove_locks(monkeypatch, racers=2, last="Execution")
        decisions = together(partial(ask_permit, due.pk), partial(ask_permit, due.pk))
        assert all(decision.permit is not None for decision in decisions)

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
        """Four eyes counts all three as requesters, and the fourth person may approve."""
        people = [django_user_model.objects.create_superuser(name, password="x") for name in "abcd"]
        perform = partial(effects.perform, Ruled, payload=PAYLOAD, key="order-17")
        together(*[partial(perform, requested_by=person) for person in people[:3]])
        row = Execution.objects.get()
        assert row.state == "awaiting_approval"
        assert {actor["id"] for actor in row.requesters} == {f"user:{person.pk}" for person in people[:3]}
        digest = Approval.objects.get().digest
        for person in people[:3]:
            with pytest.raises(NotEntitledError):
                effects.grant(row.pk, by=person, digest=digest)
        assert effects.grant(row.pk, by=people[3], digest=digest).state == "pending"

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

    def test_control_without_the_unique_binding_both_send(self, without_constraints):
        """Without the constraint each sees its own row alone, until both have committed and sent."""
        without_constraints(Execution, "effects_execution_one_per_key", "effects_execution_provider_key")
        # after the insert, and again after each has looked who holds the key: whoever looks later sees both rows
        steps = {
            'INSERT INTO "effects_execution"': threading.Barrier(2),
            "WITH locked AS MATERIALIZED (SELECT * FROM effects_execution WHERE binding": threading.Barrier(2),
        }

        def meet(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            result = execute(sql, params, many, context)
            for step, both in steps.items():
                if sql.startswith(step):
                    both.wait(PATIENCE)
            return result

        def perform() -> effects.Outcome:
            with connection.execute_wrapper(meet):
                return effects.perform(Charge, payload=PAYLOAD, key="order-17")

        with provider_says(Charge, APPLIED) as said:
            together(perform, perform)
        assert len(said.sends) == 2

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
        """The second recorder waits for the first one's insert, and makes its own when that is undone."""
        recorded, undo = threading.Event(), threading.Event()

        def record_and_undo() -> None:
            with transaction.atomic():
                effects.perform_later(Plain, payload=PAYLOAD, key="order-17")
                recorded.set()
                undo.wait(PATIENCE)
                transaction.set_rollback(True)

        first, _ = in_thread(record_and_undo)
        assert recorded.wait(PATIENCE)
        with provider_says(Plain, effects.Applied(1)):
            second, result = in_thread(partial(effects.perform, Plain, payload=PAYLOAD, key="order-17"))
            wait_until_blocked()
            undo.set()
            first.join()
            second.join()
        assert isinstance(result[0], effects.Completed)
        assert Execution.objects.count() == 1


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
            wait_until_blocked()
            second.execute("SELECT pg_sleep_until(lease_expires_at) FROM effects_execution WHERE id = %s", [due.pk])
            second.rollback()
            thread.join()
        return result[0]

    def test_the_clock_is_read_after_the_lock(self, due):
        """The lease lived when the sweep asked for the row, and was past when it got it: past."""
        assert self.wait_past_the_end(due).state == "uncertain"

    def test_control_with_a_clock_from_before_the_lock_it_lives(self, due, monkeypatch):
        """A clock that was read first would leave a dead sender's row alone."""
        read_clock_before_locks(monkeypatch)
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
        with provider_says(Deduplicated, TimeoutError(), APPLIED) as said:
            ref = UUID(effects.perform(Deduplicated, payload=PAYLOAD, key="order-17").ref)
            time_passes(timedelta(minutes=1))
            together(partial(look_up, ref), partial(look_up, ref))
        assert len(said.sends) == 2
        assert Execution.objects.get(pk=ref).state == "completed"
