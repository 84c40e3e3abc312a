"""Stories of processes that are killed between the provider's answer and the record of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import requests

from project.demo.clients import Client
from project.demo.stage import Stage, Telling, counted, new_key
from project.payments.models import Order

from .people import AWAITING, approve

__all__ = ["opaque_view_killed", "worker_killed"]


def worker_killed(stage: Stage, told: Telling) -> None:
    """SIGKILL the Celery worker after Stripe paid the refund out, before the worker has its answer."""
    order, key, client = stage.paid_order(90_000), new_key(), stage.client
    path, data = f"/orders/{order.pk}/refunds/", {"amount": 90_000}
    first = client.post(path, data, key)
    stage.faults.add("hang", method="POST", path="/v1/refunds", contains=order.number, forward=True)
    stage.note("approved, sent by the worker, paid out by Stripe")
    approve(stage.browser(stage.people.approver), stage.execution_about(order))
    stage.faults.wait_for("forwarded", method="POST", path="/v1/refunds", contains=order.number)
    stage.note("SIGKILL to the worker, before it has the answer")
    stage.cluster.kill_worker()
    stage.faults.release()
    stage.cluster.restart_worker()
    stage.note("the send's lease ends, and beat has it looked up")
    last = client.insist(path, data, key)
    again = client.post(path, data, key)
    execution = stage.execution_about(order)
    told.happened = (
        "Approved, sent by Celery, paid out by Stripe; then SIGKILL, before the worker has the answer. The send's "
        f"lease ends: in doubt. Looked up: {execution.reference} is there. Nothing is sent again."
    )
    told.saw = (first.words, f"then: {last.words}", "again: the same bytes")
    told.expect_answer(first, AWAITING)
    told.expect_replayed(stage, key, again)
    told.expect(execution.attempts == 1, f"it was sent {execution.attempts} times")
    told.expect(execution.receipts.filter(event="expire_lease").count() == 1, "no lease was expired")
    told.expect(execution.reason == "found", f"it is {execution.state} because {execution.reason}")
    told.expect_one_refund(stage, order)


def opaque_view_killed(stage: Stage, told: Telling) -> None:
    """SIGKILL the web server while an opaque view waits for Stripe, which has taken the money."""
    order, key, client = stage.order(3_300), new_key(), stage.client
    path = f"/orders/{order.pk}/pay/"
    stage.faults.add("hang", method="POST", path="/v1/payment_intents", contains=order.number, forward=True)
    stage.note("a view without effects charges a card at Stripe itself")
    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(_post, client, path, key)
        stage.faults.wait_for("forwarded", method="POST", path="/v1/payment_intents", contains=order.number)
        stage.note("SIGKILL to the web server, before it has the answer")
        stage.cluster.kill_web()
        stage.faults.release()
        first = attempt.result()
    stage.cluster.restart_web()
    stage.note("asked again; the request's lease ends, the view stays still")
    last = client.insist(path, {}, key, until=lambda answer: answer.code != "operation_in_progress")
    again = [client.post(path, {}, key) for _ in range(3)]
    _tell_opaque(stage, told, order, key)
    words = dict.fromkeys(answer.words for answer in stage.conversations.under(key))
    told.saw = (first, *(f"retry: {each}" for each in words), "and so for good")
    told.expect(first == "no answer", f"the killed request was answered {first}")
    told.expect_answer(last, "409 uncertain")
    told.expect(not last.data.get("safe_new_key"), "the client was told that a new key is safe")
    told.expect({each.words for each in again} == {last.words}, "the answers differ")


def _tell_opaque(stage: Stage, told: Telling, order: Order, key: str) -> None:
    sends = len(stage.faults.sends(method="POST", path="/v1/payment_intents", contains=order.number))
    payments, request = stage.provider.payments(order.number), stage.request_under(key)
    order.refresh_from_db()
    told.happened = (
        "A view that calls Stripe itself has charged a card; then SIGKILL to the web server. What such a view did "
        "nobody can know: in doubt, left to a person, and never run again."
    )
    told.provider, told.shop = counted(len(payments), "payment"), request.state.replace("_", " ")
    told.expect(len(payments) == sends == 1, f"{counted(sends, 'send')}, {counted(len(payments), 'payment')} at Stripe")
    told.expect(request.state == "in_doubt", f"the request is {request.state}")


def _post(client: Client, path: str, key: str) -> str:
    try:
        return client.post(path, {}, key).words
    except requests.ConnectionError:
        return "no answer"
