"""`sending`: the caller's own block makes the call, under the same permit and with the same record."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

import effects
from effects.models import Attempt, Execution
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Approved, Charge, Patient, Plain
from tests.core.people import PAYLOAD, person

pytestmark = pytest.mark.django_db
WORDS: dict[str, Any] = {"payload": PAYLOAD, "key": "order-17", "requested_by": "ann"}


def state() -> tuple[str, str, bool]:
    """Return the one execution's state, reason and doubt."""
    row = Execution.objects.get()
    return row.state, row.reason, row.may_have_applied


def test_a_block_that_reports_is_a_send() -> None:
    """The attempt is committed before the block; the outcome is what it reported."""
    with effects.sending(Charge, **WORDS) as sending:
        assert sending.permit is not None
        attempt = Attempt.objects.get(pk=sending.permit.attempt)
        assert (attempt.outcome, attempt.provider_key) == ("open", sending.permit.provider_key)
        assert (sending.context.ref, sending.context.payload) == (sending.outcome.ref, PAYLOAD)
        sending.report(effects.Applied({"id": "ch_1"}, "ch_1"))
    assert sending.outcome.require() == {"id": "ch_1"}
    assert state() == ("completed", "sent", True)


def test_a_silent_block_is_in_doubt() -> None:
    """Nobody said what happened, so it may have."""
    with effects.sending(Charge, **WORDS) as sending:
        pass
    assert isinstance(sending.outcome, effects.Uncertain)
    assert state()[0] == "uncertain"


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (effects.Declined("no funds"), ("failed", False)),
        (TimeoutError("nothing came"), ("uncertain", True)),
        (KeyboardInterrupt(), ("uncertain", True)),
        (ZeroDivisionError("a bug"), ("uncertain", True)),
    ],
)
def test_an_exception_is_judged_as_of_send_and_goes_on(error: BaseException, after: tuple[str, bool]) -> None:
    """Only what proves that nothing was done is a failure."""
    with pytest.raises(type(error)), effects.sending(Charge, **WORDS) as sending:
        raise error
    assert (state()[0], state()[2]) == after
    assert sending.outcome.state == after[0]


def test_an_exception_after_the_report_leaves_it_standing() -> None:
    """The provider has answered; what the caller does with the answer is another matter."""
    with contextlib.suppress(ZeroDivisionError), effects.sending(Charge, **WORDS) as sending:
        sending.report(effects.Applied(None, "ch_1"))
        raise ZeroDivisionError
    assert (state()[0], sending.outcome.state) == ("completed", "completed")


def test_a_known_key_gives_no_permit() -> None:
    """The block sees the first outcome, and reporting anything is an error."""
    with provider_says(Charge, effects.Applied({"id": "ch_1"})):
        first = effects.perform(Charge, **WORDS)
    with effects.sending(Charge, **WORDS) as sending:
        assert (sending.permit, sending.context, sending.outcome) == (None, None, first)
        with pytest.raises(exceptions.WrongStateError, match="no permit"):
            sending.report(effects.Applied())
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(("effect", "waits"), [(Approved, "awaiting_approval"), (Patient, "pending")])
def test_what_may_not_be_sent_now_gives_no_permit(effect: Any, waits: str) -> None:
    """It waits for people, or for its precondition; a worker sends it by `send`."""
    person("bob")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Patient, "precondition", lambda self, context: effects.Later(timedelta(hours=1), "not yet"))
        with effects.sending(effect, **WORDS) as sending:
            assert sending.permit is None
    assert (state()[0], sending.outcome.state, Attempt.objects.count()) == (waits, waits, 0)


def test_one_permit_is_one_report() -> None:
    """A second call would need a second permit."""
    with effects.sending(Charge, **WORDS) as sending:
        sending.report(effects.Applied(None, "ch_1"))
        with pytest.raises(exceptions.WrongStateError, match="already"):
            sending.report(effects.Applied(None, "ch_2"))
    assert Execution.objects.get().reference == "ch_1"


def test_what_is_proven_absent_is_sent_later_by_the_effect() -> None:
    """The block made the first call; a worker has only `send`."""
    with pytest.raises(ConnectionResetError), effects.sending(Charge, **WORDS):
        raise ConnectionResetError
    time_passes(timedelta(hours=1))
    with provider_says(Charge, effects.Applied(None, "ch_1"), look_up=effects.Absent()) as said:
        run_due()
    assert (len(said.sends), state()[0]) == (1, "completed")


def test_not_inside_a_transaction() -> None:
    """The record must be committed before the call."""
    with pytest.raises(exceptions.OpenTransactionError, match="sending"), transaction.atomic():  # noqa: SIM117
        with effects.sending(Plain, **WORDS):
            pass
    assert not Execution.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_async_code_waits_without_holding_a_thread() -> None:
    """Two waits and what they wait for take turns in the one thread of the database."""
    with provider_says(Charge, TimeoutError("nothing came")):
        ref = effects.perform(Charge, **WORDS).ref

    async def settle() -> None:
        await sync_to_async(effects.observe)(ref, reference="ch_1", evidence={})
        with provider_says(Charge, look_up=effects.Found("ch_1")):
            await sync_to_async(run_due)()

    async def main() -> list[Any]:
        minute = timedelta(minutes=1)
        return await asyncio.gather(effects.await_(ref, minute), effects.await_(ref, minute), settle())

    first, second, _ = async_to_sync(main)()
    assert (first.state, second) == ("completed", first)
    assert async_to_sync(effects.await_)(ref, timedelta(0)) == first


def test_a_wait_that_is_over_returns_the_outcome_as_it_stands() -> None:
    """Settled or not."""
    with provider_says(Charge, TimeoutError("nothing came")):
        ref = effects.perform(Charge, **WORDS).ref
    assert effects.wait(ref, timedelta(milliseconds=50)).state == "uncertain"
