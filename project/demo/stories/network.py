"""Stories of the network: it is slow, it loses the reply, it loses the request."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta

from effects.models import Execution
from project.demo.clients import Answer
from project.demo.stage import Stage, Telling, new_key

__all__ = ["impatient_client", "lost_reply", "lost_request"]

AT_ONCE = 20
#: How long Stripe's answer is held back at most, well below the time limit of a send.
HELD = 1.5


def impatient_client(stage: Stage, told: Telling) -> None:
    """Send one refund 20 times at once, while Stripe is slow to answer; then again, later."""
    order, key, client = stage.paid_order(4_200), new_key(), stage.client
    path, data = f"/orders/{order.pk}/refunds/", {"amount": 4_200}
    stage.faults.add("hang", method="POST", path="/v1/refunds", contains=order.number, forward=True)
    stage.note(f"the same refund, {AT_ONCE} times at once")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tries = [pool.submit(client.post, path, data, key) for _ in range(AT_ONCE)]
        stage.faults.wait_for("forwarded", method="POST", path="/v1/refunds", contains=order.number)
        _wait_for_all_but_one(tries)
        stage.faults.release()
        early = [each.result() for each in tries]
        stage.note("each of them asks again until it has its answer")
        late = list(pool.map(lambda _: client.insist(path, data, key), range(AT_ONCE)))
    later = client.post(path, data, key)
    words = Counter(answer.words for answer in early)
    told.happened = (
        f"The same POST {AT_ONCE} times at once, while Stripe is slow to answer; all of them again until each has its "
        "answer; and once more later. One refund is sent."
    )
    told.saw = (
        *(f"{number} x {each}" for each, number in words.most_common()),
        f"then {_all_same([answer for answer in [*early, *late, later] if answer.is_success])}",
    )
    told.expect(words["201"] >= 1, "nobody of the first got an answer")
    told.expect(set(words) <= {"201", "409 in progress"}, f"the first were answered {dict(words)}")
    told.expect(all(answer.replayed for answer in [*late, later]), "an answer came from a handler that ran again")
    told.expect_replayed(stage, key, later)
    told.expect_one_refund(stage, order)


def lost_reply(stage: Stage, told: Telling) -> None:
    """Lose Stripe's answer after it paid the refund out."""
    order, key, client = stage.paid_order(1_900), new_key(), stage.client
    path, data = f"/orders/{order.pk}/refunds/", {"amount": 1_900}
    stage.faults.add("lose_reply", method="POST", path="/v1/refunds", contains=order.number)
    stage.note("Stripe paid it out, and its reply is lost")
    first = client.post(path, data, key)
    stage.note("beat has the refund looked up at Stripe")
    last = client.insist(path, data, key)
    again = client.post(path, data, key)
    execution = stage.execution_about(order)
    told.happened = (
        "Stripe pays it out and its reply never arrives. In doubt: not failed, not sent again. Beat has it looked up, "
        f"and {execution.reference} is there."
    )
    told.saw = (first.words, f"retry: {last.words}", "again: the same bytes")
    told.expect_answer(first, "409 uncertain")
    told.expect(not first.data.get("safe_new_key"), "the client was told that a new key is safe")
    told.expect_replayed(stage, key, again)
    told.expect(execution.attempts == 1, f"it was sent {execution.attempts} times")
    told.expect(execution.reason == "found", f"it is {execution.state} because {execution.reason}")
    told.expect_one_refund(stage, order)


def lost_request(stage: Stage, told: Telling) -> None:
    """Lose the request before Stripe saw it."""
    order, key, client = stage.paid_order(2_500), new_key(), stage.client
    path, data = f"/orders/{order.pk}/refunds/", {"amount": 2_500}
    stage.faults.add("lose_request", method="POST", path="/v1/refunds", contains=order.number)
    stage.note("the request is lost on its way to Stripe")
    started = time.monotonic()
    first = client.post(path, data, key)
    stage.note("“not found” is no evidence before the quiet time ends")
    last = client.insist(path, data, key)
    seconds = time.monotonic() - started
    execution = stage.execution_about(order)
    early, believed = _absences(execution)
    sends = stage.faults.sends(method="POST", path="/v1/refunds", contains=order.number)
    told.happened = (
        "It never arrives. Stripe, asked at once, does not find it: no evidence yet. Asked again after the quiet time: "
        "now it is believed, and sent once more, under the same key at Stripe."
    )
    told.saw = (first.words, f"retry, {seconds:.0f} s later: {last.words}", "again: the same bytes")
    told.expect_answer(first, "409 uncertain")
    told.expect(early >= 1, "nobody asked before the barrier")
    told.expect(believed == 1, f"an absence was believed {believed} times")
    told.expect(_believed_after_barrier(execution), "an absence was believed before the barrier")
    told.expect([send.forwarded for send in sends] == [0, 1], "there was not one lost send and one that arrived")
    told.expect(len({send.idempotency_key for send in sends}) == 1, "the sends had different keys")
    told.expect_replayed(stage, key, client.post(path, data, key))
    told.expect_one_refund(stage, order)


def _wait_for_all_but_one(tries: list[Future[Answer]]) -> None:
    """Wait while Stripe's answer is held back: all others are told then that the first is not done."""
    deadline = time.monotonic() + HELD
    running = set(tries)
    while len(running) > 1 and (left := deadline - time.monotonic()) > 0:
        running = wait(running, timeout=left, return_when=FIRST_COMPLETED).not_done


def _all_same(answers: list[Answer]) -> str:
    number, same = len(answers), all(each.same_as(answers[0]) for each in answers)
    return f"{number} x {answers[0].words}, {'all the same bytes' if same else 'NOT the same bytes'}"


def _absences(execution: Execution) -> tuple[int, int]:
    """Return how often "not found" was not believed, and how often it was."""
    receipts = execution.receipts.filter(evidence__verdict="Absent")
    return receipts.filter(event="postpone").count(), receipts.filter(event="confirm_absence").count()


def _believed_after_barrier(execution: Execution) -> bool:
    first = execution.attempt_rows.get(number=1)
    quiet = timedelta(seconds=execution.contract["quiet"])
    believed = execution.receipts.get(event="confirm_absence")
    ended = max(first.deadline, first.ended_at or first.deadline)
    return bool(believed.at >= ended + quiet)
