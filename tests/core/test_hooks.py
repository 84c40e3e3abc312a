"""The settled hook: the project's own rows, once for each settling, whoever settles and whatever the hook raises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

import effects
from effects import transitions
from effects.models import Execution
from effects.runtime import background, operators
from effects.sweeps import run_hooks
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Charge, Noted
from tests.core.people import PAYLOAD, approve, asked, person
from tests.core.racing import second_connection, together
from tests.core.test_requests import handled, opened

pytestmark = pytest.mark.django_db
Hook = Callable[[Any, effects.Outcome], None]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hook], None]:
    """Let a test say what the hook of `Noted` does."""
    return lambda then: monkeypatch.setattr(Noted, "then", then)


@pytest.fixture
def told(hook: Any) -> list[str]:
    """Let the hook write down which states it was told, beside a row of the project's own."""
    states: list[str] = []

    def then(context: Any, outcome: effects.Outcome) -> None:
        get_user_model().objects.create_user(f"row-{context.key}")
        states.append(str(outcome.state))

    hook(then)
    return states


def perform(*answers: Any, look_up: Any = (), **options: Any) -> Execution:
    """Perform the effect, then do whatever is due."""
    with provider_says(Noted, *answers, look_up=look_up):
        outcome = effects.perform(Noted, payload=PAYLOAD, key="k1", requested_by="ann", **options)
        run_due()
    return Execution.objects.get(pk=outcome.ref)


def rows() -> int:
    """Return how many rows of the project's own there are."""
    return get_user_model().objects.filter(username__startswith="row-").count()


# -- who settles ---------------------------------------------------------------------------------------------------


def by_handler() -> None:
    with provider_says(Noted, effects.Applied()):
        handled(opened(), lambda: effects.perform(Noted, payload=PAYLOAD, key="k1"))


def by_worker() -> None:
    effects.perform_later(Noted, payload=PAYLOAD, key="k1")
    with provider_says(Noted, effects.Applied()):
        background.run(Execution.objects.get().pk)


def by_look_up() -> None:
    perform(TimeoutError(), look_up=effects.Found("ch_1"))


def by_approval() -> None:
    row = asked(Noted, by=person("ann", approver=False), require_approval=True) if person("bob") else None
    assert row is not None
    with provider_says(Noted, effects.Applied()):
        approve(row, get_user_model().objects.get(username="bob"))
        run_due()


def by_operator() -> None:
    row = perform(TimeoutError())
    effects.resolve(row.pk, decision="applied", revision=row.revision, by="olga", reason="r")


@pytest.mark.parametrize("settle", [by_handler, by_worker, by_look_up, by_approval, by_operator])
def test_a_completed_execution_has_its_row_once_whoever_settles_it(settle: Any, told: list[str]) -> None:
    """The handler, a worker, a look-up, an approval's worker or a person; repeated calls and sweeps add none."""
    settle()
    row = Execution.objects.get()
    with provider_says(Noted):
        effects.perform(Noted, payload=PAYLOAD, key="k1", requested_by="ann", tenant=row.tenant)
        background.run(row.pk)
        background.look_up(row.pk, now=True)
    operators.observe(row.pk, reference=row.reference, evidence={})
    time_passes(timedelta(hours=1))
    run_due()
    assert (row.state, told, rows()) == ("completed", ["completed"], 1)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (effects.Declined("no"), "failed"),
        (effects.Partial([effects.Item("a", applied=True), effects.Item("b", applied=False)]), "partially_completed"),
    ],
)
def test_every_settled_state_is_told(answer: Any, state: str, told: list[str]) -> None:
    """Not only what completed."""
    perform(answer)
    assert told == [state]


def test_rejected_and_abandoned_are_told_too(told: list[str]) -> None:
    """Never sent, and never known."""
    effects.perform_later(Noted, payload=PAYLOAD, key="k2")
    effects.cancel(Execution.objects.get().pk, by="ann", reason="r")
    row = perform(TimeoutError())
    effects.resolve(row.pk, decision="unknown", revision=row.revision, by="olga", reason="r")
    assert told == ["rejected", "abandoned"]


def test_what_is_not_settled_is_not_told(told: list[str]) -> None:
    """In doubt, accepted, retried: nothing is known yet."""
    for number, answer in enumerate((TimeoutError(), effects.Submitted("ch_1"), effects.NotNow("busy"))):
        with provider_says(Noted, answer):
            effects.perform(Noted, payload=PAYLOAD, key=f"k{number}")
    assert told == []


def test_after_a_contradiction_the_hook_is_told_again_with_the_earlier_outcome(hook: Any) -> None:
    """So that the project can take back what it concluded."""
    seen: list[tuple[Any, Any]] = []
    hook(lambda context, outcome: seen.append((context.previous, outcome)))
    row = perform(effects.Declined("no funds", code="declined"))
    operators.observe(row.pk, reference="ch_1", evidence={})
    row.refresh_from_db()
    assert len(seen) == 1
    effects.resolve(row.pk, decision="applied", revision=row.revision, by="olga", reason="r", reference="ch_1")
    (first, failed), (previous, completed) = seen
    assert first is None
    assert isinstance(failed, effects.Failed)
    assert isinstance(completed, effects.Completed)
    assert previous == failed


# -- a hook that raises --------------------------------------------------------------------------------------------


def raising(context: Any, outcome: effects.Outcome) -> None:
    get_user_model().objects.create_user(f"row-{context.key}")
    raise ZeroDivisionError("bug")


def swallowing(context: Any, outcome: effects.Outcome) -> None:
    get_user_model().objects.create_user(f"row-{context.key}")
    with contextlib.suppress(IntegrityError):
        get_user_model().objects.create_user(f"row-{context.key}")


def undoing(context: Any, outcome: effects.Outcome) -> None:
    get_user_model().objects.create_user(f"row-{context.key}")
    transaction.set_rollback(True)


def breaking(context: Any, outcome: effects.Outcome) -> None:
    get_user_model().objects.create_user(f"row-{context.key}")
    with contextlib.suppress(DataError), connection.cursor() as cursor:
        cursor.execute("SELECT 1/0")


@pytest.mark.parametrize("fault", [raising, swallowing, undoing, breaking])
def test_a_hook_that_fails_undoes_itself_alone(fault: Hook, hook: Any, told: list[str]) -> None:
    """The outcome is committed, the hook's rows are not, it stays due and is shown; later its row is there once."""
    hook(fault)
    with provider_says(Noted, effects.Applied(None, "ch_1")):
        outcome = effects.perform(Noted, payload=PAYLOAD, key="k1")
    row = Execution.objects.get()
    assert isinstance(outcome, effects.Completed)
    assert (row.state, rows(), row.hook_failures, bool(row.hook_error)) == ("completed", 0, 1, True)
    assert row.hook_due_at is not None

    def then(context: Any, outcome: effects.Outcome) -> None:
        get_user_model().objects.create_user(f"row-{context.key}")

    hook(then)
    for _ in range(3):
        time_passes(timedelta(minutes=1))
        run_due()
    row.refresh_from_db()
    assert (rows(), row.hook_due_at, row.hook_error) == (1, None, "")


def test_a_hook_that_keeps_failing_backs_off(hook: Any) -> None:
    """From a second, doubling to five minutes; it never stops the row's other life."""
    hook(raising)
    before = timezone.now()
    row = perform(effects.Applied())
    for seconds in (1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300):
        delay = timedelta(seconds=seconds)
        assert before + delay <= row.hook_due_at <= timezone.now() + delay
        time_passes(delay)
        before = timezone.now()
        run_hooks.run_once()
        row.refresh_from_db()
    assert row.hook_failures == 13


def test_the_hook_of_an_effect_that_is_gone_waits_for_the_deploy_that_has_it(hook: Any, told: list[str]) -> None:
    """It backs off like one that raises and says what is missing; once the effect is back its row is there."""
    hook(raising)
    row = perform(effects.Applied())
    Execution.objects.filter(pk=row.pk).update(operation="bank.gone")
    time_passes(timedelta(minutes=1))
    assert run_hooks.run_once() == {"failed": 1}
    gone = Execution.objects.get(pk=row.pk)
    assert (gone.hook_failures, gone.swept_until) == (2, None)
    assert "bank.gone" in gone.hook_error
    assert gone.hook_due_at is not None

    hook(lambda context, outcome: told.append(str(outcome.state)))
    Execution.objects.filter(pk=row.pk).update(operation=row.operation)
    time_passes(timedelta(minutes=1))
    assert run_hooks.run_once() == {"done": 1}
    assert told == ["completed"]


def test_a_hook_whose_execution_was_contradicted_is_not_due_any_more(hook: Any) -> None:
    """It would tell what is no longer so."""
    seen: list[str] = []

    def then(context: Any, outcome: effects.Outcome) -> None:
        seen.append(str(outcome.state))
        raise ZeroDivisionError

    hook(then)
    row = perform(effects.Declined("no"))
    operators.observe(row.pk, reference="ch_1", evidence={})
    time_passes(timedelta(hours=1))
    run_due()
    assert seen == ["failed"]


# -- what a hook may do --------------------------------------------------------------------------------------------


def test_a_hook_may_perform_something_later(hook: Any) -> None:
    """It commits with the hook's rows, and is sent afterwards."""
    hook(lambda context, outcome: effects.perform_later(Charge, payload=PAYLOAD, key=f"receipt-{context.key}"))
    with provider_says(Charge, effects.Applied()) as said:
        perform(effects.Applied())
    assert len(said.sends) == 1


def test_what_a_failing_hook_performed_later_is_never_sent(hook: Any) -> None:
    """It is undone with the hook's rows."""

    def then(context: Any, outcome: effects.Outcome) -> None:
        effects.perform_later(Charge, payload=PAYLOAD, key="receipt")
        raise ZeroDivisionError

    hook(then)
    with provider_says(Charge) as said:
        perform(effects.Applied())
    assert said.sends == []
    assert Execution.objects.count() == 1


def test_a_hook_may_not_perform(hook: Any) -> None:
    """A provider's call inside the transaction that settles is refused, with the fix."""
    refused: list[Exception] = []

    def then(context: Any, outcome: effects.Outcome) -> None:
        try:
            effects.perform(Charge, payload=PAYLOAD, key="receipt")
        except exceptions.OpenTransactionError as error:
            refused.append(error)

    hook(then)
    with provider_says(Charge) as said:
        perform(effects.Applied())
    assert said.sends == []
    assert "perform_later" in str(refused[0])


def test_a_hook_belongs_to_no_request(hook: Any) -> None:
    """Who happened to settle it is nothing to the project's rows."""
    seen: list[Any] = []
    hook(lambda context, outcome: seen.append(effects.current()))

    def call() -> None:
        with provider_says(Noted, effects.Applied()):
            effects.perform(Noted, payload=PAYLOAD, key="k1")
        seen.append(effects.current() is not None)

    handled(opened(), call)
    assert seen == [None, True]


# -- one commit ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_hooks_rows_commit_with_the_state(hook: Any) -> None:
    """A second connection sees neither while the hook runs, and both after it."""
    seen: list[tuple[str, int]] = []

    def look() -> None:
        with second_connection() as second:
            (state,) = second.execute("SELECT state FROM effects_execution").fetchone() or ("",)
            (count,) = second.execute("SELECT count(*) FROM auth_user").fetchone() or (0,)
            seen.append((state, count))

    def then(context: Any, outcome: effects.Outcome) -> None:
        get_user_model().objects.create_user("row-1")
        look()

    hook(then)
    with provider_says(Noted, effects.Applied()):
        effects.perform(Noted, payload=PAYLOAD, key="k1")
    look()
    assert seen == [("executing", 0), ("completed", 1)]


@pytest.mark.django_db(transaction=True)
def test_two_workers_run_a_due_hook_once(hook: Any) -> None:
    """Both workers got its id; the row's lock lets one of them run it."""
    hook(raising)
    with provider_says(Noted, effects.Applied()):
        effects.perform(Noted, payload=PAYLOAD, key="k1")
    row = Execution.objects.get()
    count: list[str] = []
    hook(lambda context, outcome: count.append(context.ref))
    results = together(*[lambda: transitions.run_hook(row.pk)] * 2)
    assert len(count) == 1
    assert [result.hook_due_at for result in results] == [None, None]


class Unprintable(Exception):  # noqa: N818 - as foreign code names them
    """Raises when it is printed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_hook_whose_error_cannot_be_printed_loses_no_outcome(hook: Any) -> None:
    """The outcome is committed all the same."""

    def then(context: Any, outcome: effects.Outcome) -> None:
        raise Unprintable

    hook(then)
    row = perform(effects.Applied())
    assert (row.state, row.hook_error) == ("completed", "Unprintable: <unprintable>")


def test_a_look_up_whose_error_cannot_be_printed_is_inconclusive() -> None:
    """As one that can."""
    row = perform(TimeoutError(), look_up=Unprintable())
    assert (row.state, row.trouble) == ("uncertain", "")


@contextlib.contextmanager
def cannot_enter(tenant: str) -> Iterator[None]:
    """The tenant's rows are gone."""
    connection.cursor().execute("SELECT 1 FROM no_such_table")
    yield


@contextlib.contextmanager
def cannot_leave(tenant: str) -> Iterator[None]:
    """The way back fails."""
    yield
    connection.cursor().execute("SELECT 1 FROM no_such_table")


@contextlib.contextmanager
def swallows(tenant: str) -> Iterator[None]:
    """A careless context."""
    with contextlib.suppress(ZeroDivisionError):
        yield
        raise ZeroDivisionError


@pytest.mark.parametrize("context", [cannot_enter, cannot_leave])
def test_a_broken_tenant_context_loses_no_outcome_and_doubles_no_row(
    told: list[str], settings: Any, context: Any
) -> None:
    """The hook's rows are undone with it, and written once when it is mended."""
    settings.EFFECTS = {"TENANT_CONTEXT": context}
    row = perform(effects.Applied())
    assert (row.state, row.hook_due_at is not None) == ("completed", True)
    assert not get_user_model().objects.filter(username=f"row-{row.key}").exists()
    settings.EFFECTS = {}
    time_passes(timedelta(minutes=1))
    run_due()
    assert get_user_model().objects.filter(username=f"row-{row.key}").count() == 1


def test_a_tenant_context_that_swallows_errors_does_not_pass_for_a_hook_that_ran(hook: Any, settings: Any) -> None:
    """The row would be missing, and nobody would know."""
    settings.EFFECTS = {"TENANT_CONTEXT": swallows}
    hook(lambda context, outcome: 1 / 0)
    row = perform(effects.Applied())
    assert row.hook_due_at is not None
    assert "swallowed" in row.hook_error
