"""What the provider answered is committed, whatever the project's code does between the answer and its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.utils import OperationalError

import effects
from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.models import Attempt, Execution, Request
from effects.runtime import background
from effects.signals import execution_changed
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Noted, Plain
from tests.core.people import PAYLOAD
from tests.core.racing import OnSend, second_connection
from tests.core.test_requests import answers, conclude, handled, opened

__all__ = ["answers"]

pytestmark = pytest.mark.django_db(transaction=True)
#: Never run: it only stands in a thread, as that of another greenlet does.
LOOP = asyncio.new_event_loop()
Hook = Callable[[Any, effects.Outcome], None]


class SoftTimeLimitExceeded(Exception):  # noqa: N818
    """Named as Celery's, which is known by its name."""


class GreenletExit(BaseException):
    """As greenlet's."""


class Unprintable(Exception):  # noqa: N818
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no text")


@pytest.fixture(autouse=True, scope="module")
def loop_closed() -> Iterator[None]:
    """The loop that is never run ends with the module."""
    yield
    LOOP.close()


@pytest.fixture(autouse=True)
def fresh_connection() -> Iterator[None]:
    """What a hook did to this thread's connection ends with the test."""
    yield
    asyncio._set_running_loop(None)
    connection.close()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hook], list[str]]:
    """Let the hook of `Noted` do something; return the keys that it was told, once for each run."""
    told: list[str] = []

    def install(act: Any) -> list[str]:
        def then(context: Any, outcome: effects.Outcome) -> None:
            told.append(context.key)
            get_user_model().objects.create_user(f"row-{len(told)}")
            act()

        monkeypatch.setattr(Noted, "then", then)
        return told

    return install


def rows() -> int:
    return get_user_model().objects.filter(username__startswith="row-").count()


def execute(sql: str) -> Callable[[], None]:
    def act() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    return act


def killed_by_the_server() -> None:
    """As an administrator, or a failing network, ends a session."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with second_connection() as second:
        second.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def idle_for_too_long() -> None:
    """The server ends the session while the hook waits for something else."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
        cursor.execute("SET idle_in_transaction_session_timeout = '10ms'")
    with second_connection() as second:
        second.autocommit = True
        while second.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
            pass


def leaves_a_block_open() -> None:
    transaction.atomic().__enter__()


def leaves_a_broken_block_open() -> None:
    transaction.atomic().__enter__()
    execute("SELECT 1/0")()


def swallows_an_error() -> None:
    with suppress(Exception):
        execute("SELECT 1/0")()


def breaks_a_deferred_constraint() -> None:
    execute("INSERT INTO auth_user_groups (user_id, group_id) VALUES (0, 0)")()


def runs_into_a_lock_timeout() -> None:
    with second_connection() as second:
        second.execute("LOCK TABLE auth_group")
        execute("SET LOCAL lock_timeout = '10ms'")()
        execute("SELECT * FROM auth_group")()


def is_cancelled_at_commit() -> None:
    execute(
        "CREATE FUNCTION pg_temp.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION USING ERRCODE = 'query_canceled'; END$$"
    )()
    execute(
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON auth_user DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION pg_temp.slow()"
    )()
    get_user_model().objects.create_user("late")


def leaves_a_loop_running() -> None:
    """As another greenlet of the same thread does, whose send runs an event loop."""
    asyncio._set_running_loop(LOOP)


def runs_a_loop() -> None:
    async def nothing() -> None:
        await asyncio.sleep(0)

    asyncio.run(nothing())
    raise LookupError("after the loop")


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


BREAKS = [
    killed_by_the_server,
    idle_for_too_long,
    connection.close,
    lambda: transaction.set_rollback(True),
    lambda: transaction.set_autocommit(False),
    execute("COMMIT"),
    execute("ROLLBACK"),
    execute("SELECT 1/0"),
    leaves_a_block_open,
    leaves_a_broken_block_open,
    swallows_an_error,
    breaks_a_deferred_constraint,
    runs_into_a_lock_timeout,
    is_cancelled_at_commit,
    leaves_a_loop_running,
    runs_a_loop,
    raises(Unprintable()),
    raises(OperationalError("no such server")),
]
NAMES = [
    "killed", "idle", "closed", "rollback", "autocommit", "raw_commit", "raw_rollback", "error", "open_block",
    "broken_block", "swallowed", "deferred_constraint", "lock_timeout", "cancelled_commit", "running_loop", "own_loop",
    "unprintable", "operational_error",
]  # fmt: skip


@pytest.fixture(params=BREAKS, ids=NAMES)
def breaks(request: pytest.FixtureRequest) -> Any:
    """One way for the project's code to break what it runs in."""
    return request.param


def settled_row() -> Execution:
    asyncio._set_running_loop(None)
    return Execution.objects.get()


def settle_by_perform() -> Execution:
    with provider_says(Noted, effects.Applied({"id": "n1"}, "n1")):
        outcome = effects.perform(Noted, payload=PAYLOAD, key="k1")
    assert isinstance(outcome, effects.Completed), outcome
    return settled_row()


def doubted() -> Execution:
    with provider_says(Noted, TimeoutError()):
        effects.perform(Noted, payload=PAYLOAD, key="k1")
    return settled_row()


def settle_by_look_up() -> Execution:
    row = doubted()
    with provider_says(Noted, look_up=effects.Found("n1", output={"id": "n1"})):
        background.look_up(row.pk, now=True)
    return settled_row()


def settle_by_a_person() -> Execution:
    row = doubted()
    effects.resolve(
        row.pk, decision="applied", revision=row.revision, by="olga", reason="r", reference="n1", output={"id": "n1"}
    )
    return settled_row()


def settle_late() -> Execution:
    """The lease was taken over while the provider was called."""
    with provider_says(Noted, effects.Applied({"id": "n1"}, "n1")) as said:

        def taken_over() -> None:
            time_passes(timedelta(minutes=1))
            transitions.expire_lease(Execution.objects.get().pk)

        said.sends = OnSend(taken_over)
        effects.perform(Noted, payload=PAYLOAD, key="k1")
    return settled_row()


WAYS = [settle_by_perform, settle_by_look_up, settle_by_a_person, settle_late]


@pytest.mark.parametrize("settle", WAYS)
def test_a_hook_that_breaks_its_transaction_costs_no_answer(settle: Any, breaks: Any, hook: Any) -> None:
    """The outcome and its reference stand; the hook, which ran once, is due, later, and says why."""
    told = hook(breaks)
    row = settle()
    assert (row.state, row.reference, row.output) == ("completed", "n1", '{"id":"n1"}')
    assert row.hook_due_at is not None
    assert row.hook_error
    assert row.hook_due_at > row.settled_at
    assert len(told) <= 2
    assert Attempt.objects.get().outcome in ("applied", "unknown")
    assert not connection.in_atomic_block


def test_a_hook_that_was_mended_runs(breaks: Any, hook: Any) -> None:
    """Its next run is as if nothing had been, and the row settles nothing twice."""
    told = hook(breaks)
    settle_by_perform()
    asyncio._set_running_loop(None)
    hook(lambda: None)
    ran = len(told)
    get_user_model().objects.all().delete()
    time_passes(timedelta(minutes=10))
    run_due()
    row = Execution.objects.get()
    assert (row.state, row.hook_due_at, row.hook_error, len(told), rows()) == ("completed", None, "", ran + 1, 1)


def test_a_hook_that_breaks_each_time_backs_off(breaks: Any, hook: Any) -> None:
    """Whoever runs it comes back from it, and leaves it for later than before."""
    told = hook(breaks)
    row = settle_by_perform()
    asyncio._set_running_loop(None)
    connection.close()
    ran, before = len(told), Execution.objects.get()
    get_user_model().objects.all().delete()
    time_passes(timedelta(minutes=10))
    transitions.run_hook(row.pk)
    asyncio._set_running_loop(None)
    row = Execution.objects.get()
    assert ran < len(told) <= ran + 2
    assert row.hook_failures > before.hook_failures
    assert row.hook_due_at is not None
    assert row.hook_error


INTERRUPTS = [
    SystemExit(1), KeyboardInterrupt(), GreenletExit(), asyncio.CancelledError(), SoftTimeLimitExceeded(),
    BaseException("anything"),
]  # fmt: skip


@pytest.fixture(params=INTERRUPTS, ids=lambda error: type(error).__name__)
def interrupt(request: pytest.FixtureRequest) -> BaseException:
    """What ends a process or a task, by a web server's, a worker's or an event loop's will."""
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("settle", WAYS)
def test_an_interrupt_in_the_hook_goes_on_once_the_answer_is_committed(
    settle: Any, interrupt: BaseException, hook: Any
) -> None:
    """Nothing of the answer is lost, and whoever ends the process is not held up."""

    def nested() -> None:
        with transaction.atomic():
            raise interrupt

    told = hook(nested)
    with pytest.raises(type(interrupt)):
        settle()
    row = Execution.objects.get()
    assert (row.state, row.reference, told, rows()) == ("completed", "n1", ["k1"], 0)
    assert row.hook_due_at is not None
    assert type(interrupt).__name__ in row.hook_error
    assert (row.trouble_count, row.trouble) == (0, "")


def test_an_interrupt_beside_a_broken_transaction_goes_on_too(interrupt: BaseException, hook: Any) -> None:
    """Both at once: the connection is gone and the process is to end."""

    def act() -> None:
        killed_by_the_server()
        raise interrupt

    told = hook(act)
    with pytest.raises(type(interrupt)):
        settle_by_perform()
    row = Execution.objects.get()
    assert (row.state, row.reference, told) == ("completed", "n1", ["k1"])
    assert row.hook_due_at is not None


def test_an_interrupt_in_a_hook_that_stayed_due_goes_on(interrupt: BaseException, hook: Any) -> None:
    """The sweep's worker ends; the hook backs off."""
    hook(raises(ZeroDivisionError()))
    row = settle_by_perform()
    hook(raises(interrupt))
    time_passes(timedelta(minutes=1))
    with pytest.raises(type(interrupt)):
        transitions.run_hook(row.pk)
    row = Execution.objects.get()
    assert (row.state, row.hook_failures) == ("completed", 2)


def test_an_interrupt_in_our_own_statements_goes_on_once_the_answer_is_committed(interrupt: BaseException) -> None:
    """A signal comes when it likes: the first one waits for the answer that is being written."""
    left = [interrupt]

    def interrupted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if left and sql.startswith('UPDATE "effects_execution"'):
            raise left.pop()
        return execute(sql, params, many, context)

    with provider_says(Plain, effects.Applied(1, "n1")) as said:
        wrapper = connection.execute_wrapper(interrupted)
        said.sends = OnSend(wrapper.__enter__)
        with pytest.raises(type(interrupt)):
            effects.perform(Plain, payload=PAYLOAD, key="k1")
        wrapper.__exit__(None, None, None)
    row = Execution.objects.get()
    assert (row.state, row.reference, left) == ("completed", "n1", [])


@pytest.mark.parametrize("place", ["text", "reference", "output"])
@pytest.mark.parametrize("what", [lambda: None, killed_by_the_server, raises(SystemExit()), swallows_an_error])
def test_a_redactor_that_breaks_costs_no_answer(place: str, what: Any, settings: Any) -> None:
    """It is asked once for each text, whatever becomes of the transaction that it was asked in."""
    asked: list[tuple[str, str]] = []

    def redactor(text: str, where: str) -> str:
        if where == place and said.sends and connection.in_atomic_block:
            asked.append((text, where))
            what()
        return text

    settings.EFFECTS = {"DISPATCH": "none", "REDACTOR": redactor}
    with provider_says(Plain, effects.Applied({"id": "n1"}, "n1")) as said, suppress(SystemExit):
        effects.perform(Plain, payload=PAYLOAD, key="k1")
    row = Execution.objects.get()
    assert row.state == "completed"
    assert row.reference in ("n1", "[redacted: the REDACTOR raised]")
    assert len(asked) == len(set(asked))


def test_an_output_that_ends_the_process_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`output_type` and `upgrade_output` read it after the commit."""

    def upgrade(self: Any, output: Any, version: int) -> Any:
        raise SystemExit(3)

    monkeypatch.setattr(Plain, "load_output", upgrade)
    with provider_says(Plain, effects.Applied(1, "n1")), pytest.raises(SystemExit):
        effects.perform(Plain, payload=PAYLOAD, key="k1")
    row = Execution.objects.get()
    assert (row.state, row.reference, row.output) == ("completed", "n1", "1")


@pytest.mark.parametrize("error", [SystemExit(1), SoftTimeLimitExceeded()])
def test_an_interrupt_in_a_receiver_goes_on_once_the_answer_is_committed(error: BaseException) -> None:
    """Django's robust signals would swallow a soft time limit."""

    def receiver(sender: Any, execution: Any, **rest: Any) -> None:
        if execution.settled:
            raise error

    execution_changed.connect(receiver, sender=Plain)
    try:
        with provider_says(Plain, effects.Applied(1, "n1")), pytest.raises(type(error)):
            effects.perform(Plain, payload=PAYLOAD, key="k1")
    finally:
        execution_changed.disconnect(receiver, sender=Plain)
    assert Execution.objects.get().state == "completed"


def leaves_autocommit_off() -> None:
    transaction.set_autocommit(False)


@pytest.mark.parametrize("leaves", [leaves_a_block_open, leaves_a_broken_block_open, leaves_autocommit_off])
def test_a_send_that_leaves_a_transaction_open_costs_no_answer(leaves: Any) -> None:
    """What it left open is rolled back, said so, and its answer is recorded."""

    def act() -> None:
        with suppress(Exception):
            leaves()

    with provider_says(Plain, effects.Applied(1, "n1")) as said:
        said.sends = OnSend(act)
        outcome = effects.perform(Plain, payload=PAYLOAD, key="k1")
    assert isinstance(outcome, effects.Completed)
    assert Execution.objects.get().reference == "n1"
    assert not connection.in_atomic_block
    assert connection.get_autocommit()


@contextmanager
def loop_in_this_thread() -> Iterator[None]:
    """As under gevent, where one greenlet runs an event loop and all others of its thread see it."""
    asyncio._set_running_loop(LOOP)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


@pytest.mark.parametrize("effect", [Plain, Noted])
@pytest.mark.parametrize("answer", [effects.Applied(1, "n1"), effects.Declined("no"), effects.Submitted("n1")])
def test_an_event_loop_in_the_thread_costs_no_answer(effect: Any, answer: Any) -> None:
    """Django refuses the database to code under a running loop; what the provider said is recorded by a thread."""
    seen: list[Any] = []
    with provider_says(effect, answer) as said:
        loop = loop_in_this_thread()
        said.sends = OnSend(loop.__enter__)
        outcome = effects.perform(effect, payload=PAYLOAD, key="k1")
        loop.__exit__(None, None, None)
    expected = {effects.Applied: "completed", effects.Declined: "failed", effects.Submitted: "accepted"}[type(answer)]
    assert (str(outcome.state), Execution.objects.get().state, seen) == (expected, expected, [])


def test_an_event_loop_costs_no_verdict() -> None:
    """The look-up's answer is recorded too."""
    row = doubted()
    with provider_says(Noted, look_up=effects.Found("n1")) as said:
        loop = loop_in_this_thread()
        said.look_ups = OnSend(loop.__enter__)
        result = background.look_up(row.pk, now=True)
        loop.__exit__(None, None, None)
    assert (str(result.state), result.reference) == ("completed", "n1")


def test_an_answer_that_breaks_is_asked_once_and_comes_again(breaks: Any, answers: Any) -> None:
    """The request stays due, with what was wrong; the execution has its outcome."""
    request = opened()
    asked: list[int] = []

    def build(outcomes: Any) -> StoredAnswer:
        asked.append(1)
        breaks()
        return StoredAnswer(200, (), b"x")

    with provider_says(Noted, TimeoutError(), look_up=effects.Found("n1")):
        handled(request, lambda: effects.perform(Noted, payload=PAYLOAD, key="k1"))
        conclude(request)
        answers(build)
        background.look_up(Execution.objects.get().pk, now=True)
    asyncio._set_running_loop(None)
    assert Execution.objects.get().state == "completed"
    row = Request.objects.get(pk=request.pk)
    assert (row.state, row.due_at is None) == ("waiting", False)
    assert row.answer_error
    assert 1 <= len(asked) <= 2
