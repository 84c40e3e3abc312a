"""A row that raises whenever it is worked on: the others go on, it backs off, and it reaches a person."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

import effects
from effects import transitions
from effects.inspection.standstill import standstills
from effects.journal import faults
from effects.journal.locks import now
from effects.models import Execution, Request
from effects.runtime import background, operators
from effects.sweeps import SWEEPS
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import foreign
from tests.core.declared import Charge, ChargePayload, Deduplicated, Noted, Plain
from tests.core.test_requests import answers, conclude, opened
from tests.core.test_requests import in_doubt as doubtful

__all__ = ["answers"]

pytestmark = pytest.mark.django_db(transaction=True)


def dies() -> None:
    """End the process in the project's code, as SIGKILL would: what is repeated without that code ends too."""
    left = [2]

    def watch(point: str) -> None:
        if point.endswith("before_commit"):
            left[0] -= 1
            if not left[0]:
                faults.disarm()
            raise SystemExit(137)

    if foreign.present_try() is not None:
        faults.arm(watch)
    raise SystemExit(137)


def test_it_backs_off_shows_and_recovers(admin_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken one is tried ever more rarely and stands in the console; mended it is sent; the other never waited."""
    broken = effects.perform_later(Plain, payload=ChargePayload("bad", 1), key="broken")
    fine = effects.perform_later(Plain, payload=ChargePayload("good", 1), key="fine")
    with provider_says(Plain, effects.Applied(1)) as said, monkeypatch.context() as patch:
        real = Plain.describe

        def describe(self: Any, context: Any) -> effects.Summary:
            if context.payload.customer == "bad":
                raise LookupError("no such customer")
            return real(self, context)

        patch.setattr(Plain, "describe", describe)
        pauses = []
        for _ in range(4):
            run_due()
            row = Execution.objects.get(pk=broken.ref)
            pauses.append(round((row.swept_until - now()).total_seconds(), -1))
            page = admin_client.get(reverse("admin:effects_needs_a_person")).content.decode()
            assert ("no such customer" in page) == (row.trouble_count >= 3)
            time_passes(row.swept_until - row.created_at)
        assert pauses == [30, 60, 120, 240]
        assert row.trouble_count == 4
        assert "LookupError" in row.trouble
    assert [permit.number for _, permit in said.sends] == [1]
    assert effects.get(fine.ref).state == "completed"
    with provider_says(Plain, effects.Applied(1)):
        time_passes(timedelta(hours=1))
        run_due()
    row.refresh_from_db()
    assert (row.state, row.trouble_count, row.trouble) == ("completed", 0, "")


def test_a_look_up_that_raises_for_ever_backs_off_and_reaches_a_person(settings: Any) -> None:
    """Its claim alone is no progress; nor is somebody who joins."""

    def nobody(tenant: str) -> Any:
        raise LookupError("no such tenant")

    with provider_says(Charge, TimeoutError()):
        row = Execution.objects.get(pk=effects.perform(Charge, payload=ChargePayload("c1", 1), key="k1").ref)
    settings.EFFECTS = {"TENANT_CONTEXT": nobody}
    pauses = []
    for number in range(4):
        time_passes(timedelta(minutes=10))
        run_due()
        effects.perform(Charge, payload=ChargePayload("c1", 1), key="k1", requested_by=f"user {number}")
        row.refresh_from_db()
        pauses.append(row.trouble_count)
    assert pauses == [1, 2, 3, 4]
    settings.EFFECTS = {}
    time_passes(timedelta(hours=1))
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    row.refresh_from_db()
    assert (row.state, row.trouble) == ("completed", "")


# -- processes that die --------------------------------------------------------------------------------------------


def in_doubt(effect: Any = Charge) -> Execution:
    with provider_says(effect, TimeoutError()):
        outcome = effects.perform(effect, payload=ChargePayload("c1", 1), key="k1")
    time_passes(timedelta(minutes=10))
    return Execution.objects.get(pk=outcome.ref)


def exits(context: Any) -> Any:
    raise SystemExit(137)


def killed(row: Execution) -> None:
    """Leave the row as a process does that is killed while it asks."""
    assert transitions.claim(row.pk, now=True) is not None


def ended(row: Execution) -> None:
    """The process ends in the look-up: an interrupt is no answer."""
    with provider_says(row.operation, look_up=exits), pytest.raises(SystemExit):
        background.look_up(row.pk, now=True)


@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("die", [killed, ended])
def test_a_look_up_that_kills_its_process_backs_off_and_shows(die: Any, accepted: bool, admin_client: Any) -> None:
    """Each unanswered claim is waited for longer, up to an hour; from the third on it is shown; an answer ends it."""
    row = in_doubt()
    if accepted:
        with provider_says(Charge, look_up=effects.InProgress("ch_1")):
            background.look_up(row.pk, now=True)
    pauses = []
    for died in range(10):
        die(row)
        row.refresh_from_db()
        assert row.trouble_count == died
        assert row.due_at is not None
        pauses.append(round((row.due_at - now()).total_seconds() - 15, -1))
        page = admin_client.get(reverse("admin:effects_needs_a_person")).content.decode()
        assert ("never answered: its process died" in page) == (died >= 3)
        if died:  # at the end of its lease alone it is not due again
            time_passes(timedelta(seconds=16))
            with provider_says(Charge, look_up=effects.Found("ch_1")) as said:
                background.look_up(row.pk)
            assert said.look_ups == []
        time_passes(timedelta(hours=1))
        row.refresh_from_db()
    assert pauses == [0, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert row.state == ("accepted" if accepted else "uncertain")
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    row.refresh_from_db()
    assert (row.state, row.trouble_count, row.trouble) == ("completed", 0, "")


def test_an_answered_look_up_is_no_trouble() -> None:
    """Twenty that get their answer, whatever it is."""
    row = in_doubt()
    for _ in range(20):
        with provider_says(Charge, look_up=effects.Unreachable("down")):
            operators.look_up_now(row.pk)
        row.refresh_from_db()
        assert (row.trouble_count, row.lease_expires_at) == (0, None)


def test_one_that_raises_is_counted_once(settings: Any) -> None:
    """Its process lives: the claim is over with the error, and the next one does not take it for dead."""

    def nobody(tenant: str) -> Any:
        raise LookupError("no such tenant")

    row = in_doubt()
    settings.EFFECTS = {"TENANT_CONTEXT": nobody}
    for count in range(1, 5):
        with pytest.raises(LookupError):
            background.look_up(row.pk, now=True)
        row.refresh_from_db()
        assert (row.trouble_count, row.lease_expires_at) == (count, None)


def test_another_process_keeps_its_claim_when_an_older_one_raises() -> None:
    """The one that was taken over woke up and failed; the lease of the other is not its own to end."""
    row = in_doubt()
    older = transitions.claim(row.pk)
    time_passes(timedelta(minutes=1))
    newer = transitions.claim(row.pk)
    assert older is not None
    assert newer is not None
    transitions.note_trouble(row.pk, LookupError("late"), epoch=older.epoch)
    row.refresh_from_db()
    assert row.lease_expires_at is not None
    transitions.apply_verdict(row.pk, epoch=newer.epoch, verdict=effects.Found("ch_1"))
    row.refresh_from_db()
    assert row.state == "completed"


def test_a_hook_that_kills_look_ups_does_not_hold_the_outcome_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After three dead processes what was found is committed without the hook, which then runs alone."""
    row, ran = in_doubt(Noted), []

    def then(context: Any, outcome: effects.Outcome) -> None:
        ran.append(outcome.state)
        if len(ran) <= 3:
            dies()

    monkeypatch.setattr(Noted, "then", staticmethod(then))
    for died in range(3):
        with provider_says(Noted, look_up=effects.Found("ch_1")), pytest.raises(SystemExit):
            background.look_up(row.pk, now=True)
        assert len(ran) == died + 1
        time_passes(timedelta(hours=2))
    killed(row)
    time_passes(timedelta(hours=2))
    with provider_says(Noted, look_up=effects.Found("ch_1")):
        background.look_up(row.pk, now=True)
    row.refresh_from_db()
    assert (row.state, len(ran), row.hook_due_at is None) == ("completed", 3, False)
    run_due()
    row.refresh_from_db()
    assert (len(ran), row.hook_due_at) == (4, None)


# -- what kills the process that a sweep hands it to ---------------------------------------------------------------


def by_hook() -> tuple[str, Any]:
    with pytest.MonkeyPatch.context() as patch, provider_says(Noted, effects.Applied()):
        patch.setattr(Noted, "then", staticmethod(lambda context, outcome: 1 / 0))
        effects.perform(Noted, payload=ChargePayload("c1", 1), key="k1")
    return "run_hooks", (Noted, "then", staticmethod(exits_whatever))


def by_description() -> tuple[str, Any]:
    effects.perform_later(Plain, payload=ChargePayload("c1", 1), key="k1")
    return "run_due", (Plain, "describe", exits_whatever)


def by_precondition() -> tuple[str, Any]:
    effects.perform_later(Plain, payload=ChargePayload("c1", 1), key="k1")
    return "run_due", (Plain, "precondition", exits_whatever)


def by_precondition_of_a_repetition() -> tuple[str, Any]:
    with provider_says(Deduplicated, TimeoutError()):
        effects.perform(Deduplicated, payload=ChargePayload("c1", 1), key="k1")
    return "look_up_due", (Deduplicated, "precondition", exits_whatever)


def exits_whatever(*_arguments: Any) -> Any:
    dies()


@pytest.mark.parametrize("make", [by_hook, by_description, by_precondition, by_precondition_of_a_repetition])
def test_what_kills_each_process_is_handed_out_ever_more_rarely(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook, a summary, a precondition: half as long as it is due already, ten minutes or so; and it shows."""
    sweep, broken = make()
    monkeypatch.setattr(*broken)
    time_passes(timedelta(minutes=1))
    passed, pauses = timedelta(0), []
    while passed < timedelta(hours=6):
        with pytest.raises(SystemExit):
            SWEEPS[sweep].run_once()
        row = Execution.objects.get()
        assert row.swept_until is not None
        pauses.append(row.swept_until - now())
        assert len(pauses) < 80, "every 30 s it would be 720 times"
        assert SWEEPS[sweep].run_once() == {}
        time_passes(pauses[-1] + timedelta(seconds=1))
        passed += pauses[-1]
        assert passed < timedelta(minutes=5) or [found.sweep for found in standstills()] == [sweep]
    assert timedelta(seconds=14) < pauses[0] < timedelta(seconds=31)
    assert max(pauses) < timedelta(minutes=16)


def test_an_answer_that_kills_each_process_is_built_ever_more_rarely(answers: Any) -> None:
    """The request waits; its execution is settled and stays so."""
    answers(exits_whatever)
    request = opened()
    doubtful(request)
    conclude(request)
    with provider_says(Charge, look_up=effects.Found("ch_1")), pytest.raises(SystemExit):
        background.look_up(Execution.objects.get().pk, now=True)
    passed, count = timedelta(0), 0
    while passed < timedelta(hours=6):
        row = Request.objects.get()
        time_passes(max((row.swept_until or row.due_at) - now(), timedelta(0)) + timedelta(seconds=1))
        with pytest.raises(SystemExit):
            SWEEPS["settle_requests"].run_once()
        row = Request.objects.get()
        passed, count = passed + (row.swept_until - now()), count + 1
        assert count < 80
    assert (row.state, Execution.objects.get().state) == ("waiting", "completed")
    assert [found.sweep for found in standstills()] == ["settle_requests"]


def test_one_that_kills_its_process_holds_up_no_other_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is due first and takes the sweep with it each time; the others are handed out without it at some time."""
    effects.perform_later(Plain, payload=ChargePayload("deadly", 1), key="deadly")
    others = [effects.perform_later(Plain, payload=ChargePayload("fine", 1), key=f"fine-{n}") for n in range(3)]
    real = Plain.describe

    def describe(self: Any, context: Any) -> Any:
        return exits_whatever() if context.payload.customer == "deadly" else real(self, context)

    monkeypatch.setattr(Plain, "describe", describe)
    with provider_says(Plain, effects.Applied(1)):
        for _ in range(200):
            with contextlib.suppress(SystemExit):
                SWEEPS["run_due"].run_once()
            time_passes(timedelta(seconds=5))
    assert {str(effects.get(other.ref).state) for other in others} == {"completed"}
    assert str(effects.get(Execution.objects.get(key="deadly").pk).state) == "pending"


def test_whatever_is_done_with_a_row_forgets_that_it_was_handed_out_in_vain() -> None:
    """A lost message costs 30 s the first time, also for what has been due for hours."""
    row = effects.perform_later(Plain, payload=ChargePayload("c1", 1), key="k1")
    time_passes(timedelta(hours=3))
    SWEEPS["run_due"].run_once(publish=lambda _: None)
    handed = Execution.objects.get(pk=row.ref)
    assert handed.swept_until is not None
    assert round((handed.swept_until - now()).total_seconds(), -1) == 30
