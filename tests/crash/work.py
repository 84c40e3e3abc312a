"""What processes do in the crash matrix, by name: in a child that may be killed, or here."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.test import Client, override_settings

import effects
from effects import transitions
from effects.journal.locks import now
from effects.people.notices import Notice
from effects.runtime import background, operators
from effects.sweeps import SWEEPS
from tests.crash.declared import EFFECTS, payload_of

__all__ = ["TELLING", "do", "hear"]

#: Settings of a project that wants to be told.
TELLING = {"NOTIFY": "tests.crash.work.hear"}
_WORK: dict[str, Callable[..., Any]] = {}


def hear(notice: Notice) -> None:
    """Be told, except about the order "deaf"."""
    if notice.execution.key == "deaf":
        raise ConnectionError("nobody listens")


def do(name: str, arguments: dict[str, Any]) -> Any:
    """Do one piece of work and return what is said of it, as JSON can hold it."""
    return _WORK[name](**arguments)


def _work(function: Callable[..., Any]) -> Callable[..., Any]:
    _WORK[function.__name__] = function
    return function


@_work
def request(way: str, **data: Any) -> Any:
    """A client's request."""
    client = Client(raise_request_exception=False, SERVER_NAME="localhost")
    headers = {"Idempotency-Key": data["order"]}
    answer = client.post(f"/{way}/", json.dumps(data), "application/json", headers=headers)
    return {"status": answer.status_code, "body": answer.content.decode()}


@_work
def perform(provider: str, asks: bool, order: str, trouble: str) -> Any:
    """A script."""
    outcome = effects.perform(
        EFFECTS[provider, asks], payload=payload_of(order, trouble), key=order, requested_by="alice"
    )
    return str(outcome.state)


@_work
def run(ref: str) -> Any:
    """A worker that got a hint."""
    return str(background.run(UUID(ref)).state)


@_work
def sweep() -> Any:
    """One pass of all sweeps."""
    return {name: dict(work.run_once()) for name, work in SWEEPS.items()}


@_work
def tell() -> Any:
    """One pass of the sweep that tells people, where the project has a `NOTIFY`."""
    with override_settings(EFFECTS=TELLING):
        return dict(SWEEPS["send_notices"].run_once())


@_work
def sweep_unwanted() -> Any:
    """One pass of the look-ups, while the project wants nobody asked."""
    with override_settings(EFFECTS={"RECONCILE_CHECK": lambda execution: False}):
        return dict(SWEEPS["look_up_due"].run_once())


@_work
def prune() -> Any:
    """One pass of the sweep that keeps executions for a month."""
    with override_settings(EFFECTS={"EXECUTION_RETENTION": timedelta(days=30)}):
        return dict(SWEEPS["prune"].run_once())


@_work
def expire_leases() -> Any:
    """One pass of one sweep."""
    return dict(SWEEPS["expire_leases"].run_once())


@_work
def grant(ref: str, digest: str, by: str) -> Any:
    """A person who agrees."""
    return str(operators.grant(ref, by=get_user_model().objects.get(username=by), digest=digest).state)


@_work
def resolve(ref: str, decision: str, revision: int, reference: str, decision_id: str) -> Any:
    """A person who has read the provider's books."""
    return str(
        operators.resolve(
            ref, decision=decision, revision=revision, by="olga", reason="I read the books", reference=reference,
            decision_id=decision_id,
        ).state
    )  # fmt: skip


@_work
def order_resend(ref: str, revision: int, decision_id: str) -> Any:
    """A person who has found nothing in the books, and wants it sent."""
    return str(
        operators.order_resend(ref, revision=revision, by="olga", reason="nothing there", decision_id=decision_id).state
    )


@_work
def resolve_request(ref: str, decision: str, revision: int, decision_id: str) -> Any:
    """A person who closes a request in doubt."""
    return str(
        operators.resolve_request(
            ref, decision=decision, revision=revision, by="olga", reason="I read the books", decision_id=decision_id
        ).state
    )


@_work
def deny(ref: str, digest: str, by: str) -> Any:
    """A person who does not agree."""
    return str(operators.deny(ref, by=get_user_model().objects.get(username=by), digest=digest).state)


@_work
def withdraw(ref: str) -> Any:
    """A person who takes it back."""
    return str(operators.withdraw(ref, by="alice", reason="changed my mind").state)


@_work
def cancel(ref: str) -> Any:
    """A person who ends what was not sent."""
    return str(operators.cancel(ref, by="olga", reason="not needed").state)


@_work
def reopen(ref: str, revision: int) -> Any:
    """A person who has it looked up again."""
    return str(operators.reopen(ref, revision=revision, by="olga", reason="look again", decision_id="reopen").state)


@_work
def observe(ref: str, reference: str) -> Any:
    """A webhook."""
    return str(operators.observe(ref, reference=reference, evidence={"webhook": "paid"}).state)


@_work
def note_trouble(ref: str) -> Any:
    """A worker that meets a bug of the project's."""
    transitions.note_trouble(UUID(ref), RuntimeError("the project's own bug"))


@_work
def name_journal(new: str) -> Any:
    """Whoever has made a copy, and gives it an id of its own."""
    return str(transitions.name_journal(UUID(new)).pk)


@_work
def renew(ref: str, epoch: int) -> Any:
    """The thread that renews leases."""
    return transitions.renew([(UUID(ref), epoch)])


@_work
def doubt_since(ref: str) -> Any:
    """Whoever has restored the journal."""
    return str(transitions.doubt_since(UUID(ref), since=now(), until=now()).state)


@_work
def doubt_request_since(ref: str) -> Any:
    """Whoever has restored the journal."""
    return str(transitions.doubt_request_since(UUID(ref), since=now(), until=now()).state)
