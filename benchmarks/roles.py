"""What the soak's processes do until they are told to end: clients' workers, beats, a person who approves."""

from __future__ import annotations

import functools
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import Error, close_old_connections, connection, transaction

import effects
from benchmarks.effects import EFFECTS, sum_of
from benchmarks.models import Order
from effects.models import Approval
from effects.sweeps import SWEEPS, look_up_due, run_due
from effects.vocabulary.exceptions import EffectsError, JournalUnavailableError
from effects.vocabulary.states import ApprovalState

__all__ = ["NUMBERS", "ROLES", "Diary", "approve_some", "effect_of", "sweep"]

#: The sequence that numbers the orders of all clients.
NUMBERS = "soak_numbers"
#: Every one of so many orders is recorded with `perform_later`.
LATER_EVERY = 3


class Diary:
    """What one process was told: lines that survive it, since the kernel has them when a call has returned."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, **facts: Any) -> None:
        """Add a line."""
        self._file.write(json.dumps(facts).encode() + b"\n")


def effect_of(number: int) -> type[effects.Effect[Any]]:
    """Return what is done for an order: the same whoever asks."""
    return EFFECTS[number % len(EFFECTS)]


def client(diary: Diary, dice: random.Random, ended: Callable[[], bool]) -> None:
    """Serve clients, who ask again with the same key; in between, do what a Celery worker does."""
    while not ended():
        if dice.random() < 0.35:
            _carefully(diary, lambda: run_due.run_once(batch=2), lambda: look_up_due.run_once(batch=2))
            continue
        number = _carefully(diary, lambda: _number(dice))
        # an impatient client: a lost answer is asked for again, and some ask again anyway
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            if number and not ended():
                _carefully(diary, functools.partial(_ask, diary, number))


def _number(dice: random.Random) -> int:
    """Return a new order's number, or one of another client's, who asks at the same time perhaps."""
    with connection.cursor() as cursor:
        if dice.random() < 0.3:
            cursor.execute(f"SELECT last_value FROM {NUMBERS}")
            return max(1, int(cursor.fetchone()[0]) - dice.randrange(12))
        cursor.execute(f"SELECT nextval('{NUMBERS}')")
        return int(cursor.fetchone()[0])


def _ask(diary: Diary, number: int) -> None:
    effect, key, payload = effect_of(number), f"order-{number}", sum_of(number)
    if number % LATER_EVERY:
        outcome = effects.perform(effect, payload=payload, key=key, requested_by="client")
    else:
        with transaction.atomic():
            Order.objects.get_or_create(number=number)
            outcome = effects.perform_later(effect, payload=payload, key=key, requested_by="client")
    told = {"reference": outcome.reference} if isinstance(outcome, effects.Completed) else {}
    diary.write(ref=outcome.ref, state=str(outcome.state), **told)


def beat(diary: Diary, dice: random.Random, ended: Callable[[], bool]) -> None:
    """Run all sweeps, again and again."""
    while not ended():
        sweep(diary, batch=20)
        time.sleep(dice.uniform(0.02, 0.2))


def sweep(diary: Diary, batch: int) -> None:
    """Run all sweeps once."""
    for module in SWEEPS.values():
        _carefully(diary, functools.partial(module.run_once, batch=batch))


def person(diary: Diary, dice: random.Random, ended: Callable[[], bool]) -> None:
    """Approve, with double clicks, and refuse some."""
    while not ended():
        _carefully(diary, lambda: approve_some(diary, dice))
        time.sleep(0.1)


def approve_some(diary: Diary, dice: random.Random) -> None:
    """Decide about what waits now."""
    user = User.objects.get(username="approver")
    for row in Approval.objects.filter(state=str(ApprovalState.REQUESTED)).order_by("created_at")[:20]:
        verb = effects.deny if dice.random() < 0.05 else effects.grant
        decide = functools.partial(verb, row.execution_id, by=user, digest=row.digest)
        _carefully(diary, *[decide] * dice.choice((1, 1, 2)))


def _carefully(diary: Diary, *calls: Callable[[], Any]) -> Any:
    """Do what a server does around a request: errors are an answer, and a broken connection is replaced."""
    result = None
    for call in calls:
        close_old_connections()
        try:
            result = call()
        except (JournalUnavailableError, Error, EffectsError) as error:
            diary.write(error=type(error).__name__, why=str(error)[:200])
        except Exception as error:  # noqa: BLE001 - nobody foresaw it: the oracle reports it
            diary.write(surprise=f"{type(error).__name__}: {error}"[:300])
    return result


ROLES: dict[str, Callable[[Diary, random.Random, Callable[[], bool]], None]] = {
    "client": client,
    "beat": beat,
    "person": person,
}
