"""A journal beside the project's database: what cannot commit together is refused, and hooks run after the commit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import checks
from django.db import connections, transaction

import effects
from effects.declarations import operations
from effects.declarations.operations import ProtectedOperation, StoredAnswer
from effects.models import Execution, Request
from effects.runtime import consequences
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Charge, Noted
from tests.core.people import PAYLOAD
from tests.core.test_requests import answers, conclude, handled, opened

__all__ = ["answers"]

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "journal"])


@pytest.fixture(autouse=True, scope="module")
def second_alias(django_db_setup: None) -> Iterator[None]:
    """The test database under another alias, with a connection of its own: no commit holds for both."""
    real = connections.settings["default"]
    connections.settings["journal"] = {**real, "TEST": {**real["TEST"], "MIRROR": "default"}}
    yield
    del connections["journal"]
    del connections.settings["journal"]


@pytest.fixture(autouse=True)
def journal_beside(settings: Any) -> Iterator[None]:
    """The journal under the other alias; the project's rows stay in "default"."""
    settings.EFFECTS = {"DATABASE": "journal", "DISPATCH": "none"}
    yield
    connections["journal"].close()


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let the hook write a row of the project's own, keyed by the execution; return what it saw of the journal then."""
    seen: list[bool] = []

    def then(context: Any, outcome: effects.Outcome) -> None:
        # another connection than the journal's: it sees what is committed
        seen.append(User.objects.raw("SELECT 1 AS id FROM effects_execution WHERE state = 'completed'")[:1] != [])
        User.objects.get_or_create(username=f"row-{context.ref}")

    monkeypatch.setattr(Noted, "then", staticmethod(then))
    return seen


def test_the_hook_runs_after_the_commit_that_settles(writes: list[bool]) -> None:
    """By the caller, at once: it sees the outcome committed, and its row is there when `perform` returns."""
    with provider_says(Noted, effects.Applied(1, "n1")):
        outcome = effects.perform(Noted, payload=PAYLOAD, key="k1")
    assert isinstance(outcome, effects.Completed)
    assert writes == [True]
    assert User.objects.filter(username=f"row-{outcome.ref}").count() == 1
    assert effects.get(outcome.ref).hook_due_at is None
    events = list(Execution.objects.get(pk=outcome.ref).receipts.order_by("sequence").values_list("event", flat=True))
    assert events == ["record", "permit", "complete", "run_hook"]


def test_a_caller_that_dies_before_the_hook_leaves_it_to_the_sweep(writes: list[bool], monkeypatch: Any) -> None:
    """At least once: it is due in the commit that settles."""
    with monkeypatch.context() as patch, provider_says(Noted, effects.Applied(1, "n1")):
        patch.setattr(consequences, "_run_hook_after_commit", lambda execution: execution)
        outcome = effects.perform(Noted, payload=PAYLOAD, key="k1")
    assert (writes, User.objects.count()) == ([], 0)
    assert run_due() == {"run_hooks.done": 1}
    assert User.objects.filter(username=f"row-{outcome.ref}").count() == 1


def test_a_hook_that_raises_writes_nothing_and_stays_due(writes: list[bool], monkeypatch: Any) -> None:
    """Its rows are undone together; the outcome stands; it is tried again."""
    real = Noted.then

    def half(context: Any, outcome: effects.Outcome) -> None:
        User.objects.create(username="half")
        raise ZeroDivisionError("bug")

    monkeypatch.setattr(Noted, "then", staticmethod(half))
    with provider_says(Noted, TimeoutError(), look_up=effects.Found("n1")):
        outcome = effects.perform(Noted, payload=PAYLOAD, key="k1")
        run_due()
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.hook_error, User.objects.count()) == ("completed", "ZeroDivisionError: bug", 0)
    monkeypatch.setattr(Noted, "then", staticmethod(real))
    time_passes(timedelta(minutes=1))
    assert run_due() == {"run_hooks.done": 1}
    assert User.objects.count() == 1


def test_perform_later_is_refused() -> None:
    """It could commit without the caller's rows, or they without it."""
    with transaction.atomic(), pytest.raises(exceptions.JournalBesideError, match=r"Call effects\.perform after"):
        effects.perform_later(Charge, payload=PAYLOAD, key="k1")
    assert not Execution.objects.exists()


def test_finishing_is_refused() -> None:
    """The handler's rows and its answer cannot commit together."""

    def handler() -> None:
        with effects.current().finishing():  # type: ignore[union-attr]
            User.objects.create(username="x")

    with pytest.raises(exceptions.JournalBesideError, match=r"settled\(\), keyed by context\.ref"):
        handled(opened(), handler)
    assert not User.objects.exists()


def test_rows_in_answer_are_refused_and_reading_is_not(answers: Any) -> None:
    """The request stays due, and says why; an answer that only reads is stored."""
    request = opened()
    with provider_says(Charge, TimeoutError(), look_up=effects.Found("ch_1")):
        handled(request, lambda: effects.perform(Charge, payload=PAYLOAD, key="k1"))
        conclude(request)
        answers(lambda outcomes: User.objects.create(username="x"))
        time_passes(timedelta(minutes=10))
        run_due()
    row = Request.objects.get(pk=request.pk)
    assert (row.state, User.objects.count()) == ("waiting", 0)
    assert row.answer_error.startswith("JournalBesideError: ")
    answers(lambda outcomes: StoredAnswer(200, (), str(User.objects.count()).encode()))
    time_passes(timedelta(minutes=10))
    run_due()
    row.refresh_from_db()
    assert (row.state, bytes(row.answer_body or b"")) == ("answered", b"0")


@pytest.fixture
def protected(client: Any, settings: Any) -> Any:
    """Send a request to the views of `tests.http.views` as a user."""
    from django.urls import clear_url_caches

    from tests.http import does, views

    settings.ROOT_URLCONF = "tests.http.views"
    clear_url_caches()
    does.reset()
    views.handled.clear()
    client.force_login(User.objects.create_user("ada"))
    client.raise_request_exception = False

    def send(url: str, **data: Any) -> Any:
        return client.post(url, data, "application/json", headers={"Idempotency-Key": "k1"})

    return send


def test_a_transactional_view_is_refused_when_checked_and_when_called(protected: Any) -> None:
    """`manage.py check` names it; a request of it runs nothing."""
    assert protected("/transactional/api/", do="write", name="x").status_code == 500
    assert not Request.objects.exists()
    before = dict(operations._operations)
    operations._operations.clear()
    try:
        operations.add_operation(ProtectedOperation("orders.create", "transactional"))
        operations.add_operation(ProtectedOperation("orders.charge", "journaled"))
        found = [one for one in checks.run_checks(tags=["effects"]) if one.id == "effects.E012"]
    finally:
        operations._operations.update(before)
    assert [one.msg.split("'")[1] for one in found] == ["orders.create"]


def test_every_view_counts_as_one_with_local_writes(protected: Any) -> None:
    """Rows beside the journal are not seen, so no key is freed on the strength of what was seen."""
    protected("/declared/api/", do="nothing")
    row = Request.objects.get()
    assert row.local_writes
    assert row.holds_key


def test_the_hook_of_a_tombstone_ends_here_too(writes: list[bool], settings: Any) -> None:
    """Nothing is due after the commit that settles it anew, and nothing runs."""
    settings.EFFECTS = {"DATABASE": "journal", "DISPATCH": "none", "EXECUTION_RETENTION": timedelta(days=1)}
    with provider_says(Noted, effects.Applied(1, "n1")):
        ref = effects.perform(Noted, payload=PAYLOAD, key="k1").ref
    time_passes(timedelta(days=2))
    run_due()
    row = Execution.objects.get(pk=effects.observe(ref, reference="n2", evidence={}).id)
    assert (row.state, row.payload) == ("needs_intervention", "")
    assert effects.resolve(ref, decision="applied", revision=row.revision, by="ann", reason="r").hook_due_at is None
    assert row.receipts.latest("sequence").event == "end_hook"
    assert len(writes) == 1
