"""Protected requests: opened once, answered once, released only when nothing can be sent, settled by what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

import effects
from effects import transitions
from effects.declarations import operations
from effects.declarations.operations import NotFinished, ProtectedOperation, StoredAnswer
from effects.journal import current
from effects.models import Receipt, Request, RequestExecution, Resolution
from effects.runtime import operators
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from tests.core.declared import Charge, Noted
from tests.core.people import PAYLOAD

pytestmark = pytest.mark.django_db
VIEW = "orders.charge"
OK = StoredAnswer(201, (("Content-Type", "application/json"),), b'{"id": 1}', 9)
MINUTE = timedelta(minutes=1)
#: How each kind of view opens.
DECLARED: dict[str, Any] = {"declared": (Charge.operation, Noted.operation)}
LOCAL: dict[str, Any] = {**DECLARED, "local_writes": True}
OPAQUE: dict[str, Any] = {"declared": None}


@pytest.fixture
def answers() -> Iterator[Callable[..., None]]:
    """Let a test say what the view's `answer=` returns or raises."""

    def say(answer: Any, performs: tuple[str, ...] | None = DECLARED["declared"]) -> None:
        operations.add_operation(ProtectedOperation(VIEW, "journaled", performs=performs, answer=answer))

    yield say
    operations._operations.pop(VIEW, None)


def opening(key: str = "c-1", **options: Any) -> transitions.Opening:
    """Return what a request is opened with."""
    words: dict[str, Any] = {
        "operation": VIEW, "mode": "journaled", "tenant": "acme", "subject": "user:1", "scope": "", "key": key,
        "fingerprint": {"body": "d1"}, "fingerprint_version": 1, "local_writes": False, **DECLARED, **options,
    }  # fmt: skip
    return transitions.Opening(**words)


def opened(key: str = "c-1", **options: Any) -> Request:
    """Open a request; return its row."""
    found = transitions.open_request(opening(key, **options))
    assert found.made
    return Request.objects.get(pk=found.row.pk)


def handled(request: Request, *calls: Callable[[], Any]) -> list[Any]:
    """Make the calls as the request's handler."""
    view = ProtectedOperation(VIEW, "journaled", performs=None if request.is_opaque else tuple(request.declared or ()))
    handle = current.RequestHandle(
        id=request.pk, epoch=request.epoch, operation=view, tenant="acme", subject="user:1", actor=effects.Actor("ann")
    )
    with current.in_request(handle):
        return [call() for call in calls]


def charge(key: str | None = None) -> Callable[[], Any]:
    """Return a call that performs a charge."""
    return lambda: effects.perform(Charge, payload=PAYLOAD, key=key)


def conclude(request: Request, answer: StoredAnswer = OK) -> Any:
    """Return from the request's handler."""
    return transitions.conclude(request.pk, epoch=request.epoch, answer=answer)


def again(request: Request) -> Request:
    """Return the row as it is now."""
    return Request.objects.get(pk=request.pk)


def in_doubt(request: Request, key: str | None = None) -> None:
    """Let the request's handler perform a charge that nobody can tell the outcome of."""
    with provider_says(Charge, TimeoutError("no answer")):
        handled(request, charge(key))


def found(*, reference: str = "ch_1") -> Any:
    """Let the provider find whatever is looked up."""
    return provider_says(Charge, look_up=effects.Found(reference, {"id": reference}))


# -- opening -------------------------------------------------------------------------------------------------------


def test_the_first_request_is_made_and_the_next_one_finds_it() -> None:
    """One key, one request; the lease comes with it, and so does the receipt."""
    first = transitions.open_request(opening())
    second = transitions.open_request(opening())
    assert (first.made, second.made) == (True, False)
    assert second.request is not None
    assert second.request.id == first.row.pk
    row = Request.objects.get()
    assert (row.state, row.epoch, row.fingerprint, row.declared) == (
        "running",
        1,
        {"body": "d1"},
        list(DECLARED["declared"]),
    )
    assert abs(row.lease_expires_at - row.created_at - MINUTE) < timedelta(seconds=1)
    assert abs(row.handler_until - row.created_at - timedelta(minutes=10)) < timedelta(seconds=1)
    assert [receipt.event for receipt in Receipt.objects.all()] == ["open"]


@pytest.mark.parametrize("other", [{"tenant": "x"}, {"subject": "user:2"}, {"scope": "s"}, {"key": "c-2"}])
def test_each_part_of_the_key_makes_another_request(other: dict[str, str]) -> None:
    """Tenant, subject, scope and the client's key; nothing of one can pass for a part of another."""
    opened()
    assert transitions.open_request(opening(**other)).made


def test_opening_joins_a_transaction_that_may_roll_back() -> None:
    """A transactional view's request is gone with its rows."""
    with transaction.atomic():
        transitions.open_request(opening(mode="transactional"), joins=True)
        transaction.set_rollback(True)
    assert not Request.objects.exists()


def test_a_transactional_request_is_answered_in_the_commit_that_opens_it() -> None:
    """`running` is never visible; two receipts tell both steps."""
    with transaction.atomic():
        first = transitions.open_request(opening(mode="transactional"), joins=True)
        transitions.freeze(first, OK)
    row = Request.objects.get()
    assert (row.state, row.answer) == ("answered", (201, [["Content-Type", "application/json"]], b'{"id": 1}'))
    assert [receipt.event for receipt in row.receipts.order_by("sequence")] == ["open", "freeze"]


# -- concluding ----------------------------------------------------------------------------------------------------


def test_an_answer_is_frozen_once_what_it_holds_is_settled() -> None:
    """The handler's bytes are what a repeated request gets."""
    request = opened()
    with provider_says(Charge, effects.Applied(None, "ch_1")):
        handled(request, charge())
    concluded = conclude(request)
    assert (concluded.state, concluded.reason, concluded.handler_returned) == ("answered", "handler", True)
    assert concluded.answer == (201, [["Content-Type", "application/json"]], b'{"id": 1}')


def test_an_answer_waits_for_what_it_holds() -> None:
    """The handler returned, an execution is in doubt: nothing is frozen yet."""
    request = opened()
    in_doubt(request)
    concluded = conclude(request)
    assert (concluded.state, concluded.handler_returned, concluded.answer) == ("waiting", True, None)


def test_perform_later_holds_nothing_back() -> None:
    """It commits with the handler's rows and is sent in its own time."""
    request = opened()
    handled(request, lambda: effects.perform_later(Charge, payload=PAYLOAD, key="k1"))
    assert conclude(request).state == "answered"
    assert RequestExecution.objects.get().holds is False


def test_a_handler_that_was_taken_over_answers_nothing() -> None:
    """Its lease is past and a sweep closed it: its bytes must not reach the client."""
    request = opened()
    time_passes(MINUTE)
    run_due()
    with pytest.raises(exceptions.RequestEndedError):
        conclude(request)
    with pytest.raises(exceptions.RequestEndedError):
        handled(request, charge())
    assert again(request).state == "released"


def test_a_lease_that_is_past_is_still_ours_until_somebody_takes_it_over() -> None:
    """The epoch decides, not the clock."""
    request = opened()
    time_passes(MINUTE)
    assert conclude(request).state == "answered"


# -- releasing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "asked", "freed"),
    [(DECLARED, False, True), (LOCAL, False, False), (LOCAL, True, True), (OPAQUE, False, False), (OPAQUE, True, True)],
)
def test_a_key_is_freed_only_where_nothing_can_have_happened(view: dict[str, Any], asked: bool, freed: bool) -> None:
    """A declared view with nothing linked; an opaque one, or one that writes, only if its handler says so."""
    request = opened(**view)
    released = transitions.release(request.pk, epoch=request.epoch, asked=asked)
    assert (released is not None) is freed
    assert transitions.open_request(opening(**view)).made is freed
    assert Request.objects.filter(pk=request.pk).exists()


@pytest.mark.parametrize("state", ["completed", "uncertain", "pending", "failed"])
def test_no_key_is_freed_beside_what_was_or_can_be_sent(state: str) -> None:
    """Not even when the handler asks for it."""
    request = opened()
    calls = {"pending": lambda: effects.perform_later(Charge, payload=PAYLOAD, key="k1")}
    says = {"completed": effects.Applied(), "uncertain": TimeoutError(), "failed": effects.Declined("no")}
    with provider_says(Charge, *([says[state]] if state in says else [])):
        handled(request, calls.get(state, charge()))
    assert transitions.release(request.pk, epoch=request.epoch, asked=True) is None


def test_a_key_is_freed_beside_what_was_rejected() -> None:
    """It was never sent and never will be."""
    request = opened()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Charge, "precondition", lambda self, context: effects.Refuse("closed"))
        handled(request, charge())
    assert transitions.release(request.pk, epoch=request.epoch, asked=False) is not None


# -- cut short -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_sweep", [False, True])
@pytest.mark.parametrize(
    ("view", "performs", "state"),
    [
        (DECLARED, False, "released"),
        (LOCAL, False, "in_doubt"),
        (OPAQUE, False, "in_doubt"),
        (DECLARED, True, "waiting"),
        (LOCAL, True, "waiting"),
        (OPAQUE, True, "in_doubt"),
    ],
)
def test_a_handler_that_was_cut_short(view: dict[str, Any], performs: bool, state: str, by_sweep: bool) -> None:
    """What becomes of its request: by its own exception or, when it is gone, by whoever finds the lease past."""
    request = opened(**view)
    if performs:
        in_doubt(request)
    if by_sweep:
        time_passes(MINUTE)
        transitions.abort(request.pk, epoch=None)
    else:
        transitions.abort(request.pk, epoch=request.epoch, why="ZeroDivisionError")
    row = again(request)
    assert (row.state, row.handler_returned) == (state, False)
    assert row.reason == ("lease_expired" if by_sweep else "handler_failed")
    assert row.epoch == request.epoch + 1


def test_a_live_lease_is_nobody_elses() -> None:
    """A retry or a sweep that comes too early changes nothing."""
    request = opened()
    assert transitions.abort(request.pk, epoch=None).state == "running"
    assert again(request).epoch == request.epoch


def test_a_retry_after_a_lost_declared_handler_runs_anew() -> None:
    """Nothing was sent, the key is free, the lost one stays as history."""
    request = opened()
    time_passes(MINUTE)
    transitions.abort(request.pk, epoch=None)
    assert transitions.open_request(opening()).made
    assert Request.objects.count() == 2


def test_a_handler_that_said_release_before_it_was_cut_short_is_released() -> None:
    """It knew that nothing was sent."""
    request = opened(**OPAQUE)
    assert transitions.abort(request.pk, epoch=request.epoch, asked=True).state == "released"


def test_an_opaque_view_that_was_cut_short_never_settles_by_itself() -> None:
    """Nobody knows what it called itself: only a person resolves it, whatever became of its executions."""
    request = opened(**OPAQUE)
    in_doubt(request)
    transitions.abort(request.pk, epoch=request.epoch)
    with found():
        run_due()
    for _ in range(3):
        time_passes(timedelta(hours=1))
        run_due()
    row = again(request)
    assert (row.state, row.due_at) == ("in_doubt", None)
    assert transitions.settle(request.pk).state == "in_doubt"


# -- settling ------------------------------------------------------------------------------------------------------


def built(outcomes: Sequence[effects.Outcome]) -> StoredAnswer:
    """Build the answer that says what each outcome is."""
    return StoredAnswer(201, (), " ".join(str(outcome.state) for outcome in outcomes).encode())


@pytest.mark.parametrize("returned", [False, True])
def test_a_request_is_answered_when_its_execution_settles(answers: Any, returned: bool) -> None:
    """By the look-up that settles it, at once; whether the handler returned or was lost."""
    answers(built)
    request = opened()
    in_doubt(request)
    conclude(request) if returned else transitions.abort(request.pk, epoch=request.epoch)
    with found():
        run_due()
    row = again(request)
    assert (row.state, row.reason, bytes(row.answer_body)) == ("answered", "answer_built", b"completed")


def test_answer_gets_the_outcomes_in_the_order_of_the_handler(answers: Any) -> None:
    """Also of executions that other requests hold too, each once."""
    seen: list[list[str]] = []
    answers(lambda outcomes: seen.append([outcome.ref for outcome in outcomes]) or built(outcomes))
    first, second = opened("c-1"), opened("c-2")
    in_doubt(first, "b")
    in_doubt(first, "a")
    in_doubt(second, "a")
    for request in (first, second):
        conclude(request)
    with found():
        run_due()
    links = RequestExecution.objects.filter(request=first).order_by("position", "id")
    assert sorted(seen, key=len)[1] == [str(link.execution_id) for link in links]
    assert [len(refs) for refs in sorted(seen, key=len)] == [1, 2]


def test_nothing_is_answered_while_one_of_two_is_in_doubt(answers: Any) -> None:
    """All that it holds must have settled."""
    answers(built)
    request = opened()
    in_doubt(request, "a")
    in_doubt(request, "b")
    conclude(request)
    refs = list(RequestExecution.objects.order_by("position", "id").values_list("execution_id", flat=True))
    effects.resolve(refs[0], decision="applied", revision=effects.get(refs[0]).revision, by="olga", reason="r")
    assert again(request).state == "waiting"
    effects.resolve(refs[1], decision="applied", revision=effects.get(refs[1]).revision, by="olga", reason="r")
    assert bytes(again(request).answer_body) == b"completed completed"


def test_rows_that_answer_writes_commit_with_the_answer(answers: Any) -> None:
    """It runs in the transaction that settles the request."""

    def write(outcomes: Any) -> StoredAnswer:
        get_user_model().objects.create_user("written")
        return OK

    answers(write)
    request = opened()
    in_doubt(request)
    conclude(request)
    with found():
        run_due()
    assert again(request).state == "answered"
    assert get_user_model().objects.filter(username="written").count() == 1


@pytest.mark.parametrize("fault", ["raises", "marks for rollback", "returns nothing"])
def test_an_answer_that_cannot_be_built_stays_due_and_shown(answers: Any, fault: str) -> None:
    """Its rows are undone, its error is on the row, and it is asked again: nothing is lost, nothing is answered."""

    def broken(outcomes: Any) -> Any:
        get_user_model().objects.create_user("written")
        if fault == "raises":
            raise ZeroDivisionError("bug")
        if fault == "marks for rollback":
            transaction.set_rollback(True)
            return OK
        return None

    answers(broken)
    request = opened()
    in_doubt(request)
    conclude(request)
    with found():
        run_due()
    row = again(request)
    assert (row.state, bool(row.answer_error), bool(row.due_at)) == ("waiting", True, True)
    assert not get_user_model().objects.exists()
    time_passes(timedelta(seconds=5))
    run_due()  # the sweep, after the look-up
    assert again(request).due_at - timezone.now() < timedelta(seconds=5)
    answers(built)
    time_passes(timedelta(seconds=5))
    run_due()
    row = again(request)
    assert (row.state, row.answer_error) == ("answered", "")


def test_a_view_that_cannot_be_imported_holds_its_requests_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken deploy is no answer; the execution's own outcome is not lost by it."""

    def broken(name: str) -> Any:
        raise ImportError("urls.py is broken")

    monkeypatch.setattr("effects.transitions.settlement.find_operation", broken)
    request = opened()
    in_doubt(request)
    conclude(request)
    with found():
        run_due()
    assert "urls.py is broken" in again(request).answer_error


def test_not_finished_is_a_persons(answers: Any) -> None:
    """The handler was cut short with more work to come."""
    answers(lambda outcomes: NotFinished("the second charge is missing"))
    request = opened()
    in_doubt(request)
    transitions.abort(request.pk, epoch=request.epoch)
    with found():
        run_due()
    row = again(request)
    assert (row.state, row.due_at) == ("in_doubt", None)


@pytest.mark.parametrize(
    ("view", "returned", "happened", "state"),
    [
        (DECLARED, True, True, "answered"),
        (OPAQUE, True, True, "answered"),
        (DECLARED, False, False, "answered"),
        (DECLARED, False, True, "in_doubt"),
        (OPAQUE, False, False, "in_doubt"),
    ],
)
def test_without_answer_there_is_none_to_store(view: Any, returned: bool, happened: bool, state: str) -> None:
    """A handler that returned, or a declared view of which nothing happened: ended; otherwise a person's."""
    request = opened(**view)
    in_doubt(request)
    conclude(request) if returned else transitions.abort(request.pk, epoch=request.epoch)
    time_passes(timedelta(minutes=6))
    with provider_says(Charge, look_up=effects.Found("ch_1") if happened else effects.ProvenFailed("no")):
        run_due()
    time_passes(timedelta(hours=1))
    run_due()
    row = again(request)
    assert (row.state, row.answer) == (state, None)
    if state == "answered":
        assert (row.reason, row.answer_missing) == ("no_answer", "not_built")


def test_a_hook_that_has_not_run_holds_the_answer_back(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's own row belongs to the answer."""

    def broken(context: Any, outcome: Any) -> None:
        raise ZeroDivisionError("bug")

    answers(built)
    request = opened()
    monkeypatch.setattr(Noted, "then", broken)
    with provider_says(Noted, TimeoutError(), look_up=effects.Found("ch_1")):
        handled(request, lambda: effects.perform(Noted, payload=PAYLOAD))
        conclude(request)
        run_due()
        time_passes(timedelta(minutes=5))
        run_due()
        assert again(request).state == "waiting"
        monkeypatch.setattr(Noted, "then", lambda context, outcome: None)
        time_passes(timedelta(minutes=5))
        run_due()
    assert again(request).state == "answered"


def test_a_request_whose_execution_was_contradicted_is_not_answered(answers: Any) -> None:
    """It waits for the person who decides."""
    answers(built)
    request = opened()
    in_doubt(request)
    conclude(request)
    (link,) = RequestExecution.objects.all()
    with provider_says(Charge, look_up=effects.Conflict("?")):
        run_due()
    time_passes(timedelta(days=1))
    run_due()
    assert again(request).state == "waiting"
    effects.resolve(
        link.execution_id, decision="unknown", revision=effects.get(link.execution_id).revision, by="o", reason="r"
    )
    assert bytes(again(request).answer_body) == b"abandoned"


# -- people --------------------------------------------------------------------------------------------------------


def resolve(request: Request, decision: str = "applied", **options: Any) -> Any:
    """Resolve as a person would who looks at the request now."""
    words = {"revision": again(request).revision, "by": "olga", "reason": "asked the bank", **options}
    return operators.resolve_request(request.pk, decision=decision, **words)


@pytest.fixture
def lost() -> Request:
    """An opaque request whose handler was cut short."""
    request = opened(**OPAQUE)
    transitions.abort(request.pk, epoch=request.epoch)
    return again(request)


@pytest.mark.parametrize("decision", ["applied", "not_applied", "unknown"])
def test_a_person_closes_a_request_in_doubt(lost: Request, decision: str) -> None:
    """Without an answer it is resolved; the key stays taken."""
    resolved = resolve(lost, decision)
    assert (resolved.state, resolved.reason, resolved.holds_key) == ("resolved", decision, True)
    assert Resolution.objects.get().reason == "asked the bank"


def test_a_person_gives_the_answer(lost: Request) -> None:
    """The client gets it as if the handler had returned."""
    resolved = resolve(lost, answer=OK)
    assert (resolved.state, resolved.reason) == ("answered", "operator")
    assert resolved.answer is not None
    assert resolved.answer[2] == b'{"id": 1}'


def test_a_decision_about_a_request_repeated_is_one_decision(lost: Request) -> None:
    """Whatever the revision is by then."""
    first = resolve(lost, decision_id="d1")
    assert resolve(lost, decision_id="d1", revision=1) == first
    assert Resolution.objects.count() == 1


@pytest.mark.parametrize(
    "options", [{"decision": "undone"}, {"decision": "handler", "answer": OK}, {"reason": " "}, {"revision": 99}]
)
def test_a_decision_about_a_request_needs_a_known_word_a_reason_and_the_revision(lost: Request, options: Any) -> None:
    """Nothing is written otherwise."""
    with pytest.raises(exceptions.WrongStateError):
        resolve(lost, **options)
    assert again(lost).state == "in_doubt"


def test_its_executions_are_resolved_before_the_request() -> None:
    """What it holds is in doubt, so nobody can say what became of it."""
    request = opened(**OPAQUE)
    in_doubt(request)
    transitions.abort(request.pk, epoch=request.epoch)
    with pytest.raises(exceptions.WrongStateError, match="unsettled"):
        resolve(request)


def test_only_a_request_in_doubt_is_resolved() -> None:
    """One that runs, waits or has ended is not."""
    request = opened()
    with pytest.raises(exceptions.WrongStateError, match="running"):
        resolve(request)
    conclude(request)
    with pytest.raises(exceptions.WrongStateError, match="answered"):
        resolve(request, answer=OK)


# -- renewing ------------------------------------------------------------------------------------------------------


def test_leases_are_renewed_by_their_epoch() -> None:
    """Those that were taken over are not; how many are ours is said."""
    ours, lost = opened("c-1"), opened("c-2")
    time_passes(timedelta(seconds=50))
    assert transitions.renew([(ours.pk, ours.epoch), (lost.pk, lost.epoch - 1)]) == 1
    assert again(ours).lease_expires_at - timezone.now() > timedelta(seconds=50)
    assert again(lost).lease_expires_at - timezone.now() < timedelta(seconds=20)
    assert Receipt.objects.filter(request=ours).count() == 1


def test_no_lease_is_renewed_beyond_the_handlers_limit() -> None:
    """A handler that hangs loses its request in the end, however alive its process is."""
    request = opened()
    time_passes(timedelta(minutes=9, seconds=30))
    transitions.renew([(request.pk, request.epoch)])
    row = again(request)
    assert row.lease_expires_at == row.handler_until
    time_passes(MINUTE)
    assert transitions.renew([(request.pk, request.epoch)]) == 1
    assert transitions.abort(request.pk, epoch=None).state == "released"
    assert transitions.renew([(request.pk, request.epoch)]) == 0


def test_nothing_held_is_nothing_asked(django_assert_num_queries: Any) -> None:
    """The renewing thread of an idle process costs nothing."""
    with django_assert_num_queries(0):
        assert transitions.renew([]) == 0


# -- retention -----------------------------------------------------------------------------------------------------


def test_an_answer_is_dropped_after_its_retention_and_its_key_stays() -> None:
    """72 hours; a repeated request then hears that it expired, and does not run."""
    request = opened()
    conclude(request)
    time_passes(timedelta(hours=71))
    run_due()
    assert again(request).answer is not None
    time_passes(timedelta(hours=1))
    run_due()
    row = again(request)
    assert (row.answer, row.answer_missing, row.holds_key) == (None, "expired", True)
    assert not transitions.open_request(opening()).made


def test_a_key_is_freed_after_its_retention() -> None:
    """30 days after it ended; the row stays."""
    request = opened()
    conclude(request)
    time_passes(timedelta(days=30))
    run_due()
    assert again(request).holds_key is False
    assert transitions.open_request(opening()).made


@pytest.mark.parametrize("how", ["running", "in_doubt", "contradicted"])
def test_what_is_in_doubt_is_never_pruned(how: str) -> None:
    """Neither a request in doubt, nor one whose execution was contradicted after its answer."""
    request = opened(**(OPAQUE if how == "in_doubt" else DECLARED))
    if how == "in_doubt":
        transitions.abort(request.pk, epoch=request.epoch)
    if how == "contradicted":
        with provider_says(Charge, effects.Declined("no")):
            (outcome,) = handled(request, charge())
        conclude(request)
        operators.observe(outcome.ref, reference="ch_1", evidence={})
    time_passes(timedelta(days=400))
    transitions.free_keys(10)
    assert again(request).holds_key is True


def test_pruning_is_bounded_and_begins_with_the_oldest() -> None:
    """A batch at a time."""
    for number in range(3):
        conclude(opened(f"c-{number}"))
        time_passes(timedelta(days=31))
    assert transitions.free_keys(2) == 2
    assert list(Request.objects.filter(holds_key=True).values_list("key", flat=True)) == ["c-2"]
